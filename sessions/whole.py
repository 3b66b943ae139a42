"""Reads everything that a session holds, so that what is called whole fails nowhere else."""

from __future__ import annotations

from sessions.reader import Session


def read_everything(session: Session) -> None:
    """Read every value that any command may read. Raises SessionError for what cannot be.

    Opening has checked the pages, the types and ranges of all rows, the tree, the prompt and the
    events; here are the steps' own parts, which else are read when somebody looks at them.
    """
    for node in session.node_ids.tolist():
        step = session.step(node)
        _ = step.top, step.stages, step.timing, step.kv, step.draw
    for node in session.dense_nodes:
        session.dense(node)
    _ = session.steps.table(), session.vocabulary
