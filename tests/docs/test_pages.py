"""The pages name what is there: folders, files and modules."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.folders import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = ("engine", "inspector", "sessions", "themes")


def folders(page: Path) -> set[str]:
    """The folders that the table of a page names."""
    table = page.read_text("utf-8").split("| folder | holds |")[1].split("\n\n")[0]
    return set(re.findall(r"^\| `([^`]*)/`", table, re.MULTILINE))


def test_the_readme_names_the_folders_of_the_tree() -> None:
    on_disk = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".") and any(path.rglob("*.py"))
    }
    assert folders(ROOT / "README.md") == on_disk


def test_the_architecture_page_names_every_folder_of_the_packages() -> None:
    """One level down; a package without folders is named itself."""
    on_disk = set()
    for name in PACKAGES:
        inner = {f"{name}/{path.parent.name}" for path in (ROOT / name).glob("*/__init__.py")}
        on_disk |= inner or {name}
    assert folders(ROOT / "docs" / "architecture.md") == on_disk


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_modules_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for path in re.findall(
        r"(?<![\w/-])(?:engine|inspector|sessions|themes|docs|tests|bench)/[\w./-]*\w", text
    ):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`((?:engine|inspector|sessions|themes)(?:\.\w+)+)", text):
        assert _is_there(name), name


def _is_there(name: str) -> bool:
    """True for a module, and for what a module or a class of it has."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
