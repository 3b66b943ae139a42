"""The bill of a branch: every figure by hand, out of records with round times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.bill.account import Account, account
from engine.bill.prices import Kind, PriceError, PriceList, example
from engine.records.figure import Figure, Source
from engine.records.thinking import ThinkingSettings
from engine.records.vocabulary import Token
from inspector.state.view import View
from tests.fakes import SMOLLM2, a_round, case_36, chunk, kv, prefill, prompt, step, timing, view

W = SMOLLM2.weight_bytes
E = 46_080
"""Bytes of K and V a position."""
TAGS = ThinkingSettings("<think>", "</think>", "tokenizer")


def of(found: View, tags: ThinkingSettings = TAGS, prices: PriceList | None = None) -> Account:
    log = found.log
    return account(
        log.facts, log.prompt, log.prefill, found.path, log.rounds, tags, prices or example()
    )


def figures(one: Account) -> dict[str, tuple[int, float | None, float | None, float | None]]:
    return {
        line.name: (line.tokens, line.time.value, line.moved.value, line.price.value)
        for line in one.bill.lines
    }


def test_a_plain_run() -> None:
    """10 prompt tokens in 500 ms, 5 output tokens, of which 4 took a pass of 100 ms.

    The prefill moved the weights and 10 positions; each step the weights and 11 to 14 positions.
    """
    found = of(view(*case_36()))
    assert figures(found) == {
        "prompt computed": (10, 500.0, W + 10 * E, pytest.approx(10e-6)),
        "output": (5, 400.0, 4 * W + (11 + 12 + 13 + 14) * E, pytest.approx(20e-6)),
    }
    total = found.bill.total
    assert (total.tokens, total.time.value) == (15, 900.0)
    assert total.price.value == pytest.approx(30e-6)
    assert total.time.source is Source.MEASURED
    assert {one.price.source for one in found.bill.lines} == {Source.ESTIMATED}
    assert {one.moved.source for one in found.bill.lines} == {Source.DERIVED}


def test_cached_tokens_took_no_pass() -> None:
    records = [SMOLLM2, prompt(10), prefill(chunk(8, 2, 100.0), cached=8)]
    cached = of(view(*records)).bill.line(Kind.CACHED)
    assert cached is not None
    assert (cached.tokens, cached.time.value, cached.moved.value) == (8, None, None)
    assert cached.time.reason == "no pass was run for them"
    assert cached.price.value == pytest.approx(0.8e-6)


def test_a_round_is_divided_by_its_positions() -> None:
    """4 drafts, 1 accepted: 5 positions in a pass of 50 ms, of which 3 were thrown away.

    They have 3/5 of it, 30 ms; the two tokens that were added 10 ms each.
    """
    record = a_round(2, "ardd")
    steps = [
        step(1, timing(0.0), kv(10, computed=10)),
        step(2, timing(50.0), kv(11), round=2),
        step(3, timing(0.0), kv(12), round=2),
    ]
    found = of(view(SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), record, *steps))
    lost, output = found.bill.line(Kind.DISCARDED), found.bill.line(Kind.OUTPUT)
    assert lost is not None
    assert output is not None
    assert (lost.tokens, lost.time.value) == (3, pytest.approx(30.0))
    assert (output.tokens, output.time.value) == (3, pytest.approx(20.0))
    assert lost.moved.value == pytest.approx((W + 11 * E) * 3 / 5)
    assert lost.time.source is output.time.source is Source.DERIVED
    assert found.bill.total.time.value == pytest.approx(550.0)


def thinking_run() -> View:
    words = [b"<think>", b"a", b"b", b"</think>", b"42"]
    steps = [step(1, timing(0.0), kv(10, computed=10), token=Token(1, words[0]))]
    steps += [
        step(at, timing(60.0 if at < 5 else 30.0), kv(9 + at), token=Token(at, words[at - 1]))
        for at in range(2, 6)
    ]
    return view(SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), *steps)


def test_thinking_is_counted_apart() -> None:
    found = of(thinking_run())
    assert figures(found)["thinking"][:2] == (4, 180.0)
    assert figures(found)["output"][:2] == (1, 30.0)
    assert found.spans == 1
    assert figures(of(thinking_run(), ThinkingSettings()))["output"][:2] == (5, 210.0)


def said(one: Account, at: int) -> str:
    """An answer as text, its figures to three digits."""
    parts = one.answers[at].parts
    return "".join(
        part if isinstance(part, str) else f"{part.value:.3g} {part.unit}" for part in parts
    )


def test_why_output_costs_more() -> None:
    """100 ms a token against 500 / 10 = 50: twice."""
    text = said(of(view(*case_36())), 0)
    assert "An output token took 100 ms, a prompt token 50 ms: 2 ×" in text
    assert "for 1 output token, or for 10 prompt tokens at once" in text


def test_why_cached_input_is_cheap() -> None:
    """8 cached tokens; the 2 that were computed took 50 ms each: 400 ms saved, 368,640 B kept."""
    records = [SMOLLM2, prompt(10), prefill(chunk(8, 2, 100.0), cached=8)]
    text = said(of(view(*records)), 1)
    assert text == (
        "8 tokens took no pass: their K and V were there, 3.69e+05 B. To compute them would have "
        "taken 400 ms."
    )
    assert "Nothing of this prompt was in the cache" in said(of(view(*case_36())), 1)


def test_why_a_long_context_hurts_twice() -> None:
    """14 positions are 645,120 B of 538.7 MB; 1,000 more are 46.1 MB, 8.55 ms at this rate."""
    found = of(view(*case_36())).answers[2]
    values = [part.value for part in found.parts if isinstance(part, Figure)]
    moved = 4 * W + 50 * E
    assert values == [
        pytest.approx(E),
        pytest.approx(14 * E),
        pytest.approx(14 * E / (14 * E + W)),
        pytest.approx(1000 * E),
        pytest.approx(1000 * E / (moved / 400)),
    ]


def test_why_thinking_bills_like_output() -> None:
    text = said(of(thinking_run()), 3)
    assert "A thinking token took 60 ms, one of the answer 30 ms" in text
    assert "4 of 5 tokens were thinking, 0.857 share of the decoding time" in text
    assert of(view(*case_36())).answers[3].reason


@pytest.mark.parametrize(
    "records",
    [
        [],
        [SMOLLM2, prompt(3)],
        [SMOLLM2, prompt(3), prefill(chunk(0, 3, 5.0))],
        [prompt(3), prefill(chunk(0, 3, 0.0)), step(1, timing(0.0), kv(3))],
    ],
)
def test_what_is_not_there_has_a_reason(records: list[Any]) -> None:
    found = of(view(*records))
    for line in (*found.bill.lines, found.bill.total):
        for figure in (line.time, line.moved, line.price):
            assert figure.value is not None or figure.reason
    assert all(one.parts or one.reason for one in found.answers)


# --- price lists ----------------------------------------------------------------------------


def test_a_list_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('name = "mine"\ncurrency = "€"\n[per_million]\noutput = 10\n')
    found = of(view(*case_36()), prices=PriceList.load(path)).bill
    assert (found.list_name, found.currency) == ("mine", "€")
    assert found.line(Kind.OUTPUT).price.value == pytest.approx(50e-6)  # type: ignore[union-attr]
    unpriced = found.line(Kind.PROMPT)
    assert unpriced is not None
    assert (unpriced.price.value, bool(unpriced.price.reason)) == (None, True)
    assert PriceList.load(tmp_path / "none.toml") == example()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[per_million]\nouput = 1", "unknown kind 'ouput'"),
        ("[per_million]\noutput = -1", "output must be a number"),
        ("[per_million]\noutput = nan", "output must be a number"),
        ("[per_million]\noutput = true", "output must be a number"),
        ('[per_million]\noutput = "4"', "output must be a number"),
        ("per_million = 3", "must be a table"),
        ("name = 3", "must be texts"),
        ("prices = 3", "unknown key 'prices'"),
        ("[", ""),
    ],
)
def test_a_list_that_makes_no_sense_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(PriceError) as caught:
        PriceList.load(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
