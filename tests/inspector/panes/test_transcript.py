"""The transcript as text pictures, and what a picture cannot show: styles, clicks, what is redone."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.geometry import Size

from engine.records.prompt import Origin, PromptRecord
from engine.records.vocabulary import Token, TokenKind
from engine.text import IncrementalDecoder, visible
from inspector.messages import GoTo
from inspector.panes.transcript.pane import (
    Transcript,
    TranscriptPane,
    cursor_info,
    draw,
    legend,
    transcript,
)
from inspector.panes.transcript.text_layout import BOLD_FROM, THRESHOLDS, TextLayout, level, shade
from inspector.state.view import RunLog, View
from tests.fake_runs import Host, picture, run, styles_at

WORDS = ["The", " cat", " sat", "\n", " on", "."]
PIECES = [b"\xf0\x9f", b"\x98", b"\x8a", " x", "[/b]", "\x1b[2J", "\u202e", "日本語"]
EVEN = [0.125] * 8


def sat() -> View:
    """A prompt of four tokens and an output of seven."""
    return run(WORDS, prompt=[0, 1, 2, 3], forces=[0, 1, 4, 0, 1, 5, 3])


def drawn(view: View, width: int, **options: bool) -> str:
    rows = transcript(view, width, **options)
    assert rows is not None
    return picture(rows)


def prompt_of(*pieces: bytes, kind: TokenKind = TokenKind.NORMAL) -> PromptRecord:
    tokens = tuple(Token(token_id, piece, kind) for token_id, piece in enumerate(pieces))
    return PromptRecord("", tokens, (Origin.USER,) * len(tokens), False, 0.0)


# --- pictures -------------------------------------------------------------------------------


def test_text_with_its_line_breaks_and_the_cursor_at_its_end() -> None:
    assert drawn(sat(), 30) == "The cat sat⏎\nThe cat onThe cat.▐⏎▌\n"


def test_words_wrap_whole() -> None:
    # 16 cells less 2 for the cursor's marks; "onThe" is two tokens, one word.
    assert drawn(sat(), 16) == (
        """
The cat sat⏎
The cat onThe
 cat.▐⏎▌
""".lstrip("\n")
    )


def test_a_word_of_several_tokens_moves_to_the_next_line_as_one() -> None:
    view = run([" can", " un", "believ", "able"], [0.25] * 4, forces=[0, 1, 2, 3])
    assert drawn(view, 18) == " can can\n unbeliev▐able▌"


def test_a_word_that_fits_no_line_is_broken_by_cells() -> None:
    view = run(["abcdefghij", "日本語"], [0.5, 0.5], forces=[1])
    assert drawn(view, 7) == "abcde\nfghij\n▐日本\n語▌"


def test_the_cursor_before_the_end_leaves_the_lines_as_they_are() -> None:
    view = sat()
    assert drawn(View(view.log, 2), 30) == "The cat sat⏎\nThe▐ cat▌ onThe cat.⏎\n"
    plain = [drawn(View(view.log, node), 16) for node in range(8)]
    bare = {text.replace("▐", "").replace("▌", "") for text in plain}
    assert bare == {"The cat sat⏎\nThe cat onThe\n cat.⏎\n"}


def test_at_the_root_the_cursor_stands_where_the_first_token_will() -> None:
    view = sat()
    assert drawn(View(view.log, 0), 30) == "The cat sat⏎\n▐▌The cat onThe cat.⏎\n"
    fresh = run(WORDS, prompt=[0, 1], forces=[])
    assert drawn(fresh, 30) == "The cat▐▌"


def test_boundaries_can_be_marks() -> None:
    assert drawn(sat(), 40, boundaries=True) == (
        """
