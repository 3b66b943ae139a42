"""Read one vector of logits from a file: ``.npy``, a JSON list, or a line of a run file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.records.arrays import FloatArray
from engine.text import quote

EXTENSIONS = (".npy", ".json", ".jsonl")
MOST_IDS = 1 << 24
"""No vocabulary is as large as this: a larger id is a slip of the finger, or worse."""


class LogitsFileError(ValueError):
    """A file that holds no usable logits; one line says what is wrong with it."""


@dataclass(frozen=True, eq=False)
class LogitsFile:
    """One vector of logits, float32, shape ``(vocab_size,)``, and where it came from.

    A run file holds the leading candidates only: then the others are minus infinity here and
    ``missing_mass`` is the probability that lies with them. Where the file lacks ``log_z_raw`` the
    log-probabilities stand for logits, which is the same distribution. For a whole vector it is 0.
    """

    logits: FloatArray
    source: str
    missing_mass: float = 0.0
    known: int = 0
    shifted: bool = False
    """True if the log-probabilities stand for logits, which lie higher or lower by one number."""

    @property
    def partial(self) -> bool:
        """True if the file knows only part of the vocabulary."""
        return self.known < self.logits.size or self.missing_mass > 0.0


def load_logits(path: str | Path, *, line: int | None = None) -> LogitsFile:
    """Read ``path``. ``line`` (from 1) picks one of a ``.jsonl`` file, else its first step.

    Raises LogitsFileError.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in EXTENSIONS:
        raise LogitsFileError(
            f"{path.name}: cannot tell what this is by its name; "
            f"a logits file ends in {', '.join(EXTENSIONS)}"
        )
    if line is not None and kind != ".jsonl":
        raise LogitsFileError(f"{path.name}: only a .jsonl file has lines to choose from")
    try:
        if kind == ".npy":
            return _whole(path.name, _read_npy(path))
        text = path.read_text("utf-8")
    except OSError as error:
        raise LogitsFileError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LogitsFileError(f"{path.name} is not UTF-8 text") from None
    if kind == ".json":
        return _from_json(path.name, _parse(path.name, text))
    return _from_lines(path.name, text, line)


