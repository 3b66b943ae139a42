"""The KV pane over the real pools of tiny models that fork, evict and read again."""

from __future__ import annotations

import random

import pytest

from engine.backends.hf.pool import KVOptions
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from inspector.panes.kv.pool import PoolLook, pool_look
from inspector.state.view import RunLog, View
from tests import tiny_models
from tests.fake_pools import kv_lines
from tests.fakes import texts

BLOCK, BLOCKS = 4, 9


def stepper(name: str, seed: int) -> Stepper:
    probed = tiny_models.backend(name).pool_state()
    assert probed is not None
    budget = BLOCKS * BLOCK * probed.position_bytes
    backend = tiny_models.backend(
        name, kv=KVOptions(block_size=BLOCK, budget=budget, window_keep=0)
    )
    # A logit budget of nothing: what is gone on with must be in the pool, or is read again.
    return Stepper(backend, effective("guide", {}), seed=seed, chunk=5, logit_budget=1)


def looked(run: Stepper, log: RunLog, cursor: int) -> tuple[View, PoolLook]:
    state = run.pool_state()
    assert state is not None
    log.add(state)
    view = View(log, cursor)
    look = pool_look(view)
    assert isinstance(look, PoolLook), look
    return view, look


@pytest.mark.parametrize("name", ["llama", "gemma3"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_said_to_be_there_is_what_the_next_pass_finds(name: str, seed: int) -> None:
    run, log, dice = stepper(name, seed), RunLog(), random.Random(seed)
    log.add(run.backend.facts)
    log.add(run.submit_ids([3, 9, 4, 12, 7]))
    for record in run.prefill():
        log.add(record)
    kept = again = dropped = 0
    for _ in range(60):
        short = [node for node in [ROOT, *run.nodes] if len(run.path_ids(node)) < 30]
        parent = dice.choice(short[-3:] if dice.random() < 0.5 else short)
        view, look = looked(run, log, parent)
        # Few tokens to choose from, so that different nodes come to end the same text.
        child = run.extend(parent, force=dice.choice([5, 11]))
        log.add(child)
        if parent != ROOT and not child.timing.reused and name == "llama":
            assert child.kv.cached == look.cursor.covered
            said = "not in the pool" in texts(kv_lines(view, 75, 14))
            assert said is (look.cursor.covered < look.cursor.wanted)
            kept, again = kept + (not said), again + said
        for width, height in ((49, 9), (100, 40)):
            view, _ = looked(run, log, child.node)
            lines = kv_lines(view, width, height)
            assert all(line.cell_length <= width for line in lines)
            dropped += "dropped" in texts(lines)
    if name == "llama":
        assert kept > 10
        assert again > 0
        assert look.pool.evicted_blocks > 0
    else:
        assert len(look.groups) == 2
        assert dropped > 0
