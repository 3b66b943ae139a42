"""Work that nobody waits for: one job at a time, the newest of those that wait."""

from __future__ import annotations

import threading
import time

from inspector.background import Background


def test_the_newest_of_the_waiting_jobs_is_done() -> None:
    background, begun, go_on = Background("test"), threading.Event(), threading.Event()
    done: list[int] = []

    def first() -> None:
        begun.set()
        go_on.wait(60)
        done.append(0)

    assert background.idle.is_set()
    background.submit(first)
    assert begun.wait(60)
    assert not background.idle.is_set()
    for number in (1, 2, 3):
        background.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    go_on.set()
    assert background.idle.wait(60)
    assert done == [0, 3]
    background.close()


def test_after_a_job_that_failed_the_next_is_done(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(str(args.exc_value)))
    background, done = Background("test"), threading.Event()

    def fails() -> None:
        raise ValueError("a bug")

    background.submit(fails)
    assert background.idle.wait(60)
    background.submit(done.set)
    assert done.wait(60)
    assert told == ["a bug"], "told as any thread's error is"
    background.close()


def test_nothing_is_done_after_the_end() -> None:
    background, done = Background("test"), threading.Event()
    background.close()
    background.submit(done.set)
    time.sleep(0.05)
    assert not done.is_set()
    assert background.idle.is_set()


def test_the_thread_keeps_no_program_alive() -> None:
    background = Background("explain-test")
    background.submit(lambda: None)
    assert background.idle.wait(60)
    (thread,) = [one for one in threading.enumerate() if one.name == "explain-test"]
    assert thread.daemon
    background.close()
    thread.join(60)
    assert not thread.is_alive()
