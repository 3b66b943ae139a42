"""Errors of libraries that load a model, as one line that names the file at fault.

Looked into only after a failure: each file of the folder is tried by itself.
"""

from __future__ import annotations

import json
import pickle
import re
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.models.checks import ModelError, first_line
from engine.models.config_checks import blamed, library_words
from engine.models.folder import read_object
from engine.plain_files import read_json, reason


def explained(label: str, error: BaseException, folder: Path | None = None) -> ModelError:
    """The line for an error that a library raised while it loaded the model in ``folder``."""
    text = first_line(error)
    if isinstance(error, MemoryError) or re.search("out of memory|allocate memory", str(error)):
        return ModelError(f"not enough memory for {label}: {text}; give a smaller model or --dtype")
    if isinstance(error, ImportError):
        return ModelError(f"{label} needs a package that is not installed: {text}")
    if "trust_remote_code" in str(error):
        return ModelError(
            f"{label} brings Python code of its own for its tokenizer: read it, and give "
            "--trust-remote-code if you trust it"
        )
    line = None if folder is None else _file_fault(folder)
    return ModelError(line or f"{label} could not be loaded: {library_words(error)}")


def _file_fault(folder: Path) -> str | None:
    return _generation_fault(folder) or _tokenizer_fault(folder) or _checkpoint_fault(folder)


def _checkpoint_fault(folder: Path) -> str | None:
    """The fault of a folder's .bin files: they are pickles, and of tensors at best."""
    import torch

    for path in sorted(folder.glob("*.bin")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.load(path, map_location="meta", weights_only=True)
        except pickle.UnpicklingError as error:
            if "weights_only" in str(error):
                return (
                    f"{path} is a pickle that holds more than tensors, and reading it could run "
                    "code of its own: it is not read; give the model as safetensors"
                )
            return f"{path} is damaged or no checkpoint: fetch it again"
        except Exception:  # whatever torch raises for bytes that are none of its own
            return f"{path} is damaged or no checkpoint: fetch it again"
        if not isinstance(found, dict):
            return f"{path} holds no tensors by name: give the model as safetensors"
    return None


def tried_tokenizer(folder: Path, where: Mapping[str, Any]) -> Any:
    """The tokenizer of a folder, after it was used once: what it cannot do it says now."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    ids = tokenizer("The capital")["input_ids"]
    tokenizer.convert_ids_to_tokens(ids)
    tokenizer.convert_ids_to_tokens(len(tokenizer))
    len(tokenizer.all_special_ids)
    return tokenizer


def _generation_fault(folder: Path) -> str | None:
    from transformers import GenerationConfig

    path = folder / "generation_config.json"
    try:
        settings = read_object(path)
    except (FileNotFoundError, ModelError):
        return None
    return blamed(path, settings, GenerationConfig.from_dict)


def _tokenizer_fault(folder: Path) -> str | None:
    for path in sorted(folder.glob("*.json")):
        if "token" not in path.name and path.name != "vocab.json":
            continue
        try:
            read_json(path, 256 << 20)
        except (OSError, ValueError) as error:
            return f"{path} cannot be read ({reason(error)}): fetch it again"
    return _tokenizer_json_fault(folder / "tokenizer.json") or _tokenizer_config_fault(folder)


def _tokenizer_json_fault(path: Path) -> str | None:
    from tokenizers import Tokenizer

    if not path.is_file():
        return None
    try:
        Tokenizer.from_file(str(path))
    except BaseException as error:  # the library's panics are no Exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{path} is not a tokenizer ({first_line(error)}): fetch it again"
    return None


def _tokenizer_config_fault(folder: Path) -> str | None:
    path = folder / "tokenizer_config.json"
    try:
        settings = read_object(path)
    except FileNotFoundError:
        return None
    except ModelError as error:
        return str(error)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for file in folder.iterdir():
            if file.name != path.name and file.suffix in (".json", ".model", ".txt", ".jinja"):
                (copy / file.name).symlink_to(file.absolute())

        def attempt(changed: Any) -> None:
            (copy / path.name).write_text(json.dumps(changed), encoding="utf-8")
            tried_tokenizer(copy, {"local_files_only": True, "trust_remote_code": False})

        return blamed(path, settings, attempt)
