"""Near-ties of greedy tokens in a round, as the pane of speculation tells of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.geometry import Size

from engine.records.measured import Drift, DriftMeasured, DriftRow
from inspector.panes.speculation.near_tie import near_tie_lines
from inspector.panes.speculation.pane import draw
from inspector.state.view import View
from tests.speculating import Listed, fixed, log_of, stepper


def view_of(ahead: float, dtype: str = "float16", node: int = 2) -> View:
    """Token a is ahead of b by so many logits, both about -0.7: a last place of float16 is 2^-11."""
    high = 1 / (1 + 2.718281828459045**-ahead)
    run = stepper(
        fixed([high, 1 - high]), lambda _: Listed([0, 0]), tokens=2, prompt="a", max_tokens=6
    )
    log = log_of(run)
    assert log.facts is not None
    log.facts = replace(log.facts, dtype=dtype)
    return View(log, node)


@pytest.mark.parametrize(
    ("ahead", "dtype", "near"),
    [
        (0.0009, "float16", True),
        (0.0011, "float16", False),
        (0.0070, "bfloat16", True),
        (0.0009, "float32", False),
    ],
)
def test_estimated_from_the_size_of_the_logits(ahead: float, dtype: str, near: bool) -> None:
    """Two units of the last place: 2^-10 in float16, 2^-7 in bfloat16, for logits in [1/2, 1)."""
    found = near_tie_lines(view_of(ahead, dtype), 200)
    assert bool(found) is near
    if found:
        assert f"{ahead:.4f} logits ahead of" in found[0].plain
        assert "estimated drift" in found[0].plain


def test_a_measured_drift_counts_before_an_estimate() -> None:
    view = view_of(0.03)
    assert not near_tie_lines(view, 200)
    drift = Drift(0.05, 0.01, 0, 0.0, 0, 0, 0.03, 0.03)
    top = view.log.nodes[1].token
    rows = (
        DriftRow("this run", drift, top),
        DriftRow("weights in float32", replace(drift, max_abs=9.0)),
    )
    view.log.drifts[1] = DriftMeasured(1, 3, "a fresh read", top, rows)
    (line,) = near_tie_lines(view, 200)
    assert "measured drift 0.0500 •" in line.plain
    assert not near_tie_lines(View(view_of(0.06).log, 2), 200)


def test_the_pane_shows_it_and_plain_tokens_have_none() -> None:
    shown = draw(view_of(0.0005), Size(90, 20))
    assert any("near-tie" in line.plain for line in shown.footer)
    assert not near_tie_lines(view_of(0.0005, node=1), 200)
