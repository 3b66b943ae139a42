"""Names and sizes of GGML's types."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


@cache
def constants() -> Any:
    """The module ``gguf.constants``, without the rest of the package: writers, YAML and more."""
    package = find_spec("gguf")
    path = Path(package.origin or "").with_name("constants.py") if package else "constants.py"
    spec = spec_from_file_location("engine.models.gguf_constants", path)
    if spec is None or spec.loader is None:
        raise ImportError("the package gguf has no constants.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def type_name(number: int) -> str | None:
    """The name of a type, such as ``Q4_1``; None for one that is new to the gguf package."""
    kinds: Any = constants().GGMLQuantizationType
    return kinds(number).name if number in set(kinds) else None


def type_bytes(name: str, numbers: int) -> int:
    """Bytes of so many numbers of the type of that name, in whole blocks."""
    of = constants()
    block, block_bytes = of.GGML_QUANT_SIZES[of.GGMLQuantizationType[name]]
    return int(numbers // block * block_bytes)
