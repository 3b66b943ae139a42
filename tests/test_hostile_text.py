"""Every string that comes from outside, marked, and then the bytes of all that shows it.

Nothing is listed by hand: the fields are found by the records' types, the columns in the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import shutil
import sqlite3
import subprocess
import sys
import typing
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from textual.app import App

from engine.commands import Configure, Open, Submit
from engine.records import (
    BranchDeleted,
    DenseLogits,
    Record,
)
from engine.sampling.stages import DIALS
from inspector import cli
from inspector.browser import Browser
from inspector.options import Request
from inspector.panes.registry import PANES
from inspector.replay_app import ReplayInspector, request_of
from inspector.run import JsonOutput, TextOutput
from inspector.view import RunLog, View
from sessions import open_session
from sessions.examples import example
from sessions.export.formats import FORMS, pieces
from sessions.export.source import Source
from sessions.library import Library
from tests.direct import DirectClient, script
from tests.fake_runs import Host
from tests.hostile import (
    LONE,
    MARKER,
    acting,
    acting_apart_from_style,
    example_of,
    mark_json,
    mark_text_columns,
    marked,
    text_columns,
)

SIZES = [(80, 24), (160, 48)]
KINDS = typing.get_args(Record)
LETS_CHAINS_BE = frozenset({"chain_spec", "preset"})
"""Fields without whose words the panes that rebuild a chain show an error, and nothing else."""


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path / "data")
    return Library()


def painted(app: App[Any]) -> str:
    """All that a terminal is sent to show the app as it is now."""
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return str(update.render_segments(console))


def assert_safe(app: App[Any], where: str) -> None:
    assert acting_apart_from_style(painted(app)) == "", where


def columns_of(path: Path) -> list[tuple[str, str]]:
    return [one for one in text_columns(path) if one != ("session", "created")]


# ------------------------------------------------------------------------ records and panes


def hostile_records(but: frozenset[str] = frozenset()) -> list[Record]:
    """Every record that the recorded example has, and one of each kind that it has not."""
    # Not closed: its steps are read when they are looked at.
    session = open_session(example("capital"))
    found: list[Record] = [record for _, record in session.events]
    assert session.prompt is not None
    found += [session.prompt, *session.branch()]
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
@pytest.mark.parametrize("name", [name for name, _ in PANES])
async def test_no_pane_shows_what_acts_b1(name: str, size: tuple[int, int]) -> None:
    """B1: the pane alone, without the app's own filter, painted from marked records."""
    kind = dict(PANES)[name]
    for but in (frozenset(), LETS_CHAINS_BE):
        log = RunLog()
        for record in hostile_records(but):
            log.add(record)
        host = Host(kind(id=name), View(log, max(log.nodes)))
        async with host.run_test(size=size) as pilot:
            await pilot.pause(0.05)
            text = painted(host)
            assert_safe(host, name)
            lines = "\n".join(host.screen_lines())
            assert acting(lines, allowed="\n") == ""
            assert acting(str(host.pane.border_subtitle)) == "" or acting(text) != ""


# ------------------------------------------------------------------------------- the app


