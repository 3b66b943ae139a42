"""Input of ``sample``: a vector, the tokens its entries stand for, and its place in a text."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.models.tokenizer_file import FILE, Names, TokenizerError
from engine.records.arrays import IntArray
from engine.records.vocabulary import Token
from engine.sampling.logits_file import MOST_IDS, LogitsFile, LogitsFileError, load_logits
from engine.sampling.stages import StageContext
from inspector.cli.options import UsageError
from inspector.cli.run_file import RunStep, run_step

DEFAULT_MODEL = "default"


@dataclass(frozen=True)
class Place(StageContext):
    """A context whose position is given, because the history may be known in part or not at all."""

    at: int = 0

    @property
    def position(self) -> int:
        return self.at

    @cached_property
    def history(self) -> IntArray:
        return np.array((*self.prompt_ids, *self.output_ids), np.int32)


@dataclass(frozen=True, eq=False)
class Given:
    """A vector of logits; the run it comes from, if it does; and a tokenizer, if there is one."""

    read: LogitsFile
    step: RunStep
    names: Names | None

    @property
    def token(self) -> Callable[[int], Token] | None:
        """Names ids: by the tokenizer, or as the run file does."""
        if self.names is not None:
            return self.names.token
        if self.step.names:
            return lambda token_id: Token(token_id, self.step.names.get(token_id, b""))
        return None


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the vector and its place in a text."""
    parser.add_argument(
        "logits",
        metavar="LOGITS",
        help="a .npy or .json file of one vector, or FILE.jsonl[:LINE], a step of a run file",
    )
    parser.add_argument(
        "--against",
        metavar="E",
        help="instead, hold a preset against the stack itself: sample PROMPT --against llamacpp",
    )
    parser.add_argument("--line", type=whole, metavar="N", help="the line of a .jsonl file, from 1")
    group = parser.add_argument_group(
        "tokens", "LIST is ids and ranges such as 1,2,5-9, or a .json file that holds a list."
    )
    group.add_argument(
        "--ids", metavar="LIST", help="the token ids that the entries stand for, in their order"
    )
    group.add_argument(
        "--tokenizer",
        metavar="T",
        help="names tokens: a folder with tokenizer.json, that file, a model that is on this "
        f"machine, or '{DEFAULT_MODEL}' for the default model",
    )
    group.add_argument("--prompt-ids", metavar="LIST", help="the prompt, for penalties")
    group.add_argument("--output-ids", metavar="LIST", help="the output so far, for penalties")
    group.add_argument("--stop-ids", metavar="LIST", help="stop tokens, for min_new_tokens")
    group.add_argument(
        "--position", type=whole, metavar="N", help="the dice are keyed by seed and position"
    )


def read_input(args: argparse.Namespace) -> Given:
    """Read the vector and what goes with it. Raises UsageError."""
    path, line = _located(args.logits, args.line)
    try:
        read = load_logits(path, line=line)
    except LogitsFileError as error:
        raise UsageError(str(error)) from None
    step = RunStep()
    if path.suffix.lower() == ".jsonl":
        step = run_step(path, line)
        read = _widened(read, step.vocab_size)
    if args.ids is not None:
        read = _spread(read, id_list(args.ids, "--ids"), path)
    names = _names(args.tokenizer, read.logits.size) if args.tokenizer is not None else None
    return Given(read, step, names)


def place(args: argparse.Namespace, step: RunStep, seed: int) -> Place:
    """The context of the stages: from the options, or else from the run file. Raises UsageError."""

    def ids(given: str | None, name: str, otherwise: Sequence[int]) -> tuple[int, ...]:
        return tuple(otherwise if given is None else id_list(given, name))

    prompt = ids(args.prompt_ids, "--prompt-ids", step.prompt_ids)
    output = ids(args.output_ids, "--output-ids", step.output_ids)
    told = (args.position, step.position, len(prompt) + len(output))
    return Place(
        prompt_ids=prompt,
        output_ids=output,
        stop_ids=frozenset(ids(args.stop_ids, "--stop-ids", sorted(step.stop_ids))),
        seed=seed,
        at=next(one for one in told if one is not None),
    )


def whole(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise argparse.ArgumentTypeError(f"takes a whole number from 0 on, not {text!r}")
    return int(text)


def id_list(text: str, name: str) -> list[int]:
    """The token ids of an option, as they are written or from a file. Raises UsageError."""
    if text.endswith(".json"):
        return _from_file(Path(text), name)
    ids: list[int] = []
    for word in filter(None, re.split(r"[\s,]+", text)):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < MOST_IDS:
            raise UsageError(f"{name}: {word!r} is no token id: write ids such as 1,2,5-9")
        ids.extend(range(first, last + 1))
    return ids


def _from_file(path: Path, name: str) -> list[int]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{name}: cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {path} is not JSON: {error}") from None
    if not isinstance(values, list) or not all(
        type(one) is int and 0 <= one < MOST_IDS for one in values
    ):
        raise UsageError(f"{name}: {path} must hold a list of token ids")
    return values


def _located(text: str, line: int | None) -> tuple[Path, int | None]:
    """(the file, its line) of ``FILE`` or ``FILE.jsonl:LINE``."""
    match = re.fullmatch(r"(.+\.jsonl):(\d{1,9})", text, re.IGNORECASE | re.DOTALL)
    if match is None or Path(text).exists():
        return Path(text), line
    if line is not None:
        raise UsageError(f"the line is given twice: {text} and --line {line}")
    return Path(match[1]), int(match[2])


def _spread(read: LogitsFile, ids: Sequence[int], path: Path) -> LogitsFile:
    """The vector with each entry at its own id; the ids between are impossible."""
    if path.suffix.lower() == ".jsonl":
        raise UsageError("--ids: a run file names its own ids")
    if len(ids) != read.logits.size:
        raise UsageError(f"--ids names {len(ids):,} ids for the {read.logits.size:,} of {path}")
    seen: set[int] = set()
    for token_id in ids:
        if token_id in seen:
            raise UsageError(f"--ids names {token_id} twice")
        seen.add(token_id)
    logits = np.full(max(ids) + 1, -np.inf, dtype=np.float32)
    logits[list(ids)] = read.logits
    return LogitsFile(logits, read.source, known=len(ids))


def _widened(read: LogitsFile, vocab_size: int) -> LogitsFile:
    """The vector widened to the run's vocabulary: its step names only its candidates."""
    more = vocab_size - read.logits.size
    if more <= 0 or vocab_size > MOST_IDS:
        return read
    logits = np.pad(read.logits, (0, more), constant_values=np.float32(-np.inf))
    return replace(read, logits=logits)


def _names(wanted: str, vocab_size: int) -> Names:
    path = Path(wanted).expanduser()
    if path.suffix != ".json":
        folder = path if path.is_dir() else _model(wanted)
        path = folder / FILE
        if not path.exists():
            raise UsageError(f"{folder} has no {FILE}: give a folder that has one, or the file")
    try:
        return Names(path, vocab_size)
    except TokenizerError as error:
        raise UsageError(str(error)) from None


def _model(wanted: str) -> Path:
    """The folder of a model; nothing is fetched for the sake of its names."""
    from engine.models.checks import ModelError
    from engine.models.resolve import resolve

    try:
        return resolve(None if wanted == DEFAULT_MODEL else wanted, offline=True).path
    except ModelError as error:
        raise UsageError(f"--tokenizer: {error}") from None
