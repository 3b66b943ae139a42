"""A replayed session shows on every pane exactly what the live run showed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.records import LayerTime, ModelFacts, Record
from inspector.panes.base import Pane
from inspector.panes.registry import PANES
from inspector.view import RunLog, View
from sessions import Session, open_session
from tests import fakes
from tests.fake_runs import Host
from tests.test_sessions_store import forked_run, odd_step, save


def live_log(records: list[Record]) -> RunLog:
    log = RunLog()
    for one in records:
        log.add(one)
    return log


def replayed_log(session: Session) -> RunLog:
    """What a replay shows: all but the steps at once, the steps when somebody looks at them."""
    log = live_log(list(session.records(steps=False)))
    log.nodes, log.children = session.steps, session.children  # type: ignore[assignment]
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


RUNS = {"forked": forked_run, "timed": timed_run}


async def screens(pane: type[Pane], log: RunLog, size: tuple[int, int]) -> list[list[str]]:
    """The pane's lines at every node."""
    found = []
    for cursor in sorted(log.nodes):
        app = Host(pane(), View(log, cursor), "dark")
        async with app.run_test(size=size):
            found.append(app.screen_lines())
    return found


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("pane", [pane for _, pane in PANES], ids=[name for name, _ in PANES])
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