@pytest.fixture
def hostile_file(tmp_path: Path) -> Path:
    """A session whose every free word acts; its name too."""
    path = tmp_path / f"{MARKER.replace(chr(0), '')}.llmi"
    shutil.copyfile(example("capital"), path)
    mark_json(path)
    mark_text_columns(path)
    return path


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_no_screen_of_a_replay_acts_b1(hostile_file: Path, size: tuple[int, int]) -> None:
    """B1, B9: every pane, dialog, menu and notification of a replay."""
    session = open_session(hostile_file)
    asked = request_of(session, Request(Open(), Configure(), Submit("")))
    one = ReplayInspector(session, asked)
    async with one.run_test(size=size, notifications=True) as pilot:
        await pilot.pause(0.1)
        seen = 0
        dialogs = ["B", "f", "e", "w", "o", "C", "D", "d", "t", "p", "ctrl+p"]
        for key in ("b", "b", *"123456789", "s", "s", "v", "v", "question_mark", *dialogs):
            await pilot.press(key)
            await pilot.pause(0.05)
            text = painted(one)
            assert acting_apart_from_style(text) == "", key
            seen += "␛" in text
            while len(one.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause()
        one.notify(LONE, title=LONE, markup=False)
        await pilot.pause(0.1)
        assert_safe(one, "a notification")
        svg = one.export_screenshot()
    assert acting(svg) == ""
    ElementTree.fromstring(svg)
    assert seen > 10, "what was marked is there to be seen"


async def test_no_screen_of_the_browser_acts_b9(library: Library, hostile_file: Path) -> None:
    """B9: names of files, titles, models, prompts."""
    library.folder.mkdir(parents=True)
    shutil.copyfile(hostile_file, library.folder / hostile_file.name)
    bad = library.folder / f"{MARKER.replace(chr(0), '')} broken.llmi"
    bad.write_bytes(b"\x80 no session")
    one = Browser(library)
    async with one.run_test(size=SIZES[0]) as pilot:
        for key in ("down", "up", "space", "down", "c", "escape", "r", "escape", "slash", *"ev"):
            await pilot.press(key)
            await pilot.pause(0.1)
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


# ---------------------------------------------------------------------------- the commands


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and all output of a command, in which nothing acts."""
    try:
        code = cli.main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    found = capsys.readouterr()
    for text in found:
        assert acting(text) == "", (words, text)
    return code, found.out + found.err


def commands(path: Path, out: Path) -> list[list[str]]:
    file = str(path)
    return [
        ["sessions", "list"],
        ["sessions", "list", "--search", "evil"],
        ["sessions", "show", file],
        ["sessions", "show", file, "--format", "json"],
        ["sessions", "diff", file, "capital"],
        ["sessions", "diff", file, "capital", "--format", "json"],
        ["sessions", "check", file],
        ["sessions", "check", file, "--format", "json"],
        *(["sessions", "export", file, "--format", form] for form in FORMS),
        ["sessions", "export", file, "-o", str(out)],
        ["replay", file],
        ["run", "a", "--config", file],
        ["run", "a", "--preset", LONE],
        ["run", "a", f"--{LONE}"],
        ["run", "--file", file],
        ["sample", file],
        ["sample", LONE],
        ["doctor", "--no-load", "--config", file],
    ]


def test_no_command_prints_what_acts_b9(
    capsys: pytest.CaptureFixture[str], library: Library, hostile_file: Path
) -> None:
    """B1, B9: standard output and standard error of every command on a hostile file."""
    library.folder.mkdir(parents=True)
    shutil.copyfile(hostile_file, library.folder / hostile_file.name)
    out = hostile_file.with_suffix(".html")
    codes = {}
    for words in commands(hostile_file, out):
        codes[" ".join(words[:2])], text = said(capsys, *words)
        assert "Traceback" not in text
    assert codes["sessions show"] == codes["sessions check"] == codes["sessions diff"] == 0
    assert acting(out.read_text("utf-8")) == ""


@pytest.mark.parametrize("column", columns_of(example("capital")), ids=lambda one: ".".join(one))
def test_damage_is_told_without_the_file_s_own_words_acting_b1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, column: tuple[str, str]
) -> None:
    """B1: each TEXT column alone, those too whose words are ours or JSON."""
    path = tmp_path / "one.llmi"
    shutil.copyfile(example("capital"), path)
    mark_text_columns(path, only=column)
    for act in (["show"], ["check"], ["diff", "capital"], ["export", "--format", "md"]):
        code, text = said(capsys, "sessions", act[0], str(path), *act[1:])
        assert code in (0, 1, 2), text


def test_the_words_of_sqlite_do_not_act_b1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """B1: a table whose definition SQLite cannot read; its message quotes the file."""
    path = tmp_path / "one.llmi"
    shutil.copyfile(example("capital"), path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = ON")
        query = "UPDATE sqlite_master SET sql = ? WHERE name = 'rounds'"
        database.execute(query, ("CREATE VIEW rounds AS SELECT \x1b]52;c;evil\x9b\u202e",))
    database.close()
    code, text = said(capsys, "sessions", "show", str(path))
    assert code == 2
    assert str(path) in text


# ----------------------------------------------------------------------- run, configuration


@pytest.mark.parametrize("output", [TextOutput, JsonOutput])
def test_no_run_prints_what_acts_b1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, output: type[Any]
) -> None:
    """B1: tokens of a hostile tokenizer, and a folder's name while it loads, in a pipe too."""
    opening, configure, _ = script(tokens=[MARKER, "a"])
    client = DirectClient()
    monkeypatch.setattr("inspector.run.EngineClient", lambda log: client)
    form = "text" if output is TextOutput else "jsonl"
    monkeypatch.setattr(
        "inspector.cli.request", lambda *_: Request(opening, configure, Submit("a"))
    )
    code, text = said(capsys, "run", "a", "--format", form)
    assert code == 0
    assert "evil" in text


def test_no_word_of_a_configuration_file_acts_b9(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """B9: names and values that the file has wrong."""

    def none_there(log: Path) -> Any:
        raise RuntimeError(LONE)

    # What nobody refuses before would load a model.
    monkeypatch.setattr("inspector.run.EngineClient", none_there)
    path = tmp_path / "config.toml"
    escaped = "\\u001b]52;c;evil\\u009b\\u202e\\u0000"
    for text in (
        f'"{escaped}" = 1',
        f'model = ["{escaped}"]',
        f'[sampler]\n"{escaped}" = 1',
        *(f'[sampler]\n{name} = "{escaped}"' for name in DIALS),
        f'kv_budget = "{escaped}"',
        f'kv_dtype = "{escaped}"',
        f'preset = "{escaped}"',
        f'theme = "{escaped}"',
        "a = \x1b]52;c;evil",
    ):
        path.write_text(text, "utf-8")
        code, text = said(capsys, "run", "a", "--config", str(path))
        assert code in (2, 3)
        assert text.count("\n") == 1


def test_the_engine_s_log_does_not_act_b9(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """B9: whatever Python code in the engine's process prints or logs."""
    script = f"""
import logging, sys, warnings
from engine import server

class Engine:
    def __init__(self, *_): pass
    def serve(self):
        print({LONE!r})
        print({LONE!r}, file=sys.stderr)
        logging.warning({LONE!r})
        warnings.warn({LONE!r})

class Connection:
    send = None

server.Engine = Engine
server.serve(Connection(), {str(tmp_path / "engine.log")!r})
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=request.config.rootpath)
    text = (tmp_path / "engine.log").read_bytes().decode()
    assert text.count("␛]52;c;evil") >= 4
    assert acting(text) == ""


def test_an_error_of_the_engine_does_not_act_b6(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6: a name that the user or a model folder gives, in the error about it."""
    _, configure, submit = script()
    bad = Open("scripted", {"file": MARKER.replace(chr(0), "")})
    monkeypatch.setattr("inspector.run.EngineClient", lambda log: DirectClient())
    monkeypatch.setattr("inspector.cli.request", lambda *_: Request(bad, configure, submit))
    code, text = said(capsys, "run", "a")
    assert code == 3
    assert "␛]52;c;evil" in text


def test_a_run_in_an_encoding_without_its_characters_d5(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: the whole text, code 0."""
    opening, configure, submit = script("a", tokens=["é", "…", "你", "a"])
    monkeypatch.setattr("inspector.run.EngineClient", lambda log: DirectClient())
    monkeypatch.setattr("inspector.cli.request", lambda *_: Request(opening, configure, submit))
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    with contextlib.redirect_stdout(out):
        assert cli.main(["run", "a"]) == 0
    out.seek(0)
    text = out.read()
    assert len(re.findall(r"<U\+00E9>|~|<U\+4F60>|a", text)) == 20
    assert text.endswith("\n")
