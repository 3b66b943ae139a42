"""The folder of a user's sessions: names, search, delete with undo, recovery after a crash."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from sessions import SessionError, SessionWriter, open_session
from sessions.library import Library, file_name, is_being_written
from sessions.preview import preview
from sessions.recording import first_records, record
from tests import fakes
from tests.sessions.test_store import forked_run, save, stepper


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "data")


def crashed(library: Library, prompt: str = "the cat") -> Path:
    """An autosaved run whose program was killed: the file and its log, and nobody at it."""
    path = library.autosave_path(prompt)
    writer = SessionWriter(path.with_suffix(".tmp"))
    writer.add_all(forked_run())
    for end in ("", "-wal"):
        shutil.copy(f"{writer.path}{end}", f"{path}{end}")
    writer.close()
    writer.path.unlink()
    return path


def test_autosave_names_say_when_and_what(library: Library) -> None:
    when = datetime(2026, 3, 4, 15, 6, 7)
    path = library.autosave_path("The capital of France is … 東京? /etc/passwd", when)
    assert path.parent == library.autosaves
    assert path.name == "2026-03-04-150607-the-capital-of-france-is-東京-etc-passwd.llmi"
    save(path, [])
    assert library.autosave_path("The capital of France is … 東京? /etc/passwd", when).name == (
        "2026-03-04-150607-the-capital-of-france-is-東京-etc-passwd-2.llmi"
    )
    assert library.autosave_path("\x1b[2J\n..", when).name == "2026-03-04-150607-2j.llmi"
    assert library.autosave_path("", when).name == "2026-03-04-150607-run.llmi"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("my run", "my run"),
        ("run.llmi", "run"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b\\c:d", "a-b-c-d"),
        ("e\u0301\u202e\x00\x1b", "é"),
        ("x" * 500, "x" * 80),
        ("東" * 500, "東" * 80),
    ],
)
def test_a_name_is_one_plain_part_of_a_path(given: str, name: str) -> None:
    assert file_name(given) == name


@pytest.mark.parametrize("given", ["", "  ", "..", "/", "\u202e", ".llmi"])
def test_what_is_no_name(given: str) -> None:
    with pytest.raises(SessionError, match="is no name: give letters or digits"):
        file_name(given)


def test_the_list_has_the_newest_first_and_says_what_cannot_be_read(library: Library) -> None:
    record(stepper(), library.named_path("one"), "the cat", steps=3)
    record(stepper(), library.autosave_path("the dog"), "the dog", steps=2)
    library.named_path("broken").write_bytes(b"\x80pickle")
    for age, path in enumerate(library._paths()):
        os.utime(path, (1000 - age, 1000 - age))
    found = library.previews()
    assert [one.steps for one in found if not one.error] == [2, 3]
    assert [one.prompt for one in found if not one.error] == ["the dog", "the cat"]
    assert {one.model for one in found} == {"scripted", ""}
    (broken,) = (one for one in found if one.error)
    assert broken.name == "broken"
    assert "a Python pickle" in broken.error
    assert preview(library.folder / "gone.llmi").error.endswith("No such file or directory")


def test_search_looks_at_names_prompts_models_and_output(library: Library) -> None:
    record(stepper(temperature=0.0), library.named_path("alpha"), "the", steps=2)
    record(stepper(temperature=0.0), library.named_path("beta"), "mat", steps=4)
    output = "".join(
        step.token.bytes.decode() for step in open_session(library.named_path("beta")).branch()
    )
    assert [one.name for one in library.search("ALPHA")] == ["alpha"]
    assert {one.name for one in library.search("scripted")} == {"alpha", "beta"}
    assert [one.name for one in library.search(output)] == ["beta"]
    assert library.search("no such words") == []


def test_naming_an_autosaved_run_moves_it_to_the_others(library: Library) -> None:
    path = library.autosave_path("the cat")
    save(path, forked_run())
    named = library.rename(path, "my run")
    assert named == library.folder / "my run.llmi"
    assert not path.exists()
    again = library.rename(named, "better name")
    assert [one.name for one in library.previews()] == ["better name"]
    assert library.rename(again, "better name") == again
    save(library.named_path("other"), [])
    with pytest.raises(SessionError, match="is there already: choose another name"):
        library.rename(again, "other")


def test_a_run_that_goes_on_can_be_named(library: Library) -> None:
    one = stepper()
    writer = SessionWriter(library.autosave_path("the"))
    writer.add_all(first_records(one, "the"))
    writer.add(one.extend(0))
    save(library.named_path("taken"), [])
    with pytest.raises(SessionError, match="is there already"):
        writer.move(library.named_path("taken"))
    writer.add(one.extend(one.cursor))
    writer.move(library.named_path("mine"))
    writer.add(one.extend(one.cursor))
    writer.close()
    assert list(library.autosaves.iterdir()) == []
    with open_session(library.folder / "mine.llmi") as session:
        assert len(session) == 3


def test_what_is_deleted_can_be_had_back(library: Library) -> None:
    path = library.named_path("one")
    save(path, forked_run())
    content = path.read_bytes()
    deleted = library.delete(path)
    assert library.previews() == []
    assert library.undo(deleted) == path
    assert path.read_bytes() == content
    deleted = library.delete(path)
    save(path, [fakes.prompt(1)])
    assert library.undo(deleted).name == "one-2.llmi"
    assert (library.folder / "one-2.llmi").read_bytes() == content


def test_a_crashed_run_is_offered_once(library: Library) -> None:
    fine = save(library.autosave_path("fine"), forked_run())
    path = crashed(library)
    live = SessionWriter(library.autosave_path("still running"))
    live.add_all(forked_run())
    found = library.to_offer()
    assert [(one.path, one.steps) for one in found] == [(path, 9)]
    library.offered([path])
    assert library.to_offer() == []
    assert [one.path for one in library.interrupted()] == [path]
    states = {one.path: one.state for one in library.previews()}
    assert states == {fine: "", path: "interrupted", live.path: "being written"}
    # To look is not to touch: what the crash left beside the file lies there still (B3).
    left = {path.name, f"{path.name}-wal"}
    assert {one.name for one in library.autosaves.glob(f"{path.stem}*")} == left
    with open_session(path) as session:
        assert len(session) == 9
        assert session.closed is None
        assert "read from the log that an interrupted program left" in session.told
    live.close()


def test_a_crashed_run_can_be_named_and_deleted(library: Library) -> None:
    named = library.rename(crashed(library), "saved after all")
    with open_session(named) as session:
        assert len(session) == 9
    deleted = library.delete(crashed(library))
    with open_session(library.undo(deleted)) as session:
        assert len(session) == 9
    assert not list(library.folder.rglob("*-wal"))


def test_a_session_that_is_being_written_stays_where_it_is(library: Library) -> None:
    path = library.autosave_path("x")
    writer = SessionWriter(path)
    writer.add_all(forked_run())
    assert is_being_written(path)
    with pytest.raises(SessionError, match="is being written: close it first"):
        library.delete(path)
    writer.close()
    assert not is_being_written(path)
    library.delete(path)


def test_tidying_keeps_the_newest_autosaves_and_what_was_thrown_away_lately(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions.library._AUTOSAVES_KEPT", 2)
    paths = [library.autosave_path(f"run {number}") for number in range(4)]
    for age, path in enumerate(paths):
        save(path, [])
        os.utime(path, (1000 + age, 1000 + age))
    library.tidy()
    assert sorted(one.name for one in library.previews()) == sorted(one.stem for one in paths[2:])
    assert len(list(library.trash.iterdir())) == 2
    library.tidy(days=0.0)
    assert list(library.trash.iterdir()) == []


def test_an_empty_library(library: Library) -> None:
    assert library.previews() == []
    assert library.search("x") == []
    assert library.interrupted() == library.to_offer() == []
    library.tidy()
    assert not library.folder.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(SessionError, match="cannot be made"):
        Library(tmp_path / "data").autosave_path("x")
