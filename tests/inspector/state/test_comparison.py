"""Columns in lockstep, on a scripted engine: what each key asks for, and where the cursors go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.commands import Close, MeasureAlone, Pause, Settings, StepMany
from engine.conditions.breakpoints import Breakpoint
from engine.inbox import Inbox
from engine.records.columns import ColumnsSet
from engine.records.events import RunState
from engine.records.round import DraftSettings
from inspector.actions.comparing import recorded_columns
from inspector.state.columns import MOST
from inspector.state.comparison import Comparison
from inspector.state.controller import Controller
from tests.direct import DirectClient, script

HOT, COLD = Settings(dials={"temperature": 1.5}), Settings(dials={"temperature": 0.0})


class Run:
    """A scripted run and a comparison on it, without a screen."""

    def __init__(self, *settings: Settings | None, prompt: str = "abc", **options: Any) -> None:
        self.client = DirectClient()
        self.controller = Controller(self.client.send)
        self.comparison = Comparison(self.controller.log, self.client.send)
        for command in script(prompt, **options):
            self.client.send(command)
        self.controller.stay()
        self.settle()
        for at, one in enumerate(settings or (HOT, COLD)):
            self.comparison.add(one, None, f"column {at}", 0)

    def settle(self) -> None:
        """Let the engine answer until it has nothing more to say."""
        while records := self.client.take():
            self.controller.take(records)
            self.comparison.take(records)

    def do(self, name: str, *values: Any) -> None:
        getattr(self.comparison, name)(*values)
        self.settle()

    @property
    def positions(self) -> list[int]:
        return [one.position for one in self.comparison.columns]

    @property
    def depths(self) -> list[int]:
        return [one.depth for one in self.comparison.columns]

    @property
    def asked(self) -> list[StepMany]:
        return [one for one in self.client.sent if isinstance(one, StepMany)]


def test_n_steps_all_columns_by_one_pass() -> None:
    run = Run()
    run.do("step")
    assert run.positions == [1, 1]
    (asked,) = run.asked
    assert [one.number for one in asked.columns] == [1, 2]
    assert asked.count == 1
    run.do("step", 10)
    assert run.positions == [11, 11]
    assert len(run.asked) == 2
    assert run.asked[1].count == 10


def test_columns_at_one_place_share_no_nodes() -> None:
    run = Run(HOT, HOT)
    run.do("step", 3)
    first, second = run.comparison.columns
    assert first.ids == second.ids, "the same dice and settings"
    assert {*first.view.branch.nodes}.isdisjoint(second.view.branch.nodes)
    assert [one.token.id for one in second.view.branch] == second.ids
    assert first.view.following is None


def test_b_goes_back_in_all_and_n_along_what_is_there() -> None:
    run = Run()
    run.do("step", 3)
    run.do("back")
    assert run.positions == [2, 2]
    assert [one.view.following is not None for one in run.comparison.columns] == [True, True]
    run.do("step")
    assert run.positions == [3, 3]
    assert len(run.asked) == 1, "nothing is computed again"
    run.do("first")
    assert run.positions == [0, 0]
    # At the prompt each column goes on with its own token, not with the newest one.
    run.do("step")
    assert [one.cursor.node for one in run.comparison.columns] == [1, 2]
    run.do("last")
    assert run.positions == [3, 3]


def test_c_runs_until_each_column_has_ended() -> None:
    run = Run()
    run.do("run")
    assert run.depths == [20, 20]
    assert all(one.stop is not None for one in run.comparison.columns)
    assert not run.comparison.running
    assert run.asked[-1].count is None


def test_a_paused_column_stands_and_catches_up() -> None:
    run = Run()
    run.do("step", 2)
    run.do("toggle_column")
    run.do("step", 3)
    assert run.depths == [2, 5]
    run.do("toggle_column")
    run.do("step")
    assert run.depths == [6, 6]
    first, second = run.asked[-2:]
    assert [one.number for one in first.columns if not one.held] == [1]
    assert first.count == 3, "three to be where the other is"
    assert [one.number for one in second.columns if not one.held] == [1, 2]


def test_one_runs_on_alone() -> None:
    run = Run()
    run.do("step", 2)
    run.comparison.focus(1)
    run.client.held = True
    run.comparison.alone()
    first, second = run.comparison.columns
    assert (run.comparison.extends(first), run.comparison.extends(second)) == (False, True)
    run.client.release()
    run.settle()
    assert run.depths == [2, 20]
    assert run.comparison.columns[1].paused
    assert not run.comparison.running


def test_a_column_that_comes_later_catches_up_at_once() -> None:
    run = Run()
    run.do("step", 4)
    run.do("add", Settings(dials={"top_k": 3}), None, "late")
    assert run.depths == [4, 4, 4]
    assert run.positions == [4, 4, 4]


def test_columns_come_and_go_while_they_run() -> None:
    """The engine is held, as it is in the middle of a pass: it is paused and asked anew."""
    run = Run()
    run.client.held = True
    run.comparison.run()
    run.comparison.add(None, None, "late")
    run.comparison.focus(0)
    run.comparison.remove()
    sent = [one for one in run.client.sent if isinstance(one, StepMany | Pause)]
    assert [type(one) for one in sent] == [StepMany, Pause], "one pause is enough"
    run.client._inbox.waiting.append(sent[1])
    run.client._late.clear()
    run.client._late.append(sent[0])
    run.client.release()
    # The pause itself, which the engine's own loop would take next.
    run.client._engine._inbox.next()
    run.settle()
    assert [one.number for one in run.comparison.columns] == [2, 3]
    assert run.depths == [20, 20]


def test_two_columns_are_the_least_and_eight_the_most() -> None:
    run = Run()
    with pytest.raises(ValueError, match="two columns are the least"):
        run.comparison.remove()
    for _ in range(MOST - 2):
        run.comparison.add(None, None, "")
    with pytest.raises(ValueError, match="8 columns already"):
        run.comparison.add(None, None, "")


def test_a_column_that_cannot_be_set_ends_alone() -> None:
    run = Run(HOT, Settings(spec="no_such_stage=1"))
    run.do("step", 3)
    good, bad = run.comparison.columns
    assert (good.depth, bad.depth) == (3, 0)
    assert "no_such_stage" in bad.error
    run.do("run")
    assert good.depth == 20
    assert not run.comparison.running


def test_a_breakpoint_in_a_column_stops_all() -> None:
    run = Run()
    run.controller.breakpoints.points.add("position == 5")
    run.controller.tell_breakpoints()
    run.do("run")
    assert run.depths == [3, 3], "position 5 is the third token after a prompt of three"
    assert "position == 5" in run.controller.log.state.reason
    assert isinstance(next(iter(run.controller.breakpoints.points)), Breakpoint)
    run.do("run")
    assert run.depths == [20, 20]


def test_columns_go_on_after_an_engine_that_died() -> None:
    run = Run()
    run.do("step", 3)
    run.client.held = True
    run.comparison.run()
    run.client.die()
    run.settle()
    assert run.controller.log.state.state is RunState.DEAD
    assert not run.comparison.running
    restore = run.controller.restore_command()
    assert restore is not None
    old, run.client = run.client, DirectClient()
    run.comparison._send = run.client.send
    for command in (*script()[:2], restore):
        run.client.send(command)
    run.settle()
    run.do("step", 2)
    assert run.depths == [5, 5]
    old.send(Close())


def test_the_same_dice_or_each_its_own() -> None:
    run = Run(HOT, HOT, HOT)
    run.do("step", 2)
    assert len({tuple(one.ids) for one in run.comparison.columns}) == 1
    run.do("swap_dice")
    run.do("step", 4)
    columns = run.comparison.columns
    assert [one.last.seed for one in columns if one.last is not None] == [7, 8, 9]
    assert len({tuple(one.ids) for one in columns}) == 3
    run.do("swap_dice")
    run.do("step")
    assert len({one.last.draw.u for one in columns if one.last is not None}) == 1


def test_the_first_parting_is_found_as_columns_grow() -> None:
    run = Run(COLD, COLD, HOT)
    run.do("step", 6)
    cold, same, hot = run.comparison.columns
    parting = run.comparison.parting(hot)
    expected = next(at for at in range(6) if cold.ids[at] != hot.ids[at])
    assert parting == expected
    assert run.comparison.parting(same) is None
    assert run.comparison.parting(cold) == expected, "where any of the others parts from it"


def test_columns_are_known_again_from_what_was_recorded() -> None:
    run = Run()
    run.do("step", 3)
    run.comparison.focus(0)
    run.do("alone")
    assert isinstance(run.controller.log.columns, ColumnsSet)
    again = recorded_columns(Comparison(run.controller.log, run.client.send))
    assert [one.ids for one in again.columns] == [one.ids for one in run.comparison.columns]
    assert [one.title for one in again.columns] == ["column 0", "column 1"]
    assert [one.start for one in again.columns] == [0, 0]
    # A new column gets a number that none has.
    assert again.new_number() == 3


def test_a_column_that_drafts_goes_on_by_rounds_and_the_others_catch_up() -> None:
    """In a script of one letter each draft is accepted: a round gives several tokens."""
    cold = Settings(dials={"temperature": 0.0})
    drafting = replace(cold, draft=DraftSettings("ngram:2", 4))
    run = Run(cold, drafting, prompt="aaaa")
    run.do("step")
    assert run.depths == [1, 1], "the first token is the prompt's"
    run.do("step")
    short, ahead = run.depths
    assert short == 2
    assert ahead > 3
    run.do("step")
    plain, drafts = run.comparison.columns
    assert run.depths[0] == ahead + 1, "one further than the furthest was"
    assert run.depths[1] > ahead + 1
    assert drafts.ids[: ahead + 1] == plain.ids
    run.do("run")
    assert run.depths == [20, 20]
    assert drafts.ids == plain.ids
    # Nobody knows how far a round gets, so each is asked for by itself.
    assert all(one.count == 1 for one in run.asked if not one.columns[1].held)


def test_once_all_have_ended_they_are_read_alone() -> None:
    run = Run()
    run.do("step", 3)
    assert not any(isinstance(one, MeasureAlone) for one in run.client.sent)
    run.do("run")
    (asked,) = (one for one in run.client.sent if isinstance(one, MeasureAlone))
    assert [one.column for one in asked.columns] == [1, 2]
    for column in run.comparison.columns:
        found = run.comparison.read_alone(column)
        assert found is not None
        assert found.tokens == 20
    run.do("run")
    assert sum(isinstance(one, MeasureAlone) for one in run.client.sent) == 1


def test_called_away_what_is_left_is_read_afterwards() -> None:
    run = Run()
    calls = iter([False] * 25)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inbox, "holds_any", lambda self: next(calls, True))
        run.comparison.run()
        records = run.client.take()
        run.controller.take(records)
        run.comparison.take(records)
    run.settle()
    asked = [one for one in run.client.sent if isinstance(one, MeasureAlone)]
    assert [[one.column for one in each.columns] for each in asked] == [[1, 2], [2]]
