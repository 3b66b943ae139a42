"""The settings in a model folder, looked at before a library builds anything from them.

A wrong value there makes transformers build for hours, fill the memory or fail in words of its
own. Each fault is a ModelError of one line: which file, which field, what is wrong with it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import thread_time
from typing import Any

from engine.models.checks import ModelError, first_line
from engine.text import quote

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_SIZES = (
    *_LAYERS,
    *("vocab_size", "hidden_size", "n_embd", "d_model", "intermediate_size", "head_dim"),
    *("num_attention_heads", "n_head", "n_heads", "num_key_value_heads"),
    *("max_position_embeddings", "n_positions", "n_ctx"),
)
_LEAST = {**dict.fromkeys(_SIZES, 1), "sliding_window": -1}
"""Fields that are whole numbers -> the least; null leaves them to the library."""
_MOST = 2**31 - 1
_MOST_LAYERS = 1_000
"""The deepest known model has 126."""
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "model_type": (str, "text"),
    "architectures": (list, "a list of texts"),
    "auto_map": (dict, "an object"),
    "quantization_config": (dict, "an object"),
}
_DTYPE = re.compile(r"(torch\.)?(auto|b?float\d+(_\w+)?|float|half|double|u?int\d+|bool)")
_ID_LISTS = ("suppress_tokens", "begin_suppress_tokens")
_BLAME_SECONDS = 3.0


def check_config(config: Mapping[str, Any], path: Path) -> None:
    """Refuse a config.json with a value that cannot be. Raises ModelError."""
    for name, (kind, words) in _KINDS.items():
        value = config.get(name)
        # transformers looks into auto_map wherever there is one.
        if not isinstance(value, kind) and (
            value is not None or (name == "auto_map" and name in config)
        ):
            raise _fault(path, name, value, words)
    if not all(isinstance(one, str) for one in config.get("architectures") or ()):
        raise _fault(path, "architectures", config["architectures"], "a list of texts")
    quantised = config.get("quantization_config")
    if quantised is not None and not isinstance(method := quantised.get("quant_method"), str):
        raise _fault(path, "quantization_config.quant_method", method, "text")
    for prefix, part in _parts(config, ""):
        for name, least in _LEAST.items():
            if not _is_size(part.get(name), least):
                wanted = f"a whole number from {least} to {_MOST:,}"
                raise _fault(path, prefix + name, part[name], wanted)
        for name, value in part.items():
            if isinstance(value, float) and math.isnan(value):
                raise _fault(path, prefix + name, value, "a number")
        for name in ("dtype", "torch_dtype"):
            if not _is_dtype(part.get(name)):
                raise _fault(path, prefix + name, part[name], 'a dtype such as "float32"')
        _check_ids(part, path, prefix)
        pad, size = part.get("pad_token_id"), part.get("vocab_size")
        if isinstance(pad, int) and isinstance(size, int) and pad >= size:
            raise _fault(path, prefix + "pad_token_id", pad, f"below the vocabulary's size, {size}")


def _parts(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(prefix, settings) of a configuration and of those inside it, as models of several have."""
    yield prefix, config
    for name, value in config.items():
        if name.endswith("_config") and isinstance(value, Mapping) and prefix.count(".") < 3:
            yield from _parts(value, f"{prefix}{name}.")


def _is_size(value: Any, least: int) -> bool:
    if isinstance(value, list) and least == 1:
        return True  # a size for each layer; the class of the model judges them
    return value is None or (type(value) is int and least <= value <= _MOST)


def _is_dtype(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(one, str) for one in value.values())
    return value is None or (isinstance(value, str) and bool(_DTYPE.fullmatch(value)))


def _check_ids(settings: Mapping[str, Any], path: Path, prefix: str = "") -> None:
    for name, value in settings.items():
        if name.endswith("_token_id"):
            several = value if name == "eos_token_id" and isinstance(value, list) else [value]
            if not all(one is None or _is_id(one) for one in several):
                ids = "a token id, or a list of them" if name == "eos_token_id" else "a token id"
                raise _fault(path, prefix + name, value, ids)


def _is_id(value: Any) -> bool:
    # Some files write -1 for none.
    return type(value) is int and -1 <= value <= _MOST


def check_layers(config: Mapping[str, Any], path: Path, tensors: int | None) -> None:
    """Refuse more layers than there can be: each has a tensor, of ``tensors`` where that is known.

    Raises ModelError.
    """
    most = _MOST_LAYERS if tensors is None else min(tensors, _MOST_LAYERS)
    for prefix, part in _parts(config, ""):
        for name in _LAYERS:
            count = part.get(name)
            if isinstance(count, int) and count > most:
                why = "" if tensors is None else f", as its weights are {tensors:,} tensors"
                raise _fault(path, prefix + name, count, f"at most {most:,}{why}")


def check_generation(settings: Mapping[str, Any], path: Path) -> None:
    """Refuse a generation_config.json that transformers could not read. Raises ModelError."""
    _check_ids(settings, path)
    for name in _ID_LISTS:
        value = settings.get(name)
        if value is not None and not (isinstance(value, list) and all(map(_is_id, value))):
            raise _fault(path, name, value, "a list of token ids")


def _fault(path: Path, field: str, value: Any, wanted: str) -> ModelError:
    return ModelError(f"{path}: {field} must be {wanted}, not {spelled(value)}")


def spelled(value: Any) -> str:
    """A value of a JSON file as it stands there, shortened."""
    return quote(json.dumps(value, default=str)[:200], 40)[1:-1]


# --------------------------------------------------------------- what the library's words mean


def blamed(path: Path, settings: Mapping[str, Any], attempt: Callable[[Any], Any]) -> str | None:
    """The line for a file with which ``attempt`` fails; None where it does not.

    The field at fault is the one without which the attempt succeeds.
    """
    try:
        attempt(dict(settings))
        return None
    except Exception as error:  # whatever a library makes of wrong values
        what = error
    until = thread_time() + _BLAME_SECONDS
    # Those that the words name come first.
    for name in sorted(settings, key=lambda name: name not in str(what)):
        if thread_time() > until:
            break
        try:
            attempt({key: value for key, value in settings.items() if key != name})
        except Exception:  # this one is not the fault, or not the only one
            continue
        return f"{path}: {name} cannot be {spelled(settings[name])}: {library_words(what)}"
    return f"{path} cannot be used: {library_words(what)}"


def library_words(error: BaseException) -> str:
    """The message of a library's error, in one line without its own frame."""
    if isinstance(error, KeyError):
        return f"{first_line(error)} is not known"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # "Validation error for field 'x':" and behind it, indented, "TypeError: what is wrong".
    if len(lines) > 1 and lines[0].endswith(":"):
        words = re.sub(r"^\w+Error: (Field '\w+' )?", "", lines[1]).partition(". Errors:")[0]
        return quote(re.sub(r"<class '([\w.]+)'>", r"\1", words).rstrip(". "), 200)[1:-1]
    return f"{quote(first_line(error), 200)[1:-1]} ({type(error).__name__})"
