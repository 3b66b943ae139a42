"""Every figure on every pane says where it comes from: measured, derived or estimated.

``tests.marks`` has the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import pytest
from textual.geometry import Size

from engine.records.columns import Part, PassColumn, PassRecord
from engine.records.measured import CacheCurves, Ceilings, ModulesTimed, TimedPass
from engine.records.prompt import LayerTime
from inspector.panes.registry import DIALS_SPEC, PANES, PaneSpec
from inspector.panes.roofline.pane import PARTS, RooflinePane
from inspector.state.ceilings import Known
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from sessions import open_session
from sessions.examples import example
from tests import fakes
from tests.fake_runs import Host
from tests.marks import unmarked

SIZES = (Size(38, 9), Size(78, 19), Size(110, 30), Size(158, 46))


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


def unmarked_in(drawn: Picture) -> Iterator[str]:
    """Lines of a picture with a figure that nothing marks; its titles stand apart."""
    border = str(drawn.subtitle)
    rows = [*drawn.header, *(drawn.rows[at] for at in range(len(drawn.rows))), *drawn.footer]
    yield from unmarked((row.plain for row in rows), border)
    for text in (border, str(drawn.remark)):
        yield from unmarked([text])


def states(pane: Pane) -> Iterator[None]:
    """Go through the parts of a pane that are seen one at a time."""
    yield
    if isinstance(pane, RooflinePane):
        for _ in PARTS[1:]:
            pane.action_part()
            yield


@pytest.mark.parametrize("spec", [*PANES, DIALS_SPEC], ids=lambda spec: str(spec.name))
async def test_every_figure_has_its_mark(spec: PaneSpec) -> None:
    pane = spec.pane()
    bad: set[str] = set()
    async with Host(pane, fakes.view()).run_test(size=(80, 24)):
        for view in views():
            pane.view = view
            for size in SIZES:
                for _ in states(pane):
                    bad |= set(unmarked_in(pane.picture(view, size)))
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
        (["  id    nats  rank", "   7    2.31     1"], 1),
        (["  id  nats ƒ  rank", "   7    2.31     1"], 0),
        (["KL(a, b), in nats: the distance"], 0),
        (["3 tokens in 1.25 s (measured)"], 0),
        (["0.5 s of 1.5 s (measured), 30 tok/s"], 1),
    ],
)
def test_what_counts_as_marked(lines: list[str], bad: int) -> None:
    assert len(list(unmarked(lines))) == bad


def test_a_border_marks_what_it_names() -> None:
    assert list(unmarked(["MBU  97%"], "3 steps · % ƒ")) == []
    assert list(unmarked(["MBU  97%  3 ms"], "3 steps · % ƒ")) == ["MBU  97%  3 ms"]
    assert list(unmarked(["Steps ───", "MBU  97%  3 ms"], "3 steps · all ƒ")) == []