def _read_npy(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except MemoryError:
        raise LogitsFileError(f"{path.name} does not fit into memory") from None
    except (ValueError, EOFError) as error:
        raise LogitsFileError(f"{path.name} is not a .npy file of numbers: {error}") from None


def _whole(name: str, values: Any) -> LogitsFile:
    """A vector that is all there. Leading axes of length 1 (a batch of one) are no matter."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise LogitsFileError(f"{name} holds {kind}, not real numbers")
    shape = values.shape
    while values.ndim > 1 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 1 or values.size == 0:
        raise LogitsFileError(f"{name} has shape {shape}: expected one vector, (vocab_size,)")
    if values.size > MOST_IDS:
        raise LogitsFileError(
            f"{name} holds {values.size:,} numbers: no vocabulary has more than {MOST_IDS:,}"
        )
    with np.errstate(over="ignore"):
        logits = values.astype(np.float32)
    bad = np.flatnonzero(np.isnan(logits))
    if bad.size:
        raise LogitsFileError(f"{name} holds {bad.size} NaN, the first at index {bad[0]}")
    bad = np.flatnonzero(np.isposinf(logits))
    if bad.size:
        raise LogitsFileError(
            f"{name} holds {bad.size} values of infinity (or past float32), "
            f"the first at index {bad[0]}"
        )
    if np.isneginf(logits).all():
        raise LogitsFileError(f"{name} holds minus infinity alone: no token is possible")
    return LogitsFile(logits, name, known=logits.size)


def _parse(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise LogitsFileError(f"{name} is not JSON: {error}") from None
    except RecursionError:
        raise LogitsFileError(f"{name} is not JSON of logits: lists in lists in lists") from None


def _from_json(name: str, value: Any) -> LogitsFile:
    if isinstance(value, Mapping) and "top" in value:
        return _from_top(name, value)
    if isinstance(value, Mapping) and "logits" in value:
        value = value["logits"]
    if not isinstance(value, list):
        raise LogitsFileError(f"{name} holds {_kind(value)}: expected a list of numbers")
    # A list cannot hold minus infinity in standard JSON; null stands for it.
    numbers = [-math.inf if one is None else one for one in _unbatched(value)]
    for index, one in enumerate(numbers):
        if isinstance(one, bool) or not isinstance(one, int | float):
            raise LogitsFileError(f"{name} holds {_kind(one)} at index {index}, not a number")
    try:
        values = np.array(numbers, dtype=np.float64)
    except OverflowError:
        raise LogitsFileError(f"{name} holds a whole number past any float") from None
    return _whole(name, values)


def _unbatched(value: list[Any]) -> list[Any]:
    while len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    return value


def _from_lines(name: str, text: str, line: int | None) -> LogitsFile:
    lines = text.splitlines()
    if line is not None:
        if not 1 <= line <= len(lines):
            raise LogitsFileError(f"{name} has {len(lines)} lines, no line {line}")
        return _from_top(f"{name} line {line}", _parse(f"{name} line {line}", lines[line - 1]))
    for number, one in enumerate(lines, 1):
        if one.strip():
            value = _parse(f"{name} line {number}", one)
            if isinstance(value, Mapping) and value.get("type") == "step":
                return _from_top(f"{name} line {number}", value)
    raise LogitsFileError(f'{name} holds no line of "type": "step"')


def _from_top(name: str, step: Any) -> LogitsFile:
    """The leading candidates of one step of a run file."""
    if not isinstance(step, Mapping) or not isinstance(step.get("top"), Sequence):
        what = step.get("type") if isinstance(step, Mapping) else _kind(step)
        raise LogitsFileError(f'{name} is {what!r}: expected a step, with a "top" table')
    known: dict[int, float] = {}
    for row in step["top"]:
        try:
            token_id, logprob = row["id"], row["raw_logprob"]
        except (KeyError, TypeError):
            raise LogitsFileError(f'{name}: a row of "top" lacks id or raw_logprob') from None
        if type(token_id) is not int or not 0 <= token_id < MOST_IDS:
            raise LogitsFileError(
                f"{name}: token {_spelled(token_id)} is no id: "
                f"those are whole numbers from 0 to {MOST_IDS - 1:,}"
            )
        if logprob is not None:
            known[token_id] = _real(f"{name}: raw_logprob of token {token_id}", logprob)
    if not known:
        raise LogitsFileError(f'{name}: "top" holds no token with a raw_logprob')
    log_z = step.get("log_z_raw")
    shift = 0.0 if log_z is None else _real(f"{name}: log_z_raw", log_z)
    logits = np.full(max(known) + 1, -np.inf)
    logits[list(known)] = np.array(list(known.values())) + shift
    checked = _whole(name, logits)
    # More than 1 is too much already, and a power too large has no float.
    mass = math.fsum(math.exp(min(value, 1.0)) for value in known.values())
    if mass > 1.0 + 1e-3:
        raise LogitsFileError(f"{name}: the raw_logprobs add up to {mass:.4g}, more than 1")
    # A sum of all probabilities misses 1 by rounding alone.
    missing = 1.0 - mass if mass < 1.0 - 1e-12 else 0.0
    return LogitsFile(checked.logits, name, missing, len(known), shifted=log_z is None)


def _real(what: str, value: Any) -> float:
    """``value`` as a float; those that are none are told by ``_whole``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LogitsFileError(f"{what} is {_spelled(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise LogitsFileError(f"{what} is a whole number past any float") from None


def _spelled(value: Any) -> str:
    """A value out of a file, in one short line."""
    try:
        return quote(json.dumps(value), 40)[1:-1]
    except (ValueError, RecursionError):
        return _kind(value)


def _kind(value: Any) -> str:
    """JSON's name for the kind of a value."""
    if isinstance(value, bool):
        return "true or false"
    names: dict[type, str] = {
        dict: "an object",
        list: "a list",
        str: "text",
        type(None): "null",
    }
    return names.get(type(value), "a number")
