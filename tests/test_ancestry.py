"""Ancestors without a walk, against the walk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inspector.state.ancestry import Ancestry

FORKED = {1: 0, 2: 1, 3: 2, 4: 2, 5: 4, 6: 1}
"""0 - 1 - 2 - 3, with 4 - 5 below 2 and 6 below 1."""


def test_depths_and_ancestors_in_a_small_tree() -> None:
    tree = Ancestry(FORKED)
    assert [tree.depth(node) for node in range(7)] == [0, 1, 2, 3, 3, 4, 2]
    assert [tree.above(5, depth) for depth in range(6)] == [0, 1, 2, 4, 5, None]
    assert tree.common(3, 5) == 2
    assert tree.common(5, 6) == 1
    assert tree.common(4, 5) == 3
    assert tree.common(5, 5) == 4
    assert tree.common(0, 5) == 0


def test_a_node_that_is_not_there_or_in_a_loop_is_not_known() -> None:
    tree = Ancestry({1: 0, 2: 9, 3: 4, 4: 3})
    assert [tree.depth(node) for node in (1, 2, 3, 9)] == [1, None, None, None]
    assert tree.above(3, 0) is None
    assert tree.common(1, 3) is None


def test_nodes_that_come_later_are_found() -> None:
    parents = {1: 0}
    tree = Ancestry(parents)
    assert tree.depth(2) is None
    parents[2] = 1
    assert (tree.depth(2), tree.common(1, 2)) == (2, 1)


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=80), st.data())
def test_it_is_what_walking_up_finds(picks: list[int], data: st.DataObject) -> None:
    parents = {node: pick % node for node, pick in enumerate(picks, start=1)}

    def way(node: int) -> list[int]:
        return [0] if node == 0 else [*way(parents[node]), node]

    nodes = st.integers(0, len(picks))
    one, other = data.draw(nodes), data.draw(nodes)
    tree = Ancestry(parents)
    ours, theirs = way(one), way(other)
    assert [tree.above(one, depth) for depth in range(len(ours))] == ours
    same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    assert tree.common(one, other) == same - 1


def test_nodes_of_the_same_text_are_one() -> None:
    # 1 and 4 both say "a"; below them 2 and 5 both say "b", 3 says "c" and 6 "d".
    parents = {1: 0, 2: 1, 3: 2, 4: 0, 5: 4, 6: 5}
    said = {1: 10, 2: 11, 3: 12, 4: 10, 5: 11, 6: 13}
    tree = Ancestry(parents, said.__getitem__)
    assert tree.common(2, 5) == 2
    assert tree.common(3, 6) == 2
    assert tree.common(3, 4) == 1
    assert [tree.depth(node) for node in range(7)] == [0, 1, 2, 3, 1, 2, 3]
    assert tree.above(6, 1) == 1
    assert Ancestry(parents).common(3, 6) == 0


def test_a_long_branch_takes_few_steps() -> None:
    class Counted(dict[int, int]):
        read = 0

        def __getitem__(self, node: int) -> int:
            self.read += 1
            return super().__getitem__(node)

    parents = Counted({node: node - 1 for node in range(1, 10_001)} | {10_001: 5_000})
    tree = Ancestry(parents)
    assert tree.depth(10_000) == 10_000
    assert tree.depth(10_001) == 5_001
    parents.read = 0
    assert tree.common(10_000, 10_001) == 5_000
    assert tree.above(10_000, 1_234) == 1_234
    assert parents.read < 100
