"""A run is kept as it goes, named, left and found again; a disk that fails never ends it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.records.events import DenseLogits, Record, SettingsChanged
from engine.records.step import StepRecord
from inspector.actions.keeping import Keeping
from inspector.app import Inspector
from inspector.cli import sessions_print
from inspector.cli.open import recorder, tell_where_kept
from inspector.messages import Force
from inspector.screens.dialog import Dialog
from inspector.screens.session_asks import InterruptedMenu, QuitMenu
from inspector.screens.sessions import SessionsScreen
from inspector.state.recorder import Recorder, records_of
from inspector.state.request import Request, Save
from inspector.state.view import RunLog
from sessions import SessionWriter, open_session
from sessions.library import Library
from tests.direct import DirectClient, script
from tests.inspector.test_app import press, screen_text
from tests.sessions.test_store import assert_same, forked_run


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "data")


def app(library: Library, save: Save | None = None, **options: Any) -> Inspector:
    opening, configure, submit = script(**options)
    client = DirectClient()
    client.send(opening)
    return Inspector(
        Request(opening, configure, submit),
        client,
        DirectClient,  # type: ignore[arg-type]
        recorder=recorder(save or Save(), library),
        library=library,
    )


async def settle(one: Inspector, pilot: Pilot[None]) -> None:
    """Let the recorder finish, and the app hear of it."""
    assert one.keeping.recorder is not None
    assert one.keeping.recorder.flush(60.0)
    await pilot.pause()


def notes(one: Inspector) -> list[str]:
    return [str(note.message) for note in one._notifications]


async def type_in(pilot: Pilot[None], text: str) -> None:
    await press(pilot, *("full_stop" if key == "." else key for key in text), "enter")


# --- the recorder by itself -------------------------------------------------------------------


def test_what_the_recorder_wrote_is_what_it_was_given(tmp_path: Path) -> None:
    records = forked_run()
    recorder = Recorder(lambda prompt: tmp_path / "run.llmi")
    recorder.record(records)
    recorder.close()
    recorder.close()
    assert recorder.error == ""
    with SessionWriter(tmp_path / "other.llmi") as writer:
        writer.add_all(records)
    with open_session(tmp_path / "run.llmi") as one, open_session(tmp_path / "other.llmi") as two:
        assert one.closed
        assert_same([*one.records()], [*two.records()])


def test_a_prompt_without_a_token_makes_no_file(tmp_path: Path) -> None:
    recorder = Recorder(lambda prompt: tmp_path / "run.llmi")
    recorder.record(forked_run()[:3])
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_each_prompt_gets_its_own_file(tmp_path: Path) -> None:
    names = iter(["a.llmi", "b.llmi"])
    recorder = Recorder(lambda prompt: tmp_path / next(names))
    run = forked_run()
    recorder.record(run)
    recorder.record(
        one for one in run if type(one).__name__ not in ("ModelFacts", "SettingsChanged")
    )
    recorder.close()
    with open_session(tmp_path / "a.llmi") as a, open_session(tmp_path / "b.llmi") as b:
        assert len(a) == len(b) == 9
        assert b.facts is not None
        assert b.settings is not None


def test_a_log_is_kept_as_a_whole(tmp_path: Path) -> None:
    log = RunLog()
    for record in forked_run():
        log.add(record)
    recorder = Recorder(None)
    recorder.record(forked_run())
    recorder.begin(tmp_path / "late.llmi", records_of(log))
    recorder.close()
    assert [*recorder.take_news()] == [f"saved as {tmp_path / 'late.llmi'}"]
    with open_session(tmp_path / "late.llmi") as session:
        assert sorted(session.steps) == sorted(log.nodes)


def test_c4_a_run_waits_for_its_file_so_that_little_is_left_to_write_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk slower than the run; then one that hangs, which ends no run, and loses nothing."""
    monkeypatch.setattr("inspector.state.recorder._MOST_WAITING", 3)
    monkeypatch.setattr("inspector.state.recorder._PACE_S", 5.0)
    records = forked_run()
    hangs, free, add, left = threading.Event(), threading.Event(), SessionWriter.add, []

    def slow(self: SessionWriter, record: Record) -> None:
        if hangs.wait(0.01):
            free.wait(10)
        add(self, record)

    monkeypatch.setattr(SessionWriter, "add", slow)
    recorder = Recorder(lambda prompt: tmp_path / "run.llmi")
    keeping = Keeping(None, recorder)  # type: ignore[arg-type]
    for one in records:
        recorder.record([one])
        keeping.pace()
        left.append(recorder._jobs.qsize())
    assert max(left) == 3
    hangs.set()
    monkeypatch.setattr("inspector.state.recorder._PACE_S", 0.05)
    steps = [one for one in records if isinstance(one, StepRecord)]
    for node in range(20, 26):
        recorder.record([replace(steps[0], node=node)])
        keeping.pace()
    assert recorder._jobs.qsize() > 3
    free.set()
    recorder.close()
    with open_session(tmp_path / "run.llmi") as session:
        assert session.closed
        assert len(session) == len(steps) + 6


