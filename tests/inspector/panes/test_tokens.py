"""The token table as text pictures."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from engine.records.prompt import Origin, PromptRecord
from engine.records.vocabulary import Token, TokenKind
from inspector.messages import GoTo
from inspector.panes.tokens import TokensPane, columns, counts, heading, token_rows
from inspector.state.view import RunLog, View
from tests.fake_runs import Host, picture, run, styles_at

TOKENS = [
    "The",
    " cat",
    b"\xf0\x9f",
    "[/b]",
    "\x1b[2J",
    "日本語",
    Token(6, b"<|end|>", TokenKind.SPECIAL),
    Token(7, b"", TokenKind.UNUSED),
]
EVEN = [0.125] * 8


def some() -> View:
    return run(TOKENS, EVEN, prompt=[0, 1], forces=[2, 3, 4, 5, 6, 7])


def drawn(view: View, width: int) -> str:
    rows = token_rows(view, width)
    assert rows is not None
    return f"{heading(width).plain.rstrip()}\n{picture(rows)}"


def test_every_column_at_75_cells() -> None:
    assert drawn(View(some().log, 3), 75) == (
        """
    pos     id kind      origin    nats ƒ   rank bytes        text
      0      0 · normal  prompt                  54 68 65     "The"
      1      1 · normal  prompt                  20 63 61 74  " cat"
      2      2 ½ byte    output      2.08      3 f0 9f        \\xf0\\x9f
      3      3 · normal  output      2.08      4 5b 2f 62 5d  "[/b]"
●     4      4 · normal  output      2.08      5 1b 5b 32 4a  "␛[2J"
      5      5 · normal  output      2.08      6 e6 97 a5 e6… "日本語"
      6      6 ◆ special output      2.08      7 3c 7c 65 6e… <|end|>
      7      7 ∅ unused  output      2.08      8              <unused 7>
""".strip("\n")
    )


def test_fewer_columns_where_there_is_less_room() -> None:
    assert drawn(View(some().log, 2), 50) == (
        """
    pos     id kind      origin    text
      0      0 · normal  prompt    "The"
      1      1 · normal  prompt    " cat"
      2      2 ½ byte    output    \\xf0\\x9f
●     3      3 · normal  output    "[/b]"
      4      4 · normal  output    "␛[2J"
      5      5 · normal  output    "日本語"
      6      6 ◆ special output    <|end|>
      7      7 ∅ unused  output    <unused 7>
""".strip("\n")
    )
    assert drawn(some(), 20).splitlines()[:3] == [
        "     id text",
        '      0 "The"',
        '      1 " cat"',
    ]


def test_the_bytes_get_more_room_on_a_wide_screen() -> None:
    assert "e6 97 a5 e6 9c ac e8 aa… " not in drawn(some(), 80)
    assert 'e6 97 a5 e6 9c ac e8 aa… "日本語"' in drawn(some(), 120)


def test_cells_line_up_at_every_width() -> None:
    for width in range(1, 160):
        rows = token_rows(some(), width)
        assert rows is not None
        start = 1 + sum(column.cells + 1 for column in columns(width))
        for row in range(len(rows)):
            # The text is the last column: all before it is as wide as the heading says.
            text = rows[row].plain
            assert text[start:].startswith(('"', "\\x", "<")), (width, text)
            assert cell_len(text[:start]) == start


def test_who_put_a_token_there_is_counted_and_marked() -> None:
    log = RunLog()
    tokens = tuple(Token(index, b"x") for index in range(6))
    origins = (Origin.TOKENIZER, *[Origin.TEMPLATE] * 3, *[Origin.USER] * 2)
    log.add(PromptRecord("xx", tokens, origins, True, 0.0))
    view = View(log)
    assert counts(view) == "prompt 6 = 2 user + 3 template + 1 tokenizer · output 0"
    rows = token_rows(view, 75)
    assert rows is not None
    assert [rows[row].plain[25:34].strip() for row in (0, 1, 4)] == [
        "tokenizer",
        "template",
        "prompt",
    ]
    assert "$added-token" in styles_at(rows, 1, "template")
    assert "$added-token" not in styles_at(rows, 4, "prompt")
    assert counts(some()) == "prompt 2 · output 6"
    assert counts(View(RunLog())) == ""


def test_what_lies_ahead_is_faint() -> None:
    rows = token_rows(View(some().log, 2), 75)
    assert rows is not None
    assert "$cut" in styles_at(rows, 4, "output")
    assert "$cut" not in styles_at(rows, 3, "output")


def test_rows_are_made_when_asked_for() -> None:
    class Counted(tuple[Token, ...]):
        reads = 0

        def __getitem__(self, index: object) -> object:  # type: ignore[override]
            Counted.reads += 1
            return super().__getitem__(index)  # type: ignore[index]

    many = 100_000
    tokens = Counted(Token(5, b"x") for _ in range(many))
    log = RunLog()
    log.add(PromptRecord("", tokens, (Origin.USER,) * many, False, 0.0))
    rows = token_rows(View(log), 75)
    assert rows is not None
    assert len(rows) == many
    assert Counted.reads == 0
    assert rows[many - 1].plain.split()[:3] == ["●", "99999", "5"]
    assert Counted.reads == 1


async def test_enter_and_a_double_click_go_to_the_rows_node() -> None:
    app = Host(TokensPane(), some())
    async with app.run_test(size=(76, 12)) as pilot:
        await pilot.pause()
        assert app.pane.selected == 7  # the cursor's row
        await pilot.press("up", "up", "enter")
        await pilot.pause()
        assert [message.node for message in app.posted if isinstance(message, GoTo)] == [4]
        await pilot.click(app.pane, offset=(20, 4))  # row 3: only selected
        await pilot.pause()
        assert app.pane.selected == 3
        assert len(app.posted) == 1
        await pilot.click(app.pane, offset=(20, 4), times=2)
        await pilot.press("home", "enter")
        await pilot.pause()
        assert [message.node for message in app.posted if isinstance(message, GoTo)] == [4, 2, 0]


async def test_the_selection_follows_the_cursor_only_when_it_moves() -> None:
    view = run(["a", "b"], [0.5, 0.5], forces=[0] * 60)
    app = Host(TokensPane(), view)
    async with app.run_test(size=(76, 10)) as pilot:
        await pilot.pause()
        assert any(line.startswith("●    60") for line in app.screen_lines())
        await pilot.press("home")
        app.pane.show(view)
        await pilot.pause()
        assert app.pane.selected == 0
        app.pane.show(View(view.log, 30))
        await pilot.pause()
        assert app.pane.selected == 30
        assert any(line.startswith("●    30") for line in app.screen_lines())


@pytest.mark.parametrize("size", [(20, 3), (4, 1), (1, 1), (300, 80)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    app = Host(TokensPane(), some())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        width = app.pane.scrollable_content_region.width
        assert all(cell_len(line) == width for line in app.screen_lines())
