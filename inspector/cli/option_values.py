"""Values that options may have, on the command line and in the configuration file alike."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from engine.backends import BACKENDS
from engine.records.cache import LARGEST_BLOCK
from engine.records.model import KV_DTYPES
from engine.records.round import MOST_DRAFTED, Accept, parsed_source
from inspector.cli.sizes import parse_size
from inspector.state.request import MAX_SEED

_MANY = 2**31 - 1
NUMBERS: Mapping[str, tuple[int, int]] = {
    "threads": (1, 1024),
    "block_size": (1, LARGEST_BLOCK),
    "seed": (0, MAX_SEED),
    "max_tokens": (1, _MANY),
    "prefill_chunk": (1, _MANY),
    "draft_tokens": (1, MOST_DRAFTED),
    "top": (1, _MANY),
    "context": (2, _MANY),
    "slots": (1, 256),
    "gpu_layers": (0, _MANY),
    "timeout": (1, 86_400),
    "think_budget": (0, _MANY),
}
"""Options that are whole numbers, and the least and most of each."""
AUTO = "auto"
"""Value of ``draft_tokens`` that leaves their number to what was accepted."""
DTYPES = ("auto", "measure", "float32", "float16", "bfloat16")
ACCEPT = tuple(one.value for one in Accept)
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
"""Types that llama.cpp keeps K and V in."""
WORDS: Mapping[str, tuple[str, ...]] = {
    "dtype": DTYPES,
    "kv_dtype": KV_DTYPES,
    "accept": ACCEPT,
    "cache_type": CACHE_TYPES,
}
"""Options that are one of a few words."""
_SHOWN = 40


def check(name: str, value: Any) -> None:
    """Raise ValueError, with the option's range, for a value that it cannot have."""
    if name == "draft":
        parsed_source(value)
    elif name == "draft_tokens" and value == AUTO:
        return
    elif name in NUMBERS:
        _check_number(value, *NUMBERS[name])
    elif name in WORDS and value not in WORDS[name]:
        raise ValueError(f"must be {' or '.join(WORDS[name])}, not {value!r:.{_SHOWN}}")
    elif name == "kv_budget":
        parse_size(str(value))
    elif name == "engine" and value not in BACKENDS:
        raise ValueError(f"must be {' or '.join(BACKENDS)}, not {value!r:.{_SHOWN}}")


def _check_number(value: Any, low: int, high: int) -> None:
    if not isinstance(value, int):
        raise ValueError(f"must lie in {low} .. {high:,}, not {value!r:.{_SHOWN}}")
    if low <= value <= high:
        return
    shown = f"{value:,}" if abs(value) < 10**_SHOWN else "a number of that size"
    most = "2^63 - 1" if high == MAX_SEED else f"{high:,}"
    raise ValueError(f"must lie in {low} .. {most}, not {shown}")


def number(name: str) -> Callable[[str], int]:
    """A parser of whole numbers for an option."""

    def read(text: str) -> int:
        value = _whole(text)
        try:
            check(name, value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return value

    return read


def engine(text: str) -> str:
    """The name of an engine, for an option's parser."""
    try:
        check("engine", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def positive(text: str) -> int:
    """A whole number of 1 or more, for an option's parser."""
    value = _whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return value


def _whole(text: str) -> int:
    with contextlib.suppress(ValueError):
        return int(text)
    raise argparse.ArgumentTypeError(f"takes a whole number, not {text[:_SHOWN]!r}")
