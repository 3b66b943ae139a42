"""Cursors over one log: each has a node, the branch it goes on with, and a chain that it tries."""

from __future__ import annotations

from engine.commands import Configure, Step
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


def test_a_deletion_moves_only_the_cursors_that_were_in_the_branch() -> None:
    controller = Controller(lambda command: None)
    controller.log.add(fakes.prompt(3))
    for node, parent in ((1, 0), (2, 1), (3, 1)):
        record = fakes.step(node, fakes.timing(1.0), fakes.kv(3 + node), parent=parent)
        controller.log.add(record)
    first, second = controller.cursor, controller.new_cursor()
    first.node, second.node = 2, 3
    controller.take([BranchDeleted(3)])
    assert (first.node, second.node) == (2, 1)
    # What is brought back is looked at by the one who asked for it.
    controller.take([BranchDeleted(3, undone=True)])
    assert (first.node, second.node) == (3, 1)


class Hands:
    """A controller on an engine in this process, with two cursors."""

    def __init__(self) -> None:
        self.client = DirectClient()
        self.controller = Controller(self.client.send)
        for command in script("abc"):
            self.client.send(command)
        self.take()
        self.first, self.second = self.controller.cursor, self.controller.new_cursor()

    def take(self) -> None:
        while records := self.client.take():
            self.controller.take(records)


def test_the_cursor_that_asked_for_a_token_follows_it_whichever_is_active_by_then() -> None:
    hands = Hands()
    hands.client.held = True
    hands.controller.step()
    hands.controller.cursor = hands.second
    hands.client.release()
    hands.take()
    assert (hands.first.node, hands.second.node) == (1, ROOT)


def test_steps_asked_for_during_a_pass_are_those_of_the_cursor_that_was_active_then() -> None:
    hands = Hands()
    hands.controller.run(2)
    hands.take()
    hands.client.held = True
    hands.controller.step()
    hands.controller.cursor = hands.second
    hands.second.node = 2
    hands.controller.step()
    hands.controller.cursor = hands.first
    hands.client.release()
    hands.take()
    # The token is there by the time that the second one's turn comes: no pass, and no fork.
    assert (hands.first.node, hands.second.node) == (3, 3)
    assert [one for one in hands.client.sent if isinstance(one, Step)][-1] == Step(2)
    assert len(hands.controller.log.nodes) == 3


def test_applying_what_one_cursor_tries_leaves_what_the_other_tries() -> None:
    hands = Hands()
    chain = effective("guide", {"temperature": 2.0}).chain
    hands.first.what_if = hands.second.what_if = chain
    hands.controller.apply(Configure(dials={"temperature": 2.0}), here=False)
    assert (hands.first.what_if, hands.second.what_if) == (None, chain)


def test_a_new_prompt_takes_every_cursor_to_its_start() -> None:
    hands = Hands()
    hands.controller.run(3)
    hands.take()
    hands.second.node = 2
    hands.controller.take([fakes.prompt(5)])
    assert (hands.first.node, hands.second.node) == (ROOT, ROOT)
