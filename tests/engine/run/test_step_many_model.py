"""Columns of real (tiny) models: the tokens of a run alone, one reading of the prompt, own blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.backends.hf import rows
from engine.backends.hf.backend import HFBackend
from engine.drafts.ngram import PromptLookup
from engine.records.columns import Part, PassRecord
from engine.records.step import StepRecord
from engine.run.speculation import Speculation
from engine.run.step_many import ColumnStep, going_on, step_many
from engine.run.stepper import Stepper
from engine.sampling.chain import Effective, effective
from tests import tiny_models
from tests.speculating import SOURCES, tiny

pytestmark = pytest.mark.usefixtures("one_thread")
FAMILIES = ("llama", "gemma3", "mistral", "gpt2", "mamba")
"""Grouped queries, sliding windows in some layers and in all, learned positions, no pool."""
PROMPT = "the quick brown fox jumps over the"
TOKENS = 12


def settings(**dials: float) -> Effective:
    return effective("guide", dials)


COLUMNS = (
    ColumnStep(1, 0, settings(temperature=0.0)),
    ColumnStep(2, 0, settings(temperature=1.0), seed=1),
    ColumnStep(3, 0, settings(temperature=1.0, top_k=5), seed=1),
    ColumnStep(4, 0, settings(temperature=1.5), seed=2),
    ColumnStep(5, 0, settings(temperature=1.0, repetition_penalty=1.3), seed=3),
)


@pytest.fixture(scope="module", params=FAMILIES)
def opened(request: pytest.FixtureRequest) -> HFBackend:
    return tiny_models.backend(request.param)


@pytest.fixture
def backend(opened: HFBackend) -> HFBackend:
    opened.clear()
    return opened


def begun(backend: HFBackend) -> Stepper:
    run = Stepper(backend, max_tokens=TOKENS)
    run.submit(PROMPT)
    for _ in run.prefill():
        pass
    return run


def together(
    run: Stepper, columns: tuple[ColumnStep, ...]
) -> tuple[dict[int, list[StepRecord]], list[PassRecord]]:
    """All columns to their ends."""
    steps: dict[int, list[StepRecord]] = {one.column: [] for one in columns}
    passes = []
    going = list(columns)
    while going:
        found = step_many(run, going)
        passes.append(found.record)
        for told in found.record.columns:
            assert told.error == ""
            steps[told.column] += [run.nodes[node] for node in told.nodes]
        going = going_on(run, going, found.record)
    return steps, passes


def alone(backend: HFBackend, column: ColumnStep) -> list[StepRecord]:
    backend.clear()
    run = begun(backend)
    run.speculation = column.speculation
    return list(run.run(at=0, seed=column.seed, settings=column.settings))


def test_a_column_has_the_tokens_and_logits_of_a_run_alone(backend: HFBackend) -> None:
    expected = {one.column: alone(backend, one) for one in COLUMNS}
    backend.clear()
    found, passes = together(begun(backend), COLUMNS)
    for column, steps in expected.items():
        assert [one.token.id for one in found[column]] == [one.token.id for one in steps]
        for ours, theirs in zip(found[column], steps, strict=True):
            assert ours.draw.u == theirs.draw.u
            np.testing.assert_array_equal(np.sort(ours.top.ids), np.sort(theirs.top.ids))
            order = np.argsort(ours.top.ids), np.argsort(theirs.top.ids)
            np.testing.assert_allclose(
                ours.top.raw_logits[order[0]], theirs.top.raw_logits[order[1]], rtol=0, atol=1e-5
            )
    pooled = backend.pool is not None
    for one in passes[1:]:
        assert one.passes == (1 if pooled else one.rows)
        assert bool(one.note) is (not pooled and one.rows > 1)


def test_the_prompt_is_read_once_and_each_column_adds_its_own_blocks(backend: HFBackend) -> None:
    if backend.pool is None:
        pytest.skip("no pool of blocks")
    run = begun(backend)
    assert run.prefill_record is not None
    prompt = len(run.path_ids(0))
    assert run.prefill_record.computed == prompt
    steps, passes = together(run, COLUMNS)
    # Each pass computes a position a row, and nothing is ever read again.
    assert not any(step.timing.reread for own in steps.values() for step in own)
    assert all(step.kv.computed == 1 for own in steps.values() for step in own[1:])
    assert sum(one.rows for one in passes) <= sum(len(own) - 1 for own in steps.values())
    state = run.pool_state()
    assert state is not None
    size = state.block_size
    for group in state.groups:
        used = int((group.refs > 0).sum())
        # The full blocks of the prompt once; of each column those that it has written in.
        shared, most = prompt // size, -(-(prompt + TOKENS) // size)
        assert used <= shared + len(COLUMNS) * (most - shared)


@pytest.mark.parametrize("gathered", [False, True])
def test_bytes_of_k_and_v_are_those_that_the_pass_reads(
    gathered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """34 positions of a prompt, two full blocks of which all rows share; 384 bytes a position."""
    if gathered:
        monkeypatch.setattr(rows, "can_step", lambda pool: False)
    llama = tiny_models.backend("llama")
    run = begun(llama)
    prompt, each = len(run.path_ids(0)), llama.facts.kv_bytes_per_token_expected
    assert (prompt, each) == (34, 384)
    found, passes = together(run, COLUMNS[1:4])
    last = passes[-1]
    assert last.rows == 3
    seen = prompt + TOKENS - 1
    # The block that the prompt ends in is copied by all columns but one, which writes in it.
    shared = 0 if gathered else prompt // 16 * 16
    assert last.shared_kv_bytes == shared * each
    assert last.kv_bytes == (shared + 3 * (seen - shared)) * each
    # What a step's layers hold is what a pass for it alone would read.
    assert all(own[-1].kv.nbytes == seen * each for own in found.values())


def test_a_column_joins_by_fork_and_another_leaves(backend: HFBackend) -> None:
    """A fork in the middle shares what lies before it; the others do not notice."""
    run = begun(backend)
    found = step_many(run, COLUMNS[1:3])
    for _ in range(4):
        going = [
            replace(one, parent=told.nodes[-1])
            for one, told in zip(COLUMNS[1:3], found.record.columns, strict=True)
        ]
        found = step_many(run, going)
    middle = run.tree.path(found.record.columns[0].nodes[-1]).tolist()[1]
    joined = ColumnStep(9, middle, settings(temperature=1.0), seed=8)
    going = [replace(COLUMNS[1], parent=found.record.columns[0].nodes[-1]), joined]
    steps, _ = together(run, tuple(going))
    head = [one.token.id for one in run.path(middle)]
    whole = [*head, *(one.token.id for one in steps[9])]
    expected = begun(backend)
    for token_id in head:
        expected.extend(expected.cursor, force=token_id)
    rest = expected.run(at=expected.cursor, seed=8, settings=joined.settings)
    assert whole == [*head, *(one.token.id for one in rest)]


@pytest.mark.parametrize("name", SOURCES)
def test_greedy_columns_have_the_same_tokens_with_a_draft_and_without(name: str) -> None:
    """Each beside one without, and one that draws, in passes of all."""
    llama = tiny("llama")
    llama.clear()
    speculation = Speculation(SOURCES[name](llama), 3)
    drafting = ColumnStep(6, 0, COLUMNS[0].settings, speculation=speculation)
    found, passes = together(begun(llama), (*COLUMNS[:2], drafting))
    assert [one.token.id for one in found[6]] == [one.token.id for one in found[1]]
    assert (
        any(len(told.nodes) > 1 for one in passes for told in one.columns) or name != "same model"
    )


def test_columns_that_draft_run_their_rounds_by_themselves(backend: HFBackend) -> None:
    lookup = Speculation(PromptLookup(), 3)
    drafting = replace(COLUMNS[0], speculation=lookup)
    expected = {one.column: alone(backend, one) for one in (drafting, COLUMNS[1])}
    backend.clear()
    found, passes = together(begun(backend), (drafting, COLUMNS[1]))
    for column, steps in expected.items():
        assert [one.token.id for one in found[column]] == [one.token.id for one in steps]
    assert passes[0].columns[0].part is Part.KNOWN
    first = passes[1].columns[0]
    assert first.part is Part.ALONE
    assert "by themselves" in passes[1].note
    assert passes[1].rows == 1
