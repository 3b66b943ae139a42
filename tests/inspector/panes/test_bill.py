"""The bill pane as text at several widths, and the same bill in exports and in JSON lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from textual.geometry import Size

from engine.records.thinking import ThinkingSettings
from engine.records.vocabulary import Token
from inspector.draw.figures import money
from inspector.panes.bill.pane import draw
from inspector.state.account import account_at
from inspector.state.view import View
from sessions.export.bill import bill_fields
from sessions.export.formats import jsonl_lines, pieces
from sessions.export.jsonl import dumps
from sessions.export.source import Source
from tests.fake_runs import picture
from tests.fakes import SMOLLM2, case_36, chunk, kv, prefill, prompt, settings, step, timing, view
from tests.hostile import LONE, acting

TAGS = ThinkingSettings("<think>", "</think>", "tokenizer", 3)


def thinking_run() -> View:
    words = [b"<think>", b"hm", b"</think>", b"42"]
    steps = [
        step(at, timing(50.0 if at > 1 else 0.0), kv(9 + at), token=Token(at, words[at - 1]))
        for at in range(1, 5)
    ]
    told = replace(settings(), thinking=TAGS)
    return view(SMOLLM2, told, prompt(10), prefill(chunk(0, 10, 500.0)), *steps)


def test_the_table_of_case_36() -> None:
    lines = picture(draw(view(*case_36()), Size(80, 24)).rows).splitlines()
    assert lines[:5] == [
        "tokens of               count       time        moved        price",
        "prompt computed            10     500 ms •    514 MiB ƒ  $0.000010 ~",
        "output                      5     400 ms •   2.01 GiB ƒ  $0.000020 ~",
        "sum                        15     900 ms •   2.51 GiB ƒ  $0.000030 ~",
        "prices: estimated by the list example (prices.toml)",
    ]
    text = "\n".join(lines)
    assert "An output token took 100 ms ƒ, a prompt token 50.0 ms ƒ: 2 × ƒ." in text
    assert "thinking is not told apart" in text


def test_thinking_has_a_line_of_its_own() -> None:
    text = picture(draw(thinking_run(), Size(80, 24)).rows)
    assert "thinking                    3     100 ms •" in text
    assert "thinking: 1 span between <think> and </think> (tokenizer), at most 3 tokens" in text


@pytest.mark.parametrize("width", [1, 8, 20, 38, 60, 80, 160])
def test_no_line_is_too_wide_and_every_figure_is_marked(width: int) -> None:
    for found in (view(*case_36()), thinking_run()):
        rows = draw(found, Size(width, 24)).rows
        assert all(rows[at].cell_length <= max(8, width) for at in range(len(rows)))
    if width >= 80:
        body = picture(draw(thinking_run(), Size(width, 24)).rows)
        for unit in (" ms", " GiB", " MiB", "$"):
            for at in range(len(body)):
                if body.startswith(unit, at):
                    assert any(mark in body[at : at + 14] for mark in "•ƒ~"), body[at : at + 14]


def test_before_anything_was_read() -> None:
    assert "What this run uses will be here" in picture(draw(view(), Size(80, 24)).rows)


def test_small_prices_keep_two_digits() -> None:
    bill = account_at(view(*case_36())).bill
    for value, text in ((0.0, "$0.00"), (0.000012, "$0.000012"), (1234.5, "$1,234.50")):
        figure = replace(bill.total.price, value=value)
        assert money(figure).plain == f"{text} ~"


# --- exports --------------------------------------------------------------------------------


def test_the_bill_as_plain_values() -> None:
    found: dict[str, Any] = json.loads(dumps(bill_fields(account_at(thinking_run()))))
    assert [(one["kind"], one["tokens"], one["time_ms"]) for one in found["lines"]] == [
        ("prompt", 10, 500.0),
        ("thinking", 3, 100.0),
        ("output", 1, 50.0),
    ]
    assert found["total"]["time_ms"] == 650.0
    assert found["lines"][0]["time_ms_source"] == "measured"
    assert found["lines"][0]["price_source"] == "estimated"
    assert found["thinking"] == {"tokens": 3, "spans": 1, "forced": 0}
    assert len(found["questions"]) == 4
    assert all(one["answer"] or one["reason"] for one in found["questions"])


def test_every_form_of_an_export_has_it() -> None:
    found = thinking_run()
    source = Source.of_log(found.log, found.cursor, "t")
    assert json.loads(list(jsonl_lines(source))[-1])["bill"]["total"]["tokens"] == 14
    assert "## Bill" in "".join(pieces(source, "md"))
    assert "bill: thinking" in "".join(pieces(source, "html"))


def test_hostile_words_of_a_list_and_of_tags_do_not_act() -> None:
    found = thinking_run()
    found.log.prices = replace(found.log.prices, name=LONE, currency=LONE)
    assert found.log.settings is not None
    tags = ThinkingSettings(LONE, "</think>", LONE, 3)
    found.log.settings = replace(found.log.settings, thinking=tags)
    assert acting(picture(draw(found, Size(80, 24)).rows)) == ""
    source = Source.of_log(found.log, found.cursor, "t")
    for form in ("md", "html", "jsonl"):
        assert acting("".join(pieces(source, form))) == ""
