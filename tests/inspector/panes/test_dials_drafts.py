"""The dials of speculative decoding: what keys make of them, and what the engine is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import on

from engine.records.round import Accept, DraftSettings
from inspector.messages import Draft
from inspector.panes.dials.drafts import RULE, SOURCE, TOKENS, beside, parsed, set_to
from inspector.panes.dials.pane import DialsPane
from inspector.panes.dials.rows import DialTable, columns, dial_line
from inspector.state.view import View
from tests.fake_runs import Host, run

NGRAM = DraftSettings("ngram:2", 3)


def view_of(draft: DraftSettings, *, live: bool = True) -> View:
    view = run(["a", "b"])
    log = view.log
    assert log.settings is not None
    log.settings = replace(log.settings, draft=draft)
    log.can_measure = live
    return view


def rows_of(draft: DraftSettings) -> list[str]:
    table = DialTable.of(view_of(draft))
    at = columns(76)
    return [
        dial_line(row, at).plain.split()[0]
        for row in filter(None, map(table.at, range(40)))
        if row.drafts
    ]


def test_without_drafts_the_source_alone_is_there() -> None:
    assert rows_of(DraftSettings()) == ["draft"]
    assert rows_of(NGRAM) == ["draft", "draft_tokens", "accept"]


@pytest.mark.parametrize(
    ("draft", "shown"),
    [
        (DraftSettings(), ["none"]),
        (NGRAM, ["ngram:2", "3", "exact"]),
        (DraftSettings("self:20", 0, Accept.TYPICAL), ["self:20", "auto", "typical"]),
        (DraftSettings("\x1b[2Jmodel", 1), ["␛[2Jmodel"[:9], "1", "exact"]),
    ],
)
def test_values_in_words(draft: DraftSettings, shown: list[str]) -> None:
    table = DialTable.of(view_of(draft))
    lines = table.lines(100, "", None)
    found = [lines[at] for at in range(len(lines)) if (row := table.at(at)) and row.drafts]
    assert len(found) == len(shown)
    for line, value in zip(found, shown, strict=True):
        assert value[:8] in line.plain
        assert "\x1b" not in line.plain


def test_one_dial_at_a_time() -> None:
    assert set_to(NGRAM, SOURCE, "self:4") == DraftSettings("self:4", 3)
    assert set_to(NGRAM, TOKENS, 0) == DraftSettings("ngram:2", 0)
    assert set_to(NGRAM, RULE, "match") == DraftSettings("ngram:2", 3, Accept.MATCH)


def test_written_values() -> None:
    assert parsed(SOURCE, " none ") == ""
    assert parsed(SOURCE, "ngram:5") == "ngram:5"
    assert parsed(TOKENS, "auto") == 0
    assert parsed(RULE, "typical") == "typical"


@pytest.mark.parametrize(
    ("dial", "text", "says"),
    [
        (SOURCE, "ngram:0", "from 1 on"),
        (SOURCE, "self:", "whole number"),
        (TOKENS, "65", "out of range"),
        (TOKENS, "some", "whole number"),
        (RULE, "loose", "exact or match or typical"),
    ],
)
def test_what_cannot_be_says_what_could(dial: object, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parsed(dial, text)  # type: ignore[arg-type]


def test_choices_go_round() -> None:
    view = view_of(DraftSettings())
    seen = [beside(SOURCE, "", step, view) for step in range(4)]
    assert seen[0] == seen[3] == ""
    assert seen[1] == "ngram"
    assert str(seen[2]).startswith("self:")
    assert beside(RULE, "typical", 1, view) == "exact"
    assert beside(SOURCE, "some/model", 1, view) == "ngram"


class Bench(Host):
    """The dials alone; what they ask of the engine is counted."""

    def __init__(self, view: View) -> None:
        super().__init__(DialsPane(number="s"), view, "dark")
        self.drafts: list[DraftSettings] = []

    @property
    def dials(self) -> DialsPane:
        assert isinstance(self.pane, DialsPane)
        return self.pane

    @on(Draft)
    def drafted(self, message: Draft) -> None:
        self.drafts.append(message.settings)


async def test_keys_ask_the_engine_at_once_and_count_before_it_has_answered() -> None:
    """From none to ngram, and three more drafts a round, in one go; then the engine's word counts."""
    app = Bench(view_of(DraftSettings(tokens=4)))
    async with app.run_test(size=(76, 20)) as pilot:
        await pilot.press(*["down"] * 3)  # past the chain and the heading
        app.dials.turn(1)
        await pilot.press("down")
        for _ in range(3):
            app.dials.turn(1)
        await pilot.pause()
        assert [one.source for one in app.drafts] == ["ngram"] * 4
        assert [one.tokens for one in app.drafts] == [4, 5, 6, 7]
        app.pane.show(view_of(NGRAM))
        await pilot.pause()
        assert any("ngram:2" in line for line in app.screen_lines())


async def test_a_recording_says_that_it_takes_a_model() -> None:
    app = Bench(view_of(NGRAM, live=False))
    async with app.run_test(size=(76, 20)) as pilot:
        await pilot.press(*["down"] * 3)
        app.dials.turn(1)
        await pilot.pause()
        assert not app.drafts
        assert any("--live" in line for line in app.screen_lines())
