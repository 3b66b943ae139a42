"""The tree with its runs of single children folded: structure, lines, and the cursor's place."""

from __future__ import annotations

import math
import random
import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.records.events import BranchDeleted, BranchNamed
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from inspector.state.branches import Branches, Graph, Place, place
from inspector.state.view import RunLog, View
from tests import fakes

TIMES, CACHE = fakes.timing(1.0), fakes.kv(5)


def node(number: int, parent: int) -> StepRecord:
    return fakes.step(number, TIMES, CACHE, parent=parent)


def grown(parents: list[int]) -> RunLog:
    """A log whose node ``i + 1`` comes after ``parents[i]``."""
    log = RunLog()
    log.add(fakes.prompt(3))
    for number, parent in enumerate(parents, start=1):
        log.add(node(number, parent))
    return log


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Parents of up to 40 nodes: mostly long runs, sometimes a fork anywhere."""
    count = draw(st.integers(0, 40))
    parents = []
    for number in range(1, count + 1):
        forked = draw(st.integers(0, 3)) == 0
        parents.append(draw(st.integers(0, number - 1)) if forked else number - 1)
    return parents


def nodes_of(branches: Branches) -> list[int]:
    return [one for row in branches.rows for one in branches.stretch(row.head)]


def reachable(log: RunLog) -> set[int]:
    found = [ROOT]
    for one in found:
        found.extend(log.tree.children[one])
    return set(found)


def check(log: RunLog, branches: Branches) -> None:
    """Everything a picture of the tree must be, whatever the tree."""
    drawn = nodes_of(branches)
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == reachable(log)
    tips = sum(not log.tree.children[one] for one in drawn)
    assert sum(not row.forks for row in branches.rows) == tips
    assert branches.depth <= math.log2(tips)
    seen: set[int] = set()
    for index, row in enumerate(branches.rows):
        nodes = branches.stretch(row.head)
        for before, after in pairwise(nodes):
            assert log.tree.children[before] == [after]
        assert row.forks == len(log.tree.children[nodes[-1]])
        assert row.forks != 1 or row.head == ROOT
        if row.head != ROOT:
            assert log.nodes[row.head].parent in seen, "a parent stands above its children"
        seen.update(nodes)
        assert all(branches.row_of(one) == index for one in nodes)


@given(trees())
def test_every_node_is_drawn_once_in_every_tree(parents: list[int]) -> None:
    log, branches = grown(parents), Branches()
    branches.update(log.tree)
    check(log, branches)
    for cursor in reachable(log):
        path = branches.path(cursor)
        heads = [branches.rows[row].head for row in path]
        assert heads[0] == ROOT
        assert cursor in branches.stretch(heads[-1])
        for before, after in pairwise(heads):
            assert log.nodes[after].parent in branches.stretch(before)


@given(trees(), st.data())
def test_a_tree_that_grows_is_the_same_as_one_made_at_once(
    parents: list[int], data: st.DataObject
) -> None:
    log, growing = grown([]), Branches()
    for number, parent in enumerate(parents, start=1):
        log.add(node(number, parent))
        if data.draw(st.booleans()):
            growing.update(log.tree)
    growing.update(log.tree)
    at_once = Branches()
    at_once.update(log.tree)
    assert growing.rows == at_once.rows
    assert nodes_of(growing) == nodes_of(at_once)


@given(trees().filter(bool), st.data())
def test_a_deleted_branch_is_gone_and_comes_back(parents: list[int], data: st.DataObject) -> None:
    log, branches = grown(parents), Branches()
    branches.update(log.tree)
    before = branches.rows
    deleted: list[int] = []
    for _ in range(data.draw(st.integers(1, 3))):
        there = sorted(reachable(log) - {ROOT})
        if not there:
            break
        deleted.append(data.draw(st.sampled_from(there)))
        log.add(BranchDeleted(deleted[-1]))
        branches.update(log.tree)
        check(log, branches)
        assert log.tree.deleted == set(log.nodes) - reachable(log)
    for one in reversed(deleted):
        log.add(BranchDeleted(one, undone=True))
    branches.update(log.tree)
    assert branches.rows == before
    assert log.tree.deleted == frozenset()


@given(trees())
def test_the_heavy_line_leads_to_the_cursor_and_nowhere_else(parents: list[int]) -> None:
    log, branches = grown(parents), Branches()
    branches.update(log.tree)
    for cursor in reachable(log):
        path = branches.path(cursor)
        lines = Graph(branches, path)
        for index, row in enumerate(branches.rows):
            line = lines.line(index)
            assert len(line) == 2 * (row.depth + 1)
            # The right end of a row's own line: heavy on the path.
            assert (line[-1] == "╸") == (index in path)
            if index > path[-1]:
                assert not set(line) & set("┃┠┡━┣┗┳┯╸")


def picture(parents: list[int], cursor: int) -> list[str]:
    branches = Branches()
    branches.update(grown(parents).tree)
    lines = Graph(branches, branches.path(cursor))
    return [lines.line(index).rstrip() for index in range(len(branches.rows))]


# 1 - 2 - 3 - 4, beside 3: 5 - 6, beside 6: 7, and after the prompt beside 1: 8
FORKED = [0, 1, 2, 3, 2, 5, 5, 0]


def test_the_lines_of_a_tree() -> None:
    assert picture(FORKED, 0) == ["┍╸", "├──╴", "├╴", "├──╴", "├╴", "├──╴", "└╴"]
    assert picture(FORKED, 6) == ["┏╸", "┠──╴", "┣╸", "┠──╴", "┣╸", "┠──╴", "┗╸"]
    assert picture(FORKED, 7) == ["┏╸", "┠──╴", "┣╸", "┠──╴", "┣╸", "┡━━╸", "└╴"]
    assert picture(FORKED, 8) == ["┏╸", "┡━━╸", "├╴", "├──╴", "├╴", "├──╴", "└╴"]
    assert picture(FORKED, 5) == ["┏╸", "┠──╴", "┣╸", "┠──╴", "┡╸", "├──╴", "└╴"]


def test_a_side_branch_with_forks_of_its_own() -> None:
    # Three tips after 1 - 2, two after 1 - 6: the line goes on with 2.
    parents = [0, 1, 2, 2, 2, 1, 6, 6]
    assert picture(parents, 8) == [
        "┏╸",
        "┣╸",
        "┡━┳╸",
        "│ ┡━━╸",
        "│ └╴",
        "├╴",
        "├──╴",
        "├──╴",
        "└╴",
    ]


def test_the_prompt_alone() -> None:
    assert picture([], 0) == ["╺╸"]
    assert picture([0], 0) == ["┍╸", "└╴"]
    assert picture([0], 1) == ["┏╸", "┗╸"]


def test_the_line_stays_where_it_is_while_a_branch_grows() -> None:
    log, branches = grown([0, 1, 1]), Branches()
    branches.update(log.tree)
    before = [(row.head, row.depth) for row in branches.rows]
    for number in range(4, 30):
        log.add(node(number, 3 if number == 4 else number - 1))
        branches.update(log.tree)
        assert [(row.head, row.depth) for row in branches.rows] == before


def test_another_prompt_is_another_tree() -> None:
    log, branches = grown(FORKED), Branches()
    branches.update(log.tree)
    log.add(fakes.prompt(2))
    branches.update(log.tree)
    assert [row.head for row in branches.rows] == [ROOT]
    assert branches.tokens == 0


def test_a_recorded_tree_that_is_taken_over_hides_what_was_deleted() -> None:
    recorded, log = grown(FORKED), RunLog()
    undone = BranchDeleted(1, undone=True)
    deleted = (BranchDeleted(5), BranchDeleted(1), undone, BranchDeleted(8))
    for record in (fakes.prompt(3), BranchNamed(3, "main")):
        log.add(record)
    for record in deleted:
        recorded.add(record)
    log.take_over(recorded.nodes, recorded.tree)
    assert log.tree.deleted == {5, 6, 7, 8}
    assert log.tree.children[2] == [3]
    assert log.names == {3: "main"}
    branches = Branches()
    branches.update(log.tree)
    assert nodes_of(branches) == [0, 1, 2, 3, 4]


def at(cursor: int, *names: BranchNamed) -> Place:
    log = grown(FORKED)
    for one in names:
        log.add(one)
    return place(View(log, cursor))


def test_f5_a_branch_is_counted_among_all_that_the_tree_pane_counts() -> None:
    """F5: one count and one word: as many branches as tips, the one begun first is 1."""
    assert at(4) == Place(1, 4, "")
    assert at(6) == Place(2, 4, "")
    assert at(7) == Place(3, 4, "")
    assert at(8) == Place(4, 4, "")
    assert at(2) == at(5) == Place(3, 4, ""), "what several share goes on with the newest"
    assert at(0) == Place(4, 4, "")
    # The nearest name holds for all that comes after it.
    assert at(7, BranchNamed(1, "main"), BranchNamed(5, "other")).name == "other"
    assert at(4, BranchNamed(1, "main"), BranchNamed(5, "other")).name == "main"
    assert at(8, BranchNamed(1, "main")).name == ""
    assert at(4, BranchNamed(1, "main"), BranchNamed(1, "")).name == ""


@given(trees())
def test_f5_there_are_as_many_branches_as_tips(parents: list[int]) -> None:
    log = grown(parents)
    assert len(log.tree.branch_heads) == (len(log.tree.tips) if parents else 0)
    found = [place(View(log, tip)) for tip in log.tree.tips]
    assert sorted(one.number for one in found) == list(range(1, len(found) + 1))


def test_ten_thousand_nodes_and_hundreds_of_branches_are_quick() -> None:
    random_ = random.Random(1)
    forks = set(random_.sample(range(2, 10_000), 500))
    parents = [
        random_.randrange(number) if number in forks else number - 1 for number in range(1, 10_001)
    ]
    log, branches = grown(parents), Branches()
    started = time.thread_time()
    branches.update(log.tree)
    whole = time.thread_time() - started
    check(log, branches)
    log.add(node(10_001, 10_000))
    started = time.thread_time()
    branches.update(log.tree)
    one_more = time.thread_time() - started
    # 6 ms and 0.01 ms of this thread on an idle machine.
    assert whole < 0.5
    assert one_more < 0.1
