"""What only reads never writes: no command touches a foreign file, or lets SQLite recover in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.cli import main as cli
from sessions import SessionError, SessionWriter, open_session
from sessions.file.format import blank
from sessions.file.live import is_being_written
from sessions.file.paths import clean
from sessions.library import Library
from tests.sessions.test_store import forked_run, save

MAGIC = bytes.fromhex("d9d505f920a163d7")
READING = (
    ("sessions", "list"),
    ("sessions", "list", "--search", "mat"),
    ("sessions", "show", "run"),
    ("sessions", "check", "run"),
    ("sessions", "diff", "run", "run"),
    ("sessions", "export", "run", "--format", "html"),
    ("sessions", "export", "run", "--format", "jsonl"),
)


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path / "data")
    found = Library()
    found.folder.mkdir()
    return found


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below ``folder``: its bytes, and when it was changed."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(one): (one.read_bytes(), one.stat().st_mtime_ns) for one in files}


def left_by_a_crash(path: Path) -> Path:
    """A session whose program was killed: all of the run lies in its log."""
    with SessionWriter(path.with_suffix(".tmp")) as writer:
        writer.add_all(forked_run())
        for end in ("", "-wal"):
            shutil.copy(f"{writer.path}{end}", f"{path}{end}")
    writer.path.unlink()
    return path


def left_with_a_journal(path: Path) -> Path:
    """A session in which another program had begun a change when it was killed."""
    save(path, forked_run())
    change = (
        "import os, sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA cache_size = 1')\n"
        "database.execute('BEGIN')\n"
        "database.execute('DELETE FROM candidate')\n"
        "database.execute('DELETE FROM step')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", change, str(path)], check=False)
    assert path.with_name(path.name + "-journal").stat().st_size > 512
    return path


def names_a_victim(path: Path) -> Path:
    """A session that was never closed, beside a journal whose end names a file to delete."""
    save(path, forked_run())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE session SET closed = NULL")
    database.close()
    victim = path.with_name("victim")
    victim.write_text("precious")
    name = str(victim).encode()
    header = MAGIC + bytes(20)
    tail = b"\x00\x10\x00\x01" + name + len(name).to_bytes(4) + sum(name).to_bytes(4) + MAGIC
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(header.ljust(512, b"\0") + tail)
    return path


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("left", [left_by_a_crash, left_with_a_journal, names_a_victim])
def test_reading_commands_leave_everything_as_it_was(
    library: Library,
    capsys: pytest.CaptureFixture[str],
    left: Callable[[Path], Path],
    words: tuple[str, ...],
) -> None:
    """B2, B3, B9: file, log, journal, victim and folder stay byte for byte, and all is read."""
    left(library.folder / "run.llmi")
    before = state(library.folder)
    assert cli.main(words) == 0
    assert state(library.folder) == before
    out = capsys.readouterr().out
    if words[1] == "check":
        assert "whole: 9 steps" in out


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (left_by_a_crash, "read from the log that an interrupted program left"),
        (left_with_a_journal, "a change that an interrupted program had begun was taken back"),
        (names_a_victim, "the journal beside the file names another file, and was not used"),
    ],
)
def test_what_was_recovered_is_told(
    library: Library,
    capsys: pytest.CaptureFixture[str],
    left: Callable[[Path], Path],
    told: str,
) -> None:
    """B2: the user is told what was recovered, by show and check."""
    path = left(library.folder / "run.llmi")
    for act in ("show", "check"):
        assert cli.main(["sessions", act, str(path)]) == 0
        found = " ".join(capsys.readouterr().out.split())
        assert told in found
        assert "the files are as they were" in found


def test_looking_at_the_library_changes_nothing(library: Library) -> None:
    """B9: app start, the browser and the question who writes a file open nothing to write."""
    names_a_victim(library.autosave_path("victim of a crash"))
    left_by_a_crash(library.autosave_path("crashed"))
    before = state(library.folder)
    assert len(library.previews()) == len(library.to_offer()) == 2
    assert not any(is_being_written(one.path) for one in library.previews())
    assert len(library.search("the cat")) == 2
    assert state(library.folder) == before


def test_moving_takes_the_run_along_and_harms_nobody(library: Library) -> None:
    """B9: rename and delete recover on a copy of their own; the victim stays."""
    path = names_a_victim(library.folder / "run.llmi")
    victim = path.with_name("victim")
    moved = library.rename(path, "named")
    deleted = library.delete(moved)
    assert victim.read_text() == "precious"
    with open_session(library.undo(deleted)) as session:
        assert len(session) == 9
    crashed = left_by_a_crash(library.folder / "crashed.llmi")
    with open_session(library.rename(crashed, "saved")) as session:
        assert len(session) == 9
    changed = left_with_a_journal(library.folder / "changed.llmi")
    with open_session(library.rename(changed, "unchanged")) as session:
        assert len(session) == 9


def test_being_written_is_known_and_a_second_reader_takes_no_lock_away(library: Library) -> None:
    """B9: the question is answered by the system's lock, in this process and in others."""
    path = library.folder / "live.llmi"
    ask = (
        "import sys; from pathlib import Path; from sessions.file.live import is_being_written; "
        "print(is_being_written(Path(sys.argv[1])))"
    )

    def asked_elsewhere() -> str:
        words = [sys.executable, "-c", ask, str(path)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    with SessionWriter(path) as writer:
        writer.add_all(forked_run()[:4])
        assert is_being_written(path)
        assert asked_elsewhere() == "True"
        # POSIX: closing any descriptor of a file drops the locks that the process has on it.
        with open_session(path) as session:
            assert session.told == ""
        probe = (
            "import sqlite3, sys; database = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "database.execute('SELECT 1 FROM session').fetchone(); database.close()"
        )
        subprocess.run([sys.executable, "-c", probe, str(path)], check=True)
        assert path.with_name("live.llmi-wal").exists(), "another client took the log away"
        writer.add_all(forked_run()[4:])
        with pytest.raises(SessionError, match="is being written: close it first"):
            library.rename(path, "other")
    assert not is_being_written(path)
    assert asked_elsewhere() == "False"
    with open_session(path) as session:
        assert len(session) == 9


def test_only_litter_that_is_provably_ours_is_cleaned(tmp_path: Path) -> None:
    """C10: what killed programs of ours left goes; what only looks like it stays."""
    folder = tmp_path / "folder"
    folder.mkdir()
    ours = {".a1.llmi.new": b"", ".a2.llmi.new": blank()[:18], ".a3.llmi.new": blank()}
    others = {".b1.llmi.new": b"notes", "c.llmi.new": b"", ".d.llmi": blank(), ".e.new": b""}
    for name, content in (ours | others).items():
        (folder / name).write_bytes(content)
    (folder / ".f.llmi.new").symlink_to(folder / ".d.llmi")
    (folder / ".g.llmi.new").mkdir()
    os.mkfifo(folder / ".h.llmi.new")
    before = {path.name for path in folder.iterdir()}
    with SessionWriter(folder / "run.llmi"):
        pass
    assert {path.name for path in folder.iterdir()} == before - set(ours) | {"run.llmi"}
    clean(folder / "nowhere")


def test_a_move_to_a_full_disk_of_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: never half a file under a real name; the session stays where it was."""
    path = save(tmp_path / "run.llmi", forked_run())
    before = path.read_bytes()
    target = tmp_path / "other" / "run.llmi"
    target.parent.mkdir()

    def other_file_system(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("sessions.file.paths.os.link", other_file_system)
    written = []

    def full(source: Path, target: Path) -> None:
        written.append(target.name)
        target.write_bytes(before[:5000])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("sessions.file.paths.copy_file", full)
        with pytest.raises(SessionError, match=r"cannot be moved to .*No space left on device"):
            Library(target.parent).rename(path, "x")
        from sessions.file import paths

        with pytest.raises(OSError, match="No space"):
            paths.move(path, target)
    assert written
    assert list(target.parent.iterdir()) == []
    assert path.read_bytes() == before
