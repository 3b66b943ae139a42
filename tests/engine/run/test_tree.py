"""The tree of a run: literal small trees, and random ones against a model that walks everything."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.events import BranchDeleted
from engine.run.tree import ROOT, Tree, below, deleted_heads, walk

FORKED = {1: 0, 2: 1, 3: 2, 4: 2, 5: 4, 6: 1}
"""0 - 1 - 2 - 3, with 4 - 5 below 2 and 6 below 1."""


def test_a_path_and_what_comes_after_it() -> None:
    tree = Tree(FORKED)
    assert tree.children == {0: [1], 1: [2, 6], 2: [3, 4], 3: [], 4: [5], 5: [], 6: []}
    assert tree.path(5).tolist() == [1, 2, 4, 5]
    assert tree.path(ROOT).tolist() == []
    assert tree.path(77).tolist() == []
    assert tree.branch(ROOT, {}).tolist() == [1, 6], "the newest child where none was visited"
    assert tree.branch(2, {}).tolist() == [1, 2, 4, 5]
    assert tree.branch(ROOT, {1: 2, 2: 3}).tolist() == [1, 2, 3]
    assert [tree.following(node, {1: 2}) for node in (0, 1, 2, 3, 77)] == [1, 2, 4, None, None]
    assert tree.following(1, {1: 77}) == 6


def test_the_nearest_fork_and_the_nearest_of_some_nodes() -> None:
    tree = Tree(FORKED)
    assert tree.fork_above(5) == (4, [3, 4])
    assert tree.fork_above(2) == (2, [2, 6])
    assert tree.fork_above(1) is tree.fork_above(ROOT) is None
    assert tree.nearest(5, (1, 2, 3, 6)) == 2
    assert tree.nearest(5, (5, 1)) == 5
    assert tree.nearest(5, (ROOT, 3, 6, 77)) is None


def test_a_branch_that_is_deleted_is_hidden_and_comes_back_where_it_was() -> None:
    tree = Tree(FORKED)
    before = {node: list(after) for node, after in tree.children.items()}
    assert tree.delete(2) == [2, 3, 4, 5]
    assert tree.deleted == {2, 3, 4, 5}
    assert tree.children[1] == [6]
    assert [node for node in range(8) if node in tree] == [0, 1, 6]
    assert (tree.tips, tree.deleted_tips, tree.newest) == ([6], [3, 5], 6)
    assert tree.path(5).tolist() == [1, 2, 4, 5], "it can still be looked at"
    assert tree.undoable == [2]
    assert tree.undelete(2) == [2, 3, 4, 5]
    assert tree.children == before
    assert (tree.deleted, tree.undoable) == (frozenset(), [])
    assert (tree.tips, tree.deleted_tips) == ([3, 5, 6], [])


def test_what_was_deleted_alone_stays_away_when_the_branch_around_it_comes_back() -> None:
    tree = Tree(FORKED)
    assert tree.delete(4) == [4, 5]
    assert tree.delete(2) == [2, 3]
    assert tree.undoable == [4, 2]
    assert tree.undelete(2) == [2, 3]
    assert (tree.deleted, tree.children[2]) == ({4, 5}, [3])


def test_what_lies_on_a_deleted_branch_cannot_come_back_alone() -> None:
    tree = Tree(FORKED)
    tree.delete(4)
    tree.delete(2)
    assert tree.undelete(4) == []
    assert tree.deleted == {2, 3, 4, 5}
    assert tree.undelete(2) == [2, 3, 4, 5]
    assert tree.children[2] == [3, 4]


def test_deleting_or_bringing_back_what_is_not_there_does_nothing() -> None:
    tree = Tree(FORKED, heads=(77,))
    assert tree.delete(99) == tree.delete(ROOT) == tree.undelete(2) == tree.undelete(77) == []
    tree.delete(6)
    assert tree.delete(6) == []
    assert (tree.deleted, tree.undoable) == ({6}, [6])


def test_a_new_node_makes_deletions_final() -> None:
    tree = Tree(FORKED)
    tree.delete(6)
    tree.add_node(7, 5)
    assert (tree.undoable, tree.deleted, tree.newest) == ([], {6}, 7)
    with pytest.raises(KeyError):
        tree.add_node(9, 8)
    assert 9 not in tree


def test_a_recorded_tree_begins_with_what_was_deleted() -> None:
    records = (BranchDeleted(6), BranchDeleted(5), BranchDeleted(6, undone=True), BranchDeleted(4))
    tree = Tree(FORKED, deleted_heads(records))
    assert tree.heads == {4, 5}
    assert tree.deleted == {4, 5}
    assert tree.children[2] == [3]
    assert (tree.tips, tree.deleted_tips, tree.undoable) == ([3, 6], [5], [])
    assert below({4, 77}, FORKED) == {4, 5}
    assert below((), FORKED) == frozenset()
    assert (Tree().tips, Tree().deleted_tips, Tree().newest) == ([], [], ROOT)


def test_depths_and_common_ancestors() -> None:
    tree = Tree(FORKED)
    assert [tree.depth(node) for node in (*range(7), 9)] == [0, 1, 2, 3, 3, 4, 2, None]
    assert [tree.above(5, depth) for depth in range(-1, 6)] == [None, 0, 1, 2, 4, 5, None]
    assert tree.above(9, 0) is None
    assert tree.common(3, 5) == 2
    assert tree.common(5, 6) == 1
    assert tree.common(4, 5) == 3
    assert tree.common(5, 5) == 4
    assert tree.common(0, 5) == 0
    assert tree.common(1, 9) is tree.common(9, 1) is None
    tree.add_node(9, 5)
    assert (tree.depth(9), tree.common(3, 9)) == (5, 2)


@pytest.mark.parametrize("parents", [{1: 0, 2: 9}, {3: 4, 4: 3}])
def test_a_node_without_a_parent_before_it_is_refused(parents: dict[int, int]) -> None:
    with pytest.raises(KeyError):
        Tree(parents)
    with pytest.raises(KeyError):
        walk({2: 9}, 2)


def test_a_path_stays_as_it_was_while_the_tree_goes_on() -> None:
    tree = Tree({node: node - 1 for node in range(1, 201)})
    whole, half = tree.path(200), tree.path(100)
    tree.add_node(201, 50)
    assert tree.path(201).tolist() == [*range(1, 51), 201]
    for node in range(202, 600):
        tree.add_node(node, node - 1)
    assert tree.path(599).tolist() == [*range(1, 51), *range(201, 600)]
    assert whole.tolist() == list(range(1, 201))
    assert half.tolist() == list(range(1, 101))


# --- what it costs ----------------------------------------------------------------------------


class Counted(dict[int, int]):
    read = 0

    def __getitem__(self, node: int) -> int:
        self.read += 1
        return super().__getitem__(node)


def test_a_long_branch_is_walked_once() -> None:
    tree = Tree({node: node - 1 for node in range(1, 10_001)} | {10_001: 5_000})
    tree.parents = parents = Counted(tree.parents)
    assert len(tree.path(10_000)) == 10_000
    assert tree.common(10_000, 10_001) == 5_000
    parents.read = 0
    for cursor in (9_000, 3, 10_000, 5_001):
        assert len(tree.path(cursor)) == cursor
        assert tree.fork_above(cursor) == ((5_001, [5_001, 10_001]) if cursor > 5_000 else None)
        assert tree.branch(cursor, {5_000: 5_001})[-1] == 10_000
    for node in range(10_002, 10_102):
        tree.add_node(node, 10_000 if node == 10_002 else node - 1)
        assert len(tree.path(node)) == node - 1
    assert tree.common(10_101, 10_001) == 5_000
    assert tree.above(10_101, 1_234) == 1_234
    assert tree.nearest(10_101, range(100, 1_100, 100)) == 1_000
    assert parents.read < 1_500


def test_branches_that_grow_in_turn_are_not_walked_again() -> None:
    """As eight columns do, each drawn at every frame: 200 frames of 400 tokens, four a frame."""
    columns = 8
    tree = Tree({1: ROOT})
    tree.parents = parents = Counted(tree.parents)
    tips = [1] * columns
    for frame in range(1, 201):
        for column in range(columns):
            for _ in range(4):
                node = len(parents) + 1
                tree.add_node(node, tips[column])
                tips[column] = node
        for tip in tips:
            assert len(tree.path(tip)) == 1 + 4 * frame
    # Each new node once, and once its parent; walked anew it would be 600,000.
    assert parents.read <= 2 * len(parents)


# --- against a walk ---------------------------------------------------------------------------


class Naive:
    """Every answer from the parents and the deletions alone."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.heads: list[int] = []

    def path(self, node: int) -> list[int]:
        found = []
        while node != ROOT:
            found.insert(0, node)
            node = self.parents[node]
        return found

    def deleted(self, node: int) -> bool:
        return any(one in self.heads for one in self.path(node))

    @property
    def there(self) -> list[int]:
        return [node for node in self.parents if not self.deleted(node)]

    def children(self, node: int) -> list[int]:
        return [
            one
            for one, parent in sorted(self.parents.items())
            if parent == node and one not in self.heads
        ]

    def branch(self, node: int, visited: dict[int, int]) -> list[int]:
        found = self.path(node)
        while after := self.children(node):
            node = visited[node] if visited.get(node) in after else after[-1]
            found.append(node)
        return found

    def fork_above(self, node: int) -> tuple[int, list[int]] | None:
        for one in reversed(self.path(node)):
            after = self.children(self.parents[one])
            if len(after) > 1:
                return one, after
        return None

    def ends(self, nodes: Iterable[int]) -> list[int]:
        kept = set(nodes)
        return sorted(kept - {self.parents[node] for node in kept})


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_it_is_what_a_walk_finds_whatever_happened_before(data: st.DataObject) -> None:
    tree, model, visited = Tree(), Naive(), dict[int, int]()
    for node in range(1, data.draw(st.integers(1, 40)) + 1):
        there = [ROOT, *model.there]
        act = data.draw(st.sampled_from(["grow", "grow", "grow", "fork", "visit", "drop", "undo"]))
        nodes = st.sampled_from([ROOT, *model.parents])
        if act in ("grow", "fork"):
            parent = there[-1] if act == "grow" else data.draw(st.sampled_from(there))
            model.parents[node] = parent
            tree.add_node(node, parent)
        elif act == "visit":
            path = model.path(data.draw(nodes))
            visited.update(zip([ROOT, *path], path, strict=False))
        elif act == "drop" and model.parents:
            gone = data.draw(st.sampled_from([*model.parents]))
            before = model.there
            if gone not in model.heads:
                model.heads.append(gone)
            went = set(before) - set(model.there)
            assert went <= set(tree.delete(gone))
        elif act == "undo" and model.heads:
            back, before = data.draw(st.sampled_from(model.heads)), model.there
            model.heads.remove(back)
            assert tree.undelete(back) == sorted(set(model.there) - set(before))
        one, other = data.draw(nodes), data.draw(nodes)
        same = zip(model.path(one), model.path(other), strict=False)
        assert tree.path(one).tolist() == model.path(one)
        assert tree.fork_above(one) == model.fork_above(one)
        assert tree.branch(one, visited).tolist() == model.branch(one, visited)
        assert tree.common(one, other) == sum(a == b for a, b in same)
        assert (
            tree.above(one, len(model.path(one)) // 2)
            == ([ROOT, *model.path(one)][len(model.path(one)) // 2])
        )
        assert tree.deleted == set(model.parents) - set(model.there)
        assert tree.children == {node: model.children(node) for node in (ROOT, *model.parents)}
        assert tree.tips == model.ends(model.there)
        assert tree.deleted_tips == model.ends(tree.deleted)
        assert tree.newest == max(model.there, default=ROOT)
        again = Tree(tree.parents, tree.heads)
        assert (again.children, again.deleted) == (tree.children, tree.deleted)
