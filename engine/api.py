"""Opening a model from a script or a notebook."""

from __future__ import annotations

import sys
from typing import Any

from engine.backends import open_backend
from engine.backends.base import Backend
from engine.progress import Progress
from engine.text import visible


def open_model(
    model: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Backend:
    """Load a model, and fetch it first where need be.

    ``model`` is a hub id, a folder or a .gguf file; None is the default model. ``dtype`` and
    ``device`` choose by measurement and by what there is, unless they say otherwise. ``options``
    are those of ``engine.backends.hf.load``, such as ``threads`` and ``offline``. ``progress`` is
    told the phase, how much of it is done and a detail; phases go to standard error without it.

    Raises ModelError or BackendError, each one line. Close what it returns to free the memory.
    """
    wanted = {"model": model, "dtype": dtype, "device": device, **options}
    return open_backend("hf", wanted, progress or _Phases())


class _Phases:
    """A line on standard error when another phase of loading begins."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, phase: str, fraction: float | None, detail: str = "") -> None:
        if phase != self._last:
            print(visible(f"{phase}: {detail}" if detail else phase), file=sys.stderr)
        self._last = phase
