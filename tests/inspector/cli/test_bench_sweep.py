"""``bench`` over lengths: medians and spread by hand, and a whole sweep on a script."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.commands import Open, Submit
from engine.records.measured import Contest
from inspector.cli import main as cli
from inspector.cli.bench_sweep import Plan, sweep
from inspector.cli.bench_sweep_report import Cell, Run, lines, markdown, report
from tests.direct import DirectClient
from tests.fakes import SMOLLM2, texts

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
RUNS = (
    Run(32, 500.0, (10.0, 10.0, 10.0, 10.0)),
    Run(32, 400.0, (20.0, 20.0, 20.0, 20.0)),
    Run(32, 700.0, (10.0, 10.0, 10.0, 50.0)),
)
CELL = Cell(32, 5, 1, Run(32, 900.0, (30.0,)), RUNS)
"""TPOT 10, 20 and 20 ms: 100, 50 and 50 tokens a second."""


def test_medians_spread_and_percentiles() -> None:
    """Of 12 gaps 7 are 10 ms, 4 are 20 and one is 50: p50 10, p95 and p99 50 by nearest rank."""
    found = report(SMOLLM2, [CELL], NOW, 0.1)["cells"][0]
    assert (found["ttft_ms"], found["ttft_ms_range"]) == (500.0, [400.0, 700.0])
    assert (found["tpot_ms"], found["tpot_ms_range"]) == (20.0, [10.0, 20.0])
    assert (found["tps"], found["tps_range"]) == (50.0, [50.0, 100.0])
    assert [found[f"itl_p{share}_ms"] for share in (50, 95, 99)] == [10.0, 50.0, 50.0]
    assert found["warm_up"]["ttft_ms"] == 900.0
    assert len(found["runs"]) == 3


def test_rows_together() -> None:
    """4 rows that share passes of 20 ms: 200 tokens a second, 20 ms a token for each."""
    run = Run(8, 100.0, (20.0, 20.0), rows=4)
    assert (run.tpot_ms, run.tps) == (20.0, 200.0)


def test_one_token_has_no_speed() -> None:
    found = report(SMOLLM2, [Cell(8, 3, 1, None, (Run(8, 5.0, ()),))], NOW, 0.0)["cells"][0]
    assert found["tps"] is None
    assert found["tps_reason"]
    assert found["warm_up"] is None


def test_the_table() -> None:
    shown = texts(lines(SMOLLM2, [CELL], 0.1, 100)).splitlines()
    at = next(number for number, line in enumerate(shown) if "TTFT" in line)
    assert shown[at + 1].split() == (
        [
            "32",
            "5",
            "1",
            "500",
            "ms",
            "ƒ",
            "20.0",
            "ms",
            "ƒ",
            "10.0",
            "ms",
            "•",
            "50.0",
            "ms",
            "•",
            "50.0",
            "ms",
            "•",
            "50.0",
            "ƒ",
        ]
    )
    text = " ".join(" ".join(shown).split())
    assert "medians of 3: TTFT 400 ms – 700 ms ƒ, tok/s 50.0 – 100 ƒ" in text
    assert "warm-up apart: TTFT 900 ms, TPOT 30.0 ms ƒ" in text


@pytest.mark.parametrize("width", [1, 40, 60, 80, 160])
def test_no_line_is_too_wide(width: int) -> None:
    cells = [CELL, Cell(9000, 5, 1, error="the context holds 8,192 tokens")]
    shown = list(lines(SMOLLM2, cells, 0.1, width))
    assert all(line.cell_length <= max(40, width) for line in shown)


def test_markdown() -> None:
    contest = Contest("generate", "bfloat16", 5, (10.0, 20.0, 10.0), (20.0, 20.0, 30.0))
    cell = Cell(32, 5, 1, CELL.warm_up, RUNS, contest)
    shown = list(markdown(SMOLLM2, [cell, Cell(9000, 5, 1, error="a | b")], NOW, 0.1))
    assert shown[4].startswith("| 32 | 5 | 1 | 3 | 500 (400 – 700) | 20.0 (10.0 – 20.0) |")
    # The rounds' ratios are 2, 1 and 3.
    assert "ours 2.00 × ƒ of it" in shown[4]
    assert shown[5].startswith("| 9,000 | 5 | 1 | 0 | — |")
    assert "a \\| b" in shown[5]
    assert len({line.replace("\\|", "").count("|") for line in shown[2:]}) == 1


def test_a_whole_sweep_on_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    """Each length with one row and with two; no run finds a prompt in the cache."""
    clients: list[DirectClient] = []

    def connect() -> Any:
        clients.append(DirectClient())
        return clients[0]

    command = Open("scripted", {"tokens": [chr(32 + at) for at in range(95)]})
    plan = Plan((12, 40), (4,), (1, 2), 2)
    assert sweep(command, plan, "json", connect=connect) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    cells = found["cells"]
    assert [(one["prompt_tokens"], one["rows"]) for one in cells] == [
        (12, 1),
        (12, 2),
        (40, 1),
        (40, 2),
    ]
    assert all(one["repeats"] == 2 and one["tps"] > 0 for one in cells)
    assert [len(run["gaps_ms"]) for run in cells[0]["runs"]] == [3, 3]
    asked = [one.text for one in clients[0].sent if isinstance(one, Submit)]
    assert len(asked) == len({text[:6] for text in asked}) == 12


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--prompts", "0"), "must be 1 or more"),
        (("--prompts", "a"), "takes a whole number"),
        (("--prompts", "1,2,3,4,5,6,7,8,9"), "at most 8 numbers"),
        (("--outputs", "2"), "--outputs must be 3 or more"),
        (("--rows", "65"), "64 share a pass at most"),
        (("--repeats", "2", "--lossless"), "goes over no lengths"),
        (("--vs", "vllm"), "invalid choice"),
    ],
)
def test_bad_lengths_are_one_line(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *words]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1
