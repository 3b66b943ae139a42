"""Facts of a loaded model and of the machine it runs on."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from engine.backends.base import BackendError

_CONTEXT = (
    *("max_position_embeddings", "n_positions", "n_ctx"),
    *("max_seq_len", "max_sequence_length", "seq_length"),
)
_MOST_SCALING = 1 << 16
"""A factor beyond this is no scaling that anybody means."""

PROBE_TEXT = "The capital of France is"


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder by its configuration; 0 where it names none."""

    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int


def probe_ids(model: Any, tokenizer: Any, count: int) -> list[int]:
    """``count`` ids of ordinary text that ``model`` can read, for trying it out."""
    rows = int(model.get_input_embeddings().weight.shape[0])
    found = [i for i in tokenizer(PROBE_TEXT)["input_ids"] if i < rows] or [0]
    return [found[at % len(found)] for at in range(count)]


def decoder_config(model: Any) -> Any:
    """The configuration of the text decoder; of a plain model, its only one."""
    config = model.config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def shape_of(config: Any) -> Shape:
    """The sizes in ``config``: a head is hidden / heads wide where its width is not set apart."""
    heads = _number(config, "num_attention_heads")
    hidden = _number(config, "hidden_size")
    return Shape(
        layers=_number(config, "num_hidden_layers"),
        query_heads=heads,
        kv_heads=_number(config, "num_key_value_heads") or heads,
        head_dim=_number(config, "head_dim") or (hidden // heads if heads else 0),
        hidden_size=hidden,
    )


def _number(config: Any, name: str) -> int:
    try:
        value = getattr(config, name, None)
    except Exception:  # a size that differs from layer to layer
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def context_length(config: Any) -> int | None:
    """The most positions the model was made for, scaled if its positions are; None if not said.

    ``context_note`` says which limit that is where there is a choice.
    """
    return _context(config)[0]


def context_note(config: Any) -> str:
    """A note on which limit ``context_length`` is, where rotary scaling leaves a choice."""
    return _context(config)[1]


def _context(config: Any) -> tuple[int | None, str]:
    found = (_number(config, name) for name in _CONTEXT)
    said = next((value for value in found if value > 0), None)
    scaling = _scaling(config)
    kind, factor = str(scaling.get("rope_type", "")), scaling.get("factor")
    if said is None or not isinstance(factor, int | float) or not 1 < factor < _MOST_SCALING:
        return said, ""
    original = scaling.get("original_max_position_embeddings")
    if kind == "dynamic":
        # By definition it takes over where the configuration's limit ends.
        reach = round(said * factor)
        return reach, f"context of {reach:,}: {said:,}, scaled by {factor:g} (dynamic NTK)"
    if kind == "yarn" and isinstance(original, int) and round(original * factor) > said:
        reach = round(original * factor)
        return reach, f"context of {reach:,}: {original:,}, scaled by {factor:g} (YaRN)"
    if kind in ("linear", "proportional"):
        return said, (
            f"context of {said:,}: as its configuration says; positions are scaled by {factor:g} "
            f"({kind}), and it does not say whether that is counted in already"
        )
    return said, ""


def _scaling(config: Any) -> dict[str, Any]:
    """The rotary scaling of the layers that see everything."""
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(given, dict):
        return {}
    by_layer = given.get("full_attention")
    return by_layer if isinstance(by_layer, dict) else given


def position_rows(model: Any) -> int | None:
    """Rows of a table of learned positions, which a pass must not run past; None without one."""
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, torch.nn.Embedding) and (last == "wpe" or "position" in last):
            # OPT and its like keep rows at the front for padding.
            return int(module.num_embeddings) - int(getattr(module, "offset", 0) or 0)
    return None


def weights_of(model: Any) -> tuple[int, int]:
    """(parameters, their bytes); what is tied counts once."""
    seen: set[Any] = set()
    count = size = 0
    for parameter in model.parameters():
        key = (parameter.device, parameter.data_ptr(), parameter.shape)
        if key in seen and parameter.data_ptr():
            continue
        seen.add(key)
        count += parameter.numel()
        size += parameter.numel() * parameter.element_size()
    return count, size


def stop_ids(tokenizer: Any, model: Any) -> dict[int, str]:
    """Every id that ends a text -> who declares it, in words."""
    generation = getattr(model, "generation_config", None)
    sources = (
        ("tokenizer", tokenizer),
        ("config", model.config),
        ("config", decoder_config(model)),
        ("generation config", generation),
    )
    declared: dict[int, list[str]] = {}
    for source, holder in sources:
        given = getattr(holder, "eos_token_id", None)
        for token_id in given if isinstance(given, list | tuple) else [given]:
            if type(token_id) is not int or token_id < 0:  # some files write -1 for none
                continue
            names = declared.setdefault(token_id, [])
            if source not in names:
                names.append(source)
    return {token_id: _joined(names) for token_id, names in declared.items()}


def within(declared: dict[int, str], width: int) -> tuple[dict[int, str], tuple[str, ...]]:
    """The stop ids that logits of ``width`` have, and a note on each of the others."""
    kept = {token_id: who for token_id, who in declared.items() if token_id < width}
    notes = tuple(
        f"stop id {token_id} ({who}) lies beyond the vocabulary of {width:,}: it never comes"
        for token_id, who in declared.items()
        if token_id not in kept
    )
    return kept, notes


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def generation_settings(model: Any) -> dict[str, Any]:
    """Settings in the model's generation_config.json: plain values only, no library defaults."""
    config = getattr(model, "generation_config", None)
    if config is None:
        return {}
    return {
        name: value
        for name, value in config.to_diff_dict().items()
        if not name.startswith("_") and name != "transformers_version" and _plain(value)
    }


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(one) for one in value)
    return isinstance(value, int | float | str | bool)


def versions() -> dict[str, str]:
    """Name -> version of what computes here."""
    return {"python": platform.python_version(), **dict(_installed())}


def _installed() -> Iterator[tuple[str, str]]:
    for name in ("torch", "transformers", "tokenizers", "safetensors", "numpy"):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def pick_device(asked: str) -> str:
    """The device to use: ``auto`` is CUDA, MPS or the CPU, the first that is there.

    Raises BackendError for a name that is none and for a device this machine has not.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    here = ", ".join(["cpu", *(["cuda"] if cuda else []), *(["mps"] if mps else [])])
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise BackendError(f"unknown device {asked!r}: this machine has {here}") from error
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(mps)}.get(device.type, 0)
    if (device.index or 0) >= count:
        raise BackendError(f"there is no device {asked!r} on this machine: it has {here}")
    return str(device)


def device_name(device: str) -> str:
    """The maker's name of the device."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
