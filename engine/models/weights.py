"""A model folder's weight files: are they all there and whole, how large, which ones.

Only the headers and a few samples are read, so a folder of 100 GB takes milliseconds.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.models.checks import ModelError, first_line
from engine.models.folder import inside
from engine.plain_files import parse_json, read_json, read_plain

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_FLOATS = ("F64", "F32", "F16", "BF16")
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors library
_LARGEST_INDEX = 64 << 20
_LARGEST_HASHED = 256 << 20
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt")


def stored_weights(folder: Path) -> list[Path]:
    """The weight files of a model folder, in the order that transformers prefers.

    Raises ModelError if there are none, or some that the index names are missing.
    """
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _indexed(folder, index)
    found = sorted(path.name for path in folder.iterdir())
    if "adapter_config.json" in found:
        raise ModelError(f"{folder} is an adapter, not a model: merge it into its base model first")
    raise ModelError(
        f"{folder} has no weights (model.safetensors, or model.safetensors.index.json with its "
        "parts): fetch the model again"
    )


def _indexed(folder: Path, index: Path) -> list[Path]:
    try:
        names = sorted(set(read_json(index, _LARGEST_INDEX)["weight_map"].values()))
        paths = [inside(folder, name) for name in names]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{index} is damaged ({first_line(error)}): fetch the model again"
        ) from error
    missing = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if missing:
        raise ModelError(
            f"{folder} lacks {missing[0]}, one of {len(missing)} weight files that its index "
            "names and that are not there: fetch the model again"
        )
    return paths


def weights_bytes(files: Sequence[Path], dtype: str) -> int:
    """Bytes the weights take in memory once loaded as `dtype` ("auto": as stored).

    Exact for safetensors, the files' own size for others. Raises ModelError for a file
    that is cut short or no safetensors file.
    """
    return sum(
        _safetensors_bytes(path, _BYTES.get(dtype))
        if path.suffix == ".safetensors"
        else path.stat().st_size
        for path in files
    )


def _safetensors_bytes(path: Path, size: int | None) -> int:
    total = 0
    end = 0
    try:
        header, start = safetensors_header(path)
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            low, high = entry["data_offsets"]
            end = max(end, high)
            floating = size and entry["dtype"] in _FLOATS
            total += math.prod(entry["shape"]) * size if size and floating else high - low
    except (ValueError, LookupError, TypeError, struct.error, MemoryError) as error:
        raise _damaged(path) from error
    actual = path.stat().st_size
    if actual != start + end:
        raise ModelError(
            f"{path} is cut short or damaged: it has {actual:,} bytes and its header speaks of "
            f"{start + end:,}; fetch it again"
        )
    return total


def safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """(the header of a safetensors file, the offset of its data). ValueError if damaged."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(path.stat().st_size, _LARGEST_HEADER):
            raise ValueError("the header is longer than it can be")
        header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    return header, 8 + length


def stored_shapes(files: Sequence[Path]) -> dict[str, tuple[int, ...]]:
    """The tensors in safetensors files and their shapes; none of other files'.

    Raises ModelError for a damaged file.
    """
    found: dict[str, tuple[int, ...]] = {}
    for path in files:
        if path.suffix == ".safetensors":
            try:
                header, _ = safetensors_header(path)
                found |= {
                    name: tuple(map(int, entry["shape"]))
                    for name, entry in header.items()
                    if name != "__metadata__"
                }
            except (ValueError, LookupError, TypeError, struct.error, MemoryError) as error:
                raise _damaged(path) from error
    return found


def _damaged(path: Path) -> ModelError:
    return ModelError(f"{path} is damaged or no safetensors file: fetch it again")


def has_tokenizer(folder: Path) -> bool:
    """True if a model folder holds any file that a tokenizer is made from."""
    return any(
        name in _TOKENIZER_FILES
        or name.endswith((".tiktoken", ".spm", "tekken.json"))
        or (name.endswith(".model") and "piece" in name)
        for name in os.listdir(folder)
    )


def sampled_sha256(folder: Path, files: Sequence[Path]) -> str:
    """A hash of what a model folder is, in milliseconds.

    It covers config.json and the tokenizer's files whole, and of each weight file its
    name, size, beginning (the header) and 64 samples of 4 KiB spread evenly over it.
    Copies of a folder agree; times and places do not count.
    """
    digest = hashlib.sha256()
    for name in ("config.json", *_TOKENIZER_FILES):
        if (folder / name).is_file():
            digest.update(name.encode() + b"\0" + read_plain(folder / name, _LARGEST_HASHED))
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            for n in range(_SAMPLES):
                file.seek(max(size - _SAMPLE_BYTES, 0) * n // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def available_memory() -> int | None:
    """Bytes of main memory that a new model could take; None where nothing tells.

    Linux's own estimate, or what the container's limit leaves if that is less.
    """
    found = [bytes_ for bytes_ in (_system_memory(), _container_memory()) if bytes_ is not None]
    return min(found, default=None)


def _system_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _container_memory(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # what is only the cache of files is given up when memory is short
        return max(int(limit) - used + int(stat.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None
