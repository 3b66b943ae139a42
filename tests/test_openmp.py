"""How long idle threads of OpenMP wait by running."""

from __future__ import annotations

import os

import pytest

from engine.backends import openmp


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "SET_BY_US", [])
    for name in (openmp.SPINCOUNT, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


def load(monkeypatch: pytest.MonkeyPatch, average: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 9.0, 9.0))


def test_e4_a_quiet_machine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """E4: never slower than leaving the environment alone where nothing else runs."""
    load(monkeypatch, 2.0)
    openmp.limit_spin()
    assert openmp.SPINCOUNT not in os.environ
    assert openmp.SET_BY_US == []


def test_threads_sleep_soon_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, 2.1)
    openmp.limit_spin()
    assert os.environ[openmp.SPINCOUNT] == openmp.SPINS
    openmp.limit_spin()
    assert openmp.SET_BY_US == [openmp.SPINCOUNT]


@pytest.mark.parametrize("name", [openmp.SPINCOUNT, "OMP_WAIT_POLICY"])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    load(monkeypatch, 4.0)
    monkeypatch.setenv(name, "7")
    openmp.limit_spin()
    assert os.environ[name] == "7"
    assert openmp.SET_BY_US == []
