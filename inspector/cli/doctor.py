"""``llm-inspect doctor``: what is installed, which device and model, what the terminal can do."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console

from engine.backends import BACKENDS
from engine.backends.abilities import ABILITIES
from engine.commands import Open
from engine.records.model import FEW_ROWS, KVStorage, ModelFacts, best_of_rows
from engine.text import visible
from inspector.cli.config import config_file, log_file
from inspector.cli.engine_log import connect
from inspector.cli.run import Progress
from inspector.exit_codes import EXIT_ENGINE, EXIT_OK
from inspector.state.answers import Answers, EngineFailedError

_PACKAGES = ("llm-inspect-tui", "torch", "transformers", "textual", "rich", "plotext", "numpy")
_WIDTH = 20


def doctor(command: Open, *, load: bool) -> int:
    """Print the report; with ``load`` the model is loaded and its dtypes are timed."""
    for name, value in (*_installed(), *_engines(command.backend), *_terminal()):
        _print(name, value)
    if not load:
        return EXIT_OK
    try:
        facts = _load(command)
    except EngineFailedError as error:
        _print("model", f"cannot be used: {error}")
        return EXIT_ENGINE
    for name, value in model_lines(facts):
        _print(name, value)
    return EXIT_OK


def _print(name: str, value: str) -> None:
    print(f"{name:<{_WIDTH}} {visible(value)}", flush=True)


def _installed() -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"
    path = config_file()
    yield "configuration", f"{path} ({'found' if path.exists() else 'none: defaults are used'})"
    yield "engine log", str(log_file())


def _engines(chosen: str) -> Iterator[tuple[str, str]]:
    for name, one in BACKENDS.items():
        abilities = ", ".join(ABILITIES[ability][0] for ability in one.abilities)
        mark = "; chosen" if name == chosen else ""
        yield f"engine {name}", f"{one.summary}; {abilities}{mark}"
        if one.missing:
            yield "", f"not installed: {one.missing}"


def _terminal() -> Iterator[tuple[str, str]]:
    size = shutil.get_terminal_size()
    kind = os.environ.get("TERM", "unset")
    if sys.stdout.isatty():
        yield "terminal", f"{kind}, {size.columns}x{size.lines}"
    else:
        yield "terminal", f"{kind}; the output is not a terminal: the inspector needs one"
    colours = Console().color_system or "none"
    no_color = "NO_COLOR" in os.environ
    yield "colours", f"{colours}{', but NO_COLOR is set' if no_color else ''}"
    yield "text encoding", sys.stdout.encoding or "unknown"


def _load(command: Open) -> ModelFacts:
    client = connect()
    try:
        return Answers(client, Progress(sys.stderr)).ask(command, ModelFacts)
    finally:
        client.close()


def model_lines(facts: ModelFacts) -> Iterator[tuple[str, str]]:
    """Facts of a loaded model, each with its label."""
    yield "model", facts.name
    for note in facts.notes:
        yield "", note
    yield "identity", facts.identity
    yield "architecture", f"{facts.architecture}{_sizes(facts)}"
    context = f"{facts.context_length:,}" if facts.context_length else "—"
    yield "vocabulary", f"{facts.vocab_size:,} (tokenizer {facts.tokenizer_size:,})"
    if facts.top is not None:
        more = "more on demand" if facts.tells_all else "and no more"
        yield "candidates", f"the {facts.top:,} leading log-probabilities of each position, {more}"
    yield "context", f"{context} tokens; {facts.cache_kind}"
    if facts.weight_bytes:
        size, told = f"{facts.weight_bytes / 2**20:,.1f} MiB", facts.remote
        yield (
            "weights",
            f"{size} {'(told by the server)' if told else f'in {facts.dtype} (measured)'}",
        )
    threads = f", {facts.threads} threads" if facts.threads else ""
    yield "device", f"{facts.device_name} ({facts.device}){threads}"
    for name, value in facts.versions.items() if facts.probed else ():
        yield f"version of {name}", value
    for one in facts.probed:
        note = f" ({one.note})" if one.note else ""
        yield "", f"{one.name:<26} {one.value if one.given else 'n/a'}{note}"
    yield "dtype", facts.dtype_reason
    for trial in facts.dtype_trials:
        time = "—" if trial.step_ms is None else f"{trial.step_ms:.1f} ms a decode step (measured)"
        if trial.rows_ms is not None:
            time += f", {trial.rows_ms:.1f} ms a pass over {FEW_ROWS} texts (measured)"
        verdict = {True: "agrees with float32", False: "out", None: "not checked"}[trial.agrees]
        yield f"  {trial.dtype}", f"{time}, {verdict}{': ' if trial.note else ''}{trial.note}"
    best = best_of_rows(facts.dtype_trials)
    if best is not None:
        how = "as for one" if best.dtype == facts.dtype else f"compare --dtype {best.dtype}"
        yield "several texts", f"{best.dtype} is fastest ({how})"
    yield from _kv_cache(facts.kv_storage)
    for token_id, source in facts.stop_ids.items():
        yield "stop token", f"id {token_id} ({source})"
    yield "chat template", "yes" if facts.has_chat_template else "none: --chat falls back to raw"
    yield "loaded in", f"{facts.load_ms / 1000:.2f} s (measured)"


def _sizes(facts: ModelFacts) -> str:
    """Numbers of the architecture, as far as they are known."""
    if not facts.layers:
        return f": {facts.parameters:,} parameters" if facts.parameters else ""
    heads = f"{facts.query_heads} query heads, {facts.kv_heads} K/V heads of {facts.head_dim}"
    return f": {facts.layers} layers, {heads}, {facts.parameters:,} parameters"


def _kv_cache(kept: KVStorage | None) -> Iterator[tuple[str, str]]:
    """Storage of K and V in a run with these options, in words."""
    if kept is None:
        return
    if not kept.cached:
        yield "KV cache", "none: every step reads the whole text again"
    elif kept.block_size is None or kept.pool_bytes is None:
        yield "KV cache", "the model's own: there is no pool of blocks"
    else:
        blocks = " + ".join(f"{count:,}" for count in kept.blocks)
        # Where layers have windows, those that see everything come first and have least room.
        room = kept.blocks[0] * kept.block_size
        size = f"{kept.pool_bytes / 2**20:,.1f} MiB reserved (measured)"
        yield "KV cache", f"{kept.dtype}, {blocks} blocks of {kept.block_size} positions: {size}"
        yield "", f"room for {room:,} positions of all branches together"
