"""Columns of one run that step together: what a pass gives each, and what becomes of the others."""

from __future__ import annotations

import dataclasses

import pytest

from engine.backends.scripted import ScriptedBackend
from engine.commands import (
    Column,
    Configure,
    Pause,
    Restore,
    Run,
    SetBreakpoints,
    Settings,
    Step,
    StepMany,
    Submit,
)
from engine.conditions.breakpoints import Breakpoints
from engine.drafts.ngram import PromptLookup
from engine.records.columns import ColumnsSet, Part, PassRecord
from engine.records.events import EngineError, Record, RunState, StateChanged
from engine.records.round import DraftSettings
from engine.records.step import StepRecord
from engine.run.step_many import ColumnStep, step_many
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from tests.direct import DirectClient, script

HOT = Settings(dials={"temperature": 1.5})
COLD = Settings(dials={"temperature": 0.0})
TWO = (Column(1, 0, COLD), Column(2, 0, HOT, title="hot"))


def asked(*commands: object, prompt: str = "abc") -> list[Record]:
    """Records of a scripted engine that all of this was asked of."""
    client = DirectClient()
    for command in (*script(prompt), *commands):
        client.send(command)  # type: ignore[arg-type]
    return client.take()


def passes(records: list[Record]) -> list[PassRecord]:
    return [one for one in records if isinstance(one, PassRecord)]


def steps(records: list[Record]) -> dict[int, StepRecord]:
    return {one.node: one for one in records if isinstance(one, StepRecord)}


def texts(records: list[Record]) -> dict[int, list[int]]:
    """Column -> the ids that came in it."""
    found: dict[int, list[int]] = {}
    for one in passes(records):
        for column in one.columns:
            ids = [steps(records)[node].token.id for node in column.nodes]
            found.setdefault(column.column, []).extend(ids)
    return found


def test_one_step_a_column_and_one_pass() -> None:
    records = asked(StepMany(TWO))
    (found,) = passes(records)
    assert [one.column for one in found.columns] == [1, 2]
    assert found.nodes == (1, 2)
    assert [steps(records)[node].parent for node in found.nodes] == [0, 0]
    # The prompt's distribution is there when its reading is done: nothing else is read.
    assert [one.part for one in found.columns] == [Part.KNOWN, Part.KNOWN]
    assert (found.rows, found.passes, found.tokens_per_pass) == (0, 0, None)


def test_a_pass_comes_behind_its_steps() -> None:
    seen: set[int] = set()
    for one in asked(StepMany(TWO, count=3)):
        if isinstance(one, StepRecord):
            assert one.parent in seen | {0}
            seen.add(one.node)
        if isinstance(one, PassRecord):
            assert seen >= set(one.nodes)


def test_columns_are_told_once_before_they_run() -> None:
    records = asked(StepMany(TWO), StepMany(TWO))
    (told,) = [one for one in records if isinstance(one, ColumnsSet)]
    assert [(one.column, one.title, one.seed) for one in told.columns] == [
        (1, "", 7),
        (2, "hot", 7),
    ]
    assert told.columns[1].chain_spec == effective("guide", {"temperature": 1.5}).spec


@pytest.mark.parametrize("force", [None, 4])
def test_each_column_gives_what_it_gives_alone(force: int | None) -> None:
    seeds = (3, 4, 3)
    columns = tuple(Column(at, 0, HOT, seed=seed) for at, seed in enumerate(seeds))
    columns = (*columns[:2], dataclasses.replace(columns[2], force=force))
    together = texts(asked(StepMany(columns, count=None)))
    for one in columns:
        first = () if one.force is None else (one.force,)
        alone = asked(Step(0, first, one.seed, HOT), Run(1, None, one.seed, HOT))
        assert [step.token.id for step in steps(alone).values()] == together[one.number]
        assert len(together[one.number]) == 20


def test_same_seed_same_dice_whatever_the_settings() -> None:
    records = asked(StepMany((Column(1, 0, HOT), Column(2, 0, Settings(dials={"top_k": 3}))), 4))
    for one in passes(records):
        us = {steps(records)[node].draw.u for node in one.nodes}
        assert len(us) == 1


