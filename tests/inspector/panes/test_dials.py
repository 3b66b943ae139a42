"""The dials as text pictures, every key of theirs, and what they ask to be tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import on

from engine.records.events import Setting, SettingsChanged
from engine.sampling.chain import effective
from engine.sampling.stages import DIALS
from inspector.messages import Try
from inspector.panes.dials.pane import DialsPane
from inspector.panes.dials.rows import DialTable, Sign, columns, dial_line, dial_rows
from inspector.panes.dials.scales import moved, scale_of, share_of, started, track, value_at
from inspector.state.view import RunLog, View
from inspector.state.whatif import chain_of, recorded_chain, value_in, values_of
from inspector.widgets.picture import DENSE
from tests.fake_runs import Host, run

TOKENS = ["a", " b", "[/b]", "\x1b[2J", "日本", "\u202e"]
SHARP = "temperature=0.5 > top_k=4 > top_p=0.9"


class Bench(Host):
    """The dials alone; what they ask for is tried."""

    def __init__(self, view: View, theme: str = "dark") -> None:
        super().__init__(DialsPane(number="s"), view, theme)
        self.view = view

    @property
    def dials(self) -> DialsPane:
        assert isinstance(self.pane, DialsPane)
        return self.pane

    @property
    def spec(self) -> str:
        """The chain that is tried; the recorded one where none is."""
        chain = self.view.what_if or recorded_chain(self.view)
        assert chain is not None
        return chain.spec

    @on(Try)
    def tried(self, message: Try) -> None:
        self.view = View(self.view.log, self.view.cursor, message.chain)
        self.pane.show(self.view)


def look(text: str) -> str:
    return text.strip("\n")


async def picture(
    view: View, size: tuple[int, int], *keys: str, cut: int | None = None
) -> tuple[str, str]:
    """(the pane's lines, its title)."""
    app = Bench(view)
    async with app.run_test(size=size) as pilot:
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        lines = [line.rstrip() for line in app.screen_lines()]
        return "\n".join(lines[:cut]), str(app.pane.border_title)


def sharp(**more: object) -> View:
    return run(TOKENS, spec=SHARP, seed=2, dense=True, **more)  # type: ignore[arg-type]


# --- pictures ---------------------------------------------------------------------------------


async def test_the_chain_in_its_order_and_below_it_all_that_is_off() -> None:
    lines, title = await picture(sharp(), (76, 15))
    assert title == "s Dials"
    assert lines == look(
        """
  #  dial                       value   range     from
▸ 1  temperature          −       0.5 + ━━─────── flag
  2  top_k                −         4 + ━━─────── flag
  3  top_p                −       0.9 + ━━━━━━━━─ flag
 drafts, from the next round on ──────────────────────────────────────────
     draft                −      none +
 other dials, off or as they come ────────────────────────────────────────
     logit_bias                     —             off
     bad_words                      —             off
     suppress                       —             off
     min_new_tokens                 0 +           off
     no_repeat_ngram_size           0 +           off
 drew ● "a" · turn a dial to see what it would do
 temperature: divides the logits; 0 takes the likeliest token · 0 to 100
 - + turn · enter writes · i insert · t take out · { } move · s close
"""
    )


async def test_what_is_tried_is_marked_without_colour_and_says_what_was() -> None:
    # Square roots at T=2: 32.7 23.1 16.3 11.6 8.2 8.2%; top-p 0.9 cuts the last 8.2%.
    view = View(sharp().log, 1, chain_of("top_k=6 > temperature=2 > min_p=0.05", "guide"))
    lines, title = await picture(view, (76, 15), "down")
    assert title == "s Dials · WHAT IF, not the record"
    assert lines == look(
        """
  #  dial                       value   range     from
  1 *top_k                −         6 + ━━│────── was 4 · flag
▸ 2 *temperature          −         2 + ━━│━━━━━━ was 0.5 · flag
  3 +min_p                −      0.05 + ━──────── put in
    ✂top_p                −       0.9 + ━━━━━━━━─ taken out; was 0.9
 drafts, from the next round on ──────────────────────────────────────────
     draft                −      none +
 other dials, off or as they come ────────────────────────────────────────
     logit_bias                     —             off
     bad_words                      —             off
     suppress                       —             off
     min_new_tokens                 0 +           off
 would draw ○ " b" instead of ● "a" · 6 tokens left, not 2 · same u 0.351…
 temperature: divides the logits; 0 takes the likeliest token · 0 to 100
 a from the next token · A from here · s drops it
"""
    )


async def test_where_there_is_little_room() -> None:
    lines, _ = await picture(sharp(), (76, 7))
    assert lines == look(
        """
▸ 1  temperature          −       0.5 + ━━─────── flag
  2  top_k                −         4 + ━━─────── flag
  3  top_p                −       0.9 + ━━━━━━━━─ flag
 drafts, from the next round on ──────────────────────────────────────────
     draft                −      none +
 drew ● "a" · turn a dial to see what it would do
 temperature: divides the logits; 0 takes the likeliest token · 0 to 100
"""
    )
    lines, _ = await picture(sharp(), (40, 4))
    assert lines == look(
        """
▸ 1  temperature                0.5
  2  top_k                        4
  3  top_p                      0.9
 drew ● "a" · turn a dial to see what…
"""
    )


async def test_a_value_in_use_that_nobody_set_is_marked_and_explained() -> None:
    """transformers samples with top_k=50 whenever nobody says otherwise."""
    view = run(TOKENS, spec="temperature=1 > top_k=50 > top_p=1", seed=2)
    found = effective("hf", {})
    view.log.add(SettingsChanged("hf", found.spec, 2, found.dials, found.notes))
    step = view.step
    assert step is not None
    object.__setattr__(step, "preset", "hf")
    object.__setattr__(step, "chain_spec", found.spec)
    lines, _ = await picture(view, (76, 15), "down")
    assert "▸ 2 !top_k                −        50 + ━━━━━──── ! library default" in lines
    assert "  1 !temperature" not in lines, "1 does nothing"
    assert " top_k=50 is the library's silent default whenever it samples and nobody …" in lines


async def test_sources_are_those_of_the_settings_that_drew_the_token() -> None:
    view = run(TOKENS, spec="temperature=0.8 > top_k=40 > top_p=0.95", seed=2)
    config = {"top_k": 40}
    found = effective("guide", {"temperature": 0.8}, generation_config=config)
    view.log.add(SettingsChanged("guide", found.spec, 2, found.dials))
    later = effective("guide", {"temperature": 0.1})
    view.log.add(SettingsChanged("guide", later.spec, 2, later.dials))
    lines, _ = await picture(view, (76, 15))
    assert "1  temperature          −       0.8 + ━━━╸───── flag" in lines
    assert "2  top_k                −        40 + ━━━━━──── generation_config.json" in lines
    assert "3  top_p                −      0.95 + ━━━━━━━━╸ preset default" in lines


async def test_at_the_prompt_the_next_tokens_settings_can_be_set() -> None:
    view = run(TOKENS, spec=SHARP, forces=[])
    app = Bench(view)
    async with app.run_test(size=(76, 15)) as pilot:
        app.dials.turn(1)
        await pilot.pause()
        lines = "\n".join(app.screen_lines())
        assert "▸ 1 *temperature          −      0.55 + ━━│" in lines
        assert " no token here: step once, or apply and begin with these settings" in lines


async def test_without_any_chain_there_is_a_word_for_it() -> None:
    lines, _ = await picture(View(RunLog()), (76, 8), "i", "t", "0", "enter", "1", "end")
    assert lines.startswith("▸no settings yet")
    view = sharp()
    assert view.step is not None
    object.__setattr__(view.step, "chain_spec", "processor=a.b:C >")
    lines, _ = await picture(view, (76, 8), "i", "t", "0", "enter", "1", "end")
    assert lines.startswith("▸this chain runs in the engine only: nothing can be tried on it")


async def test_a_missing_tail_is_said_and_asked_for() -> None:
    words = [f"w{number}" for number in range(200)]
    view = run(words, [1 / 200] * 200, spec="temperature=1 > top_k=40")
    app = Bench(view)
    async with app.run_test(size=(100, 15)) as pilot:
        assert DENSE in app.dials.wants
        await pilot.press("down", "2", "0", "0", "enter")
        await pilot.pause()
        text = "\n".join(app.screen_lines())
        assert "! 68.0% of the mass is not in the record's 64 candidates" in text


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "spec"),
    [
        (["plus"], "temperature=0.55 > top_k=4 > top_p=0.9"),
        (["minus", "minus"], "temperature=0.4 > top_k=4 > top_p=0.9"),
        (["greater_than_sign"], "temperature=0.75 > top_k=4 > top_p=0.9"),
        (["less_than_sign", "less_than_sign", "less_than_sign"], "temperature=0 > top_k=4 > top_p=0.9"),
        (["down", "minus", "minus", "minus", "minus"], "temperature=0.5 > top_k=1 > top_p=0.9"),
        (["down", "greater_than_sign"], "temperature=0.5 > top_k=14 > top_p=0.9"),
        (["down", "down", "plus"], "temperature=0.5 > top_k=4 > top_p=0.91"),
        (["j", "j", "t"], "temperature=0.5 > top_k=4"),
        (["t"], "top_k=4 > top_p=0.9"),
        (["t", "t"], SHARP),
        (["delete", "0"], SHARP),
        (["plus", "0"], SHARP),
        (["right_curly_bracket"], "top_k=4 > temperature=0.5 > top_p=0.9"),
        (["right_curly_bracket"] * 5, "top_k=4 > top_p=0.9 > temperature=0.5"),
        (["right_curly_bracket", "plus", "0"], "top_k=4 > temperature=0.5 > top_p=0.9"),
        (["right_curly_bracket", "plus", "0", "0"], SHARP),
        (["down", "left_curly_bracket"], "top_k=4 > temperature=0.5 > top_p=0.9"),
        (["1", "full_stop", "2", "enter"], "temperature=1.2 > top_k=4 > top_p=0.9"),
        (["full_stop", "7", "backspace", "9", "down"], "temperature=0.9 > top_k=4 > top_p=0.9"),
        (["enter", "0", "enter"], "temperature=0 > top_k=4 > top_p=0.9"),
        (["enter", "enter"], SHARP),
        (["1", "backspace", "backspace"], SHARP),
        (["1", "escape"], SHARP),
        # the last of the list; put in where the guide's order has it
        (["i", "end", "enter"], f"{SHARP} > mirostat_tau=5"),
        (["i", "i", "plus"], "temperature=0.55 > top_k=4 > top_p=0.9"),
        # logit_bias, the first that is off, is text: + begins to write
        (["down", "down", "down", "down", "plus", "2", "colon", "5", "enter"], f"logit_bias=2:5 > {SHARP}"),
        (["end", "up", "up", "plus"], f"{SHARP} > mirostat_tau=5"),
    ],
)  # fmt: skip
async def test_keys(keys: list[str], spec: str) -> None:
    app = Bench(sharp())
    async with app.run_test(size=(76, 15)) as pilot:
        for key in keys:
            if key in ("plus", "minus", "less_than_sign", "greater_than_sign"):
                # these are the screen's keys; the pane does the work
                sign = 1 if key in ("plus", "greater_than_sign") else -1
                app.dials.turn(sign, far=key.endswith("than_sign"))
                await pilot.pause()
            else:
                await pilot.press(key)
        await pilot.pause()
        assert app.spec == spec
        assert (app.view.what_if is None) == (spec == SHARP)


