"""Cursors over one log: each has a node, the branch it goes on with, and a chain that it tries."""

from __future__ import annotations

from engine.records.events import BranchDeleted
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from inspector.state.controller import Controller
from inspector.state.cursor import Cursor
from inspector.state.view import RunLog
from tests import fakes
from tests.direct import DirectClient, script


def forked_log() -> RunLog:
    """Two branches: 1 → 2 → 3, and from 1 on 4 → 5."""
    log = RunLog()
    log.add(fakes.prompt(3))
    for node, parent in ((1, 0), (2, 1), (3, 2), (4, 1), (5, 4)):
        log.add(fakes.step(node, fakes.timing(1.0), fakes.kv(3 + node), parent=parent))
    return log


def test_two_cursors_over_one_log_move_independently() -> None:
    log = forked_log()
    one, other = Cursor(log), Cursor(log)
    one.node, other.node = 3, 5
    one.first()
    assert (one.node, other.node) == (ROOT, 5)
    # Each goes on along the branch that it was on itself.
    other.first()
    one.last()
    other.last()
    assert (one.node, other.node) == (3, 5)
    one.back()
    assert one.forward()
    assert (one.node, one.at_tip, one.forward()) == (3, True, False)
    assert other.node == 5


def test_a_cursor_changes_sides_at_a_fork_and_takes_no_other_along() -> None:
    log = forked_log()
    one, other = Cursor(log), Cursor(log)
    one.go_to(3)
    other.go_to(3)
    assert one.sibling(1)
    assert (one.node, one.tip) == (4, 5)
    assert (other.node, other.tip) == (3, 3)
    one.first()
    assert not one.sibling(1)
    one.go_to(99)
    assert one.node == ROOT


def test_the_what_if_belongs_to_its_cursor() -> None:
    log = forked_log()
    one, other = Cursor(log), Cursor(log)
    chain = effective("guide", {"temperature": 2.0}).chain
    one.what_if = chain
    one.node = other.node = 2
    assert (one.view.what_if, other.view.what_if) == (chain, None)
    assert one.view.step is other.view.step


def test_a_deletion_moves_a_cursor_that_was_in_the_branch_and_no_other() -> None:
    controller = Controller(lambda command: None)
    controller.log.add(fakes.prompt(3))
    for node, parent in ((1, 0), (2, 1), (3, 1)):
        record = fakes.step(node, fakes.timing(1.0), fakes.kv(3 + node), parent=parent)
        controller.log.add(record)
    controller.cursor.node = 2
    controller.take([BranchDeleted(3)])
    assert controller.cursor.node == 2
    controller.take([BranchDeleted(3, undone=True)])
    assert controller.cursor.node == 3, "what is brought back is looked at"
    controller.take([BranchDeleted(3)])
    assert controller.cursor.node == 1


def test_a_new_prompt_takes_the_cursor_to_its_start() -> None:
    client = DirectClient()
    controller = Controller(client.send)
    for command in script("abc"):
        client.send(command)
    controller.take(client.take())
    controller.run(3)
    controller.take(client.take())
    assert controller.cursor.node == 3
    controller.take([fakes.prompt(5)])
    assert controller.cursor.node == ROOT