def test_columns_with_one_text_share_a_row() -> None:
    """Until the dice part them there is one thing to read."""
    same = (Column(1, 0, HOT, seed=5), Column(2, 0, HOT, seed=5), Column(3, 0, HOT, seed=6))
    records = asked(StepMany(same, 2))
    second = passes(records)[1]
    assert [one.part for one in second.columns] == [Part.ROW, Part.TWIN, Part.ROW]
    assert second.rows == 2
    ids = texts(records)
    assert ids[1] == ids[2] != ids[3]


def test_one_that_cannot_be_set_fails_alone() -> None:
    wrong = Column(2, 0, Settings(dials={"top_k": "many"}))
    records = asked(StepMany((Column(1, 0, HOT), wrong), 3))
    told = [one.columns for one in passes(records)]
    assert told[0][1].part is Part.FAILED
    assert "top_k" in told[0][1].error
    assert [[one.column for one in row] for row in told] == [[1, 2], [1], [1]]
    assert not any(isinstance(one, EngineError) for one in records)
    (columns,) = [one for one in records if isinstance(one, ColumnsSet)]
    assert columns.columns[1].error == told[0][1].error


def test_one_whose_set_is_empty_ends_alone_with_its_reason() -> None:
    """A logit bias of minus infinity on all letters leaves nothing to draw."""
    nothing = Settings(dials={"logit_bias": ",".join(f"{one}:-inf" for one in range(26))})
    records = asked(StepMany((Column(1, 0, nothing), Column(2, 0, HOT)), 3))
    first = passes(records)[0]
    assert first.columns[0].part is Part.FAILED
    assert first.columns[0].error
    assert len(texts(records)[2]) == 3


def test_unknown_parents_and_unlike_numbers() -> None:
    records = asked(StepMany((Column(1, 99), Column(2, 0))))
    assert [one.part for one in passes(records)[0].columns] == [Part.FAILED, Part.KNOWN]
    assert passes(records)[0].columns[0].error == "there is no node 99"
    for columns in ((), (Column(1, 0), Column(1, 0)), tuple(Column(one, 0) for one in range(65))):
        (error,) = [one for one in asked(StepMany(columns)) if isinstance(one, EngineError)]
        assert error.message == "give 1 to 64 columns, each with a number of its own"


def test_columns_end_one_by_one_and_the_rest_goes_on() -> None:
    def logits(ids: object) -> list[float]:
        return [0.0, 0.0, 0.0]

    stepper = Stepper(ScriptedBackend(logits, ["a", "b", "<end>"]), max_tokens=8)
    stepper.submit("a")
    list(stepper.prefill())
    plain = effective("guide", {"temperature": 1.0})
    columns = [ColumnStep(one, 0, plain, seed=one) for one in range(6)]
    lengths = {}
    while columns:
        found = step_many(stepper, columns)
        kept = []
        for column, told in zip(columns, found.record.columns, strict=True):
            assert told.part is not Part.FAILED
            node = told.nodes[-1]
            if node in stepper.tree.stops:
                lengths[column.column] = len(stepper.path(node))
            else:
                kept.append(dataclasses.replace(column, parent=node))
        columns = kept
    assert sorted(lengths) == list(range(6))
    assert len(set(lengths.values())) > 1


def test_the_end_of_all_is_a_stop_and_a_part_of_it_a_pause() -> None:
    states = [one for one in asked(StepMany(TWO, None)) if isinstance(one, StateChanged)]
    assert states[-1] == StateChanged(RunState.STOPPED, "every column has ended")
    held = (dataclasses.replace(TWO[0], held=True, title="cold"), TWO[1])
    states = [one for one in asked(StepMany(held, None)) if isinstance(one, StateChanged)]
    assert states[-1].reason == "paused: cold; every other column has ended"
    states = [one for one in asked(StepMany(TWO, 2)) if isinstance(one, StateChanged)]
    assert states[-1] == StateChanged(RunState.PAUSED, "")


def test_a_breakpoint_in_one_column_pauses_all() -> None:
    points = Breakpoints()
    points.add("position == 5")
    records = asked(SetBreakpoints(tuple(points)), StepMany(TWO, None))
    assert {len(ids) for ids in texts(records).values()} == {3}
    last = [one for one in records if isinstance(one, StateChanged)][-1]
    assert last.state is RunState.PAUSED
    assert last.reason.startswith("column 1: breakpoint 1")


