"""After rounds both caches hold what a fresh read would: positions, blocks, next logits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.base import BackendError
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.drafts.early_exit import EarlyExit
from engine.drafts.model import DraftModel, require_same_vocabulary
from engine.records.round import Accept
from engine.records.vocabulary import Token, TokenKind, Vocabulary
from engine.run.speculation import Speculation
from tests import tiny_models
from tests.backends import assert_alike, fresh
from tests.speculating import SOURCES, stepper, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


def assert_as_fresh(backend: HFBackend, name: str, ids: list[int]) -> None:
    """The current branch holds ``ids``, in as many blocks as they need, and goes on as they do."""
    pool = backend.pool
    assert pool is not None
    assert pool.current.ids == ids
    for table, group in zip(pool.current.tables, pool.pool.groups, strict=True):
        assert len(table) == -(-len(ids) // pool.pool.block_size)
        held = {block for one in pool.pool.branches.values() for block in one.tables[0]}
        assert group.count - group.free == len(held)
    assert {one.seen for one in pool.layers} == {len(ids)}
    found = backend.forward(((backend.sequence, [7]),)).logits
    assert_alike(found, fresh(tiny(name), [*ids, 7]))
    backend.rollback(1)


@settings(max_examples=12, deadline=None)
@given(
    source=st.sampled_from(["self", "same model", "other model"]),
    tokens=st.integers(1, 6),
    accept=st.sampled_from(Accept),
    temperature=st.sampled_from([0.0, 1.0, 3.0]),
    seed=st.integers(0, 99),
    rounds=st.integers(1, 5),
)
def test_both_caches_are_as_after_a_fresh_read(
    source: str, tokens: int, accept: Accept, temperature: float, seed: int, rounds: int
) -> None:
    target = tiny_models.backend("llama", kv=KVOptions(block_size=4))
    draft = None
    run = stepper(target, dials={"temperature": temperature}, seed=seed, max_tokens=60)
    if source == "self":
        run.speculation = Speculation(EarlyExit(2, target), tokens, accept)
    else:
        name = "llama" if source == "same model" else "gpt2"
        draft = tiny_models.backend(name, kv=KVOptions(block_size=4))
        run.speculation = Speculation(DraftModel("draft", draft, target), tokens, accept)
    node = run.step().node
    for _ in range(rounds):
        if node in run.tree.stops:
            break
        node = run.grow(node)[-1].node
        last = run.nodes[node]
        ids = run.path_ids(node)
        # The correction or the bonus has not been read by anybody yet.
        read = list(ids) if last.came.value == "accepted" else list(ids[:-1])
        assert_as_fresh(target, "llama", read)
        state = target.pool_state()
        assert state is not None
        assert len(state.branches) == 1
        if draft is not None:
            assert draft.pool is not None
            assert draft.pool.current.ids == ids[: len(draft.pool.current.ids)]
            assert_as_fresh(draft, draft.facts.name, list(draft.pool.current.ids))


def test_the_first_layers_write_what_a_whole_pass_writes() -> None:
    backend = tiny_models.backend("llama")
    ids = [5, 9, 30, 12, 7]
    fresh(backend, ids)
    pool = backend.pool
    assert pool is not None
    with backend.shallow(2) as read:
        read([44])
        read([3])
        slots = [5, 6]
        drafted = [
            [t[..., slot, :].clone() for t in pool.layers[0].store.tensors() for slot in slots]
        ]
        drafted += [
            [t[..., slot, :].clone() for t in pool.layers[1].store.tensors() for slot in slots]
        ]
    assert pool.current.ids == ids
    backend.forward(((backend.sequence, [44, 3]),))
    for index, before in enumerate(drafted):
        after = [t[..., slot, :] for t in pool.layers[index].store.tensors() for slot in slots]
        for one, other in zip(before, after, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_drafting_with_all_layers_or_without_a_pool_is_refused() -> None:
    with pytest.raises(BackendError, match="the model has 3 layers: fewer than these"):
        EarlyExit(3, tiny_models.backend("llama"))
    with pytest.raises(BackendError, match="in a pool of blocks, which this model's are not"):
        EarlyExit(1, tiny_models.backend("mamba"))


def test_a_branch_that_was_evicted_is_read_again_before_its_round() -> None:
    backend = tiny_models.backend("llama")
    run = stepper(backend, SOURCES["same model"], max_tokens=30)
    first = run.step()
    last = run.grow(first.node)[-1]
    backend.clear()
    run.reading._logits.clear()
    steps = run.grow(last.node)
    assert steps[0].timing.reread
    plain = stepper(tiny("llama"), max_tokens=30)
    ids = [one.token.id for one in plain.run()]
    assert [one.token.id for one in run.path(steps[-1].node)] == ids[: len(run.path())]


def vocabulary(*texts: str, unused: int = 0) -> Vocabulary:
    tokens = [Token(at, text.encode()) for at, text in enumerate(texts)]
    tokens += [Token(len(texts) + at, b"", TokenKind.UNUSED) for at in range(unused)]
    return Vocabulary.pack(tokens)


def test_vocabularies_may_differ_by_their_padding_alone() -> None:
    require_same_vocabulary("d", vocabulary("a", "b", unused=3), vocabulary("a", "b"))
    for other, words in (
        (vocabulary("a", "c", "d"), 'id 1 is "c" there and "b" in the target'),
        (vocabulary("a", "bc", "d"), 'id 1 is "bc" there and "b" in the target'),
        (vocabulary("a", "b"), 'id 2 is unused there and "d" in the target'),
        (vocabulary("a", "b", "d", "e"), 'id 3 is "e" there and unused in the target'),
    ):
        with pytest.raises(BackendError, match=words):
            require_same_vocabulary("d", other, vocabulary("a", "b", "d", unused=2))


def test_a_draft_with_wider_or_narrower_logits_is_fitted() -> None:
    from engine.run.draft import Drawer
    from engine.sampling.chain import effective
    from engine.sampling.stages import StageContext

    chain = effective("guide", {"temperature": 0.0}).chain
    drawer = Drawer(chain, StageContext(), [], 3)
    assert drawer.draw(np.array([0.0, 2.0, 1.0, 9.0], np.float32)) == 1
    assert drawer.draw(np.array([5.0, 2.0], np.float32)) == 0
