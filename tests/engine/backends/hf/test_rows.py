"""Several sequences in one pass of a real model: what comes out, and what the pool holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.base import BackendError, TokenSequence
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.kv.branch import Branch
from tests import tiny_models
from tests.backends import PROMPT, fresh, read

FAMILIES = ("llama", "qwen3", "gpt2", "mistral", "gemma3")
TEXTS = (PROMPT, [4, 11], [*PROMPT, 40, 41, 42, 17, 18, 19, 20, 21, 22], [7])
"""From one id to far more than the tiny models' sliding windows hold."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=FAMILIES)
def opened(request: pytest.FixtureRequest) -> HFBackend:
    return tiny_models.backend(request.param)


@pytest.fixture
def backend(opened: HFBackend) -> HFBackend:
    opened.clear()
    return opened


def greedy(backend: HFBackend, ids: Sequence[int], count: int) -> list[int]:
    """``count`` ids after ``ids``, one pass over one sequence each."""
    logits, found = fresh(backend, ids), list[int]()
    for _ in range(count):
        found.append(int(logits.argmax()))
        logits = read(backend, found[-1]).logits
    return found


def begun(backend: HFBackend, texts: Sequence[Sequence[int]] = TEXTS) -> list[TokenSequence]:
    """A sequence for each text, short of its last id."""
    found = []
    for ids in texts:
        backend.seek(())
        if ids[:-1]:
            read(backend, *ids[:-1])
        found.append(backend.fork(backend.sequence))
    return found


def test_rows_in_one_pass_give_the_very_ids_that_each_gives_alone(backend: HFBackend) -> None:
    expected = [greedy(backend, ids, 24) for ids in TEXTS]
    backend.clear()
    held, last = begun(backend), [ids[-1] for ids in TEXTS]
    found: list[list[int]] = [[] for _ in TEXTS]
    for _ in range(24):
        rows = [(one, [token_id]) for one, token_id in zip(held, last, strict=True)]
        result = backend.forward(rows)
        assert result.passes == 1
        last = [int(row.values.argmax()) for row in result.rows]
        for ids, token_id in zip(found, last, strict=True):
            ids.append(token_id)
    assert found == expected


def test_several_positions_of_several_rows_give_the_very_ids(backend: HFBackend) -> None:
    more = ([6], [7, 8, 9, 10, 11, 12, 13], [13, 14], [3, 4, 5])
    expected = []
    for ids, new in zip(TEXTS, more, strict=True):
        fresh(backend, ids)
        expected.append(read(backend, *new, all_positions=True).logits)
    backend.clear()
    rows = [
        (one, [ids[-1], *new]) for one, ids, new in zip(begun(backend), TEXTS, more, strict=True)
    ]
    result = backend.forward(rows, all_positions=True)
    assert result.passes == 1
    for row, alone in zip(result.rows, expected, strict=True):
        np.testing.assert_allclose(row.values[1:], alone, rtol=1e-4, atol=1e-4 * alone.std())
        assert (row.values[1:].argmax(-1) == alone.argmax(-1)).all()


def test_a_rows_text_is_found_again_and_gone_on_with_alone(backend: HFBackend) -> None:
    expected = fresh(backend, [*PROMPT, 20, 21])
    backend.clear()
    held = begun(backend)
    backend.forward([(one, [ids[-1]]) for one, ids in zip(held, TEXTS, strict=True)])
    assert backend.seek([*PROMPT, 20, 21]) == len(PROMPT)
    np.testing.assert_allclose(
        read(backend, 20, 21).logits, expected, rtol=1e-4, atol=1e-4 * expected.std()
    )


def test_branches_of_one_text_share_its_blocks(backend: HFBackend) -> None:
    """The blocks of a shared beginning are in the pool once, however many rows read them."""
    size = backend.block_size
    text = [3 + at % 40 for at in range(2 * size)]
    fresh(backend, text)
    first = backend.sequence
    rows = [(first, [5]), (backend.fork(first), [6]), (backend.fork(first), [7])]
    backend.forward(rows)
    state = backend.pool_state()
    assert state is not None
    for group in state.groups:
        used = group.refs[group.refs > 0]
        assert sorted(used.tolist()) == [1, 1, 1, 3, 3]


def test_a_shared_tail_is_copied_for_all_but_one(backend: HFBackend) -> None:
    fresh(backend, PROMPT)
    first = backend.sequence
    rows = [(first, [5]), (backend.fork(first), [6]), (backend.fork(first), [7])]
    state = backend.pool_state()
    assert state is not None
    assert backend.forward(rows).copied_blocks == 2 * len(state.groups)
    expected = fresh(backend, [*PROMPT, 6, 9])
    found = backend.forward([(rows[1][0], [9]), (rows[2][0], [9])]).rows[0].values
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.std())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_sixteen_bits_rows_differ_by_rounding_alone(dtype: str) -> None:
    model = tiny_models.MODELS["llama"]().to(getattr(torch, dtype))
    backend = HFBackend(model, tiny_models.tokenizer())
    expected = [fresh(backend, ids) for ids in TEXTS]
    rows = [(one, [ids[-1]]) for one, ids in zip(begun(backend), TEXTS, strict=True)]
    result = backend.forward(rows)
    assert result.passes == 1
    tolerance = {"float16": 0.1, "bfloat16": 0.5}[dtype]
    for row, alone in zip(result.rows, expected, strict=True):
        assert np.abs(row.values - alone).max() <= tolerance * alone.std()
        assert (row.half is not None) == (dtype == "float16")


