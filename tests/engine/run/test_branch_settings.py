"""Branches of one tree that are drawn with settings and seeds of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.backends.scripted import ScriptedBackend
from engine.commands import Configure, Restore, Run, Settings, Step
from engine.records.events import EngineError, Record, SettingsChanged
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import Effective, effective
from inspector.state.recorder import Recorder, records_of
from inspector.state.view import RunLog, View
from inspector.state.whatif import settings_at
from sessions import open_session
from sessions.export.source import Source
from sessions.verify import verify
from tests.direct import DirectClient, script
from tests.engine.run.test_stepper import LETTERS, by_history, started

HOT = effective("guide", {"temperature": 2.0, "top_k": 12, "top_p": 1.0})
NARROW = effective("llamacpp", {"temperature": 0.7, "top_k": 3})
_HOT = Settings("guide", {"temperature": 2.0, "top_k": 12, "top_p": 1.0})
_NARROW = Settings("llamacpp", {"temperature": 0.7, "top_k": 3})


def drawn(steps: list[StepRecord]) -> list[tuple[int, float | None, int, str, str]]:
    """What has to come out again: the token, the dice, and with what it was drawn."""
    return [(one.token.id, one.draw.u, one.seed, one.preset, one.chain_spec) for one in steps]


def alone(settings: Effective, seed: int, count: int) -> list[StepRecord]:
    """The steps of a run that has these settings and this seed from its start."""
    run = started()
    run.settings, run.seed = settings, seed
    return [run.step() for _ in range(count)]


# --- the stepper ------------------------------------------------------------------------------


def test_two_branches_with_settings_and_seeds_of_their_own_are_each_what_they_are_alone() -> None:
    run = started(seed=1)
    tips, hot, narrow = [ROOT, ROOT], [], []
    for _ in range(8):
        hot.append(run.extend(tips[0], settings=HOT, seed=3))
        narrow.append(run.extend(tips[1], settings=NARROW, seed=4))
        tips = [hot[-1].node, narrow[-1].node]
    assert drawn(hot) == drawn(alone(HOT, 3, 8))
    assert drawn(narrow) == drawn(alone(NARROW, 4, 8))
    assert [one.token.id for one in hot] != [one.token.id for one in narrow]
    # The run's own are as they were.
    assert (run.settings.chain.preset, run.seed) == ("guide", 1)


def test_a_branch_run_again_from_the_same_node_is_the_same() -> None:
    run = started(max_tokens=9)
    trunk = [run.step() for _ in range(3)]
    first = list(run.run(at=trunk[1].node, settings=HOT, seed=3))
    other = list(run.run(at=trunk[1].node, settings=NARROW, seed=4))
    again = list(run.run(at=trunk[1].node, settings=HOT, seed=3))
    assert [len(one) for one in (first, other, again)] == [7, 7, 7]
    assert drawn(first) == drawn(again) != drawn(other)
    assert not {one.node for one in first} & {one.node for one in again}
    assert run.children[trunk[1].node] == [
        trunk[2].node,
        *(one[0].node for one in (first, other, again)),
    ]
    # The same dice at the same position whatever the settings.
    same_dice = list(run.run(at=trunk[1].node, settings=NARROW, seed=3))
    assert [one.draw.u for one in same_dice] == [one.draw.u for one in first]


def test_a_step_may_be_made_at_any_node_wherever_the_cursor_is() -> None:
    run = started()
    path = [run.step() for _ in range(4)]
    made = run.step(path[0].node, settings=HOT, seed=9)
    assert (made.parent, made.seed, made.chain_spec) == (path[0].node, 9, HOT.spec)
    run.cursor = path[3].node
    # Without settings or a seed it follows what is recorded there, the newest.
    assert run.step(path[0].node) is made
    assert run.step(path[1].node) is path[2]
    with pytest.raises(StepperError, match="no node 77"):
        run.step(77)
    with pytest.raises(StepperError, match="no node 77"):
        list(run.run(at=77))


def test_conditions_look_at_the_branch_that_is_run_not_at_the_cursor() -> None:
    run = started(max_tokens=30)
    path = [run.step() for _ in range(5)]
    run.add_breakpoint("position == 9")
    found = []
    for record in run.run(at=path[0].node, settings=HOT, seed=3):
        found.append(record)
        run.cursor = path[4].node
    assert [one.position for one in found] == [6, 7, 8, 9]
    assert run.verdict.reason == "breakpoint 1: position == 9"


# --- the engine's side of the pipe ------------------------------------------------------------


_FUNCTION = "tests.engine.run.test_stepper:by_history"


class Hands:
    """An engine in this process with a prompt, and a log of all that it says."""

    def __init__(self) -> None:
        self.client, self.log, self.records = DirectClient(), RunLog(), list[Record]()
        for command in script("abc", tokens=list(LETTERS), function=_FUNCTION):
            self.client.send(command)
        self.take()

    def do(self, command: object) -> list[StepRecord]:
        """The steps that a command makes."""
        self.client.send(command)  # type: ignore[arg-type]
        return [one for one in self.take() if isinstance(one, StepRecord)]

    def take(self) -> list[Record]:
        new = self.client.take()
        for one in new:
            self.log.add(one)
        self.records += new
        return new


def test_commands_name_node_settings_and_seed_and_the_run_keeps_its_own() -> None:
    hands = Hands()
    trunk = hands.do(Run(ROOT, 3))
    hot = hands.do(Run(1, 4, seed=3, settings=_HOT))
    narrow = hands.do(Step(1, seed=4, settings=_NARROW))
    narrow += hands.do(Run(narrow[-1].node, 3, seed=4, settings=_NARROW))
    rest = hands.do(Step(hot[-1].node))
    assert [one.parent for one in hot] == [1, *(one.node for one in hot[:-1])]
    assert {(one.preset, one.chain_spec, one.seed) for one in hot} == {("guide", HOT.spec, 3)}
    assert {(one.preset, one.seed) for one in narrow} == {("llamacpp", 4)}
    # Nothing named: the run's current ones, also behind a branch that was made with others.
    assert {(one.chain_spec, one.seed) for one in [*trunk, *rest]} == {(trunk[0].chain_spec, 7)}
    again = hands.do(Run(1, 4, seed=3, settings=_HOT))
    assert drawn(again) == drawn(hot)


def test_the_source_of_each_branchs_values_is_told_once_and_the_runs_settings_stay() -> None:
    hands = Hands()
    before, hands.records = hands.log.settings, []
    assert before is not None
    for _ in range(3):
        hands.do(Step(ROOT, seed=3, settings=_HOT))
    told = [one for one in hands.records if isinstance(one, SettingsChanged)]
    assert [(one.chain_spec, one.seed) for one in told] == [(HOT.spec, 3), (before.chain_spec, 7)]
    assert hands.log.settings == before
    branch = settings_at(View(hands.log, 1))
    assert branch is not None
    assert (branch.dials["temperature"].value, branch.dials["temperature"].source) == (2.0, "flag")


def test_settings_that_cannot_be_are_one_line_and_nothing_is_drawn() -> None:
    hands = Hands()
    assert hands.do(Step(ROOT, settings=Settings("guide", {"top_p": 7.0}))) == []
    assert isinstance(hands.log.error, EngineError)
    assert "top_p=7 is out of range" in hands.log.error.message
    assert len(hands.do(Step(ROOT))) == 1


def test_settings_changed_while_a_branch_runs_leave_that_branch_its_own() -> None:
    hands = Hands()
    inbox = hands.client._inbox
    inbox.waiting.append(Configure(dials={"temperature": 0.5}, seed=1, max_tokens=6))
    branch = hands.do(Run(ROOT, seed=3, settings=_HOT))
    assert len(branch) == 6
    assert {(one.chain_spec, one.seed) for one in branch} == {(HOT.spec, 3)}
    assert hands.do(Step(ROOT))[0].seed == 1


def test_an_engine_that_takes_over_the_tree_draws_the_same_on_every_branch() -> None:
    first, second = Hands(), Hands()
    first.do(Run(ROOT, 3))
    hot = first.do(Run(1, 4, seed=3, settings=_HOT))
    log = first.log
    assert log.prompt is not None
    for record in (log.prompt, *log.nodes.values()):
        second.log.add(record)
    second.do(Restore(log.prompt, log.prefill, dict(log.nodes), 1 + max(log.nodes)))
    one, other = (
        hands.do(Run(hot[-1].node, 3, seed=3, settings=_HOT)) for hands in (first, second)
    )
    assert drawn(one) == drawn(other)
    assert [step.node for step in one] == [step.node for step in other]


# --- in a session file ------------------------------------------------------------------------


def branches() -> Hands:
    hands = Hands()
    hands.do(Run(ROOT, 3))
    hands.do(Run(1, 4, seed=3, settings=_HOT))
    hands.do(Run(1, 4, seed=4, settings=_NARROW))
    return hands


@pytest.mark.parametrize("late", [False, True], ids=["as it goes", "saved later"])
def test_a_session_keeps_each_steps_own_settings_and_seed(tmp_path: Path, late: bool) -> None:
    hands = branches()
    recorder = Recorder(None if late else lambda prompt: tmp_path / "run.llmi")
    if late:
        recorder.begin(tmp_path / "run.llmi", records_of(hands.log))
    else:
        recorder.record(hands.records)
    recorder.close()
    with open_session(tmp_path / "run.llmi") as session:
        for node, step in hands.log.nodes.items():
            kept = session.step(node)
            assert drawn([kept]) == drawn([step])
        settings = {one.chain_spec for _, one in session.events if isinstance(one, SettingsChanged)}
        assert {HOT.spec, hands.log.nodes[8].chain_spec} < settings
        for tip in session.tips:
            assert verify(session, _model(), tip).reproduced


def test_an_export_heads_a_branch_with_the_settings_that_it_was_drawn_with() -> None:
    hands = branches()
    found = {tip: Source.of_log(hands.log, tip).settings for tip in (3, 7, 11)}
    assert {tip: (one.preset, one.chain_spec) for tip, one in found.items() if one} == {
        tip: (hands.log.nodes[tip].preset, hands.log.nodes[tip].chain_spec) for tip in found
    }
    assert len({one.chain_spec for one in found.values() if one}) == 3


def _model() -> Stepper:
    """The model that was recorded, with settings and a seed that nothing was recorded with."""
    return Stepper(ScriptedBackend(by_history, LETTERS), seed=99)
