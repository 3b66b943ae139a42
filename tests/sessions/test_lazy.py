"""A long session is opened and looked at by index: its steps are not read to show one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.commands import SetBreakpoints
from engine.records.events import Record
from engine.records.step_table import figures_of
from engine.timing import speed
from inspector.actions.player import Playing
from inspector.state.view import RunLog, View
from sessions import Session, SessionWriter, open_session
from sessions.lazy_steps import BLOCK, StepReader
from sessions.recording import first_records
from sessions.whole import read_everything
from tests import fakes
from tests.engine.run.test_paths import odd_steps
from tests.inspector.actions.test_breakpoints_app import points
from tests.inspector.actions.test_replay import replayed
from tests.inspector.panes.test_recorded import timed_run
from tests.inspector.test_app import press, screen_text
from tests.sessions.test_store import forked_run, save, stepper

STEPS = 20 * BLOCK
MIDDLE = STEPS // 2 + 5


class Reads:
    """What was read since the last look: blocks of steps, and steps' candidates."""

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.ladders: list[int] = []

    def take(self) -> tuple[list[int], int]:
        """The blocks, in order, and how many steps' candidates."""
        found = sorted(self.blocks), len(self.ladders)
        self.blocks, self.ladders = [], []
        return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counted = Reads()
    block, ladder = StepReader.block, StepReader._read_ladder

    def counting_block(self: StepReader, first: int, last: int) -> object:
        counted.blocks.append(first // BLOCK)
        return block(self, first, last)

    def counting_ladder(self: StepReader, node: int, row: object) -> object:
        counted.ladders.append(node)
        return ladder(self, node, row)  # type: ignore[arg-type]

    monkeypatch.setattr(StepReader, "block", counting_block)
    monkeypatch.setattr(StepReader, "_read_ladder", counting_ladder)
    return counted


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.llmi"
    with SessionWriter(path) as writer:
        head = [fakes.SMOLLM2, fakes.settings(), fakes.prompt(9)]
        writer.add_all([*head, fakes.prefill(fakes.chunk(0, 9, 40.0)), *odd_steps(STEPS)])
    return path


@pytest.fixture
def long(long_file: Path) -> Iterator[Session]:
    with open_session(long_file) as session:
        yield session


async def test_opening_and_jumping_read_what_is_seen(long: Session, reads: Reads) -> None:
    one = replayed(long)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot)
        assert one.controller.cursor.node == STEPS
        assert f"position {8 + STEPS:,}" in screen_text(one)
        first, last, middle = 0, STEPS // BLOCK, MIDDLE // BLOCK
        blocks, ladders = reads.take()
        assert set(blocks) <= {first, last - 1, last}
        assert ladders <= 3
        await press(pilot, "g")
        blocks, ladders = reads.take()
        assert set(blocks) <= {first, last - 1}
        assert ladders <= 2
        one.controller.cursor.go_to(MIDDLE)
        one.paint()
        await press(pilot)
        assert f"position {8 + MIDDLE:,} of {8 + STEPS:,}" in screen_text(one)
        blocks, ladders = reads.take()
        assert middle in blocks
        assert set(blocks) <= {middle - 1, middle, middle + 1}
        assert ladders <= 2
        await press(pilot, "G", "b", "g", "n")
        assert set(reads.take()[0]) <= {first, last - 1, last}
        one.controller.cursor.go_to(MIDDLE)
        assert one.controller.view.branch.nodes == list(range(1, STEPS + 1))


async def test_breakpoints_read_the_steps_they_are_looked_for_in(
    long: Session, reads: Reads
) -> None:
    one = replayed(long)
    one.controller.breakpoints.take_over(
        SetBreakpoints(points("entropy > 0.5"), ("text", "position", "loop"))
    )
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot)
        blocks, _ = reads.take()
        assert len(set(blocks)) <= 3
        one.controller.cursor.go_to(MIDDLE)
        one.paint()
        await press(pilot)
        watched = one.controller.breakpoints.watched(MIDDLE)
        assert [one.value for one in watched.watches][1:] == [9 + MIDDLE, True]
        assert len(set(reads.take()[0])) <= 3