·The· cat· sat·⏎
·The· cat· on·The· cat·.·▐⏎▌
""".lstrip("\n")
    )


def test_a_run_that_has_stopped_says_why() -> None:
    view = run(WORDS, forces=[1, 1], max_tokens=2)
    assert drawn(view, 40) == "The cat▐ cat▌\n■ token budget of 2 used up"
    assert drawn(View(view.log, 1), 40) == "The▐ cat▌ cat"


def test_nothing_before_there_is_a_prompt() -> None:
    assert transcript(View(RunLog()), 40) is None


# --- characters made of several tokens, and hostile text ---------------------------------------


@pytest.mark.parametrize(
    ("tokens", "text", "info"),
    [
        (1, " x▐▌", r"position 1 · id 0 · bytes f0 9f · forced · 2.08 nats ƒ · rank 1 · \xf0\x9f"),
        (2, " x▐▌", r"position 2 · id 1 · bytes 98 · forced · 2.08 nats ƒ · rank 2 · \x98"),
        (3, " x▐😊▌", r"position 3 · id 2 · bytes 8a · forced · 2.08 nats ƒ · rank 3 · \x8a"),
        (4, " x😊▐ x▌", 'position 4 · id 3 · forced · 2.08 nats ƒ · rank 4 · " x"'),
    ],
)
def test_a_character_is_drawn_once_when_it_is_complete(tokens: int, text: str, info: str) -> None:
    view = run(PIECES, EVEN, prompt=[3], forces=[0, 1, 2, 3][:tokens])
    assert drawn(view, 30) == text
    assert cursor_info(view).plain == info


def test_the_cursor_on_a_piece_stands_before_the_character_it_belongs_to() -> None:
    view = run(PIECES, EVEN, prompt=[3], forces=[0, 1, 2, 3])
    assert drawn(View(view.log, 1), 30) == " x▐▌😊 x"


def test_hostile_text_is_shown_not_obeyed() -> None:
    view = run(PIECES, EVEN, prompt=[4, 5, 6, 7], forces=[4, 5, 6, 7])
    assert drawn(view, 60) == "[/b]␛[2J<U+202E>日本語[/b]␛[2J<U+202E>▐日本語▌"


def test_an_unused_id_has_a_label() -> None:
    view = run(["a", Token(1, b"", TokenKind.UNUSED)], [0.5, 0.5], forces=[1, 0])
    assert drawn(view, 30) == "a<unused 1>▐a▌"


TEXTS = st.lists(
    st.one_of(
        st.binary(min_size=0, max_size=4),
        st.sampled_from(
            [" the", "日本", "e", "\u0301", "\n", "\n\n", " \n ", "👩‍💻", "\t", "\u200b"]
        ).map(str.encode),
    ),
    min_size=1,
    max_size=40,
)


@given(TEXTS, st.integers(1, 40))
def test_every_line_fits_and_no_text_is_lost(pieces: list[bytes], width: int) -> None:
    layout = TextLayout(prompt_of(*pieces), width)
    room = max(1, width - 2)
    for line in layout.lines:
        cells = sum(cell_len(run.text) for run in line)
        assert cells <= room or [cell_len(run.text) for run in line if run.text.strip()] == [2]
    decoder = IncrementalDecoder()
    text = "".join(decoder.feed(piece) for piece in pieces)
    assert "".join(run.text for line in layout.lines for run in line) == visible(text)


@given(TEXTS, st.integers(3, 40), st.booleans())
def test_a_layout_that_grew_is_the_one_made_at_once(
    pieces: list[bytes], width: int, boundaries: bool
) -> None:
    view = run(
        [b"a", *pieces],
        [1 / (len(pieces) + 1)] * (len(pieces) + 1),
        forces=range(1, len(pieces) + 1),
    )
    layout = None
    for node in range(len(pieces) + 1):
        part = View(view.log, node)
        # What the screen sees while the run goes on: the path, and nothing ahead.
        made = (
            TextLayout(view.log.prompt, width, boundaries=boundaries) if layout is None else layout
        )
        made.show(part.path)
        layout = made
    whole = TextLayout(view.log.prompt, width, boundaries=boundaries)
    whole.show(view.path)
    assert layout is not None
    assert layout.lines == whole.lines
    assert layout.line_of == whole.line_of


@given(TEXTS, st.integers(3, 40), st.booleans(), st.randoms(use_true_random=False))
def test_a_layout_of_another_branch_is_the_one_made_at_once(
    pieces: list[bytes], width: int, boundaries: bool, rng: Random
) -> None:
    count = len(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inspector.panes.transcript.text_layout.MARK_EVERY", 3)
        view = run(
            [b"a", *pieces],
            [1 / (count + 1)] * (count + 1),
            forces=range(1, count + 1),
            forks=[(rng.randrange(count + at), rng.randrange(count + 1)) for at in range(20)],
        )
        layout = TextLayout(view.log.prompt, width, boundaries=boundaries)
        for turn in range(20):
            path = view.log.path(rng.randrange(count + 21))
            layout.show(path)
            whole = TextLayout(view.log.prompt, width, boundaries=boundaries)
            whole.show(path)
            assert layout.lines == whole.lines
            assert layout.line_of == whole.line_of
            assert layout.items == whole.items
            if turn % 5 == 0:
                # Lines before the cursor are kept as they were drawn.
                cursor = rng.randrange(len(layout.items))
                drawn, anew = Transcript(layout, cursor), Transcript(whole, cursor)
                assert all(drawn[at].is_same(anew[at]) for at in range(len(anew)))


def test_one_more_token_touches_only_the_last_line() -> None:
    view = run([" word", "a"], [0.5, 0.5], forces=[0] * 200)
    rows = transcript(View(view.log, 199), 20)
    assert rows is not None
    before = [id(line) for line in rows.layout.lines]
    again = transcript(view, 20, rows.layout)
    assert again is not None
    assert again.layout is rows.layout
    assert [id(line) for line in again.layout.lines][: len(before)] == before
    kept = [again[at] is rows[at] for at in range(again.cursor_line)]
    assert all(kept[:-1]), "the line of the cursor before is drawn again"


def test_another_branch_is_laid_out_anew() -> None:
    view = run(WORDS, prompt=[0], forces=[1, 2, 5], forks=[(1, 4), (4, 5)])
    old = transcript(View(view.log, 3), 30)
    assert old is not None
    assert picture(old) == "The cat sat▐.▌"
    new = transcript(view, 30, old.layout)
    assert new is not None
    assert picture(new) == "The cat on▐.▌"
    # From node 1 on, the newest branch is the one ahead.
    assert drawn(View(view.log, 1), 30) == "The▐ cat▌ on."


# --- styles ---------------------------------------------------------------------------------


def test_shades_begin_at_their_thresholds() -> None:
    assert [level(value) for value in (0.0, 0.099, 0.1, 0.5, 1.0, 2.0, 4.0, 6.99, 7.0, 50.0)] == [
        0, 0, 1, 2, 3, 4, 5, 5, 6, 6,
    ]  # fmt: skip
    assert all(low < high for low, high in pairwise(THRESHOLDS))


def test_output_is_shaded_and_the_prompt_is_not() -> None:
    view = run(WORDS, prompt=[0], forces=[1, 5, 1])
    rows = transcript(view, 40)
    assert rows is not None
    assert "surprisal" not in styles_at(rows, 0, "he")
    assert "on $surprisal-3" in styles_at(rows, 0, "cat")  # -ln 0.25 = 1.39
    assert "on $surprisal-4" in styles_at(rows, 0, ".")  # -ln 0.03125 = 3.47


def test_what_is_very_surprising_is_bold_too() -> None:
    assert [shade(index).endswith("bold") for index in range(7)] == [False] * BOLD_FROM + [True] * 2


def test_tokens_begin_with_an_underline() -> None:
    view = run(WORDS, prompt=[0, 1], forces=[2])
    rows = transcript(View(view.log, 0), 40)
    assert rows is not None
    line = rows[0]
    starts = [span.start for span in line.spans if "underline" in str(span.style).split()]
    assert [line.plain[at : at + 2] for at in starts] == ["Th", "ca", "sa"]


def underlined(view: View) -> str:
    rows = transcript(view, 60)
    assert rows is not None
    return "".join(one.text for one in rows.pieces(0) if "underline" in one.style.split())


def test_spaces_are_not_underlined_and_a_token_of_nothing_else_has_a_mark() -> None:
    """Issue 11, 2: an underlined space reads as an underscore."""
    view = run(["a", " b", "   ", "c"], [0.25] * 4, prompt=[0, 1, 2, 3, 1], forces=[])
    assert drawn(view, 60) == "a b␣  c b▐▌"
    assert underlined(view) == "abcb"
    # A space stands on the shade of its token, and on nothing else.
    rows = transcript(run([" b", "a"], [0.25, 0.75], prompt=[1], forces=[0, 1]), 60)
    assert rows is not None
    assert styles_at(rows, 0, " b").split()[:2] == ["on", "$surprisal-3"]
    assert len(styles_at(rows, 0, " b").split()) == 2


def test_a_forced_token_is_underlined_as_a_whole() -> None:
    """F22: whether it was forced needs no colour; the prompt's tokens were not."""
    view = run(["one", " two", " six"], [0.3, 0.3, 0.4], prompt=[0], forces=[1, None, 0])
    # The cursor's own token has marks instead.
    assert underlined(view).startswith("otwo")
    assert len(underlined(view)) == len("otwo") + 1
    assert "· forced ·" in cursor_info(View(view.log, 1)).plain
    assert "forced" not in cursor_info(View(view.log, 2)).plain
    legend_of = draw(view, Size(75, 5)).header[0].plain
    assert legend_of.endswith("forced  token start")
    assert "forced" not in draw(run(WORDS), Size(75, 5)).header[0].plain


