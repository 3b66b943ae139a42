"""Which nodes of a recorded tree are there still, and which lie on deleted branches.

A deleted branch stays in the file: its steps were recorded before, and a deletion can be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engine.records.events import BranchDeleted


def deleted_heads(records: Iterable[BranchDeleted]) -> frozenset[int]:
    """The nodes that deleted branches begin with, after all these records in their order."""
    heads: set[int] = set()
    for one in records:
        if one.undone:
            heads.discard(one.node)
        else:
            heads.add(one.node)
    return frozenset(heads)


def below(heads: Collection[int], parents: Mapping[int, int]) -> frozenset[int]:
    """These nodes, as far as there are such, and all that come after them.

    ``parents`` has every node's parent, whose number is always the smaller one.
    """
    found: set[int] = set()
    for node in sorted(parents) if heads else ():
        if node in heads or parents[node] in found:
            found.add(node)
    return frozenset(found)


def tips(parents: Mapping[int, int], hidden: Collection[int]) -> list[int]:
    """The last node of every branch that is there, oldest first."""
    there = [node for node in sorted(parents) if node not in hidden]
    inner = {parents[node] for node in there}
    return [node for node in there if node not in inner]


def deleted_tips(parents: Mapping[int, int], hidden: Collection[int]) -> list[int]:
    """The last node of every branch that was deleted, oldest first."""
    inner = {parents[node] for node in hidden}
    return sorted(node for node in hidden if node not in inner)
