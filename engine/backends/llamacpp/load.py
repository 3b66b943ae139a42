"""Opening llama.cpp in this process: which file, with which options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.backends.base import BackendError
from engine.backends.http.llama_server import batch_request, listed, listed_batch
from engine.backends.http.names import KNOWN_ENDS, ends_of
from engine.backends.http.probing import batch_row
from engine.backends.llamacpp.answers import answer_of, request
from engine.backends.llamacpp.completer import HostedCompleter
from engine.backends.llamacpp.facts import facts_of, kv_bytes
from engine.backends.llamacpp.hosted import Hosted, keep_memory_small, package
from engine.backends.llamacpp.options import RUNNING, TYPES, Options, read
from engine.backends.llamacpp.tokens import GgufTokens
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import BATCH, Abilities
from engine.models.bundled import DEFAULT, bundled_file
from engine.models.checks import ModelError
from engine.models.gguf_model import GgufModel, read_model
from engine.models.store import gigabytes, known_sha256
from engine.models.weights import available_memory
from engine.progress import Progress
from engine.records.engine import Probed
from engine.text import quote, visible
from engine.timing import now_ms

_BUFFERS = 1.1
"""Memory for weights, K and V with what llama.cpp computes in, as a factor."""


def open_backend(options: Mapping[str, Any], progress: Progress) -> TopBackend:
    """Open a .gguf file in llama.cpp, or attach to the llama-server at ``url``.

    Raises ModelError or BackendError, each one line. Options, all of them optional: ``model`` (a
    .gguf file), ``threads``, ``top`` (log-probabilities a pass), ``context`` (positions, of all
    slots together; without, as many as the texts take), ``max_tokens`` (of a run, as far as known),
    ``slots``, ``gpu_layers``, ``cache_type`` (of K and V), ``offline``.
    """
    if options.get("url"):
        return _attached(options, progress)
    started = now_ms()
    wanted = read(options)
    package()
    path, label = _file(wanted, progress)
    model = read_model(path)
    wanted = read(options, model.size("context_length"))

    def reopened(room: int) -> Hosted:
        keep_memory_small()
        return Hosted(_params(path, wanted, room), label)

    def check_room(room: int, weights: int = 0) -> None:
        _check_memory(model, wanted, room, label, weights)

    check_room(wanted.room, model.weight_bytes)
    identity = f"gguf-sha256:{known_sha256(path.resolve(), progress)}"
    progress("load", None, f"llama.cpp: {label}")
    hosted = reopened(wanted.room)
    try:
        table = _probe(hosted, model, wanted)
        keep_memory_small()
        batch = any(one.given for one in table if one.name == BATCH)
        abilities = Abilities(most_top=None, slots=wanted.slots, batch=batch, table=table)
        completer = HostedCompleter(
            hosted, reopened, check_room, wanted, abilities, model.vocab_size
        )
        tokens = GgufTokens(model, completer.tokenize)
        facts = facts_of(
            model,
            wanted,
            label=label,
            identity=identity,
            ends=_ends(hosted, model),
            notes=(),
            table=table,
            load_ms=now_ms() - started,
        )
        progress("load", 1.0, label)
        return TopBackend(completer, tokens, facts)
    except BaseException:
        hosted.close()
        raise


def _attached(options: Mapping[str, Any], progress: Progress) -> TopBackend:
    from engine.backends.http import llama_engine

    for name in RUNNING:
        if options.get(name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise BackendError(f"{flag}: the server at --url was started with its own")
    return llama_engine.open_backend(options, progress)


def _file(wanted: Options, progress: Progress) -> tuple[Path, str]:
    """The .gguf file to run, and what it is called. Raises ModelError."""
    if wanted.model is None:
        return bundled_file(DEFAULT, progress, offline=wanted.offline), DEFAULT.label
    path = Path(wanted.model).expanduser()
    if path.is_dir():
        inside = sorted(path.glob("*.gguf"))
        hint = f"give the file {inside[0]}" if inside else "this folder has none"
        raise ModelError(f"--engine llamacpp runs a .gguf file, and {path} is a folder: {hint}")
    if not path.exists():
        raise ModelError(
            f"--engine llamacpp runs a .gguf file, and there is no file {quote(wanted.model, 200)}"
        )
    return path, visible(path.stem)


def _params(path: Path, wanted: Options, room: int) -> Any:
    """Parameters of llama.cpp's server for one user who steps."""
    params = package().CommonParams()
    params.model.path = str(path)
    # All slots share one cache, so that any of them may be as long as there is room.
    params.n_ctx, params.kv_unified = room, True
    params.n_parallel = wanted.slots
    params.cpuparams.n_threads = wanted.threads
    params.cpuparams_batch.n_threads = wanted.threads
    if wanted.gpu_layers is not None:
        params.n_gpu_layers = wanted.gpu_layers
    kind = package().ggml_type(TYPES[wanted.cache_type])
    params.cache_type_k, params.cache_type_v = kind, kind
    # The prompts of earlier runs are not kept in main memory: that would grow to gigabytes.
    params.cache_ram_mib, params.cache_idle_slots = 0, False
    params.fit_params = False
    # The model's own template is rendered by us, under limits; llama.cpp would parse it now.
    params.chat_template = "chatml"
    params.use_jinja = False
    params.verbosity = 2
    return params


