"""Resolve a model's name to files on this machine, checked before they are read.

`resolve` turns what the user named into a folder on this machine (fetching and
converting it at most once), `load` turns that folder into a model and a tokenizer.
Whatever goes wrong on the way is a `ModelError` of one line. torch and transformers
are imported only once they are needed.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.machine_file import cache_dir
from engine.models import gguf
from engine.models.build_checks import check_built, configuration
from engine.models.bundled import (
    DEFAULT,
    bundled_folder,
    bundled_is_ready,
    conversion_facts,
    gguf_folder_name,
    has_pip,
)
from engine.models.checks import ModelError, check_causal, check_loaded, first_line, inspect_config
from engine.models.config_checks import check_config, check_generation, check_layers
from engine.models.folder import check_folder, read_object
from engine.models.hub import NotFound, hub_folder
from engine.models.load_faults import explained, tried_tokenizer
from engine.models.store import gigabytes, known_sha256, prepare, provenance
from engine.models.weights import (
    available_memory,
    has_tokenizer,
    sampled_sha256,
    stored_shapes,
    stored_weights,
    weights_bytes,
)
from engine.plain_files import check_plain, reason
from engine.progress import Progress, silent
from engine.text import quote, visible

log = logging.getLogger(__name__)

FLOAT_DTYPES = ("float32", "float16", "bfloat16")
DTYPES = ("auto", *FLOAT_DTYPES)
"""Dtypes that `load` takes; auto is the one the weights are stored in."""


@dataclass(frozen=True)
class ResolvedModel:
    """A model that lies on this machine, ready to be loaded without a network.

    `identity` says in a session file which weights they were: `gguf-sha256:` the whole
    GGUF file they came from; `hub:` id@commit; `sampled-sha256:` a hash of the folder's
    config, tokenizer, sizes and of samples of its weights (the same for a copy; other
    weights differ unless they differ in unsampled bytes alone).
    """

    path: Path
    label: str
    identity: str
    notes: tuple[str, ...] = ()
    gguf_file: str | None = None
    """The name of the GGUF file that the folder was made from."""


def resolve(
    spec: str | None, progress: Progress = silent, *, offline: bool = False
) -> ResolvedModel:
    """Resolve ``spec`` to the files of a model.

    It is None (the default model), a folder, a .gguf file or a hub id, looked for in this order.
    Nothing that lies here makes a network call. `offline` (or HF_HUB_OFFLINE in the
    environment) makes no network call at all. Raises ModelError.
    """
    offline = offline or _offline_by_environment()
    if spec is None:
        return _default(progress, offline)
    if not spec.strip():
        raise ModelError("the model's name is empty: give a folder, a .gguf file or a hub id")
    try:
        path = Path(spec).expanduser()
        if path.is_dir():
            return _folder(path, progress, offline)
        if path.exists():
            check_plain(path)
            return _gguf_file(path, progress, offline)
    except (OSError, RuntimeError, ValueError) as error:  # no such home, a NUL, no permission
        raise ModelError(f"{quote(spec, 200)} cannot be opened: {reason(error)}") from error
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", spec) or spec.endswith(".gguf"):
        parent = "" if path.parent.is_dir() else f", nor a folder {quote(str(path.parent))}"
        raise ModelError(f"there is no folder or file {quote(spec)}{parent}{_near(path)}")
    return _hub(spec, path, progress, offline)


def _offline_by_environment() -> bool:
    asked = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(value.strip().upper() in ("1", "ON", "YES", "TRUE") for value in asked)


def _default(progress: Progress, offline: bool) -> ResolvedModel:
    if not has_pip() and not bundled_is_ready(DEFAULT):
        found = _hub(DEFAULT.hub_id, None, progress, offline)
        note = "pip is not in this environment, so the default model came from the hub"
        return ResolvedModel(found.path, DEFAULT.label, found.identity, (*found.notes, note))
    folder = bundled_folder(DEFAULT, progress, offline=offline)
    return _converted(folder, DEFAULT.label, offline)


def _converted(folder: Path, label: str, offline: bool) -> ResolvedModel:
    facts = provenance(folder) or {}
    return ResolvedModel(
        path=folder,
        label=label,
        identity=f"gguf-sha256:{facts.get('gguf_sha256')}",
        notes=(f"dequantised from {facts.get('quantisation')}", *_offline_note(offline)),
        gguf_file=str(facts.get("gguf_file")),
    )


def _offline_note(offline: bool) -> tuple[str, ...]:
    return ("offline: nothing was looked up on the network",) if offline else ()


def _gguf_file(path: Path, progress: Progress, offline: bool) -> ResolvedModel:
    if path.suffix in (".safetensors", ".bin", ".json"):
        raise ModelError(f"{path} is one file of a model: give the folder {path.parent}")
    header = gguf.read_header(path)
    digest = known_sha256(path.resolve(), progress)

    def build(work: Path, folder: Path) -> dict[str, Any]:
        _check_memory(f"converting {path.name} to float32", header.elements * 4)
        gguf.convert(path, folder, progress)
        return conversion_facts(path.name, digest, header.quantisation)

    # a little over the weights: the tokenizer, and what a file system rounds up
    needs = header.elements * 4 + 50_000_000
    folder = prepare(gguf_folder_name(path.stem, digest), build, progress, needs=needs)
    found = _converted(folder, visible(path.stem), offline)
    return replace(found, notes=(*found.notes, "--engine llamacpp runs the file as it is"))


def _folder(path: Path, progress: Progress, offline: bool) -> ResolvedModel:
    progress("check", None, path.name)
    config = _checked_config(path)
    inspect_config(config, path.name)
    files = stored_weights(path)
    _require_tokenizer(path)
    notes = [*_offline_note(offline)]
    if made := (provenance(path) or {}).get("quantisation"):
        notes.insert(0, visible(f"dequantised from {made}"))
    return ResolvedModel(
        path=path.absolute(),
        label=visible(path.resolve().name),
        identity=f"sampled-sha256:{sampled_sha256(path, files)}",
        notes=(*notes, *_quantised_note(config)),
    )


def _quantised_note(config: Mapping[str, Any]) -> tuple[str, ...]:
    method = (config.get("quantization_config") or {}).get("quant_method")
    return (visible(f"quantised ({method})"),) if method else ()


def _checked_config(folder: Path) -> dict[str, Any]:
    """The configuration of a folder, all of whose settings files can be read. Raises ModelError."""
    config = _read_config(folder / "config.json")
    check_folder(folder)
    generation = folder / "generation_config.json"
    with contextlib.suppress(FileNotFoundError):
        check_generation(read_object(generation), generation)
    return config


def _read_config(path: Path) -> dict[str, Any]:
    folder = path.parent
    try:
        config = read_object(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        inside = sorted(found.name for found in folder.glob("*.gguf"))
        hint = f"give the file {folder / inside[0]}" if inside else "give the folder that has one"
        raise ModelError(f"{folder} is not a model folder (no config.json): {hint}") from error
    check_config(config, path)
    return config


def _require_tokenizer(folder: Path) -> None:
    if not has_tokenizer(folder):
        raise ModelError(
            f"{folder} has no tokenizer (tokenizer.json or tokenizer.model): copy the one "
            "that the model was trained with into it"
        )


def _near(path: Path) -> str:
    """A hint at what a mistyped path may have meant, "" if nothing is like it."""
    try:
        names = [p.name for p in path.parent.iterdir() if p.is_dir() or p.suffix == ".gguf"]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=3)
    return f"; did you mean {' or '.join(str(path.parent / n) for n in close)}?" if close else ""


def _hub(repo: str, path: Path | None, progress: Progress, offline: bool) -> ResolvedModel:
    def accept(config: Path) -> None:
        inspect_config(_read_config(config), repo)

    try:
        found = hub_folder(repo, progress, offline=offline, accept=accept)
    except NotFound as error:
        raise ModelError(f"{error}{_near(path) if path else ''}") from error
    config = _checked_config(found.folder)
    stored_weights(found.folder)
    _require_tokenizer(found.folder)
    identity = f"hub:{repo}@{found.commit}"
    return ResolvedModel(found.folder, repo, identity, (*found.notes, *_quantised_note(config)))


# ------------------------------------------------------------------------ loading


def load(
    resolved: ResolvedModel,
    dtype: str = "auto",
    device: str = "cpu",
    *,
    trust_remote_code: bool = False,
    progress: Progress = silent,
) -> tuple[Any, Any]:
    """(model, tokenizer) of a resolved model, in evaluation mode on `device`.

    Checked before its weights are read, after, and by what it does (`engine.models.checks`).
    `loaded_dtype` says what it was loaded as. Silent: transformers' bars are off and its
    warnings go to logging. No network call. Raises ModelError.
    """
    if dtype not in DTYPES:
        raise ModelError(f"unknown dtype {quote(dtype)}: give one of {', '.join(DTYPES)}")
    label = resolved.label
    progress("load", None, "starting torch")
    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    try:
        raw = _checked_config(resolved.path)
        own_code = _needs_own_code(raw, label, trust_remote_code)
        files = stored_weights(resolved.path)
        _check_memory(label, weights_bytes(files, dtype), device)
        shapes = stored_shapes(files)
        check_layers(raw, resolved.path / "config.json", len(shapes) if shapes else None)
        gguf.quiet()
        config = configuration(resolved.path, raw, where)
        inspect_config(config, label, remote_code=own_code)
        # What this program converted itself was checked then.
        if not own_code and resolved.path.parent != cache_dir() / "models":
            made_up = check_built(resolved.path, label, raw, config, shapes)
            _check_memory(label, made_up)  # a byte each, at the least
        progress("load", None, "tokenizer")
        tokenizer = tried_tokenizer(resolved.path, where)
        progress("load", None, "weights")
        model = _load_weights(resolved, config, dtype, device, where)
    except ModelError:
        raise
    except BaseException as error:
        # What panics in the tokenizers library is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise explained(label, error, resolved.path) from error
    progress("load", 1.0, label)
    return model, tokenizer


def _load_weights(
    resolved: ResolvedModel, config: Any, dtype: str, device: str, where: dict[str, Any]
) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(
        resolved.path,
        config=config,
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # so that check_loaded can name them
        **where,
    )
    check_loaded(info, resolved.label)
    model = model.to(device).eval()
    try:
        check_causal(model, resolved.label)
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        log.warning("%s: %s; loaded as float32 instead", resolved.label, first_line(error))
        model = model.float()
        check_causal(model, resolved.label)
    return model


def _needs_own_code(config: Mapping[str, Any], label: str, trusted: bool) -> bool:
    """True if the model runs by code of its repository; raises unless that is allowed."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    kind = config.get("model_type")
    if kind in CONFIG_MAPPING_NAMES and not (trusted and config.get("auto_map")):
        return False
    if not config.get("auto_map"):
        import transformers

        raise ModelError(
            f"{label}: model type {quote(str(kind))} is unknown to transformers "
            f"{transformers.__version__}; upgrade transformers, or give another model"
        )
    if not trusted:
        raise ModelError(
            f"{label} brings Python code of its own ({quote(str(kind))} is not part of "
            "transformers): read it, and give --trust-remote-code if you trust it"
        )
    return "AutoModelForCausalLM" in config["auto_map"]


def _check_memory(label: str, needs: int, device: str = "cpu") -> None:
    """Raise ModelError if the weights alone are more than the memory that is free."""
    free = available_memory()
    if device.startswith("cuda"):
        import torch

        free = torch.cuda.mem_get_info(device)[0] if torch.cuda.is_available() else None
    elif device != "cpu":
        return
    if free is not None and needs > free:
        raise ModelError(
            f"not enough memory for {label}: its weights need {gigabytes(needs)} and "
            f"{gigabytes(free)} is free; close something, or give a smaller model or --dtype"
        )


def loaded_dtype(model: Any) -> str:
    """The dtype of most of a model's parameters, and after a plus any others it has."""
    count: Counter[str] = Counter()
    for parameter in model.parameters():
        count[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    return " + ".join(name for name, _ in count.most_common()) or "no parameters"


def dtype_note(requested: str, model: Any) -> str | None:
    """A line for the screen where a model is not what was asked for, else None."""
    got = loaded_dtype(model)
    return None if requested in ("auto", got) else f"{requested} was asked for, {got} loaded"
