"""What of a prompt was found: the sum, the reason, the first token that differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Size

from engine.kv.prefix import explain
from engine.records.cache import PrefixReport
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.vocabulary import Token, Vocabulary
from inspector.panes.kv.prefix import prefix_lines, prefix_short
from inspector.panes.prefill.pane import draw
from inspector.state.view import View
from tests.fake_pools import branch, kv_lines, pool
from tests.fakes import SMOLLM2, chunk, prefill, prompt, texts, view


def words(*, changed: int | None = None, count: int = 37) -> PromptRecord:
    """Tokens ``1000``, ``1001`` … that read `` w0``, `` w1`` …; one may be another: id 7."""
    record = prompt(count)
    tokens = [Token(1000 + at, f" w{at}".encode()) for at in range(count)]
    if changed is not None:
        tokens[changed] = Token(7, b" other")
    return replace(record, tokens=tuple(tokens))


def look(report: PrefixReport, record: PromptRecord) -> View:
    read = prefill(chunk(report.cached, report.computed, 50.0), cached=report.cached)
    return view(SMOLLM2, record, replace(read, prefix=report))


def report(ours: Sequence[int], theirs: Sequence[int] | None, **known: Any) -> PrefixReport:
    given = {"cached": 0, "hit_blocks": 0, "evicted_blocks": 0, "size": 16, **known}
    return explain(list(ours), None if theirs is None else list(theirs), **given)


IDS = list(range(1000, 1037))


def changed(at: int) -> list[int]:
    return [7 if place == at else one for place, one in enumerate(IDS)]


def test_another_token_inside() -> None:
    # 32 of 37 are two whole blocks; position 35 is another token.
    found = report(changed(35), IDS, cached=32, hit_blocks=2)
    assert texts(prefix_lines(look(found, words(changed=35)), 75)) == (
        "Prefix: what of the prompt was found ──────────────────────────────────────\n"
        "prompt      2 blocks hit: 32 cached + 5 computed = 37 tokens\n"
        "why         the token at position 35 is another one\n"
        'differs     position 35: " other" here, id 1035 before\n'
        "moved last  32 cached ~   as many, with the part that differs moved last\n"
        "rule        whole blocks of 16, by hash; the last token is always computed"
    )


def test_the_token_before_has_its_text_where_it_is_known() -> None:
    found = report(changed(3), IDS)
    shown = look(found, words(changed=3))
    assert 'position 3: " other" here, id 1003 before' in texts(prefix_lines(shown, 75))
    tokens = [Token(n, f"<{n}>".encode()) for n in range(1100)]
    shown.log.add(Vocabulary.pack(tokens))
    assert 'position 3: "<7>" here, "<1003>" before' in texts(prefix_lines(shown, 75))
    shown.log.add(Vocabulary.pack(tokens[:5]))
    assert "position 3: id 7 here, id 1003 before" in texts(prefix_lines(shown, 75))


def test_what_moving_the_variable_part_last_would_have_found() -> None:
    # All but position 3 are the same: 36 tokens, two whole blocks of them.
    found = report(changed(3), IDS)
    assert (found.cached, found.moved_last) == (0, 32)
    assert "moved last  32 cached ~   with the part that differs moved last" in texts(
        prefix_lines(look(found, words(changed=3)), 75)
    )


def test_a_full_hit_computes_the_last_token_alone() -> None:
    found = report(IDS[:32], IDS, cached=31, hit_blocks=2)
    shown = texts(prefix_lines(look(found, words(count=32)), 90))
    assert "prompt      2 blocks hit: 31 cached + 1 computed = 32 tokens" in shown
    assert "all of it was read before: the last token is computed again for its logits" in shown
    assert "differs" not in shown
    assert "the same    the first 32 tokens: no other token follows there" in shown


def test_shorter_than_one_block() -> None:
    found = report(IDS[:5], IDS)
    shown = texts(prefix_lines(look(found, words(count=5)), 75))
    assert "0 blocks hit: 0 cached + 5 computed = 5 tokens" in shown
    assert "why         the prompt is shorter than one block of 16" in shown


def test_evicted_blocks_are_named() -> None:
    found = report(IDS, None, evicted_blocks=2)
    shown = texts(prefix_lines(look(found, words()), 75))
    assert "why         2 blocks of it were evicted to make room" in shown
    assert "evicted     2 blocks of it thrown out for room before" in shown


def test_where_every_position_counts_there_are_no_blocks() -> None:
    found = report(IDS, IDS[:20], cached=20, size=1)
    shown = texts(prefix_lines(look(found, words()), 75))
    assert "prompt      20 cached + 17 computed = 37 tokens" in shown
    assert "block" not in shown


def test_nothing_was_noted() -> None:
    shown = view(SMOLLM2, words(), prefill(chunk(0, 37, 50.0)))
    assert prefix_lines(shown, 75) == prefix_short(shown, 75, 9) == []
    assert prefix_lines(view(SMOLLM2), 75) == []


def test_the_prefill_pane_has_the_short_form() -> None:
    found = report(changed(35), IDS, cached=32, hit_blocks=2)
    shown = texts(draw(look(found, words(changed=35)), Size(71, 14)).rows)
    assert "prefix   2 blocks hit: 32 cached + 5 computed = 37 tokens" in shown
    assert 'at 35: " other", before it was id 1035' in shown
    narrow = texts(draw(look(found, words(changed=35)), Size(30, 14)).rows)
    assert "prefix   32 + 5 = 37" in narrow


def test_at_the_prompt_the_kv_pane_explains_before_it_sums_up() -> None:
    found = report(changed(35), IDS, cached=32, hit_blocks=2)
    shown = look(found, words(changed=35))
    shown.log.add(pool(branch(1, 37, (0, 1, 2), node=0, held=True), current=1))
    lines = texts(kv_lines(shown, 75, 12)).splitlines()
    at = [
        next(n for n, line in enumerate(lines) if line.startswith(word))
        for word in (
            "cache now",
            "Pool:",
            "Prefix:",
            "  expected",
            "The pool",
        )
    ]
    assert at == sorted(at)


tokens = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(tokens, tokens | st.none(), st.integers(1, 200), st.integers(1, 20), st.data())
def test_every_sum_is_right_and_no_line_breaks_its_frame(
    ours: list[int], theirs: list[int] | None, width: int, size: int, data: st.DataObject
) -> None:
    cached = data.draw(st.integers(0, len(ours) - 1))
    found = report(ours, theirs, cached=cached, size=size)
    assert found.cached + found.computed == found.prompt == len(ours)
    record = replace(prompt(len(ours)), tokens=tuple(Token(one, b"x\x1b") for one in ours))
    shown = look(found, record)
    lines = [*prefix_lines(shown, width), *prefix_short(shown, width, 9)]
    assert all(line.cell_length <= width for line in lines)
    if width > 100:
        total = f"{cached} cached + {len(ours) - cached} computed = {len(ours)}"
        assert texts(lines).count(total) == 2


def test_a_hostile_report_is_shown_and_breaks_nothing() -> None:
    lies = replace(
        report(changed(35), IDS, cached=32),
        reason="[red]\x1b[2J" * 1000,
        ours=-5,
        theirs=10**40,
        differs_at=10**9,
        moved_last=-1,
        hit_blocks=10**30,
    )
    read: PrefillRecord = replace(prefill(chunk(0, 5, 1.0)), prefix=lies)
    shown = view(SMOLLM2, words(), read)
    for width in (1, 20, 75):
        lines = prefix_lines(shown, width)
        assert all(line.cell_length <= width for line in lines)
        assert len(lines) < 60
        assert "\x1b" not in texts(lines)


@pytest.mark.parametrize("width", [20, 36, 49, 75])
def test_the_difference_stays_in_its_line(width: int) -> None:
    found = report(changed(35), IDS, cached=32, hit_blocks=2)
    lines = prefix_lines(look(found, words(changed=35)), width)
    assert all(line.cell_length <= width for line in lines)
    assert any("35" in line.plain for line in lines)
