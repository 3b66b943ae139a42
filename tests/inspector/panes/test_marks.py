"""Every figure on every pane says where it comes from: measured, derived or estimated.

A figure is a number with a unit. Its mark stands behind it in the line, where one mark may stand
for several figures before it, or in the title of the table or chart that the line is part of.
Counts are exact and carry none; neither do the ends of an axis.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import pytest
from textual.content import Content
from textual.geometry import Size

from engine.records.columns import Part, PassColumn, PassRecord
from engine.records.measured import CacheCurves, Ceilings, ModulesTimed, TimedPass
from engine.records.prompt import LayerTime
from inspector.panes.registry import DIALS_SPEC, PANES, PaneSpec
from inspector.state.ceilings import Known
from inspector.state.view import RunLog, View
from inspector.widgets.picture import Picture
from sessions import open_session
from sessions.examples import example
from tests import fakes
from tests.fake_runs import Host

SIZES = (Size(38, 9), Size(78, 19), Size(110, 30), Size(158, 46))
UNITS = r"ns|µs|ms|s|min|tok/s|GB/s|[MGTP]?FLOP/[sB]|B|[KMGT]iB|nats|×|%"
FIGURE = re.compile(rf"(?<![\w.,×])(?<!× )\d[\d,]*(?:\.\d+)? ?({UNITS})(?![\w/(]| \d)")
"""Not the factors of a formula."""
MARKS = "•ƒ~"
AXIS = re.compile(r"[\d.,]+ ?\S*[┤┴]|0 ─.*")
"""The end of an axis."""
COVER = re.compile(r"(%) ƒ")
"""In the border below a pane, the mark of all of its figures with that unit."""


def unmarked(rows: Sequence[Content], covered: Collection[str] = ()) -> Iterator[str]:
    """Lines with a figure that nothing marks."""
    titled = False
    for row in rows:
        line = AXIS.sub("", row.plain.rstrip())
        found = [one.end() for one in FIGURE.finditer(line) if one[1] not in covered]
        has_mark = any(mark in line for mark in MARKS)
        if "──" in line or (has_mark and not found):
            titled = has_mark
        if found and not titled and not any(mark in line[max(found) :] for mark in MARKS):
            yield line


@cache
def views() -> tuple[View, ...]:
    """Recorded runs at their ends and in the middle, and one with all that can be measured."""
    found = []
    for name in ("capital", "chat", "rounds"):
        session = open_session(example(name))
        log = RunLog()
        for record in session.records(steps=False):
            log.add(record)
        log.take_over(session.steps, session.tree, session.rounds)
        nodes = sorted(log.tree.steps)
        found += [View(log), View(log, nodes[len(nodes) // 2]), View(log, nodes[-1])]
    everything = fakes.view(*fakes.case_36())
    layers = (LayerTime(2.0, 1.0, 3.5, 0.2),) * 2
    timed = TimedPass(1, 14, 6.0, 9.0, 7, layers, {"output head": 1.0, "embedding": 0.1})
    everything.log.modules = ModulesTimed(5, timed, replace(timed, tokens=14))
    everything.log.curves = CacheCurves(
        5, (4, 8, 14), (9.0, 9.0, 9.1), (9.0, 12.0, 20.0), (5,) * 3, "x"
    )
    shared = tuple(PassColumn(at, 0, Part.ROW, (at,)) for at in (1, 2, 3))
    everything.log.passes.append(
        PassRecord(shared, 3, 1, 12.0, 13.0, "float32", 512 << 20, 3 << 20, copied_blocks=1)
    )
    ceilings = Ceilings("cpu", "a CPU", "float32", 2, 20e9, 300e9, "read 512 MiB")
    everything.log.ceilings = Known(ceilings, datetime.now(UTC), "2026-01-01")
    return (fakes.view(), *found, everything)


def lines_of(drawn: Picture) -> Iterator[Sequence[Content]]:
    """The lines of a picture as they stand together, its titles apart."""
    yield [*drawn.header, *(drawn.rows[at] for at in range(len(drawn.rows))), *drawn.footer]
    for text in (drawn.subtitle, drawn.remark):
        yield [Content(text) if isinstance(text, str) else text]


@pytest.mark.parametrize("spec", [*PANES, DIALS_SPEC], ids=lambda spec: str(spec.name))
async def test_every_figure_has_its_mark(spec: PaneSpec) -> None:
    pane = spec.pane()
    bad: set[str] = set()
    async with Host(pane, fakes.view()).run_test(size=(80, 24)):
        for view in views():
            pane.view = view
            for size in SIZES:
                drawn = pane.picture(view, size)
                covered = set(COVER.findall(str(drawn.subtitle)))
                for lines in lines_of(drawn):
                    bad |= set(unmarked(lines, covered))
    assert bad == set()


@pytest.mark.parametrize(
    ("lines", "bad"),
    [
        (["TTFT  3.0 ms ƒ"], 0),
        (["TTFT  3.0 ms"], 1),
        (["p50 3.0 ms, p95 1,004 ms •"], 0),
        (["TTFT  3.0 ms ƒ   = 1.0 ms + 2.0 ms"], 1),
        (["Steps: times • ───", " 1  3.0 ms", " 2  4.0 ms"], 0),
        (["Steps ───", " 1  3.0 ms"], 1),
        (["Steps: times • ───", "Other ───", " 1  3.0 ms"], 1),
        (["40.0 ms┤ ▄▄ ", "0 ──┼ 100 ms ── 200 ms"], 0),
        (["= 2 × 30 × 64 × 4 B", "20 tokens, 3 of 5"], 0),
        (["MBU  97%"], 1),
    ],
)
def test_what_counts_as_marked(lines: list[str], bad: int) -> None:
    assert len(list(unmarked([Content(line) for line in lines]))) == bad
    assert list(unmarked([Content("MBU  97%")], "%")) == []
