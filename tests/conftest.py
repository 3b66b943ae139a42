"""Fixtures that several test files share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backends import openmp

# Before any test imports torch: its threads share the cores with the processes that tests start.
openmp.settle()
# Textual reads these when it is imported; a test must look the same on every machine.
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["COLORTERM"] = "truecolor"
os.environ.pop("NO_COLOR", None)


@pytest.fixture(scope="session")
def default_model_dir() -> Path:
    """The folder of the default model, fetched and converted first where that is still to do."""
    from engine.models import resolve

    def quiet(phase: str, fraction: float | None, detail: str = "") -> None:
        pass

    return Path(str(resolve(None, quiet).path))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Threads only get into each other's way with models as small as the tests'."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
