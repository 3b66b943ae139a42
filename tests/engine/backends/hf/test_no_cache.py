"""A run that keeps no K and V: every step reads everything, and the records say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine.backends.hf.pool import KVOptions
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from tests import tiny_models

PROMPT = [5, 9, 30, 12, 7, 44, 3, 21, 8]
OFF = KVOptions(cached=False)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def begun(name: str, kv: KVOptions | None, chunk: int = 256) -> Stepper:
    backend = tiny_models.backend(name, kv=kv)
    settings = effective("guide", {"temperature": 0})
    stepper = Stepper(backend, settings, max_tokens=50, chunk=chunk)
    stepper.submit_ids(PROMPT)
    return stepper


@pytest.mark.parametrize("name", sorted(tiny_models.MODELS))
def test_it_draws_the_tokens_that_a_cached_run_draws(name: str) -> None:
    ours, theirs = begun(name, OFF), begun(name, None)
    for _ in range(12):
        assert ours.step().token == theirs.step().token


def test_each_pass_computes_all_positions_and_none_are_cached() -> None:
    """The prompt's 9, then 10, 11, ... where a cached run computes one."""
    stepper = begun("llama", OFF)
    steps = [stepper.step() for _ in range(4)]
    assert [(one.kv.computed, one.kv.cached, one.kv.seen) for one in steps] == [
        (9, 0, 9),
        (10, 0, 10),
        (11, 0, 11),
        (12, 0, 12),
    ]
    assert {(one.kv.stored, one.kv.nbytes) for one in steps} == {(0, None)}


def test_the_prompt_is_read_in_one_piece_whatever_the_chunk_is() -> None:
    stepper = begun("llama", OFF, chunk=2)
    (record,) = stepper.prefill()
    assert [(one.start, one.count) for one in record.chunks] == [(0, 9)]
    assert (record.cached, record.computed) == (0, 9)
    assert record.prefix is not None
    assert record.prefix.reason == "no cache is kept: each pass reads everything"


def test_a_prompt_that_was_read_before_is_read_again() -> None:
    stepper = begun("llama", OFF)
    stepper.step()
    stepper.submit_ids(PROMPT)
    *_, record = stepper.prefill()
    assert record.prefix is not None
    assert (record.cached, record.computed) == (0, 9)
    assert (record.prefix.cached, record.prefix.computed, record.prefix.common) == (0, 9, 9)


def test_a_fork_costs_a_pass_like_any_other_and_no_reading_again() -> None:
    """With nothing kept there is nothing to go back to: no branch is ever read again."""
    stepper = begun("llama", OFF)
    for _ in range(5):
        stepper.step()
    fork = stepper.extend(2, force=11)
    after = stepper.extend(fork.node)
    assert (fork.timing.reused, fork.timing.reread) == (True, False)
    assert (after.timing.reused, after.timing.reread) == (False, False)
    assert (after.kv.computed, after.kv.cached) == (12, 0)
    stepper.cursor = 5
    back = stepper.extend(5)
    assert (back.timing.reread, back.kv.computed) == (False, 14)
    fresh = begun("llama", None)
    for one in (*stepper.path(5), back):
        assert fresh.step().token == one.token


def test_the_prompt_s_logits_can_be_had_again() -> None:
    stepper = begun("llama", OFF)
    stepper.step()
    stepper.reading._logits.clear()
    again = stepper.extend(ROOT, force=12)
    assert (again.timing.reread, again.kv.computed, again.kv.cached) == (True, 9, 0)


def test_the_facts_say_so() -> None:
    facts = begun("llama", OFF).backend.facts
    assert facts.kv_storage is not None
    assert not facts.keeps_cache
    assert facts.kv_storage.unusual == "no cache"
    assert facts.kv_note == "off, as was asked for (--no-cache)"
    assert facts.kv_bytes_per_token_expected is None
    assert [note for note in facts.notes if "cache" in note] == [
        "no cache is kept (--no-cache): each step reads the whole text again"
    ]


def test_eight_bits_can_be_gone_back_in_and_are_no_fault_of_the_model() -> None:
    facts = begun("llama", KVOptions(eight_bits=True, block_size=8)).backend.facts
    assert facts.can_rewind
    assert facts.kv_storage is not None
    assert (facts.kv_storage.dtype, facts.kv_storage.block_size) == ("int8", 8)
    assert facts.notes == ("K and V are kept in 8 bits, which changes the logits a little",)
    assert "8 bits" in facts.kv_note


def test_a_wish_for_eight_bits_that_cannot_be_is_said_to_be_none() -> None:
    facts = begun("mamba", KVOptions(eight_bits=True)).backend.facts
    assert facts.kv_storage is not None
    assert facts.kv_storage.unusual == ""
    assert any(note.endswith("; K and V are not kept in 8 bits") for note in facts.notes)
