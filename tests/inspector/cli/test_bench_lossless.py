"""``llm-inspect bench --lossless``: its words, its exit codes, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.commands import Open
from engine.records.round import Accept, DraftSettings
from inspector.cli import main as cli
from inspector.cli.bench_lossless import lossless
from tests.direct import DirectClient

ALIKE = {"tokens": list("abcde")}
PROMPT = "abcdeedcbaacebd"


def run(accept: Accept, form: str = "text", draws: int = 200, **options: Any) -> int:
    client: Any = DirectClient
    draft = DraftSettings("ngram:1", 2, accept)
    opened = Open("scripted", {**ALIKE, **options})
    return lossless(opened, draft, draws=draws, form=form, prompt=PROMPT, connect=client)


def test_exact_acceptance_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Accept.EXACT) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "200 continuations with drafts and 200 without" in out
    assert "chi-square" in out
    assert "total variation" in out
    assert "Passed: no difference was found between draws with drafts and without." in out


def test_typical_acceptance_fails_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """A fifth each is above 0.09 exp(-ln 5): whatever lookup drafts is taken, and never another."""
    assert run(Accept.TYPICAL) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "rule typical, which is not lossless" in out
    assert "FAILED: drafts change what is drawn." in out


def test_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Accept.MATCH, "json") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["type"], found["passed"], found["draws"]) == ("lossless", True, 200)
    assert found["draft"] == {"source": "ngram:1", "tokens": 2, "accept": "match"}
    assert [one["cells"] for one in found["tests"]] == [5, 25]


def test_draws_that_are_all_alike_fail(capsys: pytest.CaptureFixture[str]) -> None:
    certain = [[0.0 if one == 1 else -1000.0 for one in range(5)]]
    assert run(Accept.EXACT, draws=20, vectors=certain) == 1
    assert "nothing could be told" in capsys.readouterr().out


def test_what_cannot_draft_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = DirectClient
    draft = DraftSettings("self:1")
    assert lossless(Open("scripted", ALIKE), draft, draws=5, form="text", connect=client) == 3
    assert "cannot end a pass after some of its layers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--draws", "5"], "--draws needs --lossless"),
        (["--draft", "ngram"], "--draft needs --lossless"),
        (["--lossless", "--vs", "generate"], "choose one"),
        (["--lossless", "--draws", "0"], "--draws"),
        (["--lossless", "--draft", "self:x"], "whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *words]) == 2
    assert message in capsys.readouterr().err