def test_c4_the_thread_that_brings_records_is_the_one_that_waits(library: Library) -> None:
    one, waited = app(library), []
    one.keeping.pace = lambda: waited.append(threading.get_ident())  # type: ignore[method-assign]
    one.engine.listen()
    bringing = threading.Thread(target=one.engine.client.notify)
    bringing.start()
    bringing.join()
    assert waited == [bringing.ident]


def test_e2_a_log_that_is_kept_late_has_every_step_with_its_own_settings(tmp_path: Path) -> None:
    """w on a run that was not kept: the dials of the first six tokens are not those of the rest."""
    log, run = RunLog(), forked_run()
    for record in run:
        log.add(record)
    first, later = (one.dials for one in run if isinstance(one, SettingsChanged))
    recorder = Recorder(None)
    recorder.begin(tmp_path / "late.llmi", records_of(log))
    recorder.close()
    replayed = RunLog()
    with open_session(tmp_path / "late.llmi") as session:
        for record in session.records():
            replayed.add(record)
    assert first["temperature"].value == 1.5
    for node, step in replayed.nodes.items():
        kept = replayed.all_settings[step.preset, step.chain_spec]
        assert kept.dials == (first if node <= 6 else later)
    assert replayed.settings is not None
    assert replayed.settings.dials == later


def test_a_session_that_is_gone_on_from_is_copied(tmp_path: Path) -> None:
    run: list[Record] = forked_run()
    last = next(one for one in reversed(run) if isinstance(one, StepRecord))
    with SessionWriter(tmp_path / "old.llmi") as writer:
        writer.add_all(one for one in run if one is not last)
    before = (tmp_path / "old.llmi").read_bytes()
    recorder = Recorder(lambda prompt: tmp_path / "new.llmi", goes_on=tmp_path / "old.llmi")
    recorder.record([run[0], last])
    recorder.close()
    assert (tmp_path / "old.llmi").read_bytes() == before
    with open_session(tmp_path / "new.llmi") as session:
        assert len(session) == 9


# --- in the app -------------------------------------------------------------------------------


async def test_a_run_is_kept_under_a_name_of_its_own(library: Library) -> None:
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n", "n")
        await settle(one, pilot)
        (seen,) = library.previews()
        assert seen.steps == 3
        assert seen.closed is None
        assert seen.prompt == "abc"
        assert seen.path.parent == library.autosaves
        assert "NOT SAVED" not in screen_text(one)
        await press(pilot, "q")
    assert not one.is_running
    (seen,) = library.previews()
    assert seen.closed


async def test_w_gives_the_session_a_name(library: Library) -> None:
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "w")
        assert "nothing to save yet" in notes(one)[-1]
        await press(pilot, "n", "w")
        await type_in(pilot, "first try")
        await settle(one, pilot)
        named = library.folder / "first try.llmi"
        assert one.keeping.recorder is not None
        assert one.keeping.recorder.path == named
        assert notes(one)[-1] == f"saved as {named}"
        await press(pilot, "n", "q")
    with open_session(named) as session:
        assert len(session) == 2
    assert list(library.autosaves.iterdir()) == []


