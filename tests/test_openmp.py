"""How long idle threads of OpenMP wait by running."""

from __future__ import annotations

import os

import pytest

from engine.backends import openmp


def test_threads_sleep_soon_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "SET_BY_US", [])
    for name in (openmp.SPINCOUNT, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    openmp.limit_spin()
    assert os.environ[openmp.SPINCOUNT] == openmp.SPINS
    openmp.limit_spin()
    assert openmp.SET_BY_US == [openmp.SPINCOUNT]


@pytest.mark.parametrize("name", [openmp.SPINCOUNT, "OMP_WAIT_POLICY"])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(openmp, "SET_BY_US", [])
    for other in (openmp.SPINCOUNT, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "7")
    openmp.limit_spin()
    assert os.environ[name] == "7"
    assert openmp.SET_BY_US == []
