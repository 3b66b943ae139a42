"""Every string that comes from outside, marked, and then the bytes of all that shows it.

Nothing is listed by hand: the fields are found by the records' types, the columns in the file.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import re
import shutil
import typing
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from textual.app import App

from engine.commands import Configure, Open, Submit
from engine.records.events import BranchDeleted, DenseLogits, Record
from engine.records.step import Stop, StopKind
from inspector.actions.replay import request_of
from inspector.browser import Browser
from inspector.panes.registry import PANES
from inspector.replaying import replaying
from inspector.state.request import Request
from inspector.state.view import RunLog, View
from sessions import open_session
from sessions.examples import example
from sessions.export.formats import FORMS, pieces
from sessions.export.source import Source
from sessions.library import Library
from tests.fake_runs import Host
from tests.hostile import (
    HOSTILE_NAME,
    LONE,
    acting,
    acting_apart_from_style,
    example_of,
    hostile_session,
    marked,
)

SIZES = [(80, 24), (160, 48)]
KINDS = typing.get_args(Record)
LETS_CHAINS_BE = frozenset({"chain_spec", "preset"})
"""Fields without whose words the panes that rebuild a chain show an error, and nothing else."""
END = Stop(StopKind.LENGTH, "the end")


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path / "data")
    return Library()


@pytest.fixture
def hostile_file(tmp_path: Path) -> Path:
    return hostile_session(tmp_path / f"{HOSTILE_NAME}.llmi")


def painted(app: App[Any]) -> str:
    """All that a terminal is sent to show the app as it is now."""
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return str(update.render_segments(console))


def assert_safe(app: App[Any], where: str) -> None:
    assert acting_apart_from_style(painted(app)) == "", where


# ------------------------------------------------------------------------ records and panes


def hostile_records(but: frozenset[str] = frozenset()) -> list[Record]:
    """Every record that the recorded example has, and one of each kind that it has not."""
    # Not closed: its steps are read when they are looked at.
    session = open_session(example("capital"))
    found: list[Record] = [record for _, record in session.events]
    assert session.prompt is not None
    *steps, last = session.branch()
    end = dataclasses.replace(pickle.loads(pickle.dumps(last)), stop=END)
    found += [session.prompt, *steps, end]
    # Whole logits of one entry, or a branch that is gone, would show less.
    left_out = (DenseLogits, BranchDeleted)
    made = [
        kind
        for kind in KINDS
        if kind not in left_out and not any(isinstance(one, kind) for one in found)
    ]
    return [marked(one, but) for one in (*found, *map(example_of, made))]


def test_every_kind_of_record_is_marked() -> None:
    """What follows would pass where nothing is marked."""

    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                yield from strings(getattr(value, field.name))
        elif isinstance(value, dict):
            yield from strings(tuple(value.items()))
        elif isinstance(value, tuple):
            for one in value:
                yield from strings(one)

    from enum import Enum

    records = hostile_records()
    assert {type(one) for one in records} == {*KINDS} - {DenseLogits, BranchDeleted}
    for record in records:
        for text in strings(record):
            assert isinstance(text, Enum) or LONE in text or not text, (record, text)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", [one.name for one in PANES])
async def test_no_pane_shows_what_acts_b1(name: str, size: tuple[int, int]) -> None:
    """B1: the pane alone, without the app's own filter, painted from marked records."""
    kind = next(one.pane for one in PANES if one.name == name)
    for but in (frozenset(), LETS_CHAINS_BE):
        log = RunLog()
        for record in hostile_records(but):
            log.add(record)
        host = Host(kind(id=name), View(log, max(log.nodes)))
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            assert_safe(host, name)
            assert acting("\n".join(host.screen_lines())) == ""


# ------------------------------------------------------------------------------- the app


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_no_screen_of_a_replay_acts_b1(hostile_file: Path, size: tuple[int, int]) -> None:
    """B1, B9: every pane, dialog, menu and notification of a replay."""
    session = open_session(hostile_file)
    asked = request_of(session, Request(Open(), Configure(), Submit("")))
    one = replaying(session, asked)
    async with one.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        seen = 0
        dialogs = ["B", "f", "e", "w", "o", "C", "D", "d", "t", "p", "ctrl+p"]
        # In a large terminal the panes are there together.
        panes = "123456789" if size == SIZES[0] else "89"
        for key in ("b", "b", *panes, "s", "s", "v", "question_mark", *dialogs):
            await pilot.press(key)
            await pilot.pause()
            text = painted(one)
            assert acting_apart_from_style(text) == "", key
            seen += "␛" in text
            while len(one.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause()
        one.notify(LONE, title=LONE, markup=False)
        await pilot.pause()
        assert_safe(one, "a notification")
        svg = one.export_screenshot()
    assert acting(svg) == ""
    ElementTree.fromstring(svg)
    assert seen > 10, "what was marked is there to be seen"


async def test_no_screen_of_the_browser_acts_b9(library: Library, hostile_file: Path) -> None:
    """B9: names of files, titles, models, prompts."""
    library.folder.mkdir(parents=True)
    shutil.copyfile(hostile_file, library.folder / hostile_file.name)
    bad = library.folder / f"{HOSTILE_NAME} broken.llmi"
    bad.write_bytes(b"\x80 no session")
    one = Browser(library)
    async with one.run_test(size=SIZES[0]) as pilot:
        for key in ("down", "up", "space", "down", "c", "escape", "r", "escape", "slash", *"ev"):
            await pilot.press(key)
            await pilot.pause()
            assert_safe(one, key)
        assert "␛" in painted(one)


# ----------------------------------------------------------------------------- the exports


@pytest.mark.parametrize("form", FORMS)
def test_no_export_holds_what_acts_b1(form: str) -> None:
    """B1: HTML, Markdown, JSON lines and CSV of marked records."""
    log = RunLog()
    for record in hostile_records():
        log.add(record)
    text = "".join(pieces(Source.of_log(log, max(log.nodes), LONE), form))
    assert "evil" in text
    assert acting(text) == ""
    text.encode()
    if form == "html":
        for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
            ElementTree.fromstring(drawing)


def test_a_form_need_not_remember_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: what an exporter lets through is caught where the pieces leave."""
    monkeypatch.setitem(FORMS, "raw", lambda source: iter([LONE]))
    assert acting("".join(pieces(Source.of_log(RunLog(), 0, ""), "raw"))) == ""
