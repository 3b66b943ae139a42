"""The rows of the session browser: the prompt first, grouped by day."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest

from inspector.screens.session_rows import by_day, day_row, session_row
from sessions.library import Library
from sessions.preview import Preview

NOON = datetime(2026, 3, 4, 12, 0).timestamp()
RUN = Preview(
    Path("autosave/2026-03-04-120000-the-capital.llmi"),
    1000,
    NOON,
    closed="2026-03-04",
    model="SmolLM2-135M",
    prompt="The capital of\nFrance is",
    steps=1234,
)


def row(one: Preview, width: int, *, marked: bool = False, autosaved: bool = True) -> str:
    return session_row(one, width, marked=marked, autosaved=autosaved).plain


def test_the_prompt_comes_first_then_time_tokens_and_model() -> None:
    assert row(RUN, 76).split() == [
        "The",
        "capital",
        "of",
        "France",
        "is",
        "12:00",
        "1,234",
        "tok",
        "SmolLM2-135M",
    ]
    named = replace(RUN, path=Path("paris.llmi"))
    assert row(named, 76, autosaved=False).split()[:2] == ["paris:", "The"]


@pytest.mark.parametrize("width", [20, 36, 44, 76, 156])
def test_a_row_has_the_width_there_is(width: int) -> None:
    for one in (RUN, replace(RUN, prompt="東京" * 200, model="m" * 90), Preview(RUN.path, 0, 0.0)):
        assert session_row(one, width, marked=True, autosaved=True).cell_length == width


def test_a_state_is_one_sign() -> None:
    """F1, F10: narrow marks of what is interrupted, being written, or cannot be read."""
    assert row(RUN, 76)[:3] == "   "
    assert row(replace(RUN, closed=None), 76)[:3] == " ✎ "
    assert row(replace(RUN, closed=None, interrupted=True), 76)[:3] == " ! "
    assert row(replace(RUN, error="damaged"), 76, marked=True)[:3] == "●✗ "


def test_sessions_are_grouped_by_day() -> None:
    ages = (0, 0.1, 1, 3, 40)
    previews = [replace(RUN, modified=NOON - days * 86_400) for days in ages]
    assert list(by_day(previews, date(2026, 3, 4))) == [
        ("Today 2026-03-04", [0, 1]),
        ("Yesterday 2026-03-03", [2]),
        ("Sunday 2026-03-01", [3]),
        ("2026-01-23", [4]),
    ]
    assert day_row("Today 2026-03-04", 24).plain.startswith("── Today 2026-03-04 ──")


def test_f10_no_name_made_by_itself_has_a_space(tmp_path: Path) -> None:
    library, now = Library(tmp_path), datetime(2026, 3, 4, 12, 0)
    first = library.autosave_path("What is\ta b?", now)
    first.write_bytes(b"")
    second = library.autosave_path("What is\ta b?", now)
    assert first.name == "2026-03-04-120000-what-is-a-b.llmi"
    assert second.name == "2026-03-04-120000-what-is-a-b-2.llmi"
