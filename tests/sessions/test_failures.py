"""What keeps a session from being written is one line, and costs nothing that was saved."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sessions import SessionError, SessionWriter, open_session
from sessions.file.format import sidecars
from tests import fakes
from tests.sessions.test_store import assert_same, forked_run, odd_step, save


def test_a_name_that_is_taken_is_refused_unless_asked(tmp_path: Path) -> None:
    path = save(tmp_path / "run.llmi", forked_run())
    before = path.read_bytes()
    with pytest.raises(SessionError, match="is there already: choose another name"):
        SessionWriter(path)
    assert path.read_bytes() == before
    save(path, [fakes.prompt(2)], overwrite=True)
    with open_session(path) as session:
        assert len(session) == 0


def test_the_log_of_another_file_of_that_name_is_not_replayed(tmp_path: Path) -> None:
    old = SessionWriter(tmp_path / "run.llmi")
    old.add_all(forked_run())
    log = (tmp_path / "run.llmi-wal").read_bytes()
    old.close()
    (tmp_path / "run.llmi").unlink()
    (tmp_path / "run.llmi-wal").write_bytes(log)
    # It may be all that is left of a run: only who says so replaces it.
    with pytest.raises(SessionError, match="has a log of an earlier run beside it: choose another"):
        SessionWriter(tmp_path / "run.llmi")
    assert (tmp_path / "run.llmi-wal").read_bytes() == log
    with open_session(save(tmp_path / "run.llmi", [fakes.prompt(2)], overwrite=True)) as session:
        assert len(session) == 0
    assert not any(path.exists() for path in sidecars(tmp_path / "run.llmi"))


def test_no_folder_and_a_file_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"there is no folder .*nowhere: make it first"):
        SessionWriter(tmp_path / "nowhere" / "run.llmi")
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match="make it first"):
        SessionWriter(tmp_path / "file" / "run.llmi")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(SessionError, match="cannot be made: Permission denied"):
            SessionWriter(tmp_path / "run.llmi")
    finally:
        tmp_path.chmod(0o700)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files may grow to 400 kB and no further, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_disk_that_fills_up_costs_only_what_comes_after(tmp_path: Path, small_disk: None) -> None:
    writer = SessionWriter(tmp_path / "run.llmi")
    step = odd_step()
    count = 0

    def fill() -> None:
        nonlocal count
        while True:
            count += 1
            writer.add(dataclasses.replace(step, node=count, parent=count - 1))

    with pytest.raises(SessionError, match="; what follows is not saved") as caught:
        fill()
    assert "\n" not in str(caught.value)
    assert writer.failed is caught.value
    with pytest.raises(SessionError, match="is not saved"):
        writer.add(step)
    writer.close()
    assert count > 10
    with open_session(tmp_path / "run.llmi") as session:
        assert len(session) == count - 1
        assert_same(session.step(count - 1).top, step.top)


def test_a_step_that_the_format_cannot_hold(tmp_path: Path) -> None:
    step = odd_step()
    wrong = dataclasses.replace(step.top, ids=np.array([0, 1, 2, 7], np.int32))
    with SessionWriter(tmp_path / "run.llmi") as writer:
        writer.add(step)
        with pytest.raises(SessionError, match="row 3 holds the token of id 3, not 7"):
            writer.add(dataclasses.replace(step, node=2, parent=1, top=wrong))
    with open_session(tmp_path / "run.llmi") as session:
        assert len(session) == 1


def test_an_interrupt_in_the_middle_of_a_step_leaves_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    writer = SessionWriter(tmp_path / "run.llmi")
    writer.add(odd_step(1))
    monkeypatch.setattr("sessions.writer.pack_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.add(odd_step(2))
    with pytest.raises(SessionError, match="KeyboardInterrupt; what follows is not saved"):
        writer.add(odd_step(3))
    writer.close()
    with open_session(tmp_path / "run.llmi") as session:
        assert len(session) == 1


def test_a_name_cannot_change_while_another_program_reads(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "run.llmi")
    writer.add(odd_step(1))
    with closing(sqlite3.connect(tmp_path / "run.llmi")) as reader:
        assert reader.execute("SELECT count(*) FROM tokens").fetchone() == (1,)
        with pytest.raises(SessionError, match="close that one"):
            writer.move(tmp_path / "other.llmi")
        writer.add(odd_step(2))
    writer.move(tmp_path / "other.llmi")
    writer.close()
    with pytest.raises(SessionError, match="is closed: begin another session"):
        writer.move(tmp_path / "third.llmi")
    assert [path.name for path in tmp_path.iterdir()] == ["other.llmi"]
    with open_session(tmp_path / "other.llmi") as session:
        assert len(session) == 2
