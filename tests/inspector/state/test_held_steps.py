"""C4: what both processes keep of a long run's older steps, counted in objects, not in time."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.commands import Run
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.server import Engine
from inspector.state.controller import Controller
from inspector.state.held_steps import HeldSteps
from inspector.state.recorder import Recorder
from tests.direct import DirectClient, Inbox, script
from tests.inspector.test_app import app
from tests.test_soak import LOGITS, VOCABULARY, run

OF_LINKS = 12
"""Blocks of memory that a step may leave: its place in the tree and in the tables."""


def held_run(held: int | None, **dials: Any) -> Stepper:
    tokens = [chr(0x100 + number) for number in range(VOCABULARY)]
    backend = ScriptedBackend(lambda ids: LOGITS[len(ids) % 64], tokens)
    stepper = Stepper(backend, effective("guide", dials), max_tokens=100_000, held=held)
    stepper.submit(tokens[0])
    return stepper


def same(one: Any, other: Any) -> bool:
    """Whether two records say the same; arrays included."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def blocks(do: Callable[[], None], count: int) -> float:
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(count):
        do()
    gc.collect()
    return (sys.getallocatedblocks() - before) / count


@pytest.mark.parametrize("written", [True, False])
def test_c4_older_steps_are_what_they_were(tmp_path: Path, written: bool) -> None:
    stepper = run()
    steps = HeldSteps(tmp_path if written else None, newest=4)
    plain: dict[int, StepRecord] = {}
    for _ in range(20):
        step = stepper.step()
        steps[step.node] = plain[step.node] = step
    assert list(steps) == list(plain)
    assert len(steps) == 20
    assert all(same(steps[node], plain[node]) for node in plain)
    # Looked at twice in a row it is one object, so that a pane sees that nothing has changed.
    assert steps[1] is steps[1]
    assert 21 not in steps
    with pytest.raises(KeyError):
        steps[21]
    del steps[1]
    assert 1 not in steps
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_c4_steps_stay_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = run()
    steps = HeldSteps(tmp_path, newest=2)
    made = [stepper.step() for _ in range(6)]
    for step in made[:3]:
        steps[step.node] = step

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for step in made[3:]:
        steps[step.node] = step
    assert all(same(steps[step.node], step) for step in made)


def test_c4_the_app_keeps_no_more_than_the_links_of_a_step_that_is_recorded(tmp_path: Path) -> None:
    stepper = run()
    controller = Controller(lambda command: None)
    controller.log.new_nodes = partial(HeldSteps, tmp_path, 64)
    controller.take([stepper.submit(chr(0x100))])
    blobs = iter([pickle.dumps(stepper.step()) for _ in range(800)])

    def take() -> None:
        controller.take([pickle.loads(next(blobs))])

    blocks(take, 300)
    assert blocks(take, 500) < OF_LINKS


async def test_c4_the_app_has_older_steps_on_the_disk_only_where_the_run_is_kept(
    tmp_path: Path,
) -> None:
    for recorder, wanted in ((None, False), (Recorder(lambda prompt: tmp_path / "x.llmi"), True)):
        one = app()
        one = type(one)(one.asked, DirectClient(), DirectClient, recorder=recorder)
        steps = one.controller.log.new_nodes()
        assert isinstance(steps, HeldSteps)
        assert (steps._folder is not None) is wanted


def test_c4_the_engine_keeps_no_more_than_the_links_of_a_step() -> None:
    stepper = held_run(32)
    blocks(lambda: stepper.step() and None, 300)
    assert blocks(lambda: stepper.step() and None, 500) < OF_LINKS
    assert len(stepper.nodes) == 32


def test_c4_the_engine_of_the_app_holds_few_records() -> None:
    sent: list[Any] = []
    engine = Engine(sent.append, Inbox())  # type: ignore[arg-type]
    opening, configure, submit = script("abc")
    for command in (opening, replace(configure, max_tokens=600), submit, Run(0)):
        engine._carry_out(command)
    assert sum(isinstance(one, StepRecord) for one in sent) == 600
    assert len(engine._run.nodes) <= 256


def test_c4_a_run_goes_on_from_steps_whose_records_are_gone() -> None:
    """A fork far back draws what a run that keeps all draws, mirostat's state included."""
    dials = {"mirostat_tau": 4.0, "temperature": 0.9}
    long, short = held_run(None, **dials), held_run(8, **dials)
    for _ in range(100):
        assert same(long.step().draw, short.step().draw)
    assert 5 not in short.nodes
    ours, theirs = short.extend(5, seed=7), long.extend(5, seed=7)
    assert same(ours.draw, theirs.draw)
    assert same(ours.top, theirs.top)
    assert ours.state
    assert ours.state == theirs.state
    assert short.path_ids(100) == long.path_ids(100)
    assert np.array_equal(short.dense(3), long.dense(3))
    with pytest.raises(StepperError, match="no node 999"):
        short.extend(999)


def test_c4_what_was_deleted_comes_back_without_its_record() -> None:
    stepper = held_run(8)
    for _ in range(50):
        stepper.step()
    stepper.delete(5)
    assert stepper.cursor == 4
    assert stepper.undelete().node == 5
    assert stepper.children[4] == [5]
    assert len(stepper.path_ids(50)) == 51
