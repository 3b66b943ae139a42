"""What commands print of hostile files, names, errors and configurations: nothing that acts."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.commands import Open, Submit
from engine.sampling.stages import DIALS
from inspector.cli import main as cli
from inspector.cli.compare_options import FORMATS as COMPARE_FORMATS
from inspector.cli.run import JsonOutput, TextOutput
from inspector.state.request import Request
from sessions.examples import example
from sessions.export.formats import FORMS
from sessions.library import Library
from tests.direct import DirectClient, script
from tests.hostile import (
    HOSTILE_NAME,
    LONE,
    MARKER,
    acting,
    hostile_session,
    mark_text_columns,
    text_columns,
)


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path / "data")
    return Library()


@pytest.fixture
def hostile_file(tmp_path: Path) -> Path:
    return hostile_session(tmp_path / f"{HOSTILE_NAME}.llmi")


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


@pytest.mark.parametrize("form", COMPARE_FORMATS)
def test_b1_a_comparison_of_a_hostile_file_acts_on_nothing(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hostile_session(tmp_path / f"{HOSTILE_NAME}.llmi", "compare")
    code, text = said(capsys, "compare", "--from", str(path), "--format", form)
    assert (code, "evil" in text) == (0, True)
    code, _ = said(capsys, "compare", "--from", str(tmp_path / f"{HOSTILE_NAME}.none"))
    assert code == 2


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


@pytest.mark.parametrize("column", text_columns(example("capital")), ids=lambda one: ".".join(one))
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
    monkeypatch.setattr("inspector.cli.run.connect", lambda: client)
    form = "text" if output is TextOutput else "jsonl"
    monkeypatch.setattr(
        "inspector.cli.main.request", lambda *_: Request(opening, configure, Submit("a"))
    )
    code, text = said(capsys, "run", "a", "--format", form)
    assert code == 0
    assert "evil" in text


def test_no_word_of_a_configuration_file_acts_b9(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """B9: names and values that the file has wrong."""

    def none_there() -> Any:
        raise RuntimeError(LONE)

    # What nobody refuses before would load a model.
    monkeypatch.setattr("inspector.cli.run.connect", none_there)
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
from engine import server_process

class Engine:
    def __init__(self, *_): pass
    def serve(self):
        print({LONE!r})
        print({LONE!r}, file=sys.stderr)
        logging.warning({LONE!r})
        warnings.warn({LONE!r})

class Connection:
    send = None

server_process.Engine = Engine
server_process.serve(Connection(), {str(tmp_path / "engine.log")!r})
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
    bad = Open("scripted", {"file": HOSTILE_NAME})
    monkeypatch.setattr("inspector.cli.run.connect", lambda: DirectClient())
    monkeypatch.setattr("inspector.cli.main.request", lambda *_: Request(bad, configure, submit))
    code, text = said(capsys, "run", "a")
    assert code == 3
    assert "␛]52;c;evil" in text


def test_a_run_in_an_encoding_without_its_characters_d5(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: the whole text, code 0."""
    opening, configure, submit = script("a", tokens=["é", "…", "你", "a"])
    monkeypatch.setattr("inspector.cli.run.connect", lambda: DirectClient())
    monkeypatch.setattr(
        "inspector.cli.main.request", lambda *_: Request(opening, configure, submit)
    )
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    with contextlib.redirect_stdout(out):
        assert cli.main(["run", "a"]) == 0
    out.seek(0)
    text = out.read()
    assert len(re.findall(r"<U\+00E9>|~|<U\+4F60>|a", text)) == 20
    assert text.endswith("\n")