def test_a_pause_takes_effect_between_two_passes() -> None:
    client = DirectClient()
    for command in script():
        client.send(command)
    client._engine._inbox._receive.waiting.append(Pause())  # type: ignore[attr-defined]
    client.send(StepMany(TWO, None))
    records = client.take()
    assert len(passes(records)) == 0
    assert records[-1] == StateChanged(RunState.PAUSED, "")


def test_they_go_on_after_an_engine_that_died() -> None:
    whole = asked(StepMany(TWO, 6))
    half = asked(StepMany(TWO, 3))
    tips = [one.nodes[-1] for one in passes(half)[-1].columns]
    client = DirectClient()
    for command in script()[:2]:
        client.send(command)
    prompt = next(one for one in half if type(one).__name__ == "PromptRecord")
    client.send(Restore(prompt, None, steps(half), 1 + max(steps(half))))  # type: ignore[arg-type]
    on = tuple(dataclasses.replace(one, parent=tip) for one, tip in zip(TWO, tips, strict=True))
    client.send(StepMany(on, 3))
    again = client.take()
    ids = {node: step.token.id for node, step in (steps(half) | steps(again)).items()}
    assert ids == {node: step.token.id for node, step in steps(whole).items()}


def test_each_step_took_as_long_as_its_pass() -> None:
    records = asked(StepMany(tuple(Column(one, 0, HOT, seed=one) for one in range(4)), 3))
    for one in passes(records)[1:]:
        for node in one.nodes:
            timing = steps(records)[node].timing
            assert timing.forward_ms == one.forward_ms
            assert timing.total_ms <= one.total_ms
            parts = timing.forward_ms + timing.sample_ms + timing.detokenize_ms + timing.other_ms
            assert parts == pytest.approx(timing.total_ms)


def test_a_held_column_is_told_of_and_takes_no_step() -> None:
    first, second = TWO
    records = asked(
        StepMany(TWO), StepMany((dataclasses.replace(first, parent=1, held=True), second), 2)
    )
    assert [[one.column for one in found.columns] for found in passes(records)] == [
        [1, 2],
        [2],
        [2],
    ]
    # It is one of the columns all the same, so that nothing new is told.
    assert len([one for one in records if isinstance(one, ColumnsSet)]) == 1


def test_a_column_begins_where_it_began() -> None:
    first, second = TWO
    on = (dataclasses.replace(first, parent=1, seed=9), dataclasses.replace(second, parent=2))
    told = [one for one in asked(StepMany(TWO), StepMany(on)) if isinstance(one, ColumnsSet)]
    assert [[(one.parent, one.seed) for one in found.columns] for found in told] == [
        [(0, 7), (0, 7)],
        [(0, 9), (0, 7)],
    ]


def test_a_new_prompt_has_no_columns() -> None:
    records = asked(StepMany(TWO), Configure(), Submit("ab"), StepMany(TWO))
    assert len([one for one in records if isinstance(one, ColumnsSet)]) == 2


def test_settings_that_change_meanwhile_close_no_draft_of_a_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Configure is carried out between two passes; a draft model that was freed drafts nothing."""
    closed: list[str] = []
    monkeypatch.setattr(PromptLookup, "close", lambda self: closed.append(self.name))
    own = Settings(dials={"temperature": 0.0}, draft=DraftSettings("ngram:2"))
    client = DirectClient()
    for command in (*script("aaaa"), Configure(draft=DraftSettings("ngram:3"))):
        client.send(command)
    columns = (Column(1, 0, COLD), Column(2, 0, own))
    client._inbox.waiting.append(Configure(draft=DraftSettings()))
    client.send(StepMany(columns, 6))
    assert closed == [], "one column drafts as the run did, one by itself"
    records = client.take()
    assert not any(isinstance(one, EngineError) for one in records)
    rounds = [told.column for one in passes(records) for told in one.columns if len(told.nodes) > 1]
    assert set(rounds) == {1, 2}
    # Columns that are others now do not need it.
    client.send(StepMany(columns[:1]))
    client.send(Configure(draft=DraftSettings()))
    assert sorted(closed) == ["ngram:2", "ngram:3"]
