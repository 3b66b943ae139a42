"""A session keeps the breakpoints and watches of its run; a replay shows them, --live uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.commands import Open, SetBreakpoints
from engine.conditions.breakpoints import Breakpoint
from engine.records.events import BreakpointsSet
from engine.records.prompt import PromptRecord
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from inspector.actions.player import Playing
from inspector.app import Inspector
from inspector.cli.open import recorder
from inspector.cli.run import run
from inspector.state.recorder import Recorder
from inspector.state.request import Request, Save
from sessions import open_session
from sessions.library import Library
from sessions.recording import record
from tests.direct import DirectClient, script
from tests.inspector.actions.test_breakpoints_app import points, write
from tests.inspector.actions.test_replay import WIDE, replayed
from tests.inspector.actions.test_saving import notes, settle
from tests.inspector.cli.test_breakpoints_run import asked
from tests.inspector.test_app import press, screen_text
from tests.sessions.test_store import forked_run, save, stepper
from tests.settling import until


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "data")


def live(library: Library, given: SetBreakpoints | None = None) -> Inspector:
    opening, configure, submit = script()
    client = DirectClient()
    client.send(opening)
    request = Request(opening, configure, submit, given or SetBreakpoints())
    kept = recorder(Save(), library)
    return Inspector(request, client, DirectClient, recorder=kept, library=library)  # type: ignore[arg-type]


async def recorded(library: Library) -> Path:
    """A run that stopped at its third step, with a breakpoint that is off, and a watch."""
    one = live(library)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "B")
        await write(pilot, "step == 3")
        await press(pilot, "enter", "B", "B", "a")
        await write(pilot, "rank > 9")
        await press(pilot, "enter", "down", "space", "w")
        await write(pilot, "step")
        await press(pilot, "enter", "B")
        await press(pilot, "c")
        await settle(one, pilot)
        strip = screen_text(one).splitlines()[-2]
        assert "step = 3 │ ◉1 step == 3 ×1 │ ○2 rank > 9" in strip
        # Already on the disk, should the program be killed now.
        (seen,) = library.previews()
        with open_session(seen.path) as session:
            assert session.breakpoints is not None
            assert session.breakpoints.points[0].hits == 1
    (seen,) = library.previews()
    return seen.path


async def test_a_replay_shows_those_of_the_live_run(library: Library) -> None:
    session = open_session(await recorded(library))
    assert session.version == 1
    assert session.breakpoints == BreakpointsSet(
        (
            Breakpoint(1, "step == 3", hits=1, told=2),
            Breakpoint(2, "rank > 9", enabled=False),
        ),
        ("step",),
    )
    one = replayed(session)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert "step = 3 │ ◉1 step == 3 ×1 │ ○2 rank > 9" in screen_text(one)
        await press(pilot, "b", "B")
        text = screen_text(one)
        assert "● 1" in text
        assert "○ 2" in text


async def test_a_recording_that_is_played_counts_anew(library: Library) -> None:
    session = open_session(await recorded(library))
    one = replayed(session, playing=Playing(speed=1000.0))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert one.controller.cursor.node == ROOT
        assert "●1 step == 3 │" in screen_text(one)
        await press(pilot, "c")
        await until(lambda: "◉1 step == 3 ×1" in screen_text(one))


async def test_a_model_goes_on_with_them(library: Library) -> None:
    path = await recorded(library)
    session = open_session(path)
    clients: list[DirectClient] = []

    def attach() -> DirectClient:
        clients.append(DirectClient())
        return clients[-1]

    kept = recorder(Save(), library, goes_on=path, prompt="abc")
    one = replayed(session, attach=attach, recorder=kept, library=library)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        told = [sent for sent in clients[0].sent if isinstance(sent, SetBreakpoints)]
        assert [point.text for point in told[-1].points] == ["step == 3", "rank > 9"]
        assert told[-1].watches == ("step",)
        await press(pilot, "b", "b", "r", "c")
        assert one.controller.log.state.reason == "breakpoint 1: step == 3"
        assert one.controller.breakpoints.points[0].hits == 2
    newest = max(library.previews(), key=lambda seen: seen.steps)
    with open_session(newest.path) as longer:
        assert longer.breakpoints is not None
        assert [point.hits for point in longer.breakpoints.points] == [2, 0]
    with open_session(path) as before:
        assert before.breakpoints is not None
        assert before.breakpoints.points[0].hits == 1, "the recording stays as it is"


async def test_those_of_the_command_line_come_after(library: Library) -> None:
    session = open_session(await recorded(library))
    one = replayed(session)
    one.controller.breakpoints.take_over(
        SetBreakpoints(points("step == 3", "step == 2"), ("seed",))
    )
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert [(point.number, point.text) for point in one.controller.breakpoints.points] == [
            (1, "step == 3"),
            (2, "rank > 9"),
            (3, "step == 2"),
        ]
        assert [watch.text for watch in one.controller.breakpoints.watches] == ["step", "seed"]


async def test_a_run_without_any_keeps_nothing_of_them(library: Library) -> None:
    one = live(library)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n")
        await settle(one, pilot)
    (seen,) = library.previews()
    with open_session(seen.path) as session:
        assert session.breakpoints is None
        assert not [one for _, one in session.events if isinstance(one, BreakpointsSet)]


async def test_a_run_flat_out_is_not_written_at_every_step(library: Library) -> None:
    one = live(library, SetBreakpoints(points("step > 0 and rank > 99")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "N")
        await settle(one, pilot)
    (seen,) = library.previews()
    with open_session(seen.path) as session:
        assert len(session) == 10
        kept = [one for _, one in session.events if isinstance(one, BreakpointsSet)]
        assert len(kept) <= 3
        assert kept[-1].points[0].told == 10


def test_another_prompt_has_them_too(tmp_path: Path) -> None:
    numbers = iter(range(1, 9))
    one = Recorder(lambda prompt: tmp_path / f"{next(numbers)}.llmi")
    records = forked_run()
    ours = BreakpointsSet((Breakpoint(1, "step == 3"),), ("rank",))
    one.record([*records, ours, *records])
    one.begin(tmp_path / "named.llmi", records)
    one.close()
    for name in ("1", "2", "named"):
        with open_session(tmp_path / f"{name}.llmi") as session:
            assert session.breakpoints == ours, name
            assert sum(isinstance(one, PromptRecord) for one in session.records()) == 1


def test_run_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = asked(('token == " on"',), ("rank < 99",))
    path = tmp_path / "run.llmi"
    request = Request(
        request.open, request.configure, request.submit, request.breakpoints, Save(path)
    )
    assert run(request, "jsonl") == 1
    with open_session(path) as session:
        assert session.breakpoints == BreakpointsSet(
            (
                Breakpoint(1, 'token == " on"', hits=1, told=3),
                Breakpoint(2, "rank < 99", asserts=True, told=3),
            )
        )


def test_a_script_keeps_them(tmp_path: Path) -> None:
    one: Stepper = stepper(temperature=0.0)
    one.settings = effective("guide", {"temperature": 0.0})
    one.add_breakpoint("step == 2")
    record(one, tmp_path / "run.llmi", "the cat")
    with open_session(tmp_path / "run.llmi") as session:
        assert session.breakpoints == BreakpointsSet((Breakpoint(1, "step == 2", hits=1, told=2),))


async def test_what_a_file_has_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    hostile = BreakpointsSet(
        (
            Breakpoint(1, "__import__('os')"),
            Breakpoint(7, "step == 3", hits=-5),
            Breakpoint(8, "no_such_figure > \x1b[2J"),
        ),
        ("rank", "\x1b]0;x\x07"),
    )
    path = save(tmp_path / "run.llmi", [*forked_run(), hostile])
    one = replayed(open_session(path), Open("scripted", {"text": "a b"}))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        (point,) = one.controller.breakpoints.points
        assert (point.number, point.text, point.hits) == (7, "step == 3", 0)
        assert [watch.text for watch in one.controller.breakpoints.watches] == ["rank"]
        (note,) = notes(one)
        assert note.startswith("left out of the recording's breakpoints: __import__('os'): ")
        assert note.endswith("(and 2 more)")
        assert "\x1b" not in note