def _check_memory(model: GgufModel, wanted: Options, room: int, label: str, weights: int) -> None:
    """Raise ModelError if ``weights``, bytes, and K and V are more than the memory that is free."""
    per_token = kv_bytes(model, wanted.cache_type) or 0
    needs, free = (weights + per_token * room) * _BUFFERS, available_memory()
    if free is not None and needs > free and not wanted.gpu_layers:
        raise ModelError(
            f"not enough memory for {label}: {gigabytes(int(needs))} with a context of "
            f"{room:,}, and {gigabytes(free)} is free; close something, or give a "
            "smaller --context or file"
        )


def _ends(hosted: Hosted, model: GgufModel) -> dict[int, str]:
    """Tokens that end a text: the file's, and those at which llama.cpp stops of its own accord."""
    first = request([model.special_id("bos") or 0], 1, slot=0, reuse=True)

    def stops(token_id: int) -> bool:
        asked = {**first, "logit_bias": [[token_id, 100.0]]}
        return listed(json.loads(hosted.complete(asked))).ended

    found = ends_of(KNOWN_ENDS, lambda text: hosted.tokenize(text, special=False), stops)
    return dict.fromkeys(found, "llama.cpp ends a text there") | model.stop_ids


def _probe(hosted: Hosted, model: GgufModel, wanted: Options) -> tuple[Probed, ...]:
    """Try this release of llama.cpp on a token: what it tells. Raises BackendError."""
    size = model.vocab_size
    first = model.special_id("bos") or 0
    answer = answer_of(
        json.loads(hosted.complete(request([first], wanted.top_of(size), slot=0, reuse=False))),
        wanted.top_of(size),
        size,
    )
    if answer.top.ids.size < wanted.top_of(size):
        raise BackendError(
            f"llama.cpp gave {answer.top.ids.size} log-probabilities of {wanted.top_of(size)}"
        )
    several = batch_request([[first], [first]], 1)
    counts = answer.times.cached is not None and answer.times.evaluated is not None
    return (
        Probed("ids in and out", "yes"),
        Probed("log-probabilities", "raw", "log-softmax of the model's logits, before any stage"),
        Probed("logits", "", "log-probabilities have no sign: repetition_penalty is refused"),
        Probed(
            "candidates", "any number", f"{wanted.top_of(size):,} are asked for, more on demand"
        ),
        Probed(
            "prompt log-probabilities", "", "llama.cpp's server computes none: one request each"
        ),
        batch_row(lambda: listed_batch(hosted.complete_several(several), 2, wanted.slots)),
        Probed("cached and evaluated tokens", "yes" if counts else "", "of every request"),
        Probed("layers", "", "llama.cpp's server does not time them"),
        Probed("K/V blocks", "", "llama.cpp keeps a slot a branch, and does not tell its cells"),
        Probed("slots", str(wanted.slots)),
        Probed("own sampler", "yes", "probabilities after its chain, for sample --against"),
    )
