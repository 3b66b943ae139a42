"""Speculative rounds under the keys: token by token, and what a round brings beyond what was asked.

The script goes round a, b, c; prompt lookup drafts it, so every draft is accepted.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.commands import Configure, Open, Run, Settings, Step, Submit
from engine.records.events import EngineError, RunState
from engine.records.round import DraftSettings
from engine.records.step import Came
from inspector.state.controller import Controller
from tests.direct import DirectClient

TEXT = "a b c a b c a b c a b c"
GREEDY = {"temperature": 0.0}
LOOKUP = DraftSettings("ngram:2", 3)


class Hands:
    """A controller on an engine in this process, which drafts three tokens a round."""

    def __init__(self, draft: DraftSettings | None = LOOKUP) -> None:
        self.client = DirectClient()
        self.controller = Controller(self.client.send)
        opened = Open("scripted", {"text": TEXT})
        configure = Configure(dials=GREEDY, max_tokens=20, draft=draft)
        for command in (opened, configure, Submit(" a b c a b")):
            self.client.send(command)
        self.take()

    def take(self) -> None:
        while records := self.client.take():
            self.controller.take(records)

    def step(self) -> int:
        self.controller.step()
        self.take()
        return self.controller.cursor.node

    def count(self, kind: type) -> int:
        return sum(isinstance(one, kind) for one in self.client.sent)


def test_a_step_shows_the_first_token_of_a_round_and_the_next_ones_ask_for_nothing() -> None:
    hands = Hands()
    assert [hands.step() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    # The prompt's token, a round of four, and the next one begun.
    assert hands.count(Step) == 3
    log = hands.controller.log
    assert [log.nodes[node].came for node in range(1, 7)] == [
        Came.PLAIN,
        Came.ACCEPTED,
        Came.ACCEPTED,
        Came.ACCEPTED,
        Came.BONUS,
        Came.ACCEPTED,
    ]
    assert list(log.rounds) == [2, 6]
    assert len(log.nodes) == 9
    hands.controller.cursor.back()
    assert hands.controller.cursor.node == 5


def test_keys_that_were_held_walk_through_rounds() -> None:
    hands = Hands()
    hands.client.held = True
    for _ in range(7):
        hands.controller.step()
    hands.client.release()
    hands.take()
    assert hands.controller.cursor.node == 7


def test_a_round_at_a_time() -> None:
    hands = Hands()

    def step_round() -> int:
        hands.controller.step_round()
        hands.take()
        return hands.controller.cursor.node

    # The prompt's token is plain; then rounds of three drafts and a bonus.
    assert [step_round() for _ in range(3)] == [1, 5, 9]
    assert (hands.count(Step), len(hands.controller.log.nodes)) == (3, 9)
    hands.controller.cursor.first()
    assert [step_round() for _ in range(3)] == [1, 5, 9]
    # From inside a round to its end, along what is there.
    hands.controller.cursor.go_to(3)
    assert step_round() == 5
    assert hands.count(Step) == 3
    hands.controller.cursor.last()
    # A fork inside a round is the end of what goes on with it.
    hands.controller.cursor.go_to(6)
    hands.controller.fork(Step(6, force=(0,)))
    hands.take()
    fork = hands.controller.cursor.node
    hands.controller.cursor.back()
    assert hands.controller.cursor.node == 6
    assert step_round() == fork


def test_a_round_without_drafts_is_a_token() -> None:
    hands = Hands(draft=None)
    for expected in (1, 2):
        hands.controller.step_round()
        hands.take()
        assert hands.controller.cursor.node == expected


def test_a_run_of_so_many_steps_follows_so_many_tokens() -> None:
    hands = Hands()
    hands.controller.run(3)
    hands.take()
    assert hands.controller.cursor.node == 3
    assert len(hands.controller.log.nodes) == 5
    hands.controller.run()
    hands.take()
    assert hands.controller.cursor.node == 20
    assert hands.controller.log.state.state is RunState.STOPPED


def test_a_breakpoint_inside_a_round_holds_the_cursor_there() -> None:
    hands = Hands()
    point = hands.controller.breakpoints.points.add("step == 3 or step == 4 or step == 9")
    for expected in (3, 4, 9, 20):
        hands.controller.run()
        hands.take()
        assert hands.controller.cursor.node == expected
    (counted,) = hands.controller.breakpoints.points
    assert (counted.number, counted.hits) == (point.number, 3)


def test_drafting_is_switched_on_and_off_as_the_run_goes() -> None:
    hands = Hands(draft=None)
    assert [hands.step() for _ in range(2)] == [1, 2]
    assert hands.controller.log.rounds == {}
    for draft in (DraftSettings("ngram", 2), DraftSettings()):
        hands.client.send(Configure(dials=GREEDY, max_tokens=20, draft=draft))
        hands.take()
        settings = hands.controller.log.settings
        assert settings is not None
        assert settings.draft == draft
        hands.controller.cursor.last()
        hands.step()
    assert list(hands.controller.log.rounds) == [3]
    # One that says nothing about drafts leaves them as they are.
    hands.client.send(Configure(dials=GREEDY, max_tokens=20))
    hands.take()
    settings = hands.controller.log.settings
    assert settings is not None
    assert settings.draft == DraftSettings()


def test_a_branch_may_draft_otherwise_than_the_run() -> None:
    hands = Hands(draft=None)
    hands.step()
    own = Settings(dials=GREEDY, draft=DraftSettings("ngram", 3))
    hands.controller.fork(Step(1, settings=own))
    hands.take()
    assert list(hands.controller.log.rounds) == [2]
    hands.controller.cursor.last()
    hands.step()
    assert list(hands.controller.log.rounds) == [2]


def test_a_draft_model_with_another_vocabulary_is_refused(tmp_path: Path) -> None:
    """The first id that differs and both texts; the run goes on as it did."""
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"text": "a b x"}))
    hands = Hands()
    hands.step()
    wanted = Configure(dials=GREEDY, max_tokens=20, draft=DraftSettings(str(path)))
    hands.client.send(wanted)
    records = hands.client.take()
    (error,) = [one for one in records if isinstance(one, EngineError)]
    assert 'another vocabulary and cannot draft: id 2 is " x" there and " c" in the target' in (
        error.message
    )
    hands.controller.take(records)
    settings = hands.controller.log.settings
    assert settings is not None
    assert settings.draft == DraftSettings("ngram:2", 3)
    hands.step()
    assert list(hands.controller.log.rounds) == [2]


def test_a_draft_model_of_the_same_vocabulary_drafts(tmp_path: Path) -> None:
    path = tmp_path / "same.json"
    path.write_text(json.dumps({"text": TEXT, "vocab_size": 400}))
    hands = Hands(DraftSettings(str(path), 2))
    hands.controller.run(6)
    hands.take()
    found = hands.controller.log.rounds[2]
    assert (found.source, found.accepted, found.draft_taken_back) == (str(path), 2, 0)


def test_a_restarted_engine_goes_on_with_rounds() -> None:
    hands = Hands()
    hands.controller.run(5)
    hands.take()
    restore = hands.controller.restore_command()
    assert restore is not None
    hands.client.send(restore)
    hands.take()
    assert hands.step() == 6
    assert list(hands.controller.log.rounds) == [2, 6]


@pytest.mark.parametrize("source", ["ngram:0", "self:x", "self:", "ngram:"])
def test_a_source_that_cannot_be_is_one_line(source: str) -> None:
    hands = Hands()
    hands.client.send(Configure(dials=GREEDY, draft=DraftSettings(source)))
    (error,) = [one for one in hands.client.take() if isinstance(one, EngineError)]
    assert "takes a whole number from 1 on" in error.message


def test_a_script_has_no_layers_to_end_after() -> None:
    hands = Hands()
    hands.client.send(Configure(dials=GREEDY, draft=DraftSettings("self:1")))
    (error,) = [one for one in hands.client.take() if isinstance(one, EngineError)]
    assert "cannot end a pass after some of its layers" in error.message


def test_a_run_may_start_in_the_middle_of_what_a_round_brought() -> None:
    hands = Hands()
    hands.step()
    hands.step()
    hands.client.send(Run(3, count=2, seed=5, settings=Settings(dials=GREEDY)))
    hands.take()
    log = hands.controller.log
    assert log.tree.children[3] == [4, 6]
    assert log.nodes[6].round == 6