def test_an_accent_is_not_torn_from_its_letter() -> None:
    view = run(["e\u0301a", "b"], [0.5, 0.5], prompt=[0], forces=[1])
    rows = transcript(view, 40)
    assert rows is not None
    assert [one.text for one in rows.pieces(0)][:2] == ["e\u0301", "a"]


def test_what_lies_ahead_is_faint_and_without_shade() -> None:
    rows = transcript(View(sat().log, 1), 40)
    assert rows is not None
    ahead = styles_at(rows, 1, "cat")
    assert "$cut" in ahead.split()
    assert "surprisal" not in ahead


def test_the_legend_gives_the_thresholds_and_fits() -> None:
    assert legend(75).plain == (
        "surprisal, nats ƒ  0  .1  .5  1  2  4  7 +  ▐cursor▌  token start  ahead"
    )
    assert legend(47).plain == "surprisal, nats ƒ  0  .1  .5  1  2  4  7 +"
    assert all(legend(width).cell_length <= width for width in range(1, 100))


# --- the pane -------------------------------------------------------------------------------


async def test_a_click_goes_to_the_tokens_node() -> None:
    app = Host(TranscriptPane(), sat())
    async with app.run_test(size=(40, 8)) as pilot:
        # Line 0 is the legend; line 2 is "The cat onThe cat.⏎".
        for x, node in ((0, 1), (3, 2), (6, 2), (8, 3), (11, 4)):
            await pilot.click(app.pane, offset=(x, 2))
            await pilot.pause()
            message = app.posted[-1]
            assert isinstance(message, GoTo)
            assert message.node == node
        await pilot.click(app.pane, offset=(1, 1))
        await pilot.pause()
        assert app.posted[-1].node == 0  # the prompt
        count = len(app.posted)
        await pilot.click(app.pane, offset=(35, 2))
        await pilot.pause()
        assert len(app.posted) == count


async def test_it_follows_the_cursor_and_lets_the_reader_scroll_away() -> None:
    view = run([" word", "\n"], [0.5, 0.5], forces=[0, 1] * 40)
    app = Host(TranscriptPane(), view)
    async with app.run_test(size=(20, 6)) as pilot:
        await pilot.pause()
        assert any("▐⏎▌" in line for line in app.screen_lines())
        await pilot.press("home")
        await pilot.pause()
        app.pane.show(view)  # a record of no consequence came
        await pilot.pause()
        assert app.pane.scroll_offset.y == 0
        app.pane.show(View(view.log, 60))
        await pilot.pause()
        assert any("▐⏎▌" in line for line in app.screen_lines())


@pytest.mark.parametrize("size", [(20, 3), (4, 1), (1, 1), (300, 80)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    app = Host(TranscriptPane(), run(PIECES, EVEN, prompt=[4, 5, 6, 7], forces=range(8)))
    async with app.run_test(size=size) as pilot:
        await pilot.press("t")
        await pilot.pause()
        width = app.pane.scrollable_content_region.width
        assert all(cell_len(line) == width for line in app.screen_lines())
