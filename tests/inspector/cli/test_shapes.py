"""``llm-inspect shapes``: the requests, the table by hand, and a whole run on a script."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest

from engine.bill.account import account
from engine.bill.prices import example
from engine.commands import Open
from engine.records.model import ModelFacts
from engine.records.thinking import ThinkingSettings
from engine.timing import speed
from inspector.cli.main import COMMANDS
from inspector.cli.own_prices import own_prices
from inspector.cli.run import Progress
from inspector.cli.serial_parallel import Way, answer_of, both_ways, way_lines
from inspector.cli.shapes import add_shapes_options, shapes
from inspector.cli.shapes_requests import Answered, Shape, requests
from inspector.cli.shapes_table import lines, report
from inspector.state.answers import Answers
from inspector.state.view import View
from tests.direct import DirectClient
from tests.fakes import SMOLLM2, case_36, chunk, kv, prefill, prompt, step, texts, timing, view
from tests.thinkers import LETTERS, WORDS

WAYS = (
    Way("serial", 1, 96, 96, 8, 104, 4000.0, (("", 1),)),
    Way("parallel", 4, 24, 96, 32, 32, 2000.0, (("7", 3), ("x\x1b[2J", 1))),
)


def test_the_chat_of_turn_40_shares_all_but_its_last_message() -> None:
    cold, reused = requests(100, 8, 8)[1:3]
    shared = len(cold.prompt.rpartition("User:")[0])
    assert cold.prompt[:shared] == reused.prompt[:shared]
    assert cold.prompt != reused.prompt
    assert cold.prompt.count("User:") == 40


def test_the_document_is_about_as_long_as_asked_for() -> None:
    for words in (100, 600, 3000):
        assert len(requests(words, 8, 8)[0].prompt.split()) == pytest.approx(words, rel=0.4)


def test_the_thinking_request_begins_inside_and_takes_the_models_tags() -> None:
    own = ThinkingSettings("[T]", "[/T]", "tokenizer")
    found = requests(100, 8, 5, own)[3]
    assert found.prompt.rstrip().endswith("[T]")
    assert found.thinking == replace(own, budget=5)


def answered(name: str, found: View, what: str = "") -> Answered:
    log = found.log
    got = account(
        log.facts, log.prompt, log.prefill, found.path, log.rounds, ThinkingSettings(), example()
    )
    total = got.bill.total.time.value or 0.0
    return Answered(
        Shape(name, what, "", 5), got, speed(log.prompt, log.prefill, found.path), total, "text"
    )


def two() -> list[Answered]:
    """Case 36, and a run with 8 of 10 prompt tokens cached: 100 ms of reading and one step."""
    steps = [step(1, timing(0.0), kv(10, computed=10)), step(2, timing(100.0), kv(11))]
    short = view(SMOLLM2, prompt(10), prefill(chunk(8, 2, 100.0), cached=8), *steps)
    return [answered("plain", view(*case_36())), answered("reused", short)]


def test_the_table() -> None:
    shown = texts(lines(SMOLLM2, two(), WAYS, 80)).splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("request"))
    assert shown[at + 1 : at + 3] == [
        "plain                        10      0      5   500 ms ƒ   100 ms ƒ   900 ms ƒ",
        "reused                        2      8      2   100 ms ƒ   100 ms ƒ   200 ms ƒ",
    ]
    bars = [line for line in shown if "▒" in line and "█" in line]
    # 46 cells for 900 ms: 500 ms are 26 of them; 100 ms of 200 are 5 of 10.
    assert bars[0].count("▒") == 26
    assert bars[0].count("█") == 20
    assert (bars[1].count("▒"), bars[1].count("█")) == (5, 5)
    bill = next(line for line in shown if line.startswith("plain") and "$" in line)
    # 10 of the prompt at 1 and 5 of the output at 4 a million.
    assert "$0.000030 ~   reading 33%, answer 67%" in bill


@pytest.mark.parametrize("width", [1, 40, 60, 80, 160])
def test_no_line_is_too_wide(width: int) -> None:
    failed = Answered(Shape("too long", "much", "", 5), error="the context holds 5 tokens")
    shown = list(lines(SMOLLM2, [*two(), failed], WAYS, width))
    assert all(line.cell_length <= max(40, width) for line in shown)
    assert "the context holds 5 tokens" in " ".join(texts(shown).split())


def test_the_report_has_every_figure() -> None:
    found: dict[str, Any] = report(SMOLLM2, two())
    plain = found["requests"][0]
    assert (plain["ttft_ms"], plain["itl_ms"], plain["total_ms"]) == (500.0, 100.0, 900.0)
    assert plain["bill"]["total"]["tokens"] == 15


def test_a_whole_run_on_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    """Every prompt is read, the budget ends the thinking, and the tokens add up."""
    import argparse

    parser = argparse.ArgumentParser()
    add_shapes_options(parser)
    args = parser.parse_args(
        ["--format", "json", "--words", "50", "--output", "3", "--budget", "2", "--best-of", "2"]
    )
    command = Open("scripted", {"text": "the cat sat on the mat and saw the dog"})
    assert shapes(command, args, connect=DirectClient) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out, parse_constant=pytest.fail)
    names = [one["name"] for one in found["requests"]]
    assert names[0] == "long document"
    assert len(names) == 5
    kinds = [
        {line["kind"]: line["tokens"] for line in one["bill"]["lines"]} for one in found["requests"]
    ]
    # The history of the chat was in the cache the second time.
    assert "cached" not in kinds[1] or kinds[1]["cached"] < 5
    assert kinds[2]["cached"] > kinds[2]["prompt"]
    # Two tokens of thinking, then the closing tag's bytes are forced, one token each.
    assert found["requests"][3]["bill"]["thinking"]["forced"] > 0
    assert "shapes" in captured.err
    assert [one["name"] for one in found["serial_parallel"]] == ["serial", "parallel"]


# --- serial and parallel --------------------------------------------------------------------


def test_one_long_thought_or_several_short_ones() -> None:
    """104 tokens in 4 s are 26 a second; 128 in 2 s are 64, and three of four say 7."""
    shown = [line.rstrip() for line in texts(way_lines(WAYS, 80)).splitlines()]
    assert shown[1:] == [
        "serial, 1 × 96                96         8       104    4.00 s ƒ      26.0 ƒ",
        "  answer              1 of 1: none",
        "parallel, 4 × 24              96        32        32    2.00 s ƒ      64.0 ƒ",
        '  answer              3 of 4: "7"; 1 of 4: "x␛[2J"',
    ]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" 12 - 5 = 7.\n", "7"),
        ("It is 1,250.5 nets", "1,250.5"),
        (" Paris\nand", "Paris"),
        ("", ""),
    ],
)
def test_what_counts_as_an_answer(text: str, answer: str) -> None:
    assert answer_of(text) == answer


def test_rows_share_a_budget_each_and_the_series_has_theirs_together() -> None:
    """The model that thinks for 9 tokens: 6 in series, and twice 3 in rows that are alike."""
    client = DirectClient()
    answers = Answers(client, Progress(io.StringIO()))
    tokens = [*WORDS, *dict.fromkeys(LETTERS)]
    patient = {"function": "tests.thinkers:patient_logits_of", "tokens": tokens}
    answers.ask(Open("scripted", patient), ModelFacts)
    tags = ThinkingSettings("<think>", "</think>", "tokenizer", 3)
    serial, parallel = both_ways(answers, "?", tags, 2, 2, lambda *_: None)
    # The tags are counted with the thinking: 6 + 2, and (3 + 2) twice; the answer is 42, the end.
    assert (serial.rows, serial.thought, serial.answered, serial.passes) == (1, 8, 2, 10)
    assert (parallel.rows, parallel.thought, parallel.answered, parallel.passes) == (2, 10, 4, 7)
    assert (serial.votes, parallel.votes) == ((("42", 1),), (("42", 2),))


def test_the_command_is_there() -> None:
    assert "shapes" in COMMANDS
    assert own_prices().per_million
