"""How idle threads of OpenMP wait: soon asleep beside a screen, as the user has it elsewhere."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from engine import openmp
from inspector.cli import main as cli


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (openmp.SPINCOUNT, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", [openmp.SPINCOUNT, "OMP_WAIT_POLICY"])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = {name: "7"}
    monkeypatch.setenv(name, "7")
    openmp.limit_spin()
    assert {one: os.environ.get(one) for one in before} == before
    assert (openmp.SPINCOUNT in os.environ) == (name == openmp.SPINCOUNT)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The spin count of every engine that would have been started; none really is."""
    found: list[str | None] = []

    def start(*_: object) -> NoReturn:
        found.append(os.environ.get(openmp.SPINCOUNT))
        raise OSError("no engine today")

    monkeypatch.setattr("engine.process.EngineClient.start", start)
    monkeypatch.setattr("inspector.cli.open.require_terminal", lambda *_: None)
    return found


def test_engines_of_the_app_have_threads_that_sleep_soon(counts: list[str | None]) -> None:
    assert cli.main(["Hi"]) != 0
    assert counts == [openmp.SPINS]


@pytest.mark.parametrize("words", [["run", "Hi"], ["bench"]])
def test_e4_without_a_screen_the_environment_is_left_alone(
    counts: list[str | None], words: list[str]
) -> None:
    """E4: never slower than leaving the environment alone."""
    assert cli.main(words) != 0
    assert counts == [None]
