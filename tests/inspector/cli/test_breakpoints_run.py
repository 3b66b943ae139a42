"""Breakpoints and assertions of ``run``: exit codes, what is printed, and the real model."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from engine.commands import Configure, Open, Submit
from inspector.cli.options import breakpoints_command
from inspector.cli.run import run
from inspector.state.request import Request
from tests.inspector.cli.test_cli import refused
from tests.launcher import Launcher


def asked(breaks: tuple[str, ...] = (), asserts: tuple[str, ...] = (), **dials: Any) -> Request:
    """A scripted run of six tokens: the cat sat on the mat, greedy unless told otherwise."""
    args = Namespace(breaks=list(breaks), asserts=list(asserts))
    return Request(
        Open("scripted", {"text": "the cat sat on a mat"}),
        Configure(dials={"temperature": 0.0, **dials}, max_tokens=6),
        Submit("the"),
        breakpoints_command(args),
    )


def lines(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], list[str]]:
    captured = capsys.readouterr()
    parsed = [json.loads(line, parse_constant=pytest.fail) for line in captured.out.splitlines()]
    # The first line tells that the script is being loaded.
    return parsed, captured.err.splitlines()[1:]


def test_a_run_ends_at_the_first_hit_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(asked(('token == " on"', "entropy > 3")), "jsonl") == 1
    (first, *steps, last), _ = lines(capsys)
    assert first["type"] == "run"
    assert [step["text"] for step in steps] == [" cat", " sat", " on"]
    assert (last["type"], last["reason"]) == ("end", "breakpoint")
    assert last["detail"] == 'breakpoint 1: token == " on"'
    assert (last["breakpoint"], last["step"], last["node"]) == (1, 3, 3)
    assert last["figures"] == {"token": " on"}
    assert last["tokens"] == 3
    assert last["breakpoints"][1] == {
        "number": 2,
        "kind": "break",
        "condition": "entropy > 3",
        "hits": 0,
        "told": 3,
        "untold": None,
    }


def test_text_stays_text_and_the_step_is_printed_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(asked(('"sat" in text and rank == 1',)), "text") == 1
    captured = capsys.readouterr()
    assert captured.out == " cat sat\n"
    shown = captured.err.splitlines()[1:]
    assert shown[0].endswith('; breakpoint 1: "sat" in text and rank == 1]')
    assert shown[1] == 'step 2 (node 2, position 2): " sat"'
    assert shown[2].startswith("  id ")
    assert shown[2].endswith(", greedy, rank 1")
    assert shown[-3:] == [
        'breakpoint 1: "sat" in text and rank == 1',
        '  text = " cat sat"',
        "  rank = 1",
    ]


def test_an_assertion_fails_where_it_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(asked(asserts=("rank == 1", 'token != " a"')), "jsonl") == 1
    (_, *steps, last), _ = lines(capsys)
    assert len(steps) == 4
    assert last["reason"] == "breakpoint"
    assert last["detail"] == 'assertion 2 does not hold: token != " a"'
    assert last["figures"] == {"token": " a"}
    assert [one["kind"] for one in last["breakpoints"]] == ["assert", "assert"]


def test_a_run_that_hits_nothing_and_holds_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(asked(("step > 99",), ("rank == 1", "not loop")), "jsonl") == 0
    (_, *_, last), err = lines(capsys)
    assert last["reason"] == "stop_token"
    assert "breakpoint" not in last
    assert [one["told"] for one in last["breakpoints"]] == [6, 6, 6]
    assert err == []


def test_without_conditions_the_last_line_is_what_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(asked(), "jsonl") == 0
    (_, *_, last), _ = lines(capsys)
    assert "breakpoints" not in last


def test_an_assertion_that_nothing_was_found_out_about_has_not_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(asked(("u > 2",), ("u < 2", "u < 2 or rank == 1")), "jsonl") == 1
    (_, *_, last), err = lines(capsys)
    reason = "step 1: no randomness was used: the token is greedy"
    assert last["reason"] == "stop_token"
    assert last["breakpoints"][0]["untold"] == reason
    assert err == [
        f"llm-inspect: breakpoint 1 cannot be told at {reason} (u > 2)",
        f"llm-inspect: assertion 2 cannot be told at {reason} (u < 2)",
        f"llm-inspect: assertion 2 could be told at no step: u < 2 ({reason})",
    ]


def test_a_token_that_the_model_has_not_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(asked(('prob("cat sat") > 0.5',)), "jsonl") == 3
    _, err = lines(capsys)
    assert err[0].startswith('llm-inspect: "cat sat" is not one token of this model')


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["run", "a", "--break", "entorpy > 3"],
            "--break 'entorpy > 3': unknown name 'entorpy'; did you mean entropy? (column 1)",
        ),
        (
            ["run", "a", "--assert", "rank = 1"],
            "--assert 'rank = 1': write == to compare (column 6)",
        ),
        (
            ["a", "--watch", "prob("],
            "--watch 'prob(': '(' was never closed (column 5)",
        ),
        (["a", "--assert", "loop"], "unrecognized arguments: --assert loop (see llm-inspect --help)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_a_model_is_loaded(
    capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert refused(capsys, *words) == line


# --- the real model ----------------------------------------------------------------------------


def stopped(launcher: Launcher, folder: Path, prompt: str, *words: str) -> list[dict[str, Any]]:
    """The lines of a run that ends with exit code 1."""
    options = ["--model", str(folder), "--dtype", "float16", "--max-tokens", "20"]
    done = launcher.run("run", prompt, "--format", "jsonl", *options, *words)
    assert done.returncode == 1
    return [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]


@pytest.mark.model
def test_the_real_model_stops_at_paris(launcher: Launcher, default_model_dir: Path) -> None:
    words = ("--temperature", "0", "--assert", "rank == 1", "--break", '"Paris" in text')
    _, *steps, last = stopped(launcher, default_model_dir, "The capital of France is", *words)
    assert last["detail"] == 'breakpoint 1: "Paris" in text'
    assert "Paris" in last["figures"]["text"]
    assert last["figures"]["text"] == "".join(step["text"] for step in steps)
    assert "Paris" not in "".join(step["text"] for step in steps[:-1])
    assert last["breakpoints"][1]["told"] == len(steps) == last["step"]


@pytest.mark.model
def test_figures_of_the_real_model_are_those_of_the_line(
    launcher: Launcher, default_model_dir: Path
) -> None:
    # Six tokens are read, so that only the first step begins a block, and only it missed.
    words = ("--assert", "new_block == prefix_miss")
    words += ("--break", 'step == 3 and prob(" Lyon") + rank(" Lyon") + entropy + u > 0')
    *_, step, last = stopped(launcher, default_model_dir, "Once upon a time", *words)
    assert last["breakpoint"] == 1
    figures = last["figures"]
    assert figures["step"] == 3
    assert figures["entropy"] == step["entropy_raw"]
    assert figures["u"] == step["u"]
    # It has a row of its own, however unlikely it is there.
    (lyon,) = [row for row in step["top"] if bytes.fromhex(row["token_bytes"]) == b" Lyon"]
    assert figures['prob(" Lyon")'] == lyon["final_prob"]
    assert figures['rank(" Lyon")'] == lyon["rank"]
