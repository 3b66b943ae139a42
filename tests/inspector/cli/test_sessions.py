"""``llm-inspect sessions`` and ``run --save``, as words on a command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.commands import Open
from engine.records.events import BranchNamed
from inspector.cli import main as cli
from inspector.cli import run_saver, sessions_print
from inspector.cli.config import Config
from inspector.cli.options import UsageError
from inspector.cli.sessions import find
from inspector.state.request import Save
from sessions import open_session
from sessions.examples import example
from sessions.library import Library
from tests.direct import DirectClient, script
from tests.inspector.cli.test_cli import asked, refused
from tests.sessions.test_store import forked_run, save


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path / "data")
    return Library()


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command printed."""
    assert cli.main(words) == code
    return capsys.readouterr().out


def read(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    found: dict[str, Any] = json.loads(said(capsys, *words, code=code), parse_constant=refuse)
    return found


def test_list_and_search(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sessions", "list"]) == 0
    assert capsys.readouterr() == ("", f"no session in {library.folder}\n")
    save(library.named_path("one"), forked_run())
    library.named_path("broken").write_bytes(b"nothing")
    lines = said(capsys, "sessions", "list").splitlines()
    assert sorted(line.split()[0] for line in lines) == ["broken", "one"]
    assert any("is not a session" in line for line in lines)
    assert len(said(capsys, "sessions").splitlines()) == 2, "no terminal: the list"
    found = read(capsys, "sessions", "list", "--search", "ONE", "--format", "json")
    (only,) = found["sessions"]
    assert (only["name"], only["steps"], only["error"]) == ("one", 9, None)


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "sessions", "show", "capital")
    assert "SmolLM2-135M-Instruct" in text
    assert "  The capital of France is" in text
    assert "branch to node 24" in text
    found = read(capsys, "sessions", "show", "capital", "--format", "json")
    assert [branch["tip"] for branch in found["branches"]] == [31, 24]


def test_f18_show_says_what_the_branches_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path / "run.llmi", [*forked_run(), BranchNamed(3, "left")])
    lines = said(capsys, "sessions", "show", str(path)).splitlines()
    assert 'branch "left" to node 4' in lines
    assert "branch to node 9" in lines
    found = read(capsys, "sessions", "show", str(path), "--format", "json")
    assert {one["tip"]: one["name"] for one in found["branches"]} == {9: None, 5: None, 4: "left"}


def test_diff_of_two_branches(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sessions", "diff", "capital", "capital", "--tip-a", "24", "--tip-b", "31"]
    assert '  a " France"' in said(capsys, *words)
    found = read(capsys, *words, "--format", "json")
    assert found["divergence"]["b"]["token_text"] == " and"
    assert refused(capsys, *words[:4], "--tip-a", "99").endswith("its branches end at 24, 31")


def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.html"
    assert said(capsys, "sessions", "export", "capital", "-o", str(out)) == f"{out}\n"
    assert out.read_text().lower().startswith("<!doctype html>")
    assert refused(capsys, "sessions", "export", "capital", "-o", str(out)).endswith(
        "is there already: choose another name"
    )
    said(capsys, "sessions", "export", "capital", "-o", str(out), "--force")
    lines = said(capsys, "sessions", "export", "capital", "--format", "jsonl").splitlines()
    assert [json.loads(line)["type"] for line in (lines[0], lines[-1])] == ["run", "end"]
    assert len(lines) == 33
    assert "give a file with -o" in refused(capsys, "sessions", "export", "capital")


def test_an_export_never_replaces_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        said(capsys, "sessions", "export", "capital", "-o", str(pipe), "--force")
        assert pipe.is_fifo()
        assert os.read(reader, 100).startswith(b"# ")
    finally:
        os.close(reader)
    said(capsys, "sessions", "export", "capital", "-o", os.devnull, "--format", "csv")
    assert Path(os.devnull).is_char_device()


def test_check_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "sessions", "check", "capital") == "whole: 31 steps, 2 branches\n"
    broken = tmp_path / "broken.llmi"
    broken.write_bytes(example("capital").read_bytes()[:50_000])
    assert "is damaged" in said(capsys, "sessions", "check", str(broken), code=1)
    found = read(capsys, "sessions", "check", str(broken), "--format", "json", code=1)
    assert found["whole"] is False
    assert "there is no file" in refused(capsys, "sessions", "check", str(tmp_path / "no.llmi"))


