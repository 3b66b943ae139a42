"""Sizes, the pool as a record, 8-bit K and V, and how far two ways to the same logits part."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from engine.kv.blocks import Blocks
from engine.kv.budget import blocks_within, default_budget
from engine.kv.pool import Pool
from engine.kv.prefix import root_key
from engine.kv.quant import quantize
from engine.kv.state import pool_state
from engine.measure.compare_logits import compare_logits
from engine.records.cache import BlockStatus

FREE, EVICTED, CACHED, HELD, CURRENT = BlockStatus


def read(pool: Pool, branch: object, count: int) -> None:
    pool.extend(branch, count)  # type: ignore[arg-type]
    pool.commit(branch, [1] * count)  # type: ignore[arg-type]


def test_the_pool_as_a_picture() -> None:
    pool = Pool(groups=(Blocks(12),), block_size=4, root=root_key("test"))
    gone, trunk = pool.open(), pool.open()
    read(pool, gone, 4)  # block 0
    read(pool, trunk, 10)  # blocks 6, 7 and half of 8
    fork = pool.fork(trunk, 6)  # shares 6 and half of 7
    read(pool, fork, 3)  # 7 is copied to another block, and filled
    pool.release(gone)
    pool.evict()
    pool.release(trunk)
    state = pool_state(pool, fork, layers=((0, 1),), block_bytes=(64,), context=100)
    (group,) = state.groups
    copy, tail = 3, 4
    status = dict(enumerate(group.status.tolist()))
    assert [status[block] for block in (0, 6, 7, 8)] == [EVICTED, CURRENT, CACHED, CACHED]
    assert [status[block] for block in (copy, tail)] == [CURRENT, CURRENT]
    assert [int(group.filled[block]) for block in (6, 7, 8, copy, tail)] == [4, 4, 2, 4, 1]
    assert [int(group.refs[block]) for block in (0, 6, 7, copy)] == [0, 2, 1, 1]
    assert state.current is not None
    assert state.current.length == 9
    tables = {one.number: (one.held, one.tables[0].tolist()) for one in state.branches}
    assert tables == {
        trunk.number: (False, [6, 7, 8]),
        fork.number: (True, [6, copy, tail]),
    }
    assert state.reserved_bytes == 12 * 64
    assert state.used_bytes == 5 * 64
    assert state.filled_bytes == (4 + 4 + 2 + 4 + 1) * 16
    assert state.branch_bytes == 3 * 64
    assert state.wasted_bytes == 3 * 16
    assert state.full_context_bytes == 100 * 16
    assert state.position_bytes == 16
    assert (state.forks, state.copied_blocks, state.evicted_branches, state.evicted_blocks) == (
        1,
        1,
        1,
        1,
    )


def test_the_record_crosses_a_pipe_and_needs_no_torch() -> None:
    pool = Pool(groups=(Blocks(4),), block_size=4)
    branch = pool.open()
    read(pool, branch, 5)
    state = pool_state(pool, branch, layers=((0,),), block_bytes=(64,))
    again = pickle.loads(pickle.dumps(state))
    assert again.current.tables[0].tolist() == [0, 1]
    code = "import sys, engine.kv.state, engine.measure.compare_logits; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_empty_pool_has_a_picture_too() -> None:
    pool = Pool(groups=(Blocks(4),), block_size=4)
    state = pool_state(pool, None, layers=((0,),), block_bytes=(64,))
    assert (state.branch, state.branches, state.pieces, state.used_bytes) == (None, (), 0, 0)
    assert state.groups[0].filled.tolist() == []


# --- budgets ------------------------------------------------------------------------------------


def test_the_default_budget_is_four_contexts_or_a_quarter_of_what_is_free() -> None:
    assert default_budget(100, 1000, None) == 400_000
    assert default_budget(100, 1000, 1_000_000) == 250_000
    assert default_budget(100, None, None) == 100 * 8192 * 4


def test_groups_get_as_many_blocks_as_fit_together() -> None:
    sizes = {"block_size": 4, "window_keep": None}
    assert blocks_within(1000, (10,), (None,), **sizes) == (100,)
    assert blocks_within(1000, (10, 40), (None, 8), **sizes) == (20, 20)
    with pytest.raises(ValueError, match="holds no block of 4 positions"):
        blocks_within(49, (10, 40), (None, 8), **sizes)


def test_what_a_window_cannot_use_goes_to_the_rest() -> None:
    # A branch needs (8 + 4) / 4 + 2 = 5 blocks of the window's group: 16 branches need 80.
    counts = blocks_within(100_000, (10, 40), (None, 8), block_size=4, window_keep=4)
    assert counts == ((100_000 - 80 * 40) // 10, 80)


# --- 8 bits -------------------------------------------------------------------------------------


def test_eight_bits_are_within_half_a_step_of_each_number() -> None:
    states = torch.randn(1, 3, 50, 64, generator=torch.Generator().manual_seed(0)) * 5
    steps, scale = quantize(states)
    assert (steps.dtype, scale.dtype) == (torch.int8, torch.float16)
    assert scale.shape == (1, 3, 50, 1)
    assert steps.abs().max() == 127
    error = (steps.float() * scale.float() - states).abs()
    assert (error <= scale.float() * 0.5001 + 1e-6).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_zeros_tiny_and_huge_numbers_survive_eight_bits(dtype: torch.dtype) -> None:
    largest = min(torch.finfo(dtype).max, 8e6) / 2
    states = torch.tensor([[0.0, 0.0], [1e-7, -1e-7], [largest, -largest]], dtype=dtype)
    steps, scale = quantize(states)
    back = steps.float() * scale.float()
    assert back.isfinite().all()
    assert back[0].tolist() == [0.0, 0.0]
    assert torch.allclose(back[2], states[2].float(), rtol=1e-3)


# --- drift --------------------------------------------------------------------------------------


def logits(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_no_drift() -> None:
    same = compare_logits(logits(1, 3, 2), logits(1, 3, 2))
    assert (same.max_abs, same.kl, same.top, same.other_top) == (0.0, 0.0, 1, 1)
    assert (same.margin, same.flips, same.close) == (1.0, False, False)


def test_drift_in_literal_figures() -> None:
    # p = (1/2, 1/4, 1/4) against q = (1/4, 1/2, 1/4): KL = 1/2 ln 2 - 1/4 ln 2.
    found = compare_logits(logits(math.log(2), 0, 0), logits(0, math.log(2), 0))
    assert found.max_abs == pytest.approx(math.log(2))
    assert found.max_relative == pytest.approx(1.0)
    assert found.kl == pytest.approx(0.25 * math.log(2))
    assert (found.top, found.other_top, found.flips, found.close) == (0, 1, True, True)


def test_a_shift_of_all_logits_is_no_difference_in_probability() -> None:
    assert compare_logits(logits(1, 3, 2), logits(2, 4, 3)).kl == pytest.approx(0.0, abs=1e-12)


def test_drift_leaves_impossible_tokens_out() -> None:
    found = compare_logits(logits(1, -math.inf, 2), logits(1.5, -math.inf, 2))
    assert (found.max_abs, found.worst_id) == (0.5, 0)
    with pytest.raises(ValueError, match="fewer than two"):
        compare_logits(logits(1, -math.inf), logits(1, -math.inf))
    with pytest.raises(ValueError, match="shapes"):
        compare_logits(logits(1, 2), logits(1, 2, 3))
