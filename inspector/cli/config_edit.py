"""Changing one value of a configuration file, which stays otherwise as its owner wrote it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from engine.plain_files import read_text, replacing

_LARGEST = 1 << 20
"""Bytes of a file that is changed."""


def with_value(text: str, table: str, key: str, value: str) -> str:
    """The text of a TOML file with ``key`` of ``table`` (of none: "") at ``value``.

    Raises ValueError where that cannot be done by changing or adding one line.
    """
    before = tomllib.loads(text)
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    lines = text.splitlines()
    heads = [at for at, one in enumerate(lines) if one.lstrip().startswith("[")]
    if table:
        mine = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?")
        start = next((at + 1 for at in heads if mine.fullmatch(lines[at])), -1)
        if start < 0:
            lines += ([""] if lines else []) + [f"[{table}]"]
            start = len(lines)
    else:
        start = 0
    end = next((at for at in heads if at >= start), len(lines))
    is_key = re.compile(rf"\s*{re.escape(key)}\s*=.*")
    at = next((at for at in range(start, end) if is_key.fullmatch(lines[at])), -1)
    if at >= 0:
        lines[at] = line
    else:
        lines.insert(start, line)
    found = "\n".join(lines) + "\n"
    (before.setdefault(table, {}) if table else before)[key] = value
    try:
        same = tomllib.loads(found) == before
    except ValueError:
        same = False
    if not same:
        raise ValueError(f"this file is written in a way that {key} has to be changed by hand")
    return found


def keep_layout(path: Path, name: str, layout: str) -> None:
    """Write a layout into a configuration file, and begin with it. Raises OSError, ValueError."""
    try:
        text = read_text(path, _LARGEST)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = ""
    text = with_value(with_value(text, "layouts", name, layout), "", "layout", name)
    with replacing(path) as file:
        file.write(text)