def test_check_on_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from engine.backends import open_backend
    from engine.run.stepper import Stepper
    from sessions.recording import record

    opening, _, submit = script()
    stepper = Stepper(open_backend(opening.backend, dict(opening.options)))
    record(stepper, tmp_path / "run.llmi", submit.text, steps=4)
    with open_session(tmp_path / "run.llmi") as session:
        assert sessions_print.check_live(session, opening, "text") == 0
        line = "reproduced: 4 of 4 tokens; largest logit difference 0"
        assert capsys.readouterr().out.splitlines()[-1] == line
        # 25 letters are no longer the vocabulary of 26.
        fewer = Open("scripted", {"tokens": list("abc")})
        with pytest.raises(Exception, match="a vocabulary of 26"):
            sessions_print.check_live(session, fewer, "text")
        other = Open("scripted", {"tokens": list("zyxwvutsrqponmlkjihgfedcba")})
        code = sessions_print.check_live(session, other, "json")
        found = json.loads(capsys.readouterr().out)
        assert (code == 0) is found["reproduced"]


def test_rename_and_delete(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    save(library.named_path("one"), forked_run())
    assert said(capsys, "sessions", "rename", "one", "two") == f"{library.folder / 'two.llmi'}\n"
    assert find("two") == find("two.llmi") == library.folder / "two.llmi"
    assert "there is no session one" in refused(capsys, "sessions", "rename", "one", "three")
    said(capsys, "sessions", "delete", "two")
    assert library.previews() == []
    assert len(list(library.trash.iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["replay", "capital", "--speed", "0"], "argument --speed: must be above 0, not 0 (see llm-inspect replay --help)"),
        (["replay", "capital", "--no-stream"], "--no-stream needs --speed: --speed 1 plays the run at its own tempo"),
        (["replay", "capital", "--save", "x"], "--save and --full-logits need --live: a recording is kept already"),
        (["replay", "capital"], "replay needs a terminal; without one use: llm-inspect sessions show FILE"),
        (["replay", "nowhere"], "there is no session nowhere: see `llm-inspect sessions list`"),
        (["run", "a", "--save", "/dev/null"], "--save /dev/null: it is there already; choose another name"),
        (["run", "a", "--save", "/no/x"], "--save /no/x: there is no folder /no; make it first"),
        (["run", "a", "--full-logits"], "--full-logits needs --save FILE: that is where they are kept"),
    ],
)  # fmt: skip
def test_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert refused(capsys, *words) == line


def test_whether_and_where_a_run_is_kept() -> None:
    assert asked("a").save == Save()
    assert asked("a", config=Config({"autosave": False})).save == Save(auto=False)


def kept(save: Save) -> run_saver.RunSaver:
    """A run of five tokens, kept so."""
    one, client = run_saver.RunSaver(save), DirectClient()
    opening, configure, submit = script()
    from engine.commands import Run

    for command in (opening, configure, submit, Run(0, 5)):
        client.send(command)
    for record in client.take():
        one.keep(record, client)
    one.finish(client)
    one.close()
    return one


def test_run_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.llmi"
    assert kept(Save(path, full_logits=True)).fields() == {"saved": True, "save_error": None}
    assert capsys.readouterr().err == f"llm-inspect: saved as {path}\n"
    with open_session(path) as session:
        assert len(session) == 5
        assert all(session.dense(node) for node in range(1, 6))
        assert session.vocabulary is not None
    assert kept(Save()).fields() == {}


def test_a_run_that_cannot_be_kept_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    one = kept(Save(blocked / "run.llmi"))
    assert one.fields()["saved"] is False
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llm-inspect: not saved: ")


def test_a_session_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        sessions_print.show_diff((example("chat"), example("chat")), (77, None), "text")
