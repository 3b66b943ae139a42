"""Measurements of this machine, kept between starts as one JSON file of entries in a folder.

Each entry is a flat object that says what it was measured for (machine, device, threads, ...) and
what came out. A file that cannot be read, or an entry that is no object, counts as not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.plain_files import read_json, replacing

_LARGEST = 1 << 20
"""Bytes of a file that is read."""


def cache_dir() -> Path:
    """The user's cache folder for llm-inspect; LLM_INSPECT_CACHE overrides it."""
    if chosen := os.environ.get("LLM_INSPECT_CACHE"):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("llm-inspect", appauthor=False)


def entries(path: Path, schema: int) -> list[Mapping[str, Any]]:
    """The entries of the file at ``path``; empty if missing, damaged or of another schema."""
    try:
        data = read_json(path, _LARGEST)
    except (OSError, ValueError):
        return []
    if not isinstance(data, dict) or data.get("schema") != schema:
        return []
    found = data.get("entries")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def matches(entry: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    """True if ``entry`` was measured for exactly what ``key`` says."""
    return all(entry.get(name) == value for name, value in key.items())


def save(path: Path, schema: int, key: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Put ``found`` into the file under ``key``, in place of an older entry for the same.

    A reader never sees half a file. Raises OSError.
    """
    kept: Sequence[Mapping[str, Any]] = [
        one for one in entries(path, schema) if not matches(one, key)
    ]
    data = {"schema": schema, "entries": [*kept, {**key, **found}]}
    text = json.dumps(data, indent=1, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text + "\n")
