"""The drift of logits as a table at several widths, on the screen, and in a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.commands import MeasureDrift
from engine.records.measured import Drift, DriftMeasured, DriftRow
from engine.records.vocabulary import Token
from inspector.app import Inspector
from inspector.cli.open import recorder
from inspector.keys import MEASURING
from inspector.screens.drift import DriftScreen, drift_lines, exact, verdict
from inspector.state.replay_client import REFUSAL
from inspector.state.request import Save
from inspector.widgets.line_view import Pane
from inspector.widgets.lines import Lines
from sessions import open_session
from sessions.library import Library
from tests.direct import DirectClient
from tests.fakes import texts
from tests.inspector.actions.test_replay import replayed
from tests.inspector.actions.test_saving import notes
from tests.inspector.test_app import app, press

PARIS, EVIL = Token(7, b" Paris"), Token(8, b"[/b]\x1b[2J")


def drift(max_abs: float, kl: float, other: int, lead: float = 0.5) -> Drift:
    return Drift(max_abs, max_abs / 10, 3, kl, 7, other, 0.62, lead)


MEASURED = DriftMeasured(
    node=3,
    positions=12,
    reference="one pass without a cache, float16",
    top=PARIS,
    rows=(
        DriftRow("this run, K and V in int8", drift(0.0312, 1.4e-6, 7), PARIS),
        DriftRow("beside a shorter text, padded", drift(0.0, 0.0, 7, 0.62), PARIS),
        DriftRow("weights in float32", drift(0.31, 0.002, 7), PARIS),
        DriftRow("weights in bfloat16", drift(0.7, 0.25, 8, 0.25), EVIL),
        DriftRow("weights in float16", obstacle="a copy needs 257 MiB, 100 are free"),
    ),
)


def test_the_table() -> None:
    shown = texts(drift_lines(MEASURED, 80)).splitlines()
    assert shown[:9] == [
        "fresh read of 12 tokens: one pass without a cache, float16",
        '  " Paris" leads by 0.62 ƒ',
        "",
        "held against it                 max |Δ| ƒ      KL ƒ    lead ƒ  token  top",
        'this run, K and V in int8           0.031    1.4e-6      0.50  same   " Paris"',
        'beside a shorter text, padded           0         0      0.62  same   " Paris"',
        'weights in float32                   0.31     0.002      0.50  close  " Paris"',
        'weights in bfloat16                  0.70      0.25      0.25  FLIPS  "[/b]␛[2J"',
        "weights in float16             —  a copy needs 257 MiB, 100 are free",
    ]
    assert shown[10].startswith("The same text, read in another way, gives slightly other logits")


def test_where_there_is_no_room_a_row_is_two_lines() -> None:
    shown = texts(drift_lines(MEASURED, 46)).splitlines()
    at = shown.index("weights in bfloat16")
    assert shown[at + 1] == '      0.70      0.25      0.25  FLIPS  "[/b]␛…'
    assert shown[at + 2 : at + 4] == ["weights in float16", "—  a copy needs 257 MiB, 100 are free"]


@pytest.mark.parametrize("width", [1, 10, 38, 71, 72, 80])
def test_no_line_breaks_its_frame(width: int) -> None:
    lines = drift_lines(MEASURED, width)
    assert all(line.cell_length <= max(8, width) for line in lines)
    assert "\x1b" not in texts(lines)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.4e-6, "1.4e-6"),
        (9.99e-4, "1.0e-3"),
        (0.001, "0.001"),
        (0.0312, "0.031"),
        (12.3, "12.3"),
        (5e-324, "4.9e-324"),
        (float("nan"), "—"),
        (float("inf"), "—"),
    ],
)
def test_differences_are_zero_only_where_there_is_none(value: float, text: str) -> None:
    assert exact(value) == text


def test_a_flip_is_a_close_race_too() -> None:
    """0.62 ahead: differences up to 0.31 decide nothing, if none is larger."""
    assert verdict(drift(0.309, 0.0, 7)) == "same"
    assert verdict(drift(0.31, 0.0, 7)) == "close"
    assert verdict(drift(0.7, 0.0, 8)) == "FLIPS"


# --- on the screen ----------------------------------------------------------------------------


def shown(one: Any) -> str:
    assert isinstance(one.screen, DriftScreen)
    return str(one.screen.query_one(Lines).render())


async def test_d_measures_at_the_cursor_and_closes_again() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "b", "d")
        assert [one for one in one.engine.client.sent if isinstance(one, MeasureDrift)] == [
            MeasureDrift(2)
        ]
        assert "fresh read of 4 tokens" in shown(one)
        assert "a script has no weights to convert" in shown(one)
        await press(pilot, "d")
        assert not isinstance(one.screen, DriftScreen)
        # What was measured is shown again, and measured again only when that is asked for.
        await press(pilot, "d")
        assert len([one for one in one.engine.client.sent if isinstance(one, MeasureDrift)]) == 1
        first = one.controller.log.drifts[2]
        await press(pilot, "r")
        assert one.controller.log.drifts[2] is not first
        assert "fresh read of 4 tokens" in shown(one)
        await press(pilot, "q")
        assert not isinstance(one.screen, DriftScreen)
        assert one.controller.cursor.node == 2


async def test_before_the_prompt_is_read_there_is_nothing_to_measure() -> None:
    one = app()
    assert isinstance(one.engine.client, DirectClient)
    one.engine.client.held = True
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "d", "C")
        assert not isinstance(one.screen, DriftScreen)
        assert notes(one) == ["the prompt has not been read yet: n reads it"] * 2


async def test_while_the_engine_works_it_says_what_it_reads() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n")
        one.engine.client.held = True
        await press(pilot, "d")
        assert "the engine is asked to read the text again" in shown(one)
        one.engine.client.release()
        await press(pilot)
        assert "held against it" in shown(one)


async def test_an_error_is_shown_in_its_place() -> None:
    one = app(fault="raise", fault_at=3)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "d")
        assert "reading the text again" not in shown(one)
        assert one.controller.log.error is not None
        assert one.controller.log.error.message in shown(one)
        await press(pilot, "r")
        assert "held against it" in shown(one)


async def test_a_recording_shows_what_was_measured_and_says_where_nothing_was(
    tmp_path: Path,
) -> None:
    live, library = app(), Library(tmp_path)
    live.keeping.recorder = recorder(Save(), library)
    async with live.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "d", "q", "C")
        assert live.controller.log.curves is not None
    (seen,) = library.previews()
    one: Inspector = replayed(open_session(seen.path))
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "d")
        assert one.controller.cursor.node == 3
        assert "fresh read of 5 tokens" in shown(one)
        await press(pilot, "r")
        assert "fresh read of 5 tokens" in shown(one)
        await press(pilot, "q", "b", "d")
        assert not isinstance(one.screen, DriftScreen)
        await press(pilot, "C")
        assert set(notes(one)) == {REFUSAL}
        assert one.controller.log.curves == live.controller.log.curves


async def test_no_key_of_a_pane_hides_the_keys_that_measure_and_compare() -> None:
    """A pane's own binding wins while it has the focus."""
    mine = {binding.key for binding in MEASURING} | {"V"}
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n")
        for pane in one.screen.query(Pane):
            own = set(pane._bindings.key_to_bindings)
            assert not mine & own, pane
    assert mine == {"d", "C", "M", "T", "W", "V"}
