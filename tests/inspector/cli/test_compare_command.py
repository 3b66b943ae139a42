"""``llm-inspect compare`` without a screen: columns, sweeps, ranking, saving, and what is refused."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inspector.cli import main as cli
from inspector.cli.compare_options import parse_sweep
from inspector.cli.options import UsageError
from inspector.state.ranking import run_check, words_of
from tests.direct import DirectClient

PROMPT = "abc"
SCRIPT = ("--engine", "scripted", "--model")


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The engine runs in this process; a script of letters that go on in a circle."""
    monkeypatch.setattr("inspector.cli.compare.connect", DirectClient)
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"text": "a b a c a b a c a d"}), "utf-8")
    return path


def compare(*words: str, engine: Path) -> int:
    return cli.main(["compare", "a", *SCRIPT, str(engine), "--max-tokens", "8", *words])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_column_for_each_chain(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-s", "temperature=0", "-s", "temperature=1.5", "--seed", "3", "--format", "json")
    assert compare(*words, engine=engine) == 0
    found = answer(capsys)
    assert [one["title"] for one in found["columns"]] == ["temperature=0", "temperature=1.5"]
    assert [one["seed"] for one in found["columns"]] == [3, 3]
    assert all(one["token_ids"] for one in found["columns"])
    assert {"divergence", "why_part", "batch"} <= found.keys()


def test_a_sweep_of_two_dials_is_a_grid(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweeps = ("--sweep", "temperature=0.2:1:0.4", "--sweep", "top_k=1,5")
    assert compare(*sweeps, "--format", "json", engine=engine) == 0
    titles = [one["title"] for one in answer(capsys)["columns"]]
    values = ("0.2", "0.6", "1.0")
    assert titles == [f"temperature={one}, top_k={k}" for one in values for k in (1, 5)]


def test_presets_and_seeds_make_columns(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--presets", "guide,vllm", "--seeds", "1,2", "--format", "jsonl")
    assert compare(*words, engine=engine) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["type"] for one in lines] == ["comparison", *["column"] * 4, "end"]
    made = [(one["preset"], one["seed"]) for one in lines[1:-1]]
    assert made == [("guide", 1), ("guide", 2), ("vllm", 1), ("vllm", 2)]


def test_best_of_ranks_by_checks_then_by_likelihood(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vote = (
        "--check-command",
        f"{sys.executable} -c 'import sys; sys.exit(\"d\" in sys.stdin.read())'",
    )
    words = ("--best-of", "4", "--temperature", "1.5", "--answer-regex", "[bcd]", *vote)
    code = compare(*words, "--format", "json", engine=engine)
    found = answer(capsys)
    texts = {one["column"]: one["text"] for one in found["columns"]}
    order = found["best_of"]["order"]
    assert len(order) == 4
    for one in order:
        assert one["passed"] is ("d" not in texts[one["column"]])
    passed = [one["passed"] for one in order]
    assert passed == sorted(passed, reverse=True)
    assert code == (0 if any(passed) else 1)
    assert sum(one["columns"] for one in found["best_of"]["votes"]) <= 4


def test_a_check_that_no_column_passes_is_code_1(engine: Path) -> None:
    assert compare("--best-of", "2", "--check-regex", "never", engine=engine) == 1


def test_a_saved_comparison_is_printed_again_the_same(
    engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kept.llmi"
    words = ("-s", "temperature=1", "-s", "top_k=1", "--format", "json", "--save", str(path))
    assert compare(*words, engine=engine) == 0
    first = answer(capsys)
    assert cli.main(["compare", "--from", str(path), "--format", "json"]) == 0
    assert answer(capsys) == first
    for form in ("text", "md", "html", "csv", "jsonl"):
        assert cli.main(["compare", "--from", str(path), "--format", form]) == 0
        assert "temperature=1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "two columns or more"),
        (("-s", "temperature=1"), "two columns or more"),
        (("-s", "heat=1", "-s", "top_k=2"), "heat"),
        (("--sweep", "heat=1:2:1"), "--sweep takes DIAL=A:B:STEP"),
        (("--sweep", "temperature=2:1:0.1"), "from A up to B"),
        (("--sweep", "temperature=0:1:0"), "STEP is above 0"),
        (("--sweep", "temperature=a:b:c"), "three numbers"),
        (("--sweep", "temperature=0:1:0.001"), "64 steps at most"),
        (("--sweep", "top_k=1,2", "-s", "top_k=3"), "top_k is swept and in -s"),
        (("--sweep", "top_k=1,2", "--sweep", "top_k=3,4"), "each of another dial"),
        (("--presets", "guide,nothing"), "there is no 'nothing'"),
        (("--presets", "guide,vllm", "--preset", "hf"), "choose one"),
        (("--seeds", "1,2", "--best-of", "2"), "choose one"),
        (("--best-of", "65"), "65 columns"),
        (("--best-of", "2", "--check-regex", "("), "no regular expression"),
        (("--best-of", "2", "--check-command", ""), "the check command is empty"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: tuple[str, ...], said: str, engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(*words, engine=engine) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_check_command_never_runs_on_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "--from", str(tmp_path / "x.llmi"), "--check-command", "touch /nowhere"]
    assert cli.main(words) == 2
    assert "never on those of a file" in capsys.readouterr().err


def test_steps_of_a_sweep_are_decimals() -> None:
    assert parse_sweep("temperature=0.2:1.4:0.2").values == (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)
    assert parse_sweep("min-p=0.05,0.1").values == (0.05, 0.1)
    with pytest.raises(UsageError, match="top_k"):
        parse_sweep("top_k=1.5:2.5:0.5")


def test_a_check_that_does_not_end_is_ended() -> None:
    started = time.monotonic()
    command = words_of(f"{sys.executable} -c 'import time; time.sleep(60)'")
    assert run_check(command, "text", 0.5) == (False, "no answer within 0.5 s")
    assert time.monotonic() - started < 20


def test_what_a_check_command_says() -> None:
    assert run_check(("true",), "text", 5) == (True, "")
    assert run_check(("false",), "text" * 100_000, 5) == (False, "exit code 1")
    passed, why = run_check(("/no/such/program",), "text", 5)
    assert not passed
    assert "cannot be run" in why


def test_more_columns_than_the_screen_shows_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started; printed they are still to be had."""
    monkeypatch.setattr("inspector.cli.terminal.is_terminal", lambda: True)
    assert cli.main(["compare", "x", "--sweep", "temperature=0.1:0.9:0.1"]) == 2
    said = capsys.readouterr().err
    assert "that makes 9 columns; the screen has room for 8: --format text" in said


def test_a_column_may_have_a_draft_of_its_own(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text with drafts and without; rounds run by themselves, and the bill says so."""
    words = ("-s", "temperature=0", "-s", "temperature=0, draft=ngram:2 draft_tokens=2")
    assert compare(*words, "--format", "json", engine=engine) == 0
    found = answer(capsys)
    plain, drafted = found["columns"]
    assert drafted["token_ids"] == plain["token_ids"]
    assert (plain["draft"], drafted["draft"]) == (None, "ngram:2")
    assert drafted["title"] == words[3]
    assert (plain["figures"]["rounds"], plain["figures"]["accepted"]) == (0, None)
    assert drafted["figures"]["rounds"] > 0
    assert 0.0 < drafted["figures"]["accepted"] <= 1.0
    assert "outside the shared pass" in " ".join(found["batch"]["notes"])
    assert compare(*words, "--format", "text", engine=engine) == 0
    said = capsys.readouterr().out
    assert "rounds  accepted" in said
    # One without a draft, where the run has one.
    words = ("--draft", "ngram:2", "-s", "draft=none temperature=0", "-s", "temperature=0")
    assert compare(*words, "--format", "json", engine=engine) == 0
    assert [one["draft"] for one in answer(capsys)["columns"]] == [None, "ngram:2"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-s", "draft=ngram:0", "-s", "top_k=2"), "-s: ngram:N takes a whole number"),
        (("-s", "preset=hf", "--presets", "hf,vllm"), "preset= in -s and --presets"),
        (("-s", "seed=3", "--best-of", "3"), "seed= in -s and --best-of"),
    ],
)
def test_words_beside_a_spec_that_cannot_be(
    engine: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert compare(*words, "--format", "json", engine=engine) == 2
    assert why in capsys.readouterr().err