async def test_a_value_out_of_range_says_the_range_and_stays_to_be_corrected() -> None:
    app = Bench(sharp())
    async with app.run_test(size=(76, 15)) as pilot:
        await pilot.press("down", "down", "3", "enter")
        assert "! top_p=3 is out of range: 0 to 1" in "\n".join(app.screen_lines())
        assert app.spec == SHARP
        await pilot.press("backspace", "full_stop", "5", "enter")
        assert "out of range" not in "\n".join(app.screen_lines())
        assert app.spec == "temperature=0.5 > top_k=4 > top_p=0.5"


async def test_while_a_value_is_written_keys_are_letters() -> None:
    app = Bench(sharp())
    async with app.run_test(size=(76, 15)) as pilot:
        await pilot.press("i", "enter", "n", "q", "0", "i", "apostrophe")
        assert "▸ 1 +logit_bias             nq0i'▏" in "\n".join(app.screen_lines())
        await pilot.press("enter")
        assert "! logit_bias: cannot read" in "\n".join(app.screen_lines())
        await pilot.press("tab")
        assert app.spec == f'logit_bias="" > {SHARP}'


async def test_a_token_can_be_written_as_text() -> None:
    app = Bench(sharp())
    async with app.run_test(size=(76, 15)) as pilot:
        await pilot.press(*["down"] * 4, "enter")
        await pilot.press("apostrophe", "space", "b", "apostrophe", "colon", "9", "enter")
        await pilot.pause()
        assert app.spec == f"logit_bias=1:9 > {SHARP}"
        assert 'would draw ○ " b" instead of ● "a"' in "\n".join(app.screen_lines())