def test_rows_over_a_pool_of_eight_bits() -> None:
    backend = tiny_models.backend("llama", kv=KVOptions(eight_bits=True))
    expected = []
    for ids in TEXTS:
        backend.seek(())
        if ids[:-1]:
            read(backend, *ids[:-1])
        expected.append(read(backend, ids[-1]).logits)
    backend.clear()
    rows = [(one, [ids[-1]]) for one, ids in zip(begun(backend), TEXTS, strict=True)]
    result = backend.forward(rows)
    assert result.passes == 1
    for row, alone in zip(result.rows, expected, strict=True):
        np.testing.assert_allclose(row.values, alone, rtol=1e-3, atol=1e-3 * alone.std())


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("mamba", KVOptions()),
        ("llama", KVOptions(pooled=False)),
        ("mistral", KVOptions(pooled=False)),
        ("llama", KVOptions(cached=False)),
    ],
)
def test_what_cannot_share_a_pass_takes_one_for_each_row(family: str, options: KVOptions) -> None:
    """A recurrent state, transformers' own cache, no cache: one after the other, the same ids."""
    backend = tiny_models.backend(family, kv=options)
    expected = [greedy(backend, ids, 5) for ids in TEXTS[:2]]
    backend.clear()
    held, last = begun(backend, TEXTS[:2]), [ids[-1] for ids in TEXTS[:2]]
    found: list[list[int]] = [[], []]
    for _ in range(5):
        result = backend.forward([(one, [last[at]]) for at, one in enumerate(held)])
        assert result.passes >= 2
        last = [int(row.values.argmax()) for row in result.rows]
        for ids, token_id in zip(found, last, strict=True):
            ids.append(token_id)
    assert found == expected


def test_rows_without_room_leave_the_pool_as_it_was() -> None:
    backend = tiny_models.backend("llama", kv=KVOptions(positions=32))
    fresh(backend, PROMPT)
    first = backend.sequence
    rows = [(first, [5] * 30), (backend.fork(first), [6] * 30)]
    with pytest.raises(BackendError, match="KV pool is full"):
        backend.forward(rows)
    assert [len(one) for one, _ in rows] == [len(PROMPT), len(PROMPT)]
    backend.forward([(one, [4]) for one, _ in rows])
    assert [len(one) for one, _ in rows] == [len(PROMPT) + 1, len(PROMPT) + 1]


def test_a_pass_that_fails_leaves_every_branch_as_it_was(
    backend: HFBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fresh(backend, [*PROMPT, 11, 12])
    backend.clear()
    held = begun(backend, [[*PROMPT, 11], [4, 11, 5]])
    rows = [(held[0], [11]), (held[1], [5])]
    backend.forward(rows)
    real = backend.model.lm_head.forward

    def broken(*words: Any) -> Any:
        raise RuntimeError("broken on purpose")

    backend.model.lm_head.forward = broken
    try:
        with pytest.raises(BackendError, match="broken on purpose"):
            backend.forward([(held[0], [12]), (held[1], [6, 7])])
    finally:
        backend.model.lm_head.forward = real
    assert [len(one) for one in held] == [len(PROMPT) + 1, 3]
    found = backend.forward([(held[0], [12]), (held[1], [6])]).rows[0].values
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.std())


def test_a_model_that_reads_rows_wrongly_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows in one pass do not give what each gives alone, they go in one by one."""
    backend = tiny_models.backend("llama")
    expected = fresh(backend, [*PROMPT, 11])
    real = backend.model.forward

    def wrong(tokens: Any, **more: Any) -> Any:
        if tokens.shape[0] > 1:
            more["position_ids"] = torch.zeros_like(more["position_ids"])
        return real(tokens, **more)

    backend.clear()
    held = begun(backend, [[*PROMPT, 11], [4, 11, 5]])
    monkeypatch.setattr(backend.model, "forward", wrong)
    result = backend.forward([(held[0], [11]), (held[1], [5])])
    assert result.passes == 2
    np.testing.assert_allclose(result.logits, expected, rtol=1e-4, atol=1e-4 * expected.std())


def test_a_branch_that_is_gone_is_refused(backend: HFBackend) -> None:
    fresh(backend, PROMPT)
    gone = backend.fork(backend.sequence)
    assert isinstance(gone, Branch)
    backend.forget(gone.number, 0)
    for rows in ([(gone, [3])], [(backend.sequence, [3]), (gone, [4])]):
        with pytest.raises(BackendError, match="seek to its text again"):
            backend.forward(rows)
    assert backend.length == len(PROMPT)
