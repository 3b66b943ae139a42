"""The files of a model folder: regular files of a sensible size that lie inside the folder.

A model folder is made by a stranger. A link in it that leads elsewhere would have a private file
read into a prompt or a tokenizer; only the links of a hub's cache into its own blobs are followed.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

from engine.models.chat_template import LARGEST_TEMPLATE
from engine.models.checks import ModelError
from engine.plain_files import NotPlain, check_plain, read_json, reason

_READ = {
    ".json": 256 << 20,  # the largest tokenizer.json known has 35 MB
    ".jinja": 4 * LARGEST_TEMPLATE,
    ".txt": 256 << 20,
    ".model": 256 << 20,
    ".tiktoken": 256 << 20,
    ".spm": 256 << 20,
    ".py": 16 << 20,
    ".safetensors": None,
    ".bin": None,
}
"""Files that transformers reads of a folder, by ending -> bytes at the most."""
_SETTINGS = 16 << 20
_SMALL = ("config.json", "generation_config.json", "tokenizer_config.json")
_TEMPLATES = "additional_chat_templates"
_MOST_FILES = 10_000


def check_folder(folder: Path) -> None:
    """Refuse a folder with a file that must not be read. Raises ModelError, and OSError."""
    roots = _roots(folder)
    for place in (folder, folder / _TEMPLATES):
        if place != folder and not place.is_dir():
            continue
        with os.scandir(place) as entries:
            names = [entry.name for entry in islice(entries, _MOST_FILES + 1)]
        if len(names) > _MOST_FILES:
            raise ModelError(f"{place} has more than {_MOST_FILES:,} files: it is no model folder")
        for name in sorted(names):
            if Path(name).suffix in _READ or name == _TEMPLATES:
                _check(place / name, roots)


def _roots(folder: Path) -> list[str]:
    """Folders in which the files of a model folder may really lie."""
    real = Path(os.path.realpath(folder))
    blobs = [real.parents[1] / "blobs"] if real.parent.name == "snapshots" else []
    return [os.path.realpath(root) for root in (real, *blobs)]


def _check(path: Path, roots: list[str]) -> None:
    real = os.path.realpath(path)
    if not any(os.path.commonpath((real, root)) == root for root in roots):
        raise ModelError(
            f"{path} is a link out of the model folder, to {real}: it is not followed; copy the "
            "file itself into the folder if you trust it"
        )
    if path.name == _TEMPLATES:
        return
    limit = _SETTINGS if path.name in _SMALL else _READ[path.suffix]
    try:
        check_plain(path, limit)
    except FileNotFoundError:
        raise ModelError(f"{path} is a link to a file that is not there: fetch it again") from None
    except NotPlain as error:
        raise ModelError(f"{path} cannot be read: {error}") from None


def inside(folder: Path, name: Any) -> Path:
    """The file of a folder that another of its files names. Raises ValueError for none inside."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError("a file's name that is no name")
    path = folder / name
    real = os.path.realpath(path)
    if not any(os.path.commonpath((real, root)) == root for root in _roots(folder)):
        raise ValueError(f"{name} lies outside of the folder")
    return path


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file of settings. Raises ModelError, and FileNotFoundError."""
    try:
        found = read_json(path, _SETTINGS)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({reason(error)}): fetch it again") from error
    if not isinstance(found, dict):
        kind = _KINDS.get(type(found), "null")
        raise ModelError(f"{path} holds {kind} where an object of settings belongs: fetch it again")
    return found


_KINDS = {list: "a list", str: "a text", bool: "yes or no", int: "a number", float: "a number"}