def test_moving_along_the_whole_run_reads_none_of_it(long: Session, reads: Reads) -> None:
    controller = replayed(long).controller
    controller.replay(long.records(steps=False), long.steps, long.tree, long.rounds)
    reads.take()
    controller.run()
    assert controller.cursor.node == STEPS
    controller.cursor.back()
    controller.cursor.first()
    controller.cursor.last()
    controller.cursor.go_to(MIDDLE)
    assert not controller.cursor.sibling(1)
    assert controller.log.branch(MIDDLE) == 1
    assert reads.take() == ([], 0)


async def test_playing_reads_the_tempo_alone(long: Session, reads: Reads) -> None:
    one = replayed(long, playing=Playing(speed=0.001))
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot)
        reads.take()
        await press(pilot, "c")
        assert len(set(reads.take()[0])) <= 1
        await press(pilot, "space")


def both(records: list[Record], path: Path) -> Iterator[tuple[View, View]]:
    """Each node of the run as it was recorded, and as the file holds it."""
    live, stored = RunLog(), RunLog()
    for record in records:
        live.add(record)
    with open_session(save(path, records)) as session:
        for record in session.records(steps=False):
            stored.add(record)
        stored.take_over(session.steps, session.tree)
        for node in (0, *live.nodes):
            yield View(live, node), View(stored, node)


@pytest.mark.parametrize("run", [forked_run, timed_run, fakes.case_36])
def test_the_file_gives_the_figures_of_the_run(run: object, tmp_path: Path) -> None:
    looked = 0
    for live, stored in both(run(), tmp_path / "run.llmi"):  # type: ignore[operator]
        looked += 1
        # As bytes, because what is not a number equals nothing.
        kept = stored.path.figures.tobytes()
        assert live.path.figures.tobytes() == figures_of(list(stored.path)).tobytes() == kept
        assert stored.speed == live.speed == speed(live.prompt, live.prefill, list(live.path))
        assert stored.branch.nodes == live.branch.nodes
        tokens = [stored.branch.token(at) for at in range(len(stored.branch))]
        assert tokens == [step.token for step in live.branch]
    assert looked > 3


def test_a_run_that_goes_on_from_a_file_has_both_figures(long: Session) -> None:
    log = RunLog()
    log.add(fakes.prompt(9))
    log.take_over(long.steps, long.tree)
    fresh = fakes.step(STEPS + 1, fakes.timing(7.0), fakes.kv(9), parent=MIDDLE)
    log.add(fresh)
    path = log.path(fresh.node)
    assert path.nodes == [*range(1, MIDDLE + 1), fresh.node]
    assert path.figures["total_ms"][-1] == 7.0
    assert path[-1] is fresh
    assert path[-2].node == MIDDLE
    again = RunLog()
    again.take_over(long.steps, log.tree)
    assert np.array_equal(again.path(fresh.node).figures, path.figures)


@pytest.mark.parametrize("star", [False, True])
def test_a_check_reads_each_step_once_and_each_token_once(tmp_path: Path, star: bool) -> None:
    """Of a line and of a star, in which every step but the first comes after the first."""
    one = stepper()
    head = list(first_records(one, "the cat"))
    steps = [one.extend(min(node, 1) if star else node) for node in range(200)]
    path = save(tmp_path / "run.llmi", [*head, *steps])
    with open_session(path) as session:
        assert len(session.path_nodes(200)) == (2 if star else 200)
        with session._file.reading() as database:
            asked = list[str]()
            database.set_trace_callback(asked.append)
            read_everything(session)
            database.set_trace_callback(None)
    tokens = {token.id for one in steps for token in one.top.tokens}
    blocks = 200 // BLOCK + 1
    # Candidates and stages of each step; the figures of all and the nodes with whole logits.
    assert len(asked) <= 2 * 200 + blocks + len(tokens) + 5
