"""The borders between the packages, as they are when modules are really imported."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "tokenizers", "accelerate")

_LOADED = "import sys, json; {imports}; print(json.dumps(sorted(sys.modules)))"


def modules_after(*names: str) -> set[str]:
    """Top-level and dotted names in sys.modules of a new process that imported ``names``."""
    code = _LOADED.format(imports="; ".join(f"import {name}" for name in names))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def all_modules(package: str) -> list[str]:
    """Every module below ``package``, without importing any of them."""
    import importlib

    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    return [package, *(info.name for info in found if not info.name.endswith("__main__"))]


@pytest.mark.parametrize("package", ["inspector", "sessions", "themes", "engine.sampling"])
def test_never_imports_torch(package: str) -> None:
    loaded = modules_after(*all_modules(package))
    assert package in loaded
    assert not loaded.intersection(HEAVY)


def test_the_client_side_of_the_engine_imports_no_torch() -> None:
    loaded = modules_after(
        "engine.process", "engine.commands", "engine.records", "engine.run.stepper"
    )
    assert "engine.process" in loaded
    assert not loaded.intersection(HEAVY)


def test_the_engine_knows_neither_screen_nor_files() -> None:
    loaded = modules_after(*all_modules("engine"))
    assert "torch" in loaded, "the walk reached the backends"
    for name in loaded:
        assert name.split(".")[0] not in ("inspector", "sessions", "textual"), name


def test_panes_know_no_backend() -> None:
    loaded = modules_after(*all_modules("inspector.panes"))
    assert "inspector.panes.ladder.pane" in loaded
    for name in loaded:
        assert not name.startswith("engine.backends"), name
        assert name not in ("engine.server", "engine.run.stepper", "engine.models.resolve"), name


def test_the_first_screen_imports_nothing_that_only_a_key_needs() -> None:
    loaded = modules_after("inspector.cli.open", "inspector.app", "sessions.library", "sessions")
    assert "inspector.panes.gauges.pane" in loaded
    late = ("sessions.compare", "sessions.export", "inspector.screens.prompt", "plotext")
    late += ("inspector.screens.sessions", "inspector.screens.token_ask", "importlib.metadata")
    assert not [name for name in sorted(loaded) if name.startswith(late)]
