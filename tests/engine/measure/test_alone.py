"""Columns held against their text read alone: the drift, near-ties, and what is no near-tie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.measure.alone import measure_alone
from engine.records.alone import AloneParting, DrawnColumn
from engine.records.vocabulary import Token
from engine.run.step_many import ColumnStep, going_on, step_many
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from sessions.compare.alone import alone_words, drawn_column
from tests.speculating import tiny
from tests.top_backend import TopBackend

pytestmark = pytest.mark.usefixtures("one_thread")
COLUMNS = (
    ColumnStep(1, 0, effective("guide", {"temperature": 0.0, "repetition_penalty": 1.3})),
    ColumnStep(2, 0, effective("guide", {"temperature": 1.0}), seed=1),
    ColumnStep(3, 0, effective("llamacpp", {"temperature": 1.5, "mirostat_tau": 3.0}), seed=2),
)


def decoded(family: str, count: int = 10) -> tuple[Stepper, tuple[DrawnColumn, ...]]:
    """Columns that shared their passes, as they are drawn again."""
    backend = tiny(family)
    backend.clear()
    run, going = Stepper(backend, max_tokens=count), list(COLUMNS)
    run.submit("the quick brown fox jumps over the")
    list(run.prefill())
    tips = {}
    while going:
        record = step_many(run, going).record
        tips.update({told.column: told.nodes[-1] for told in record.columns})
        going = going_on(run, going, record)
    return run, tuple(drawn_column(one, run.path(tip)) for one, tip in tips.items())


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "mamba"])
def test_in_float32_columns_are_what_their_text_read_alone_gives(family: str) -> None:
    run, columns = decoded(family)
    ids = list(run.path_ids(columns[0].node))
    held = run.backend.seek([*ids, 1])
    found = measure_alone(run, columns)
    assert found.dtype == "float32"
    for one, column in zip(found.columns, columns, strict=True):
        count = len(column.tokens)  # a stop token may have ended it
        assert (one.column, one.node, one.tokens) == (column.column, column.node, count)
        assert one.obstacle == ""
        assert one.parting is None
        assert one.near_ties == 0
        assert 0.0 <= one.drift < 5e-5  # another way to read than the steps, rounded otherwise
        assert f"the same {count} tokens read alone" in alone_words(one)
    # What the run has read is there as it was.
    assert run.backend.seek([*ids, 1]) == held


def test_a_token_of_other_logits_is_a_fault_and_rounding_is_a_near_tie() -> None:
    run, (greedy, *_) = decoded("llama")
    (told,) = measure_alone(run, [greedy]).columns
    assert told.parting is None
    at = 4
    token = greedy.tokens[at]
    second = int(token.ids[token.ids != token.draw.token_id][0])

    def parted(drift: float) -> AloneParting:
        """The column whose pass gave another token there, its logits so far away."""
        wrong = replace(
            token,
            draw=replace(token.draw, token_id=second),
            logits=token.logits + np.float32(drift),
            margin=drift,
        )
        tokens = (*greedy.tokens[:at], wrong)
        (found,) = measure_alone(run, [replace(greedy, tokens=tokens)]).columns
        assert found.fault is not found.parting.near_tie  # type: ignore[union-attr]
        assert found.near_ties == 1
        assert found.parting is not None
        return found.parting

    fault = parted(0.5)
    assert (fault.token.id, fault.other.id) == (second, token.draw.token_id)
    assert fault.position == len(run.path_ids(0)) + at
    assert fault.drift == pytest.approx(0.5, abs=1e-4)
    assert fault.greedy
    assert fault.rounding is not None
    assert fault.rounding < 5e-5
    assert not fault.near_tie
    # Two units of the last place of a logit.
    assert parted(2 * float(np.spacing(np.abs(token.logits).max()))).near_tie


def test_the_verdict_rests_on_the_drift_and_never_on_the_margin_alone() -> None:
    a, b = Token(1, b"a"), Token(2, b"b")
    for drift, rounding, tie in ((0.12, 0.02, True), (0.13, 0.02, False), (0.0, None, False)):
        found = AloneParting(7, a, b, 0.001, False, drift, rounding)
        assert found.near_tie is tie


def test_called_away_it_tells_of_the_columns_that_are_done() -> None:
    run, columns = decoded("llama", count=3)
    calls = iter([False] * 3 + [True])
    found = measure_alone(run, columns, called=lambda: next(calls))
    assert [one.column for one in found.columns] == [1]


def test_where_nothing_can_be_read_beside_the_run_it_says_so() -> None:
    run = Stepper(TopBackend())
    run.submit(" w1 w2")
    run.step(force=1)
    (found,) = measure_alone(run, [drawn_column(1, run.path())]).columns
    assert found.obstacle
    assert "not read alone" in alone_words(found)