async def test_a_name_that_is_taken_is_refused_and_the_run_stays_kept(library: Library) -> None:
    library.named_path("x").write_bytes(b"mine")
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "w")
        await type_in(pilot, "x")
        await settle(one, pilot)
        assert "is there already" in notes(one)[-1]
        await press(pilot, "n")
        await settle(one, pilot)
        assert [seen.steps for seen in library.previews() if not seen.error] == [2]
    assert library.named_path("x").read_bytes() == b"mine"


async def test_without_saving_quit_asks(library: Library) -> None:
    one = app(library, Save(auto=False))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "q")
        assert not one.is_running, "nothing was drawn: nothing to lose"
    one = app(library, Save(auto=False))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "q")
        assert isinstance(one.screen, QuitMenu)
        await press(pilot, "escape")
        assert not isinstance(one.screen, Dialog)
        await press(pilot, "q", "w")
        await type_in(pilot, "kept")
        await settle(one, pilot)
        await press(pilot, "q")
        assert not one.is_running
    with open_session(library.named_path("kept")) as session:
        assert len(session) == 1
    one = app(library, Save(auto=False))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "q", "q")
        assert one.is_running, "F2: q steps out of the question"
        await press(pilot, "q", "d")
        assert not one.is_running


async def test_a_folder_that_cannot_be_written_is_said_and_marked(
    library: Library, tmp_path: Path
) -> None:
    # Root may write anywhere; a file in the folder's place stops everybody.
    library.folder.write_bytes(b"")
    one = app(library)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n")
        await settle(one, pilot)
        assert "NOT SAVED" in screen_text(one).splitlines()[0]
        assert notes(one)[0].startswith("not saved: ")
        await press(pilot, "n", "n")
        await settle(one, pilot)
        assert one.controller.cursor.node == 3
        assert len([line for line in notes(one) if "not saved" in line]) == 1
        await press(pilot, "q")
        assert isinstance(one.screen, QuitMenu)


async def test_a_disk_that_fills_up_on_the_way(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: SessionWriter, step: StepRecord) -> None:
        raise OSError(28, "No space left on device")

    one = app(library)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        await settle(one, pilot)
        monkeypatch.setattr(SessionWriter, "_keep_step", full)
        await press(pilot, "n")
        await settle(one, pilot)
        assert "NOT SAVED" in screen_text(one).splitlines()[0]
        assert "No space left on device" in notes(one)[-1]
        monkeypatch.undo()
        await press(pilot, "n", "w")
        await type_in(pilot, "rescued")
        await settle(one, pilot)
        assert "NOT SAVED" not in screen_text(one)
    with open_session(library.named_path("rescued")) as session:
        assert len(session) == 4


async def test_a_named_file_keeps_the_first_run(library: Library, tmp_path: Path) -> None:
    one = app(library, Save(tmp_path / "mine.llmi", full_logits=True))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n")
        await settle(one, pilot)
    with open_session(tmp_path / "mine.llmi") as session:
        assert len(session) == 2
        assert isinstance(session.dense(1), DenseLogits)
        assert session.dense(2) is not None
        assert session.vocabulary is not None


def interrupted(library: Library, name: str = "crashed") -> Path:
    """A run whose program was killed."""
    path = library.autosave_path(name)
    writer = SessionWriter(path)
    writer.add_all(forked_run())
    writer._release()
    return path


@contextlib.asynccontextmanager
async def started(library: Library) -> AsyncIterator[tuple[Inspector, Pilot[None]]]:
    """The app on another run, once it has looked for interrupted ones."""
    one = app(library)
    async with one.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        yield one, pilot


