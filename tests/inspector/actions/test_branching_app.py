"""Forks, branches and prompts under a user's keys and mouse, on a scripted engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from textual.binding import Binding
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import Button, Input, OptionList, TextArea

from engine.commands import Submit
from engine.records.events import RunState
from engine.records.vocabulary import Token, Vocabulary
from inspector.app import Inspector
from inspector.keys import BRANCHING
from inspector.panes.tree.pane import TreePane
from inspector.screens.compare.screen import CompareScreen
from inspector.screens.dialog import Dialog, Menu
from inspector.screens.forks import DeleteMenu, ForkMenu, NameAsk, SeedAsk, SettingsAsk
from inspector.screens.prompt import PromptScreen
from inspector.screens.text import TextScreen
from inspector.screens.token_ask import TokenAsk, containing
from inspector.state.comparing import label
from tests.direct import DirectClient
from tests.inspector.test_app import HOSTILE, app, pane_text, press, screen_text

WORDS = ["a", "b", "ab", " ab", "abc", "bc", "\n", "[/b]", "42", "é"]


async def type_in(pilot: Pilot[None], text: str) -> None:
    """Type into what has the focus, as a paste would."""
    line = pilot.app.focused
    assert isinstance(line, Input)
    line.value = text
    await pilot.pause()


def said(one: Inspector) -> str:
    return str(one.screen.query_one("#said").render())


def offers(one: Inspector) -> list[str]:
    """What is offered, each without the gaps."""
    listed = one.screen.query_one("#offers", OptionList)
    return [
        " ".join(str(listed.get_option_at_index(index).prompt).split())
        for index in range(listed.option_count)
    ]


# --- forks ------------------------------------------------------------------------------------


async def test_f_r_draws_again_with_the_next_seed() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "f")
        assert isinstance(one.screen, ForkMenu)
        token = one.controller.view.path[-1].token.bytes.decode()
        assert f'Fork: instead of token 4, "{token}"' in screen_text(one)
        assert "Draw again  with seed 8" in screen_text(one)
        await press(pilot, "r")
        assert not isinstance(one.screen, Dialog)
        step = one.controller.view.step
        assert step is not None
        assert (step.parent, step.seed) == (1, 8)
        assert "branch 2 of 2" in screen_text(one)


async def test_f_s_draws_with_a_seed_of_ones_own() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "s")
        assert isinstance(one.screen, SeedAsk)
        await press(pilot, *"-1x")
        assert "a seed is a whole number from 0 to 2^63 - 1, not '-1x'" in said(one)
        await press(pilot, "enter")
        assert isinstance(one.screen, SeedAsk)
        await type_in(pilot, str(2**63))
        await press(pilot, "enter")
        assert isinstance(one.screen, SeedAsk)
        await type_in(pilot, "123")
        await press(pilot, "enter")
        step = one.controller.view.step
        assert step is not None
        assert (step.parent, step.seed) == (0, 123)


async def test_a_text_of_several_tokens_is_forced_one_by_one() -> None:
    one = app("a", tokens=WORDS)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "f", "t")
        assert isinstance(one.screen, TokenAsk)
        await press(pilot, *"bab")
        assert offers(one)[0] == '2 tokens "b" "ab"'
        await press(pilot, "enter")
        path = one.controller.view.path
        assert [step.token.bytes for step in path[1:]] == [b"b", b"ab"]
        assert one.controller.log.tree.children[1] == [2, 3]


async def test_completions_come_from_the_candidates_and_the_vocabulary() -> None:
    one = app("a", tokens=WORDS)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "t")
        # With nothing typed, the likely ones: ten of ten, one tenth each.
        assert offers(one)[0] == '#0 10% 10% "a"'
        assert len(offers(one)) == 10
        await press(pilot, *"ab")
        assert offers(one) == ['#2 10% 10% "ab"', '#3 10% 10% " ab"', '#4 10% 10% "abc"']
        await press(pilot, "down", "enter")
        step = one.controller.view.step
        assert step is not None
        assert (step.token.bytes, step.parent) == (b" ab", 0)


async def test_an_offer_says_what_the_model_gave_it_what_is_left_and_what_cut_it() -> None:
    """Ten equal tokens, of which one is suppressed: a ninth for each of the others."""
    one = app("a", tokens=WORDS)
    configure = replace(one.asked.configure, dials={}, spec='suppress="4" >')
    one.asked = replace(one.asked, configure=configure)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "t")
        assert "token      model ƒ final ƒ" in screen_text(one)
        assert offers(one)[3:5] == ['#3 10% 11% " ab"', '#4 10% 0% ✂ suppress "abc"']


def test_the_vocabulary_is_searched_for_what_tokens_have_in_them() -> None:
    words = [b"cab", b" ab", b"b", b"Abe", b"xxab", b"", b"a", b" xab", b"ab"]
    vocabulary = Vocabulary.pack([Token(number, data) for number, data in enumerate(words)])
    ids, begins = containing(vocabulary, b"ab")
    assert ids.tolist() == [8, 1, 3, 0, 7, 4]
    assert begins.tolist() == [0, 0, 0, 1, 1, 2]
    assert containing(vocabulary, b"zz")[0].tolist() == []
    assert containing(vocabulary, b"a longer text than all of the vocabulary")[0].tolist() == []


async def test_tokens_by_id() -> None:
    one = app("a", tokens=WORDS)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "t")
        await type_in(pilot, "#42")
        assert "token id 42 is outside the vocabulary 0..9" in said(one)
        await press(pilot, "enter")
        assert isinstance(one.screen, TokenAsk)
        # Digits are a text first, and may be an id too.
        await type_in(pilot, "4")
        assert "no token of this vocabulary begins b'4'" in said(one)
        await type_in(pilot, "42")
        assert offers(one) == ['#8 10% 10% "42"']
        await type_in(pilot, "#4")
        assert offers(one) == ['#4 10% 10% "abc"']
        await press(pilot, "enter")
        step = one.controller.view.step
        assert step is not None
        assert step.token.id == 4


async def test_characters_that_cannot_be_typed_are_written_with_a_backslash() -> None:
    one = app("a", tokens=WORDS)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "t")
        await type_in(pilot, "\\")
        assert "stands for nothing" in said(one)
        await press(pilot, "enter")
        assert isinstance(one.screen, TokenAsk)
        await type_in(pilot, "\\n")
        assert offers(one) == ['#6 10% 10% "⏎"']
        await press(pilot, "enter")
        step = one.controller.view.step
        assert step is not None
        assert step.token.bytes == b"\n"


async def test_enter_before_the_engine_has_answered_is_not_lost() -> None:
    one = app("a", tokens=WORDS)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "t")
        client = one.engine.client
        assert isinstance(client, DirectClient)
        client.held = True
        await press(pilot, *"ba")
        assert offers(one)[0] == "… asking the tokenizer"
        await press(pilot, "enter")
        assert isinstance(one.screen, TokenAsk)
        client.release()
        await press(pilot)
        assert [step.token.bytes for step in one.controller.view.path] == [b"b", b"a"]


async def test_an_offer_can_be_clicked() -> None:
    one = app("a", tokens=WORDS)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "t")
        await pilot.click("#offers", offset=(4, 3))
        await pilot.pause()
        step = one.controller.view.step
        assert step is not None
        assert step.token.id == 3


async def test_other_settings_fork_and_hold_from_there_on() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "b", "f", "o")
        assert isinstance(one.screen, SettingsAsk)
        await type_in(pilot, "temperature=9999")
        assert "out of range" in said(one)
        await press(pilot, "enter")
        assert isinstance(one.screen, SettingsAsk)
        await type_in(pilot, "top_k=3")
        assert "draws with temperature=1 > top_k=3 > top_p=0.95" in said(one)
        await press(pilot, "enter")
        step = one.controller.view.step
        assert step is not None
        assert (step.node, step.parent) == (4, 1)
        assert step.chain_spec == "temperature=1 > top_k=3 > top_p=0.95"
        await press(pilot, "n")
        assert one.controller.view.path[-1].chain_spec == step.chain_spec
        await press(pilot, "b", "9")
        assert "≠ top_k 40 → 3" in pane_text(one, "tree")


async def test_an_order_of_ones_own_after_the_tip() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "w")
        assert 'Fork: after token 3, "' in screen_text(one)
        await press(pilot, "w")
        assert 'Fork: instead of token 3, "' in screen_text(one)
        await press(pilot, "w", "o")
        await type_in(pilot, "top_k=3 > temperature=0.5")
        await press(pilot, "enter")
        step = one.controller.view.step
        assert step is not None
        assert (step.node, step.parent) == (2, 1)
        assert step.chain_spec == "top_k=3 > temperature=0.5"


async def test_a_fork_after_the_prompt() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "f")
        assert "Fork: after the prompt" in screen_text(one)
        await press(pilot, "t", *"x", "enter")
        assert [step.token.bytes for step in one.controller.view.path] == [b"x"]
        await press(pilot, "g", "f", "r")
        assert one.controller.log.tree.children[0] == [1, 2]


@pytest.mark.parametrize("key", ["s", "t", "o"])
async def test_every_dialog_is_left_without_escape(key: str) -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "q")
        assert not isinstance(one.screen, Dialog)
        await press(pilot, "f", key, "tab", "tab", "enter")
        assert not isinstance(one.screen, Dialog)
        await press(pilot, "f", key)
        await pilot.click("#cancel")
        await pilot.pause()
        assert not isinstance(one.screen, Dialog)
        await press(pilot, "f", "end", "enter")
        assert not isinstance(one.screen, Dialog)
        assert len(one.controller.log.nodes) == 1


async def test_no_fork_while_a_pass_runs() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n")
        assert isinstance(one.engine.client, DirectClient)
        one.engine.client.held = True
        await press(pilot, "n", "f", "D")
        assert not isinstance(one.screen, Dialog)


# --- the branches there are -------------------------------------------------------------------


async def test_h_and_l_go_from_branch_to_branch_and_n_goes_on_there() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "b", "r", "n")
        assert [step.node for step in one.controller.view.path] == [1, 4, 5]
        await press(pilot, "h")
        assert one.controller.cursor.node == 2
        await press(pilot, "n")
        assert one.controller.cursor.node == 3
        await press(pilot, "l")
        assert one.controller.cursor.node == 4
        await press(pilot, "b", "b", "G")
        assert one.controller.cursor.node == 5
        await press(pilot, "g", "h")
        assert one.controller.cursor.node == 0


async def test_the_tree_shows_and_moves() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "b", "r", "n", "9")
        tree = one.query_one("#tree", TreePane)
        assert one.focused is tree
        shown = pane_text(one, "tree")
        assert "●┡━━╸" in shown
        assert "seed 8" in shown
        await press(pilot, "end", "enter")
        assert one.controller.cursor.node == 2
        await press(pilot, "enter")
        assert one.controller.cursor.node == 3
        await pilot.click("#tree", offset=(30, 2))
        await pilot.pause()
        assert one.controller.cursor.node == 0


async def test_a_branch_gets_a_name() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "m")
        assert not isinstance(one.screen, NameAsk)
        await press(pilot, "n", "n", "r", "n", "m")
        assert isinstance(one.screen, NameAsk)
        await type_in(pilot, "x" * 61)
        await press(pilot, "enter")
        assert "a name has at most 60 characters, not 61" in said(one)
        await type_in(pilot, "[red]why[/]")
        await press(pilot, "enter")
        assert "branch 2 of 2: [red]why[/]" in screen_text(one)
        await press(pilot, "9")
        assert "[red]why[/]: " in pane_text(one, "tree")
        # In the tree it is the selected branch that is named.
        await press(pilot, "down", "m")
        await type_in(pilot, "first")
        await press(pilot, "enter")
        assert one.controller.log.names == {3: "[red]why[/]", 2: "first"}
        await press(pilot, "m")
        assert one.screen.query_one(Input).value == "first"
        await type_in(pilot, "")
        await press(pilot, "enter")
        assert one.controller.log.names[2] == ""


async def test_a_branch_is_deleted_after_asking_and_u_brings_it_back() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "b", "r", "n", "D")
        assert isinstance(one.screen, DeleteMenu)
        assert "2 tokens; until the next new token, u brings it back" in screen_text(one)
        await press(pilot, "n")
        assert one.controller.log.tree.deleted == frozenset()
        await press(pilot, "D", "y")
        assert one.controller.log.tree.deleted == {4, 5}
        assert one.controller.cursor.node == 1
        await press(pilot, "9")
        assert "1 branch · 3 tokens" in str(one.query_one("#tree").border_subtitle)
        await press(pilot, "u")
        assert one.controller.cursor.node == 4
        assert "2 branches · 5 tokens" in str(one.query_one("#tree").border_subtitle)
        await press(pilot, "u")
        assert one.controller.cursor.node == 4


# --- another prompt ---------------------------------------------------------------------------


async def test_the_prompt_is_edited_and_read_anew() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "P")
        assert isinstance(one.screen, PromptScreen)
        assert "takes the 2 tokens of this tree off the screen" in screen_text(one)
        await press(pilot, *"de", "ctrl+s")
        assert not isinstance(one.screen, Dialog)
        assert one.controller.cursor.node == 0
        assert one.controller.log.nodes == {}
        assert one.controller.log.prompt is not None
        assert one.controller.log.prompt.text == "abcde"
        await press(pilot, "n")
        prefill = one.controller.view.prefill
        assert prefill is not None
        assert (prefill.cached, prefill.computed) == (3, 2)
        # A restart goes on with it.
        await press(pilot, "K", "n", "P")
        assert one.screen.query_one(TextArea).text == "abcde"


async def test_the_window_of_the_prompt_is_as_high_as_its_text() -> None:
    one = app("abc")
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "P")
        box, text = one.screen.query_one("#box"), one.screen.query_one("#text", TextArea)
        before = box.size.height
        assert text.size.height <= 3
        assert before <= 10
        text.insert("a\n" * 5)
        await press(pilot)
        assert text.size.height == 6
        assert box.size.height == before + 6 - 3
        text.insert("a\n" * 100)
        await press(pilot)
        assert box.region.bottom <= 24
        assert "Read it (ctrl+s)" in screen_text(one)


async def test_a_prompt_that_the_engine_refuses_stays_to_be_edited() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "P")
        one.screen.query_one(TextArea).text = ""
        await press(pilot, "ctrl+s")
        assert isinstance(one.screen, PromptScreen)
        assert "the prompt is empty: give it at least one token of text" in said(one)
        assert one.controller.cursor.node == 1
        await press(pilot, *"ab?", "ctrl+s")
        assert "no token of this vocabulary begins b'?'" in said(one)
        await press(pilot, "backspace", "ctrl+s")
        assert not isinstance(one.screen, Dialog)
        assert one.controller.log.prompt is not None
        assert one.controller.log.prompt.text == "ab"


async def test_a_prompt_around_which_the_template_goes() -> None:
    one = app(template=["<", ">"], tokens=[*"abc<>!"])
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "P", "tab")
        assert "[ ] the model's chat template around it" in screen_text(one)
        assert one.screen.query_one("#system").disabled
        await press(pilot, "space")
        assert "[x] the model's chat template around it" in screen_text(one)
        await press(pilot, "tab", "!", "ctrl+s")
        prompt = one.controller.log.prompt
        assert prompt is not None
        assert "".join(token.bytes.decode() for token in prompt.tokens) == "<!abc>"
        assert one.asked.submit == Submit("abc", chat=True, system="!")


async def test_d4_a_system_message_of_several_lines_is_shown_and_pasted_as_such() -> None:
    one = app(template=["<", ">"], tokens=[*"abc<>!\n\r"])
    one.asked = replace(one.asked, submit=Submit("abc", chat=True, system="a\nb\r"))
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "P")
        lines = screen_text(one).splitlines()
        first = next(at for at, line in enumerate(lines) if "│  a  " in line)
        assert "│  b\\x0d  " in lines[first + 1]
        system = one.screen.query_one("#system", TextArea)
        system.focus()
        system.move_cursor(system.document.end)
        one.post_message(Paste("\nc\n!"))
        await press(pilot, "ctrl+s")
        assert one.asked.submit == Submit("abc", chat=True, system="a\nb\r\nc\n!")


async def test_a_prompt_with_characters_that_cannot_be_typed_is_edited_without_loss() -> None:
    text = "".join(HOSTILE) + "\r\n\u2028\\n"
    tokens = [*HOSTILE, *"\r\n\u2028\\n!"]
    one = app(text, tokens=tokens)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "P")
        assert "cannot be typed" in said(one)
        shown = screen_text(one)
        assert not set(shown) & {"\x1b", "\u202e", "\x9b", "\x00", "\u2028"}
        assert "\\x1b[2J\\u202e\\x9b\\x00" in shown
        await press(pilot, "!", "ctrl+s")
        assert one.controller.log.prompt is not None
        assert one.controller.log.prompt.text == text + "!"
        await press(pilot, "P", "\\", "ctrl+s")
        assert "stands for nothing" in said(one)


async def test_what_is_pasted_does_not_reach_the_terminal_raw() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "P")
        one.screen.query_one(TextArea).insert("\x1b[2J\u202e\tend")
        await pilot.pause()
        shown = screen_text(one)
        assert "␛[2J�" in shown
        assert not set(shown) & {"\x1b", "\u202e"}


# --- everywhere -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(20, 3), (40, 12), (80, 24), (160, 48)])
async def test_every_dialog_at_every_size(size: tuple[int, int]) -> None:
    one = app("".join(HOSTILE), tokens=HOSTILE)
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "n", "r")
        for keys in (["f"], ["f", "s"], ["f", "t"], ["f", "o"], ["m"], ["D"], ["P"]):
            await press(pilot, *keys)
            assert isinstance(one.screen, Dialog)
            assert not set(screen_text(one)) & {"\x1b", "\u202e", "\x9b", "\x00"}
            await press(pilot, "escape")
            assert not isinstance(one.screen, Dialog)
        assert one.controller.log.state.state is RunState.PAUSED


def test_every_key_has_an_id_and_a_tooltip() -> None:
    dialogs: tuple[type[Dialog[Any]], ...] = (Dialog, Menu, ForkMenu, DeleteMenu, TokenAsk)
    bindings = [*BRANCHING, *PromptScreen.BINDINGS, *(b for one in dialogs for b in one.BINDINGS)]
    ids = set()
    for binding in bindings:
        assert isinstance(binding, Binding)
        assert binding.id, binding
        assert binding.tooltip, binding
        ids.add(binding.id)
    assert len(ids) == len(bindings)


async def test_buttons_do_what_the_keys_do() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "f", "s")
        await type_in(pilot, "5")
        assert one.screen.query_one("#ok", Button).label.plain == "Draw"
        await pilot.click("#ok")
        await pilot.pause()
        step = one.controller.view.step
        assert step is not None
        assert step.seed == 5
        await press(pilot, "P")
        await pilot.click("#ok")
        await pilot.pause()
        assert not isinstance(one.screen, Dialog)
        assert one.controller.log.nodes == {}


@pytest.mark.parametrize("key", ["P", "m", "B", "o", "e", "f", "D", "d"])
async def test_a_window_closed_by_a_key_that_comes_at_once_ends_nothing(key: str) -> None:
    """Both keys lie there before the window has anything in it, as from a macro."""
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        one.post_message(Key(key, key))
        for _ in range(1000):
            await asyncio.sleep(0)
            if len(one.screen_stack) == 2:
                break
        one.screen.dismiss(None)
        await press(pilot, "n")
        assert len(one.screen_stack) == 1
        assert one.controller.cursor.node == 3


# --- two branches side by side ----------------------------------------------------------------


async def test_f6_the_branch_to_compare_with_is_chosen() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "r", "r", "n", "V")
        assert one.controller.log.tree.children[1] == [2, 3, 4]
        assert isinstance(one.screen, CompareScreen)
        first, second = (label(one.controller.log, tip, 5) for tip in (2, 3))
        columns = one.screen.comparison.columns
        assert [column.tip for column in columns] == [5, 2, 3]
        assert [column.title.split(" ")[0] for column in columns[1:]] == [
            one.rpartition(" ")[2] for one in (first, second)
        ]
        await press(pilot, "v", "V")
        assert isinstance(one.screen, TextScreen)
        lines = one.screen._lines
        assert lines[1] == f"b: {second}"
        seeds = [one.controller.log.nodes[node].seed for node in (4, 3)]
        at = lines.index("settings where they part, position 4:")
        assert lines[at + 1] == f"  seed  a {seeds[0]}  b {seeds[1]}"
        await press(pilot, "q", "q")
        assert not isinstance(one.screen, CompareScreen | TextScreen)


async def test_f6_a_branch_is_called_by_its_own_name_and_not_by_one_of_both() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "r")
        for node, name in ((1, "of both"), (2, "mine")):
            one.controller.name_branch(node, name)
        await press(pilot, "V", "V")
        assert isinstance(one.screen, TextScreen)
        assert one.screen._lines[1] == "b: mine"
        assert one.screen._lines[0].startswith("a: the branch that begins with ")
