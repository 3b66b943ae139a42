"""E7: the gauge's MBU leads to the measurement that it needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.commands import MeasureCeilings, Run
from engine.measure import contest
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from inspector.app import Inspector
from inspector.messages import RecordsArrived
from inspector.state.ceilings import Known
from tests.direct import DirectClient
from tests.inspector.actions.test_breakpoints_app import toasts
from tests.inspector.test_app import app, pane_text, press

CEILINGS = Ceilings("cpu", "a processor", "float32", 2, 20e9, 80e9, "by test")
WIDE, NARROW = (160, 48), (120, 60)


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "measure_ceilings", lambda *_, seconds, stop: CEILINGS)


def with_file(**options: Any) -> tuple[Inspector, list[tuple[ModelFacts, Ceilings]]]:
    one, kept = app(facts={"device": "cpu", "device_name": "a processor"}, **options), []
    one.measurements.keep = lambda facts, ceilings: kept.append((facts, ceilings))
    return one, kept


def sent(one: Inspector) -> int:
    client = one.engine.client
    assert isinstance(client, DirectClient)
    return sum(isinstance(command, MeasureCeilings) for command in client.sent)


async def taken_in(one: Inspector, pilot: Pilot[None]) -> None:
    one.post_message(RecordsArrived())
    await pilot.pause()


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_e7_the_gauge_says_which_key_measures(size: tuple[int, int]) -> None:
    one, kept = with_file()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "n", "n")
        assert "MBU       —  M or click: measure it" in pane_text(one, "gauges")
        await press(pilot, "M")
        await taken_in(one, pilot)
        # A script keeps no tensors, so that there is still no figure, but for another reason.
        assert "MBU       —  the cache's" in pane_text(one, "gauges")
        known = one.controller.log.ceilings
        assert known is not None
        assert known.ceilings == CEILINGS
        assert [ceilings for _, ceilings in kept] == [CEILINGS]
        # The run is where it was, and goes on.
        assert one.controller.cursor.node == 3
        await press(pilot, "n")
        assert one.controller.cursor.node == 4


async def test_e7_a_click_on_the_gauge_measures_too() -> None:
    one, kept = with_file()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "n")
        lines = pane_text(one, "gauges").splitlines()
        row = next(y for y, line in enumerate(lines) if "MBU" in line)
        await pilot.click("#gauges", offset=(6, row))
        await pilot.pause()
        assert sent(one) == 0
        await pilot.click("#gauges", offset=(6, row + 1))
        await pilot.pause()
        await taken_in(one, pilot)
        assert len(kept) == 1


async def test_e7_while_the_engine_runs_it_waits_and_says_for_what() -> None:
    one, kept = with_file()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n")
        client = one.engine.client
        assert isinstance(client, DirectClient)
        client.held = True
        await press(pilot, "c", "M")
        assert isinstance(client.sent[-1], Run)
        assert sent(one) == 0
        assert "waits for the run's end" in pane_text(one, "gauges")
        assert "once the run has stopped" in toasts(one)[-1]
        client.held = False
        client.release()
        await taken_in(one, pilot)
        await taken_in(one, pilot)
        # The run was not stopped for it: it went to its budget of 20 tokens first.
        assert one.controller.cursor.node == 20
        assert sent(one) == 1
        assert len(kept) == 1


async def test_e7_what_cannot_be_kept_is_shown_all_the_same() -> None:
    one, _ = with_file()

    def full(facts: ModelFacts, ceilings: Ceilings) -> None:
        raise OSError(28, "No space left on device")

    one.measurements.keep = full
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "M")
        await taken_in(one, pilot)
        assert "not kept for the next time" in toasts(one)[-1]
        known = one.controller.log.ceilings
        assert known is not None
        assert known.ceilings == CEILINGS


async def test_e7_the_palette_has_it() -> None:
    one, kept = with_file()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "ctrl+p", *"Measuremachine", "down", "enter")
        await taken_in(one, pilot)
        assert len(kept) == 1


async def test_e7_in_the_background_it_is_measured_once_nothing_happens() -> None:
    """Unasked, for the pane that shows it, and not while a run goes on or a key is pressed."""
    one, kept = app(facts={"device": "cpu", "device_name": "a processor", "backend": "hf"}), []
    one.measurements.keep = lambda facts, ceilings: kept.append(ceilings)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n")
        client, tick = one.engine.client, one._tick
        assert isinstance(client, DirectClient)
        client.held = True
        await press(pilot, "c")
        one.measurements.unasked = True
        for _ in range(9):
            tick()
        assert sent(one) == 0
        client.held = False
        client.release()
        await taken_in(one, pilot)
        for _ in range(9):
            tick()
        await taken_in(one, pilot)
        assert sent(one) == 1
        assert kept == [CEILINGS]
        for _ in range(9):
            tick()
        assert sent(one) == 1


async def test_e7_what_a_busy_machine_gave_is_measured_again_once_and_the_larger_stays() -> None:
    """Unasked, once a start; of the two bandwidths and rates the larger ones are kept."""
    one, kept = app(facts={"device": "cpu", "device_name": "a processor", "backend": "hf"}), []
    one.measurements.keep = lambda facts, ceilings: kept.append(ceilings)
    old = replace(CEILINGS, read_bytes_per_second=3e9, flops_per_second=90e9, cpu_share=0.4)
    one.measurements.find = lambda facts: Known(old, datetime.now(UTC), "")
    one.measurements.unasked = True
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n")
        for _ in range(9):
            one._tick()
        await taken_in(one, pilot)
        assert sent(one) == 1
        assert [(it.read_bytes_per_second, it.flops_per_second) for it in kept] == [(20e9, 90e9)]
        # Still too low, by its own account: it is not measured a third time.
        known = one.controller.log.ceilings
        assert known is not None
        one.controller.log.ceilings = replace(known, ceilings=old)
        for _ in range(99):
            one._tick()
        assert sent(one) == 1
        # Asked for, it is, and what comes of it counts.
        await press(pilot, "M")
        await taken_in(one, pilot)
        assert kept[-1] == CEILINGS


async def test_e7_a_script_is_held_against_no_machine() -> None:
    one, kept = with_file()
    one.measurements.unasked = True
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "1")
        for _ in range(9):
            one._tick()
        # A script has no weights whose reading could be held against a machine.
        assert sent(one) == 0
        assert kept == []
