"""The debugger's tree over the pool: however a node was come to, its logits are a fresh read's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from tests import tiny_models
from tests.tiny_models import VOCAB

NAMES = ("llama", "gemma3", "qwen3", "gpt2", "mistral")
BLOCKS, BLOCK = 14, 4
LONGEST = 36

pytestmark = pytest.mark.usefixtures("one_thread")


@functools.cache
def backend(name: str, window_keep: int | None) -> HFBackend:
    probed = tiny_models.backend(name).pool_state()
    assert probed is not None
    budget = BLOCKS * BLOCK * probed.position_bytes
    kv = KVOptions(block_size=BLOCK, budget=budget, window_keep=window_keep)
    return tiny_models.backend(name, kv=kv)


@functools.lru_cache(maxsize=8192)
def fresh(name: str, ids: tuple[int, ...]) -> Any:
    model = tiny_models.MODELS[name]()
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy()


@functools.cache
def default_model(path: Path) -> HFBackend:
    """The default model as it is run on a CPU, over a pool of few blocks."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float16)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    budget = BLOCKS * BLOCK * 23_040
    return HFBackend(model, tokenizer, kv=KVOptions(block_size=BLOCK, budget=budget))


class Session(RuleBasedStateMachine):
    """Step, back, fork, force, go elsewhere, delete, edit the prompt; and a pool that must evict.

    ``expected`` gives the logits of a fresh read, and ``tolerance`` how far others may lie from
    them, in parts of the largest.
    """

    backend: HFBackend
    expected: Callable[[list[int]], Any]
    tolerance: float

    def begin(self, seed: int) -> None:
        # A logit budget of nothing: what is not in the pool must be computed again.
        self.deleted = False
        self.run = Stepper(self.backend, effective("guide", {}), seed=seed, chunk=5, logit_budget=1)
        self.submit([3, 9, 4, 12, 7])

    def submit(self, ids: list[int]) -> None:
        self.run.submit_ids(ids)
        records = list(self.run.prefill())
        assert records[-1].cached + records[-1].computed == len(ids)
        assert records[-1].prefix is not None

    @property
    def room(self) -> bool:
        return len(self.run.path_ids(self.run.cursor)) < LONGEST

    @precondition(lambda self: self.room)
    @rule()
    def step(self) -> None:
        self.run.step()

    @rule()
    def back(self) -> None:
        passes = self.backend.length
        self.run.back()
        assert self.backend.length == passes

    @precondition(lambda self: self.room)
    @rule(token=st.integers(0, VOCAB - 1))
    def force(self, token: int) -> None:
        self.run.extend(self.run.cursor, force=token)

    @precondition(lambda self: self.room)
    @rule(seed=st.integers(0, 99))
    def draw_again(self, seed: int) -> None:
        self.run.extend(self.run.cursor, seed=seed)

    @rule(data=st.data())
    def go_elsewhere(self, data: st.DataObject) -> None:
        self.run.cursor = data.draw(st.sampled_from([ROOT, *self.run.nodes]))

    @precondition(lambda self: self.run.nodes)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.run.delete(data.draw(st.sampled_from(sorted(self.run.nodes))))
        self.deleted = True

    @precondition(lambda self: self.deleted)
    @rule()
    def undelete(self) -> None:
        with contextlib.suppress(StepperError):
            self.run.undelete()

    @rule(ids=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9), share=st.floats(0, 1))
    def edit_the_prompt(self, ids: list[int], share: float) -> None:
        before = list(self.run.path_ids(ROOT))
        self.submit([*before[: round(share * len(before))], *ids][:20])

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        if self.run.nodes:
            node = data.draw(st.sampled_from(sorted(self.run.nodes)))
            ids = self.run.path_ids(node)[:-1]
            expected = self.expected(ids)
            found = self.run.dense(node)
            assert np.abs(found - expected).max() <= self.tolerance * np.abs(expected).max()

    @invariant()
    def the_record_adds_up(self) -> None:
        if not hasattr(self, "run") or not self.run.nodes:
            return
        record = self.run.nodes[max(self.run.nodes)]
        if record.kv.computed:
            assert record.kv.cached + record.kv.computed == record.position
        state = self.run.pool_state()
        assert state is not None
        assert state.filled_bytes <= state.used_bytes <= state.reserved_bytes

    @invariant()
    def tables_alias_only_equal_text(self) -> None:
        if not hasattr(self, "run"):
            return
        state = self.run.pool_state()
        assert state is not None
        for number, group in enumerate(state.groups):
            refs = np.zeros(group.blocks, int)
            owners: dict[int, tuple[int, list[int]]] = {}
            for branch in state.branches:
                table = branch.tables[number]
                np.add.at(refs, table[table >= 0], 1)
                if branch.node is None:
                    continue
                ids = self.run.path_ids(branch.node)
                # A prompt may still be half read.
                assert branch.length == len(ids) or (branch.node == ROOT and branch.length)
                for at, block in enumerate(table.tolist()):
                    text = ids[: min((at + 1) * BLOCK, branch.length)]
                    if block < 0:
                        continue
                    other, before = owners.setdefault(block, (at, text))
                    shorter = min(len(before), len(text))
                    assert other == at
                    assert before[:shorter] == text[:shorter]
            assert refs[: group.refs.size].tolist() == group.refs.tolist()
            assert not refs[group.refs.size :].any()

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.backend.rollback(self.backend.length)
            pool = self.backend.pool
            assert pool is not None
            pool.clear()
            assert all(not any(blocks.refs) for blocks in pool.pool.groups)


