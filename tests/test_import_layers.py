"""The arrows between packages: a module imports from its own package and from the layers below it.

Lazy imports count too: one inside a function may save start-up time, but turns no arrow around.
"""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

from tests.folders import ROOT

TOP = ("inspector", "sessions", "engine", "themes")

LAYERS = """
inspector.__main__
inspector.cli
inspector.replaying
inspector.app inspector.browser
inspector.tour
inspector.actions
inspector.screens
inspector.panes
inspector.widgets
inspector.draw inspector.painter
inspector.state
inspector.flows
inspector.safe_screen inspector.commands
inspector.background inspector.modal inspector.escapes inspector.exit_codes inspector.keys
    inspector.help_text inspector.live_keys inspector.messages inspector.safe_console
    inspector.signals inspector.theming

sessions.examples
sessions.verify
sessions.compare
sessions.export
sessions.library sessions.recording sessions.whole sessions
sessions.preview sessions.reader sessions.tempo sessions.writer
sessions.lazy_rounds sessions.lazy_steps
sessions.rows
sessions.file

themes

engine engine.process
engine.server_process
engine.server
engine.columns engine.inbox engine.steps
engine.api engine.drafts engine.measure
engine.commands engine.run
engine.backends engine.conditions
engine.kv engine.models engine.sampling
engine.bill
engine.passes
engine.acceptance engine.growth engine.machine_file engine.napkin engine.roofline
    engine.safe_output engine.thinking engine.timing
engine.openmp engine.parent engine.plain_files engine.progress engine.text
engine.records
"""
"""From the top down, a layer a line; those of one layer do not know each other."""

OUTSIDE = {
    "inspector": "engine.acceptance engine.bill engine.commands engine.conditions engine.growth engine.machine_file "
    "engine.napkin engine.passes engine.plain_files "
    "engine.records engine.roofline engine.run.step_tree engine.run.tree engine.safe_output "
    "engine.sampling engine.text engine.thinking engine.timing",
    "inspector.cli": "engine.backends engine.drafts engine.measure engine.models engine.openmp engine.process "
    "engine.run",
    "sessions": "engine.acceptance engine.bill engine.plain_files engine.records engine.run.step_tree engine.run.tree engine.sampling engine.text engine.timing",
    "sessions.examples": "engine.backends engine.drafts engine.run",
    "sessions.recording": "engine.run",
    "sessions.verify": "engine.run",
    "themes": "engine.plain_files",
}
"""Package -> what it may import from the engine; a part of a package, what it may beside that."""


def layers() -> dict[str, int]:
    """Package -> its layer, counted from the top."""
    text = LAYERS.replace("\n    ", " ")
    lines = [line.split() for line in text.splitlines() if line]
    return {name: number for number, line in enumerate(lines) for name in line}


def modules() -> dict[str, Path]:
    """Every module that is shipped, by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for top in TOP
        for path in sorted((ROOT / top).rglob("*.py"))
    }


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    """Our own modules that a file imports anywhere, type checkers' imports left out."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{one.name}" for one in node.names]
            names = [one if one in MODULES else node.module for one in whole]
        yield from (name for name in names if name in MODULES)


ARROWS = sorted({(name, to) for name, path in MODULES.items() for to in imports(path)})


def package(module: str) -> str:
    """The part of a module's name that the layers are told by."""
    return ".".join(module.split(".")[:2])


def test_every_package_has_a_layer() -> None:
    packages = {package(name) for name in MODULES} - {"inspector"}
    assert packages == set(layers())


def test_arrows_go_down() -> None:
    level = layers()
    wrong = [
        (name, to)
        for name, to in ARROWS
        if package(name) != package(to) and level[package(to)] <= level[package(name)]
    ]
    assert wrong == []


def test_only_some_of_the_engine_is_known_outside() -> None:
    wrong = []
    for name, to in ARROWS:
        top, engine = name.partition(".")[0], to.split(".")[0] == "engine"
        if engine and top != "engine":
            allowed = f"{OUTSIDE[top]} {OUTSIDE.get(package(name), '')}".split()
            if not {to, package(to)} & set(allowed):
                wrong.append((name, to))
    assert wrong == []


def test_modules_import_in_no_circle() -> None:
    below: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, to in ARROWS:
        if name != to:
            below[name].add(to)
    assert len(list(graphlib.TopologicalSorter(below).static_order())) == len(MODULES)
