"""Docstrings can be read without the code: their first line is an imperative or a noun phrase."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.folders import ROOT

PACKAGES = ("engine", "inspector", "sessions", "themes")
LONGEST = 100
AS_A_QUESTION = re.compile(
    r"(Whether|What|How|Where|Which|Who|Whose|When|Why|That|As|Such|If|Is|Are|Do it)\b"
)
Inner = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | Inner


def documented() -> Iterator[tuple[str, Documented, bool]]:
    """(name, node, True where a docstring is due): a method may have that of its base class."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ast.parse(path.read_text("utf-8"))
            yield str(path.relative_to(ROOT)), module, True
            yield from _within(module, str(path.relative_to(ROOT)))


def _within(node: Documented, name: str) -> Iterator[tuple[str, Documented, bool]]:
    for child in node.body:
        if isinstance(child, Inner) and not child.name.startswith("_"):
            inner, is_class = f"{name} {child.name}", isinstance(child, ast.ClassDef)
            yield inner, child, is_class or isinstance(node, ast.Module)
            if is_class:
                yield from _within(child, inner)


def first_line(node: Documented) -> str | None:
    """The first line of a docstring; None without one."""
    text = ast.get_docstring(node)
    return None if text is None else text.splitlines()[0]


def test_modules_classes_and_functions_have_one() -> None:
    missing = [name for name, node, due in documented() if due and not first_line(node)]
    assert missing == []


def test_the_first_line_is_a_short_sentence() -> None:
    lines = {name: first_line(node) for name, node, _ in documented()}
    bad = {
        name: line
        for name, line in lines.items()
        if line is not None and (not line.endswith(".") or len(line) > LONGEST)
    }
    assert bad == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_none_begins_as_an_indirect_question(package: str) -> None:
    """Not "Whether a dialog is open." but "True while a dialog is open."; private ones too."""
    bad = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))) if AS_A_QUESTION.match(text):
                    bad.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text.splitlines()[0]}")
    assert bad == []
