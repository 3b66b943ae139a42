"""Amounts of memory as people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*(?:([kmgt])(i?b)?|b?)")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MOST = 2**60
_SHOWN = 30


def parse_size(text: str) -> int:
    """Bytes that ``text`` stands for: ``512M`` and ``512MiB`` are 2^20 each, ``512MB`` is 10^6.

    Raises ValueError, which says what can be written.
    """
    found = _SIZE.fullmatch(text.strip().lower())
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if found is None:
        raise ValueError(f"takes a size such as 512M, 2G or 1.5GiB, not {text!r}")
    number, unit, tail = found.groups()
    size = float(number) * (1000 if tail == "b" else 1024) ** _POWERS[unit or ""]
    if not 1 <= size <= _MOST:
        raise ValueError(f"must lie between one byte and an exbibyte, not {text!r}")
    return int(size)
