"""Fixtures of the tests of screens."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_rest_before_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are looked for at once: whether they are there must not depend on how long a test took."""
    monkeypatch.setattr("inspector.panes.ladder.reasons._PAUSE_S", 0.001)
