"""C4: what a long run keeps and does at each step, counted, so that no clock is needed."""

from __future__ import annotations

import gc
import pickle
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.kv.prefix import common_ids
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.state.controller import Controller

VOCABULARY = 128
LOGITS = np.random.default_rng(0).normal(size=(64, VOCABULARY)).astype(np.float32)


def run() -> Stepper:
    tokens = [chr(0x100 + number) for number in range(VOCABULARY)]
    backend = ScriptedBackend(lambda ids: LOGITS[len(ids) % 64], tokens)
    stepper = Stepper(backend, effective("guide", {}), max_tokens=100_000)
    stepper.submit(tokens[0])
    return stepper


def lines_of(stepper: Stepper) -> int:
    """Lines of Python that one step goes through."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        stepper.step()
    finally:
        sys.settrace(None)
    return count


def blocks_for(steps: int, stepper: Stepper) -> float:
    """Blocks of memory that a step leaves behind."""
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(steps):
        stepper.step()
    gc.collect()
    return (sys.getallocatedblocks() - before) / steps


def test_c4_a_step_does_as_much_late_in_a_run_as_early() -> None:
    """Between 64 positions, one turn of the script, and 16 such turns later."""
    stepper = run()
    for _ in range(64):
        stepper.step()
    early = sum(lines_of(stepper) for _ in range(64))
    for _ in range(64 * 30):
        stepper.step()
    late = sum(lines_of(stepper) for _ in range(64))
    # A prefix is compared in pieces of 256 positions: three lines for each of eight.
    assert late <= early + 64 * 8 * 6
    assert late <= early * 1.1


def test_c4_a_step_leaves_as_little_late_in_a_run_as_early() -> None:
    stepper = run()
    blocks_for(200, stepper)
    early, late = blocks_for(300, stepper), blocks_for(300, stepper)
    assert late <= early * 1.1
    assert late < 110


def test_c4_what_the_app_takes_in_leaves_as_little_late_as_early() -> None:
    stepper = run()
    controller = Controller(lambda command: None)
    controller.take([stepper.submit(chr(0x100))])
    blobs = [pickle.dumps(stepper.step()) for _ in range(800)]

    def blocks(some: list[bytes]) -> float:
        gc.collect()
        before = sys.getallocatedblocks()
        for blob in some:
            controller.take([pickle.loads(blob)])
        gc.collect()
        return (sys.getallocatedblocks() - before) / len(some)

    blocks(blobs[:200])
    early, late = blocks(blobs[200:500]), blocks(blobs[500:])
    assert late <= early * 1.1
    assert late < 110


def test_c4_the_tokens_of_a_record_are_shared_on_both_sides_of_the_pipe() -> None:
    stepper = run()
    one, other = (pickle.loads(pickle.dumps(stepper.step())) for _ in range(2))
    tokens = {token.id: token for token in one.top.tokens}
    shared = [token for token in other.top.tokens if token.id in tokens]
    assert shared
    assert all(token is tokens[token.id] for token in shared)


def test_c4_the_text_so_far_is_not_copied_at_every_step() -> None:
    stepper = run()
    stepper.step()
    ids = stepper.path_ids(stepper.cursor)
    stepper.step()
    assert stepper.path_ids(stepper.cursor) is ids


def test_c4_what_stages_know_of_the_text_is_not_copied_and_stays_as_it_was() -> None:
    stepper = run()
    made = [stepper.step().token.id for _ in range(5)]
    known = stepper.plan(stepper.cursor, None, 0, None)[1].output_ids
    stepper.step()
    assert not isinstance(known, (tuple, list))
    assert len(known) == 5
    assert list(known) == made
    assert (known[0], known[-1], known[1:3]) == (made[0], made[-1], tuple(made[1:3]))
    with pytest.raises(IndexError):
        known[5]
    assert list(stepper.plan(2, None, 0, None)[1].output_ids) == made[:2]


def test_a_common_beginning_is_found_to_the_position() -> None:
    ours = list(range(2000))
    for at in (0, 1, 255, 256, 257, 511, 512, 1999):
        theirs = [*ours[:at], -1, *ours[at + 1 :]]
        assert common_ids(ours, theirs) == at
        assert common_ids(ours, tuple(theirs)) == at
    assert common_ids(ours, ours[:700]) == 700
    assert common_ids(ours, ours, known=300) == 2000
