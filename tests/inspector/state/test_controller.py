"""What the keys mean, without a screen: the cursor, and the commands that reach the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.commands import Pause, Run, SendLogits, SendVocabulary, Step, Submit
from engine.records.events import RunState, StateChanged
from engine.run.tree import ROOT
from inspector.state.controller import Controller
from tests.direct import DirectClient, script


class Hands:
    """A controller on an engine in this process."""

    def __init__(self, prompt: str = "abc") -> None:
        self.client = DirectClient()
        self.controller = Controller(self.client.send)
        for command in script(prompt):
            self.client.send(command)
        self.take()

    def take(self) -> None:
        # What a record makes the controller send may bring more records.
        while records := self.client.take():
            self.controller.take(records)

    def sent(self, kind: type) -> list[object]:
        return [one for one in self.client.sent if isinstance(one, kind)]


def test_a_step_at_the_tip_is_a_pass_and_the_cursor_follows() -> None:
    hands = Hands()
    assert hands.controller.cursor.node == ROOT
    for node in (1, 2, 3):
        hands.controller.step()
        hands.take()
        assert hands.controller.cursor.node == node
    assert hands.sent(Step) == [Step(0), Step(1), Step(2)]


def test_back_and_step_along_what_is_recorded_ask_the_engine_for_nothing() -> None:
    hands = Hands()
    hands.controller.run(5)
    hands.take()
    asked = len(hands.client.sent)
    hands.controller.cursor.back()
    hands.controller.cursor.back()
    assert hands.controller.cursor.node == 3
    hands.controller.step()
    assert hands.controller.cursor.node == 4
    hands.controller.cursor.first()
    assert hands.controller.cursor.node == ROOT
    hands.controller.cursor.back()
    assert hands.controller.cursor.node == ROOT
    hands.controller.cursor.last()
    assert hands.controller.cursor.node == 5
    assert len(hands.client.sent) == asked


def test_steps_asked_for_while_steps_are_made_come_after_them() -> None:
    hands = Hands()
    hands.client.held = True
    hands.controller.run(7)
    hands.controller.run(7)
    hands.controller.step()
    hands.client.release()
    hands.take()
    assert hands.controller.cursor.node == 15
    assert not hands.controller.busy


def test_steps_asked_for_in_a_run_without_end_are_not_saved_up() -> None:
    hands = Hands()
    hands.client.held = True
    hands.controller.run()
    hands.controller.run(10)
    hands.client.release()
    hands.take()
    hands.controller.take([StateChanged(RunState.PAUSED)])
    assert hands.sent(Step) == []


def test_what_stops_a_run_ends_what_was_asked_for_after_it() -> None:
    hands = Hands()
    hands.client.held = True
    hands.controller.run(2)
    hands.controller.run(10)
    hands.controller.take([StateChanged(RunState.PAUSED, "breakpoint 1: entropy > 3")])
    assert hands.sent(Step) == []
    assert hands.sent(Run) == [Run(0, 2)]


def test_keys_pressed_while_a_pass_runs_are_neither_lost_nor_forks() -> None:
    hands = Hands()
    hands.client.held = True
    for _ in range(3):
        hands.controller.step()
    assert hands.sent(Step) == [Step(0)]
    hands.client.release()
    hands.take()
    assert hands.controller.cursor.node == 3
    assert hands.controller.log.tree.children == {0: [1], 1: [2], 2: [3], 3: []}


@pytest.mark.parametrize("end", [(RunState.READY,), (RunState.PAUSED, "reading the prompt")])
def test_keys_pressed_while_the_prompt_is_read_unasked_are_neither_lost_nor_forks(
    end: tuple[RunState] | tuple[RunState, str],
) -> None:
    """The first step is on its way when the reading, which makes way for it, tells its states."""
    hands = Hands()
    hands.client.held = True
    hands.controller.step()
    hands.controller.take([StateChanged(RunState.PREFILL, unasked=True)])
    hands.controller.step()
    hands.controller.take([StateChanged(*end, unasked=True)])
    assert hands.sent(Step) == [Step(0)]
    hands.client.release()
    hands.take()
    assert hands.controller.cursor.node == 2
    assert hands.controller.log.tree.children == {0: [1], 1: [2], 2: []}


def test_a_run_asked_for_while_loading_begins_when_the_model_is_there() -> None:
    hands = Hands()
    log = hands.controller.log
    log.add(StateChanged(RunState.LOADING))
    hands.controller.run()
    assert hands.sent(Run) == []
    hands.controller.take([StateChanged(RunState.READY)])
    hands.take()
    assert hands.sent(Run) == [Run(0)]
    assert hands.controller.cursor.node == 20


def test_ten_steps_go_along_recorded_nodes_first() -> None:
    hands = Hands()
    hands.controller.run(4)
    hands.take()
    hands.controller.cursor.first()
    hands.controller.run(10)
    hands.take()
    assert hands.controller.cursor.node == 10
    assert hands.sent(Run) == [Run(0, 4), Run(4, 6)]
    hands.controller.cursor.first()
    hands.controller.run(3)
    assert hands.controller.cursor.node == 3
    assert len(hands.sent(Run)) == 2


def test_continue_runs_to_the_end_and_then_does_nothing() -> None:
    hands = Hands()
    hands.controller.run()
    hands.take()
    assert hands.controller.cursor.node == 20
    assert hands.controller.log.state.state is RunState.STOPPED
    hands.controller.run()
    hands.take()
    assert len(hands.controller.log.nodes) == 20


def test_space_pauses_what_runs_and_runs_what_is_paused() -> None:
    hands = Hands()
    hands.client.held = True
    hands.controller.toggle()
    assert hands.sent(Run) == [Run(0)]
    hands.controller.toggle()
    assert len(hands.sent(Pause)) == 1


def test_going_back_while_it_runs_does_not_pull_the_cursor_along() -> None:
    hands = Hands()
    hands.controller.run(3)
    hands.take()
    hands.client.held = True
    hands.controller.run(2)
    hands.controller.cursor.back()
    hands.client.release()
    hands.take()
    assert hands.controller.cursor.node == 2
    assert len(hands.controller.log.nodes) == 5


def test_force_makes_a_sibling_and_goes_there() -> None:
    hands = Hands()
    hands.controller.run(3)
    hands.take()
    hands.controller.cursor.back()
    hands.controller.force(9)
    hands.take()
    assert hands.controller.cursor.node == 4
    step = hands.controller.view.step
    assert step is not None
    assert (step.token.id, step.parent) == (9, 1)
    assert hands.controller.log.tree.children[1] == [2, 4]
    assert [one.node for one in hands.controller.view.path] == [1, 4]


def test_drawing_again_uses_a_seed_not_used_there_yet() -> None:
    hands = Hands()
    hands.controller.step()
    hands.take()
    for _ in range(3):
        hands.controller.redraw()
        hands.take()
    seeds = [one.seed for one in hands.controller.log.nodes.values()]
    assert seeds == [7, 8, 9, 10]
    assert hands.controller.log.tree.children[ROOT] == [1, 2, 3, 4]


def test_nothing_is_forked_at_the_prompt() -> None:
    hands = Hands()
    hands.controller.force(3)
    hands.controller.redraw()
    hands.take()
    assert hands.controller.log.nodes == {}


def test_whole_logits_are_asked_for_once() -> None:
    hands = Hands()
    hands.controller.step()
    hands.take()
    hands.controller.need_dense(1)
    hands.take()
    hands.controller.need_dense(1)
    hands.controller.need_dense(99)
    assert len(hands.sent(SendLogits)) == 1
    assert len(hands.sent(SendVocabulary)) == 1
    dense = hands.controller.view.dense
    assert dense is not None
    assert dense.logits.shape == (26,)
    hands.controller.cursor.back()
    assert hands.controller.view.dense is None


@pytest.mark.parametrize("steps", [0, 4])
def test_a_new_engine_takes_over_what_is_recorded(steps: int) -> None:
    hands = Hands()
    for _ in range(steps):
        hands.controller.step()
        hands.take()
    expected = Hands()
    expected.controller.run(steps + 1)
    expected.take()
    hands.client.die()
    hands.take()
    assert hands.controller.log.state.state is RunState.DEAD
    restore = hands.controller.restore_command()
    assert restore is not None
    hands.client = DirectClient()
    hands.controller._send = hands.client.send
    for command in (*script()[:2], restore):
        hands.client.send(command)
    hands.take()
    hands.controller.step()
    hands.take()
    ours = [one.token.id for one in hands.controller.view.path]
    theirs = [one.token.id for one in expected.controller.view.path]
    assert ours == theirs


def test_f9_steps_asked_for_while_the_model_loads_are_taken_once_it_is_there() -> None:
    """F9: n n n gives three tokens, and until then the log tells how many wait."""
    client = DirectClient()
    controller = Controller(client.send)
    controller.take([StateChanged(RunState.LOADING)])
    for _ in range(3):
        controller.step()
    assert controller.log.queued == 3
    assert client.sent == []
    for command in script("abc"):
        client.send(command)
    while records := client.take():
        controller.take(records)
    assert len(controller.view.path) == 3, "one behind the other, not three at the prompt"
    assert controller.log.queued == 0


def test_f9_steps_asked_for_before_another_prompt_are_dropped() -> None:
    hands = Hands()
    hands.controller.step()
    hands.controller.step()
    hands.controller.submit(Submit("xyz"))
    hands.take()
    assert hands.controller.cursor.node == ROOT


def test_f19_forcing_what_is_there_adds_no_second_branch() -> None:
    """F19: neither the drawn token nor one that was forced before."""
    hands = Hands()
    hands.controller.run(2)
    hands.take()
    tree, drawn = hands.controller.log.tree, hands.controller.log.nodes[2].token.id
    assert not hands.controller.force(drawn)
    other = (drawn + 1) % 26
    for _ in range(2):
        assert hands.controller.force(other)
        hands.take()
        assert hands.controller.cursor.node == 3
        hands.controller.cursor.sibling(1)
        assert hands.controller.cursor.node == 2
    assert tree.children[1] == [2, 3]


def test_f19_the_run_goes_on_beyond_its_budget_with_another_one() -> None:
    hands = Hands()
    hands.controller.run()
    hands.take()
    assert hands.controller.cursor.node == 20
    assert hands.controller.at_budget
    hands.controller.go_beyond(replace(script("abc")[1], max_tokens=25))
    hands.take()
    assert hands.controller.cursor.node == 25
    assert hands.controller.at_budget
    hands.controller.cursor.back()
    assert not hands.controller.at_budget, "inside the text c follows it"


def test_beside_the_first_token_another_is_forced_from_the_prompt() -> None:
    """F20: there the next distribution is shown, and its rows can be chosen."""
    hands = Hands()
    hands.controller.step()
    hands.take()
    hands.controller.cursor.back()
    first = hands.controller.log.nodes[1].token.id
    assert hands.controller.force((first + 1) % 20)
    hands.take()
    assert hands.controller.log.nodes[2].parent == 0
    assert hands.controller.cursor.node == 2
    hands.controller.cursor.first()
    assert hands.controller.force(first)
    assert hands.controller.cursor.node == 1