async def test_clicks_turn_choose_and_write() -> None:
    app = Bench(sharp())
    async with app.run_test(size=(78, 17)) as pilot:
        at = columns(app.pane.scrollable_content_region.width)
        await pilot.click(offset=(at.plus, 2))
        await pilot.pause()
        assert app.spec == "temperature=0.5 > top_k=5 > top_p=0.9"
        await pilot.click(offset=(at.minus, 3))
        await pilot.pause()
        assert app.spec == "temperature=0.5 > top_k=5 > top_p=0.89"
        # the middle of a track from 0 to 1; top_p's
        await pilot.click(offset=(at.track_at + at.track // 2, 3))
        await pilot.pause()
        assert app.spec == "temperature=0.5 > top_k=5 > top_p=0.5"
        await pilot.click(offset=(at.value_at + 2, 1))
        await pilot.press("1", "enter")
        await pilot.pause()
        assert app.spec == "temperature=1 > top_k=5 > top_p=0.5"


# --- F16 --------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(DIALS)), st.sampled_from([-1, 1]), st.booleans())
def test_f16_minus_never_raises_and_plus_never_lowers_a_dial_that_is_off(
    name: str, steps: int, far: bool
) -> None:
    """F16: ``-`` on frequency_penalty at 0 gave +0.5."""
    dial = DIALS[name][1]
    if dial.numeric and isinstance(dial.off, int | float) and dial.off != dial.apart:
        found = started(dial, dial.off, None, steps, far=far)
        assert isinstance(found, int | float)
        assert (found - dial.off) * steps >= 0
        assert dial.check(found) == found


async def test_f16_minus_on_an_off_frequency_penalty_goes_below_0() -> None:
    app = Bench(sharp())
    async with app.run_test(size=(76, 15)) as pilot:
        app.dials.select(DialTable.of(app.view).line_of("frequency_penalty") or 0)
        app.dials.turn(-1)
        await pilot.pause()
        assert app.view.what_if is not None
        assert value_in(app.view.what_if, "frequency_penalty") == -0.1


async def test_f16_the_selected_dial_stays_on_screen_when_its_stage_is_put_in() -> None:
    """F16: a dial from far below goes up to the chain, and the pane with it."""
    app = Bench(sharp())
    async with app.run_test(size=(76, 9)) as pilot:
        await pilot.press("end", *["up"] * 2)
        chosen = [line for line in app.screen_lines() if line.startswith("▸")]
        assert "mirostat_tau" in chosen[0]
        app.dials.turn(1)
        await pilot.pause()
        assert "mirostat_tau" in "".join(
            line for line in app.screen_lines() if line.startswith("▸")
        )


async def test_f16_a_click_on_plus_while_a_value_is_written_turns_the_dial_that_was_clicked() -> (
    None
):
    """F16: the value that was written counts, and its stage, put in above, moves no button."""
    app = Bench(sharp())
    async with app.run_test(size=(78, 17)) as pilot:
        at = columns(app.pane.scrollable_content_region.width)
        app.dials.select(DialTable.of(app.view).line_of("min_new_tokens") or 0)
        await pilot.press("3")
        await pilot.click(offset=(at.plus, 1 + (DialTable.of(app.view).line_of("top_k") or 0)))
        await pilot.pause()
        assert app.view.what_if is not None
        found = values_of(app.view.what_if)
        assert found == {"min_new_tokens": 3, "temperature": 0.5, "top_k": 5, "top_p": 0.9}
        await pilot.press("2")
        await pilot.click(offset=(at.plus, 1 + app.pane.selected))
        await pilot.pause()
        assert value_in(app.view.what_if, "top_k") == 3


# --- rows -------------------------------------------------------------------------------------


def test_a_stage_shows_its_first_dial_and_those_that_were_turned() -> None:
    chain = chain_of("temperature=1 dynatemp_range=0.5 > dry_multiplier=0.8 dry_base=2", "guide")
    names = [row.dial.name for row in dial_rows(chain, chain, {}) if row.core]
    assert names == ["temperature", "dynatemp_range", "dry_multiplier", "dry_base"]
    places = [row.place for row in dial_rows(chain, chain, {}) if row.core]
    assert places == [1, None, 2, None]


def test_every_dial_is_in_the_table_once() -> None:
    for preset in ("guide", "hf", "llamacpp"):
        found = effective(preset, {})
        rows = dial_rows(found.chain, found.chain, found.dials)
        assert sorted(row.dial.name for row in rows) == sorted(found.dials)
        for row in rows:
            if not row.core:
                assert row.source == found.dials[row.dial.name].source


def test_a_stage_that_only_moved_is_marked() -> None:
    base = chain_of(SHARP, "guide")
    chain = chain_of("top_k=4 > temperature=0.5 > top_p=0.9", "guide")
    signs = {row.dial.name: row.sign for row in dial_rows(chain, base, {}) if row.core}
    assert list(signs.values()).count(Sign.CHANGED) == 1
    assert signs["top_p"] is Sign.NONE
    (row,) = [row for row in dial_rows(chain, base, {"top_k": Setting(4, "flag"),
              "temperature": Setting(0.5, "flag")}) if row.sign is Sign.CHANGED]  # fmt: skip
    assert row.origin == "moved · flag"


@pytest.mark.parametrize("width", range(20, 140))
def test_lines_fit_every_width(width: int) -> None:
    chain = chain_of('temperature=1.2 > logit_bias="1:2, 3:4" > top_p=0.5', "guide")
    for row in dial_rows(chain, chain_of(SHARP, "guide"), {}):
        for typed in (None, "12", "a long text that does not fit"):
            assert dial_line(row, columns(width), typed).cell_length <= max(width, 20)


def test_hostile_values_are_shown_and_not_obeyed() -> None:
    chain = chain_of("suppress=\"'[bold]\x1b[2J\u202e'\" > temperature=1", "guide")
    row = dial_rows(chain, None, {})[0]
    text = dial_line(row, columns(100)).plain
    assert "\x1b" not in text
    assert "␛" in text
    assert "\u202e" not in dial_line(row, columns(100), "x\u202e").plain


# --- scales -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "steps", "far", "expected"),
    [
        ("temperature", 0.8, 1, False, 0.85),
        ("temperature", 0.83, 1, False, 0.9),
        ("temperature", 0.05, -1, False, 0.0),
        ("temperature", 0.0, -1, False, 0.0),
        ("temperature", 0.8, 1, True, 1.05),
        ("top_k", 40, -1, True, 30),
        ("top_k", 5, -1, True, 1),
        ("top_k", 0, 1, False, 40),
        ("top_k", 0, -1, False, 40),
        ("top_p", 0.95, 1, True, 1.0),
        ("min_p", 0.05, 1, False, 0.055),
        ("min_p", 1.0, 1, False, 1.0),
        ("epsilon_cutoff", 0.001, 1, False, 0.0012),
        ("typical_p", 0.01, -1, False, 0.01),
        ("repetition_penalty", 1.0, 1, False, 1.05),
        ("penalty_last_n", -1, 1, False, 64),
        ("regex", "a", 1, False, "a"),
    ],
)  # fmt: skip
def test_one_press(name: str, value: float, steps: int, far: bool, expected: float) -> None:
    dial = DIALS[name][1]
    found = moved(dial, value, steps, far=far)
    assert found == expected
    assert dial.check(found) == found
    if dial.numeric:
        assert isinstance(found, dial.kind)


@given(st.sampled_from(sorted(DIALS)), st.integers(-5, 5).filter(bool), st.booleans(), st.data())
def test_a_press_keeps_every_dial_in_range(
    name: str, steps: int, far: bool, data: st.DataObject
) -> None:
    dial = DIALS[name][1]
    if not dial.numeric:
        return
    scale = scale_of(dial)
    span = st.integers(int(scale.low), int(scale.high)) if dial.kind is int else st.floats(
        scale.low, scale.high
    )  # fmt: skip
    value = data.draw(span)
    try:
        dial.check(value)
    except ValueError:
        return
    found = moved(dial, value, steps, far=far)
    assert dial.check(found) == found


def test_every_numeric_dial_has_a_scale_that_lies_in_its_range() -> None:
    numeric = {name for name, (_, dial) in DIALS.items() if dial.numeric}
    assert {name for name, (_, dial) in DIALS.items() if dial.scale is not None} == numeric
    for name in numeric:
        dial = DIALS[name][1]
        assert dial.check(scale_of(dial).start) == scale_of(dial).start


@pytest.mark.parametrize(
    ("name", "share", "value"),
    [
        ("temperature", 0.5, 1.0),
        ("temperature", 0.0, 0.0),
        ("top_p", 1.0, 1.0),
        ("top_k", 0.0, 1),
        ("top_k", 1.0, 1000),
        ("top_k", 1 / 3, 10),
        ("typical_p", 0.0, 0.01),
    ],
)
def test_a_place_on_the_track_is_a_value(name: str, share: float, value: float) -> None:
    found = value_at(DIALS[name][1], share)
    assert found == value
    assert isinstance(found, DIALS[name][1].kind)


def test_tracks() -> None:
    temperature, top_k = DIALS["temperature"][1], DIALS["top_k"][1]
    assert track(temperature, 1.0, None, 8) == "━━━━────"
    assert track(temperature, 1.0, 0.0, 8) == "│━━━────"
    assert track(temperature, 1.25, 2.0, 8) == "━━━━━──│"
    assert track(temperature, 50.0, None, 4) == "━━━━"
    assert share_of(top_k, 1) == 0.0
    assert share_of(top_k, 1000) == 1.0
    assert share_of(top_k, 0) is None
    assert track(top_k, 0, 1000, 4) == "───│"
    assert track(DIALS["regex"][1], "x", None, 4) == "    "


def test_lines_are_as_wide_as_they_say() -> None:
    assert cell_len(track(DIALS["top_p"][1], 0.333, 0.9, 11)) == 11
