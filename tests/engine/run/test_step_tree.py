"""Recorded steps as a tree: paths of records and figures, and what a run that goes on keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.conditions.moment import Moments
from engine.records.step import StepRecord
from engine.records.step_table import StepTable, figures_of
from engine.records.vocabulary import Token
from engine.run.step_tree import LiveTree, StepTree
from engine.run.tree import ROOT
from tests import fakes


def step(node: int, parent: int, text: str = "x") -> StepRecord:
    made = fakes.step(node, fakes.timing(float(node)), fakes.kv(9), parent=parent)
    return replace(made, token=Token(100 + node, text.encode()))


# 1 - 2 - 3 - 7, beside 3: 5 - 6; 4 was never there.
FORKED = [step(1, 0, "a"), step(2, 1, "b"), step(3, 2, "c"), step(5, 2, "d"), step(6, 5, "e")]
FORKED.append(step(7, 3, "f"))


def grown(tree: StepTree) -> StepTree:
    for one in FORKED:
        tree.add_step(one)
    return tree


def live(held: int | None = None) -> LiveTree:
    tree = LiveTree((8, 9), held=held)
    grown(tree)
    return tree


def text(tree: StepTree, moments: Moments, node: int) -> str:
    return moments.at(tree.along(tree.path(node))).text


def test_a_path_of_steps_whose_numbers_leave_gaps() -> None:
    tree = grown(StepTree())
    path = tree.along(tree.path(6))
    assert (path.nodes, path.token_ids) == ([1, 2, 5, 6], [101, 102, 105, 106])
    assert path.figures["total_ms"].tolist() == [1.0, 2.0, 5.0, 6.0]
    assert [one.bytes for one in path.tokens] == [b"a", b"b", b"d", b"e"]
    assert path[-1] is FORKED[4]
    with pytest.raises(KeyError):
        tree.table.rows(np.array([4]))


@pytest.mark.parametrize("nodes", [[1, 2, 3], [5, 6, 7, 8], [1, 2, 4], [2, 1, 3], [7]])
def test_rows_of_a_table_are_where_the_nodes_figures_are(nodes: list[int]) -> None:
    steps = [step(node, ROOT) for node in nodes]
    grown_, read = StepTable(steps), StepTable.of(figures_of(steps), [one.token for one in steps])
    for table in (grown_, read):
        assert table.rows(np.array(nodes[::-1])).tolist() == list(range(len(nodes)))[::-1]
        table.add_row(step(20, ROOT))
        assert table.rows(np.array([20, *nodes])).tolist() == [len(nodes), *range(len(nodes))]


def test_a_step_without_a_parent_leaves_nothing_behind() -> None:
    tree = grown(StepTree())
    with pytest.raises(KeyError):
        tree.add_step(step(9, 4))
    assert (9 in tree, 9 in tree.steps, len(tree.table)) == (False, False, 6)


def test_a_copy_stays_as_it_is_while_the_run_goes_on() -> None:
    tree = grown(StepTree())
    tree.delete(5)
    before = tree.copy()
    tree.undelete(5)
    tree.add_step(step(8, 6))
    assert (before.tips, before.deleted, before.newest) == ([7], {5, 6}, 7)
    assert (tree.tips, tree.deleted, tree.newest) == ([7, 8], frozenset(), 8)
    assert before.along(before.path(7)).nodes == [1, 2, 3, 7]


def test_a_running_tree_knows_its_ids_and_goes_to_each_new_step() -> None:
    tree = live()
    assert (tree.cursor, tree.next_node) == (7, 8)
    assert tree.path_ids(ROOT) == [8, 9]
    assert tree.path_ids(6) == [8, 9, 101, 102, 105, 106]
    assert tree.path_ids(7) == [8, 9, 101, 102, 103, 107]
    with pytest.raises(KeyError):
        tree.path_ids(4)


def test_a_deleted_branch_takes_its_records_along_until_the_next_step() -> None:
    tree = live()
    assert tree.delete(3) == [3, 7]
    assert (tree.cursor, sorted(tree.steps)) == (2, [1, 2, 5, 6])
    assert tree.undelete(3) == [3, 7]
    assert (sorted(tree.steps), tree.steps[7]) == ([1, 2, 3, 5, 6, 7], FORKED[5])
    assert tree.cursor == 2, "who brings it back says where to go"
    tree.delete(5)
    tree.add_step(step(8, 2))
    assert tree.undoable == []
    assert sorted(tree.steps) == [1, 2, 3, 7, 8]
    assert tree.path_ids(8) == [8, 9, 101, 102, 108]


def test_only_the_newest_records_are_held_and_every_ids_known() -> None:
    tree = live(held=2)
    assert list(tree.steps) == [6, 7]
    assert tree.path_ids(6) == [8, 9, 101, 102, 105, 106]
    tree.delete(5)
    assert list(tree.steps) == [7]
    tree.undelete(5)
    assert len(tree.steps) == 2
    assert tree.children[2] == [3, 5]


def test_the_text_follows_from_branch_to_branch() -> None:
    tree, moments = grown(StepTree()), Moments(fakes.prompt(3))
    told = {1: "a", 2: "ab", 3: "abc", 5: "abd", 6: "abde", 7: "abcf"}
    for node in (7, 6, 3, 7, 1, 6, 5, 2, 6):
        assert text(tree, moments, node) == told[node]
    moment = moments.at(tree.along(tree.path(7)))
    assert text(tree, moments, 6) == "abde"
    found = []
    while moment.previous is not None:
        moment = moment.previous
        found.append(moment.text)
    assert found == ["abc", "ab", "a"]
