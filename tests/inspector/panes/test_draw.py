"""Every pane is drawn by a function of a view and a size, whatever was drawn before it."""

from __future__ import annotations

import pytest
from textual.geometry import Size

from inspector.panes import tokens
from inspector.panes.dials import pane as dials
from inspector.panes.gauges import pane as gauges
from inspector.panes.kv import pane as kv
from inspector.panes.ladder import draw as ladder
from inspector.panes.prefill import pane as prefill
from inspector.panes.roofline import pane as roofline
from inspector.panes.shape import pane as shape
from inspector.panes.stacks import pane as stacks
from inspector.panes.transcript import pane as transcript
from inspector.panes.tree import pane as tree
from inspector.state.view import View
from inspector.state.whatif import chain_of
from inspector.widgets.picture import Picture
from tests.fake_runs import picture, run

PANES = (tokens, dials, gauges, kv, ladder, prefill, roofline, shape, stacks, transcript, tree)


def words(drawn: Picture) -> tuple[object, ...]:
    """All that is seen of a picture, and what is to be done for it."""
    lines = [picture(lines) for lines in (drawn.header, drawn.rows, drawn.footer)]
    titles = str(drawn.remark), str(drawn.subtitle), drawn.tries
    return *lines, *titles, drawn.select, drawn.follow, drawn.top, len(drawn.wants)


@pytest.mark.parametrize("pane", PANES, ids=[one.__name__.split(".")[2] for one in PANES])
def test_a_picture_does_not_depend_on_what_was_drawn_before(pane: object) -> None:
    draw = pane.draw  # type: ignore[attr-defined]
    end = run(["a", " b", "c\n", " d", "e", "f"], forces=[0, 1, 2, None], dense=True)
    middle, root = View(end.log, 2), View(end.log)
    tried = View(end.log, end.cursor, chain_of("top_k=2 > temperature=3", "guide"))
    views = (end, middle, root, tried)
    small, large = Size(40, 7), Size(110, 30)
    first = {(view, size): words(draw(view, size)) for view in views for size in (small, large)}
    # A script has no weights, so that the roofline says at both sizes why it is empty.
    assert len(set(map(str, first.values()))) >= (2 if pane is roofline else 4)
    for view, size in reversed(first):
        assert words(draw(view, size)) == first[view, size]