async def test_f1_what_the_user_asked_for_goes_on(library: Library) -> None:
    """F1: no dialog comes up over it, n steps, and o lists; a line and the footer tell of it."""
    path = interrupted(library)
    async with started(library) as (one, pilot):
        assert not isinstance(one.screen, Dialog)
        assert notes(one) == [f"a run was interrupted: {path.stem}, 9 tokens · I looks after it"]
        assert "I Interrupted run" in screen_text(one).splitlines()[-1]
        await press(pilot, "n", "n")
        assert one.controller.cursor.node == 2
        await press(pilot, "o")
        assert isinstance(one.screen, SessionsScreen)
    async with started(library) as (one, _):
        assert notes(one) == [], "told again"
        assert "Interrupted" not in screen_text(one)


async def test_an_interrupted_run_is_kept(library: Library) -> None:
    path = interrupted(library)
    async with started(library) as (one, pilot):
        await press(pilot, "I")
        assert isinstance(one.screen, InterruptedMenu)
        shown = screen_text(one)
        for words in ("Open it", "Keep it in the list", "Discard it"):
            assert words in shown
        assert f"{path.stem}: 9 tokens of scripted" in shown
        await press(pilot, "q")
        assert not isinstance(one.screen, Dialog)
        await press(pilot, "I", "k")
        assert "Interrupted" not in screen_text(one).splitlines()[-1]
    (seen,) = [one for one in library.previews() if one.path == path]
    assert seen.interrupted
    assert seen.closed is None
    with open_session(path) as session:
        assert len(session) == 9


async def test_an_interrupted_run_is_opened(library: Library) -> None:
    path = interrupted(library)
    async with started(library) as (one, pilot):
        await press(pilot, "I", "o")
    assert one.next_session == path
    assert library.to_offer() == []
    assert [seen.path for seen in library.interrupted()] == [path], "listed as what it is"


async def test_an_interrupted_run_is_discarded(library: Library) -> None:
    path = interrupted(library)
    async with started(library) as (one, pilot):
        await press(pilot, "I", "d")
        assert notes(one)[-1].startswith("in the trash for 30 days: ")
    assert not path.exists()
    assert [found.name for found in library.trash.iterdir()] == [path.name]
    assert library.interrupted() == []


async def test_of_several_the_newest_is_offered_and_no_other_later(library: Library) -> None:
    old, new = interrupted(library, "old"), interrupted(library, "new")
    os.utime(old, (1000, 1000))
    async with started(library) as (one, pilot):
        assert notes(one)[0].startswith(f"a run was interrupted: {new.stem}, 9 tokens (and 1 more)")
        await press(pilot, "I")
        assert f"{new.stem}: 9 tokens" in screen_text(one)
        assert "with 1 more like it" in screen_text(one)
        await press(pilot, "k")
    async with started(library) as (one, _):
        assert not isinstance(one.screen, Dialog)
    later = interrupted(library, "later")
    assert [seen.path for seen in library.to_offer()] == [later]
    old.unlink()
    library.offered([later])
    assert (library.autosaves / "offered.txt").read_text("utf-8").split() == sorted(
        [new.name, later.name]
    )


async def test_a_run_that_goes_on_elsewhere_is_not_offered(library: Library) -> None:
    writer = SessionWriter(library.autosave_path("elsewhere"))
    writer.add_all(forked_run())
    async with started(library) as (one, _):
        assert not isinstance(one.screen, Dialog)
        (seen,) = library.previews()
        assert (seen.interrupted, seen.state) == (False, "being written")
    writer.close()


