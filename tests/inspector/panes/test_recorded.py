"""A replayed session shows on every pane exactly what the live run showed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.kv.prefix import explain
from engine.records.cache import PoolState
from engine.records.events import Record
from engine.records.model import ModelFacts
from engine.records.prompt import LayerTime
from inspector.panes.kv.pane import KVPane
from inspector.panes.registry import PANES
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from sessions import Session, open_session
from tests import fake_pools, fakes
from tests.fake_pools import FORKED, LONG, SIDE, branch, pool
from tests.fake_runs import Host
from tests.sessions.test_store import forked_run, odd_step, save


def live_log(records: list[Record]) -> RunLog:
    log = RunLog()
    for one in records:
        log.add(one)
    return log


def replayed_log(session: Session) -> RunLog:
    """What a replay shows: all but the steps at once, the steps when somebody looks at them."""
    log = live_log(list(session.records(steps=False)))
    log.take_over(session.steps, session.tree)
    return log


def timed_run() -> list[Record]:
    """A run of the default model with layers, warm-up and a step of odd figures."""
    layers = [LayerTime(0.5, 0.25, 1.0)] * 3
    chunks = (fakes.chunk(0, 16, 40.0, layers=layers, warmup=True), fakes.chunk(16, 4, 9.0))
    steps = [
        fakes.step(1, fakes.timing(0.0, 0.3, 0.1), fakes.kv(20, computed=20)),
        fakes.step(2, fakes.timing(50.0, 0.3, 0.1, warmup=True), fakes.kv(21)),
        odd_step(3),
    ]
    prompt = fakes.prompt(20, tokenize_ms=1.25)
    return [fakes.SMOLLM2, fakes.settings(), prompt, fakes.prefill(*chunks), *steps]


def run_of(log: RunLog) -> list[Record]:
    """The records of a hand-made log, in an order in which a live run sends them."""
    prompt, read = log.prompt, log.prefill
    assert prompt is not None
    assert read is not None
    found = explain(prompt.ids, None, cached=0, hit_blocks=0, evicted_blocks=0, size=16)
    steps = [log.nodes[node] for node in sorted(log.nodes)]
    return [fakes.SMOLLM2, fakes.settings(), prompt, replace(read, prefix=found), *steps]


def pooled_run() -> list[Record]:
    """A prompt of 40 tokens, three more and a fork, over a pool that had to evict something."""
    steps = [fakes.step(n, fakes.timing(9.0), fakes.kv(39 + n)) for n in range(1, 4)]
    steps.append(fakes.step(4, fakes.timing(9.0), fakes.kv(42), parent=2))
    head = [fakes.SMOLLM2, fakes.prompt(40), fakes.prefill(fakes.chunk(0, 40, 500.0))]
    early = pool(branch(1, 40, (0, 1, 2), node=0, held=True), current=1)
    late = pool(
        branch(1, 42, (0, 1, 2), node=2),
        branch(2, 43, (0, 1, 68), node=4, held=True),
        current=2,
        evicted=(5, 6),
        forks=1,
        copied_blocks=1,
        evicted_branches=1,
        evicted_blocks=2,
    )
    records = run_of(fakes.view(*head, *steps).log)
    return [*records[:4], early, *records[4:], late]


RUNS = {"forked": forked_run, "timed": timed_run, "pooled": pooled_run}


async def screens(pane: type[Pane], log: RunLog, size: tuple[int, int]) -> list[list[str]]:
    """The pane's lines at every node."""
    found = []
    for cursor in sorted(log.nodes):
        app = Host(pane(), View(log, cursor), "dark")
        async with app.run_test(size=size):
            found.append(app.screen_lines())
    return found


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("pane", [one.pane for one in PANES], ids=[one.name for one in PANES])
async def test_a_pane_of_a_replay_is_the_pane_of_the_run(
    tmp_path: Path, name: str, pane: type[Pane]
) -> None:
    records = RUNS[name]()
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        replayed = replayed_log(session)
        assert isinstance(replayed.facts, ModelFacts)
        live = await screens(pane, live_log(records), (110, 30))
        assert await screens(pane, replayed, (110, 30)) == live
        assert any(line.strip() for line in live[0])


LIES: dict[str, dict[str, Any]] = {
    "nodes that are not there": {
        "branches": (replace(LONG, node=10**12), replace(SIDE, node=-7)),
    },
    "longer than the path": {
        "branches": (replace(LONG, node=3), replace(SIDE, node=0)),
    },
    "a length without a table": {"branches": (replace(LONG, length=1 << 60), SIDE)},
    "no such branch": {"branch": 77},
    "the same number twice": {"branches": (LONG, replace(SIDE, number=1)), "branch": 1},
    "huge sizes": {"reserved_bytes": 10**38, "wasted_bytes": 10**38},
    "huge counts": {"forks": 10**38, "pieces": -3},
    "a pool of everything": {
        "groups": (replace(FORKED.groups[0], blocks=10**38, block_bytes=10**38),)
    },
    "fractions": {
        "groups": (replace(FORKED.groups[0], filled=np.full(69, 0.5), refs=np.full(69, np.inf)),)
    },
    "as many refs as there can be": {
        "groups": (replace(FORKED.groups[0], refs=np.full(69, 65535, np.uint16)),)
    },
    "all free, and yet in tables": {
        "groups": (replace(FORKED.groups[0], status=np.zeros(69, np.uint8)),)
    },
    "blocks of a million": {"block_size": 1_000_000},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_pool_in_a_file_that_lies_breaks_no_pane(tmp_path: Path, lie: str) -> None:
    state: PoolState = replace(FORKED, **LIES[lie])
    records = run_of(fake_pools.forked(None).log)
    with open_session(save(tmp_path / "run.llmi", [*records, state])) as session:
        log = replayed_log(session)
        assert isinstance(log.pool, PoolState)
        for cursor in (0, 34):
            app = Host(KVPane(), View(log, cursor), "dark")
            async with app.run_test(size=(100, 30)) as pilot:
                for key in ("home", "right_square_bracket", "down", "end", "enter", "pagedown"):
                    await pilot.press(key)
                assert any("Pool" in line or "Logical" in line for line in app.screen_lines()), lie