class TinySession(Session):
    tolerance = 1e-4

    @initialize(
        name=st.sampled_from(NAMES), keep=st.sampled_from([None, 0]), seed=st.integers(0, 9)
    )
    def open(self, name: str, keep: int | None, seed: int) -> None:
        self.backend = backend(name, keep)
        self.expected = lambda ids: fresh(name, tuple(ids))
        self.begin(seed)


TestTinySession = TinySession.TestCase
TestTinySession.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.model
def test_the_default_model_too(default_model_dir: Path) -> None:
    class DefaultSession(Session):
        tolerance = 0.02  # of logits up to about 30, in float16

        @initialize(seed=st.integers(0, 9))
        def open(self, seed: int) -> None:
            self.backend = default_model(default_model_dir)
            self.expected = self.backend.reference_logits
            self.begin(seed)

    few = settings(max_examples=6, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(DefaultSession, settings=few)


def test_going_back_and_taking_another_token_computes_one_position() -> None:
    run = Stepper(tiny_models.backend("llama"), effective("guide", {}))
    run.submit_ids([3, 9, 4, 12, 7])
    for _ in range(6):
        run.step()
    for _ in range(4):
        run.back()
    fork = run.extend(run.cursor, force=11)
    after = run.extend(fork.node)
    assert (after.kv.cached, after.kv.computed) == (7, 1)
    assert not after.timing.reread
    # The branch that was left is still there too.
    run.cursor = 6
    assert run.step().kv.computed == 1


def test_a_second_prompt_says_what_it_found_and_why_not_more() -> None:
    run = Stepper(tiny_models.backend("llama", kv=KVOptions(block_size=4)), effective("guide", {}))
    run.submit_ids([3, 9, 4, 12, 7, 8, 5, 6, 2, 10])
    *_, first = run.prefill()
    assert first.prefix is not None
    assert first.prefix.reason == "nothing was read before"
    run.submit_ids([3, 9, 4, 12, 7, 8, 5, 6, 63, 10])
    *_, second = run.prefill()
    assert (second.cached, second.computed) == (8, 2)
    assert second.prefix is not None
    assert (second.prefix.hit_blocks, second.prefix.differs_at) == (2, 8)
    assert second.prefix.reason == "the token at position 8 is another one"
