"""Every figure beside the panes says where it comes from: what other screens and commands show.

``tests.marks`` has the rule; lines are drawn wide, so that no sentence is broken at a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from textual.content import Content
from textual.geometry import Size

from engine.conditions.moment import Moments
from engine.napkin.library import Library
from engine.napkin.notation import EXAMPLE, parse
from engine.records.measured import CacheCurves, Contest, Measured
from engine.records.model import DtypeTrial
from inspector.actions.measure import worth_of_cache
from inspector.cli import bench_report, bench_sweep_report, doctor
from inspector.draw.napkin import napkin_lines
from inspector.panes.breakpoints import draw_names
from inspector.screens.compare import column, sweep, table, why
from inspector.screens.compare.column import ColumnUI
from inspector.screens.compare.table import TableRow
from inspector.screens.drift import drift_lines
from inspector.screens.session_rows import session_row
from inspector.screens.sessions import glance
from inspector.screens.shapes import lines as shapes_lines
from inspector.screens.token_ask import TITLES
from inspector.widgets.picture import Picture
from inspector.widgets.status import status_line
from sessions.compare import compared_text
from sessions.compare.why_part import why_part
from sessions.examples import example
from sessions.preview import preview
from tests import fakes
from tests.inspector.cli import test_bench_command, test_bench_sweep
from tests.inspector.screens import test_compare, test_drift_screen
from tests.marks import unmarked
from tests.ready_requests import all_carried
from tests.sessions import test_compared
from tests.sessions.test_why_part import first

WIDE = 400
CONTEST = Contest("generate", "bfloat16", 5, (10.0, 20.0, 10.0), (20.0, 20.0, 30.0))
Line = Content | str


def drawn(picture: Picture) -> Iterator[Line]:
    yield from picture.header
    yield from (picture.rows[at] for at in range(len(picture.rows)))
    yield from picture.footer


def status() -> Iterator[Line]:
    reason = "float16: 31.0 ms a decode step (38.2 float32), measured"
    records = (replace(fakes.SMOLLM2, dtype_reason=reason, dtype="float16"), *fakes.case_36()[1:])
    return (status_line(fakes.view(*records), width) for width in range(20, WIDE, 4))


def names() -> Iterator[Line]:
    view = fakes.view(*fakes.case_36())
    assert view.prompt is not None
    return drawn(draw_names("", Moments(view.prompt).at(view.path), Size(160, 90)))


def columns() -> Iterator[Line]:
    one = test_compare.column("abc")
    for aligned in (False, True):
        yield from drawn(column.draw(one, Size(40, 9), ColumnUI(aligned=aligned, parting=1)))


def plots() -> Iterator[Line]:
    line = [test_compare.point("A", temperature=0.5), test_compare.point("B", temperature=1.0)]
    both = [
        test_compare.point("A", temperature=0.5, top_p=0.9),
        test_compare.point("B", temperature=1.0, top_p=0.8),
    ]
    for points in (line, both):
        yield from drawn(sweep.draw(points, Size(90, 40)))


def parting() -> Iterator[Line]:
    one, other = first(test_compare.TWO, u=0.6), first(test_compare.THREE, u=0.7)
    pair = why.Pair("A", "B", 1, one, other)
    return iter(why.why_lines(why_part(one, other), pair, 4, WIDE))


def bench() -> Iterable[Line]:
    view = fakes.view(fakes.settings(), *fakes.case_36())
    found = Measured(test_bench_command.CEILINGS, CONTEST)
    return bench_report.lines(view, found, test_bench_command.ABOUT, WIDE)


def bench_sweep() -> Iterable[Line]:
    cell = replace(test_bench_sweep.CELL, contest=CONTEST)
    return bench_sweep_report.lines(fakes.SMOLLM2, [cell], 0.1, WIDE)


def told_by_doctor() -> Iterator[Line]:
    trials = (DtypeTrial("float16", True, "", 31.0, 40.0), DtypeTrial("float32", None, "", 38.2))
    facts = replace(fakes.SMOLLM2, load_ms=1200.0, dtype_trials=trials)
    return (f"{label} {text}" for label, text in doctor.model_lines(facts))


SHOWN: dict[str, Callable[[], Iterable[Line]]] = {
    "status line": status,
    "names of a condition": names,
    "toast": lambda: [worth_of_cache(CacheCurves(5, (4,), (9.0,), (12.0,), (5,), "x"))],
    "compare: columns": columns,
    "compare: plots": plots,
    "compare: why": parting,
    "drift": lambda: drift_lines(test_drift_screen.MEASURED, WIDE),
    "token": lambda: [TITLES, "#260           35%     44%"],
    "sessions": lambda: [
        session_row(preview(example("chat")), 120, marked=False, autosaved=False),
        *glance(preview(example("chat"))),
    ],
    "napkin": lambda: napkin_lines(*parse(EXAMPLE, Library.load()), 131_072, WIDE),
    "bench": bench,
    "bench over lengths": bench_sweep,
    "shapes": lambda: shapes_lines.lines(all_carried(), WIDE),
    "doctor": told_by_doctor,
    "compare": lambda: compared_text.lines(test_compared.of(test_compared.run())),
}


@pytest.mark.parametrize("name", SHOWN)
def test_every_figure_beside_the_panes_has_its_mark(name: str) -> None:
    lines = [one if isinstance(one, str) else one.plain for one in SHOWN[name]()]
    assert lines
    assert list(unmarked(lines)) == []


@pytest.mark.parametrize("width", [40, 78, 110])
def test_the_border_of_the_compare_screens_figures_marks_them_all(width: int) -> None:
    found = table.draw([TableRow("A", "cold", test_compare.FIGURES)], Size(width, 10))
    assert str(found.subtitle).endswith("means, all ƒ")