async def test_the_list_marks_it(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    path = interrupted(library)
    library.offered([path])
    async with started(library) as (one, pilot):
        await press(pilot, "o")
        assert one.screen.chosen.path == path  # type: ignore[attr-defined]
        rows = screen_text(one).splitlines()
        assert [row for row in rows if "the cat" in row and " ! " in row[:8]], (
            "F1: the list marks it"
        )
        assert any("! interrupted" in row for row in rows)
    sessions_print.show_list(library, "", "text")
    assert capsys.readouterr().out.rstrip().endswith("(interrupted)")
    sessions_print.show_list(library, "", "json")
    (told,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (told["interrupted"], told["closed"]) == (True, None)
    sessions_print.show(path, "text")
    assert "interrupted: never closed" in capsys.readouterr().out


# --- exports ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "form", "begins"),
    [
        ("h", "html", "<!doctype html>"),
        ("m", "md", "# "),
        ("j", "jsonl", '{"type": "run"'),
        ("c", "csv", "node,parent"),
        ("s", "svg", "<svg"),
    ],
)
async def test_e_exports_to_the_current_folder(
    library: Library,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    form: str,
    begins: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    one = app(library, Save(auto=False))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n")
        for _ in range(2):
            await press(pilot, "e", key)
            assert one.sessions.exports.idle.wait(60)
            await pilot.pause()
        names = [f"abc.{form}", f"abc-2.{form}"]
        assert [line for line in notes(one) if "exported" in line] == [
            f"exported to {tmp_path / name}" for name in names
        ]
    for name in names:
        text = (tmp_path / name).read_text("utf-8")
        assert text.lower().startswith(begins)
        assert "Export this run" not in text


@pytest.fixture(autouse=True)
def _no_file_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    yield
    assert not (tmp_path / "xdg").exists()


# --- what the program says of it when it ends -------------------------------------------------


async def test_f18_a_run_that_got_a_name_is_still_being_written(library: Library) -> None:
    """F18: not listed as interrupted after w."""
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "w")
        await type_in(pilot, "mine")
        await settle(one, pilot)
        (seen,) = library.previews()
        assert (seen.name, seen.state) == ("mine", "being written")
        await press(pilot, "n")
        await settle(one, pilot)
        assert [one.state for one in library.previews()] == ["being written"]


async def test_f21_the_end_says_where_the_run_is_and_how_to_replay_it(
    library: Library, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions.library.data_folder", lambda: library.folder)
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "q")
    tell_where_kept(one)
    assert capsys.readouterr().out == "", "nothing was drawn, so nothing is kept"
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "q")
    tell_where_kept(one)
    (seen,) = library.previews()
    assert capsys.readouterr().out == (
        f"kept in {seen.path}\nto look at it again: llm-inspect replay {seen.name}\n"
    )


async def test_f21_ctrl_c_pauses_and_says_how_to_quit(library: Library) -> None:
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "ctrl+c")
        assert notes(one) == ["nothing runs; q quits"]
        one.controller._sent = True
        await press(pilot, "ctrl+c")
        assert notes(one)[-1] == "paused; q quits"
        assert one.is_running


async def test_f18_the_picture_holds_no_passing_line(library: Library) -> None:
    one = app(library)
    async with one.run_test(size=(100, 30), notifications=True) as pilot:
        await press(pilot, "n")
        one.say("a passing line")
        await pilot.pause(0.1)
        assert "passing" in screen_text(one)
        svg = await one.picture()
        assert "passing" not in svg
        await pilot.pause(0.1)
        assert "passing" in screen_text(one), "it goes on being shown"


async def test_c_at_the_budget_offers_more_tokens(library: Library) -> None:
    """F19: one line and what key; the second press goes on."""
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "c", "c")
        assert notes(one) == ["the budget of 20 tokens is used up: c again adds 20"]
        assert one.controller.cursor.node == 20
        await press(pilot, "c")
        assert one.controller.cursor.node == 40
        assert one.asked.configure.max_tokens == 40


async def test_f3_what_was_forced_is_said_and_the_drawn_row_is_not_forced(
    library: Library,
) -> None:
    """F3, F19: how it is taken back, and no twin of what stands there."""
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n")
        drawn = one.controller.log.nodes[2].token.id
        one.post_message(Force(drawn))
        await pilot.pause()
        assert notes(one) == ["this is the token that stands here already: nothing to force"]
        one.post_message(Force((drawn + 1) % 26))
        await pilot.pause(0.1)
        assert notes(one)[-1] == "forced, on a branch of its own: b and h go back"
        assert one.controller.log.tree.children[1] == [2, 3]
        await press(pilot, "h")
        assert one.controller.cursor.node == 2


async def test_the_text_is_copied(library: Library) -> None:
    one = app(library)
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n", "b", "y")
        text = b"".join(step.token.bytes for step in one.controller.view.branch).decode()
        assert one.clipboard == f"abc{text}"
