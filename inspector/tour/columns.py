"""Places and figures of a recorded comparison: the matter of the tour's last stops."""

from __future__ import annotations

from engine.run.tree import ROOT
from engine.text import plural
from inspector.draw.numbers import count, ms
from inspector.panes.batch.figures import costs
from inspector.state.view import RunLog
from sessions.compare.compared import Compared, compared
from sessions.export.source import Source


def places(log: RunLog) -> dict[str, int]:
    """Places by name, as nodes: the first column's token where columns part, and its end."""
    found = _compared(log)
    steps = found.columns[0].steps
    return {"parting": steps[found.divergence.index or 0].node, "passes": steps[-1].node}


def figures(log: RunLog) -> dict[str, str]:
    """The figures by name, as they are written."""
    found = _compared(log)
    batch, cost = found.batch, costs(log.passes, log.path(found.columns[0].steps[-1].node))
    few, many = cost[0], cost[-1]
    assert found.why is not None
    a, b, why = found.why
    assert why.stage is not None
    return {
        "columns": count(len(found.columns)),
        "common": count(found.divergence.index or 0),
        "parting_position": count(why.position),
        "a": str(a),
        "b": str(b),
        "stage": why.stage.stage,
        "a_left": plural(why.stage.a, "candidate"),
        "b_left": f"{why.stage.b:,}",
        "column_tokens": count(batch.tokens),
        "column_passes": count(batch.passes),
        "few": plural(few.rows, "row"),
        "few_each": ms(few.each_ms),
        "many": plural(many.rows, "row"),
        "many_each": ms(many.each_ms),
    }


def _compared(log: RunLog) -> Compared:
    return compared(Source.of_log(log, ROOT))
