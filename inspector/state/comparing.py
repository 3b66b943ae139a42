"""The branch that the cursor is on beside the next one at the nearest fork above it."""

from __future__ import annotations

from engine.text import quote
from inspector.state.view import RunLog, View
from sessions.compare.diff import Side


def branches_beside(view: View) -> tuple[Side, Side] | None:
    """Both, each to its end; None where there is no fork above the cursor."""
    log = view.log
    fork = log.tree.fork_above(view.cursor)
    if fork is None or fork[0] not in fork[1]:
        return None
    head, siblings = fork
    other = siblings[(siblings.index(head) + 1) % len(siblings)]
    here, beside = (log.tip(one, view.visited) for one in (view.cursor, other))
    return _side(log, head, here), _side(log, other, beside)


def _side(log: RunLog, head: int, tip: int) -> Side:
    token = quote(log.nodes[head].token.bytes.decode("utf-8", "replace"), 30)
    label = log.names.get(head) or f"the branch that begins with {token}"
    return Side(label, list(log.path(tip)), log.facts, log.prompt, log.settings, run=log)
