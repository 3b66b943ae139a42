"""The branch that the cursor is on beside another one of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.text import quote
from inspector.state.view import RunLog, View

if TYPE_CHECKING:
    from sessions.compare.diff import Side


def other_tips(view: View) -> list[int]:
    """The ends of the branches beside the cursor's, those of the nearest fork above first.

    At each fork they begin with the next child after the one that was taken.
    """
    return list(_tips_beside(view.log, view.cursor))


def _tips_beside(log: RunLog, node: int) -> Iterator[int]:
    tree = log.tree
    while (fork := tree.fork_above(node)) is not None and fork[0] in fork[1]:
        head, siblings = fork
        at = siblings.index(head)
        for other in (*siblings[at + 1 :], *siblings[:at]):
            yield from (one for one in tree.below(other) if not tree.children[one])
        node = tree.parents[head]


def sides(log: RunLog, one: int, other: int) -> tuple[Side, Side]:
    """The branches that end at these two nodes."""
    return _side(log, one, other), _side(log, other, one)


def label(log: RunLog, tip: int, beside: int) -> str:
    """The name of the branch that ends at ``tip`` where it is not that of ``beside``."""
    named, token = _own(log, tip, beside)
    return named or f"the branch that begins with {token}"


def short_label(log: RunLog, tip: int, beside: int) -> str:
    """The same in few cells: its name, or its first own token and the settings at its end."""
    named, token = _own(log, tip, beside)
    return named or f"{token} {log.nodes[tip].chain_spec.removesuffix(' >')}"


def _own(log: RunLog, tip: int, beside: int) -> tuple[str, str]:
    """The name of the branch where it is not that of ``beside``, and its first token of its own."""
    parted = log.tree.common(tip, beside) or 0
    own = [int(node) for node in log.tree.path(tip)][parted:]
    named = next((log.names[node] for node in reversed(own) if log.names.get(node)), "")
    head = log.nodes[own[0] if own else tip]
    return named, quote(head.token.bytes.decode("utf-8", "replace"), 30)


def _side(log: RunLog, tip: int, beside: int) -> Side:
    # Only a key needs it.
    from sessions.compare.diff import Side

    name = label(log, tip, beside)
    return Side(name, list(log.path(tip)), log.facts, log.prompt, log.settings, run=log)
