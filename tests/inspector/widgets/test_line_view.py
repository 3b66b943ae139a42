"""What all panes share: fixed lines, the selected row, styles, and when the screen scrolls."""

from __future__ import annotations

import pytest
from textual.content import Content
from textual.geometry import Size

import themes
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from tests.fake_runs import Host


class Lines(Pane):
    """Ten rows under a header and over a footer that names the selected one."""

    SELECTABLE = True

    def __init__(self) -> None:
        super().__init__()
        self.cursor_row = 9

    def picture(self, view: View, size: Size) -> Picture:
        return Picture(
            [Content(f"  row {number}  ") for number in range(10)],
            [Content("head")],
            [Content(f"at {self.selected}")] * (1 + (self.selected == 3)),
            follow=self.cursor_row,
        )


def host(theme: str = "dark") -> Host:
    return Host(Lines(), View(RunLog()), theme)


def screen(app: Host) -> list[str]:
    return [line.rstrip() for line in app.screen_lines()]


async def test_header_rows_and_footer_share_the_screen() -> None:
    app = host()
    async with app.run_test(size=(13, 6)) as pilot:
        await pilot.press("home")
        assert screen(app) == ["head", "▸ row 0", "  row 1", "  row 2", "  row 3", "at 0"]
        await pilot.press("down", "down", "down")
        # Here the footer is a line longer.
        assert screen(app) == ["head", "  row 1", "  row 2", "▸ row 3", "at 3", "at 3"]
        await pilot.press("pagedown", "end")
        assert screen(app) == ["head", "  row 6", "  row 7", "  row 8", "▸ row 9", "at 9"]


async def test_a_pane_without_the_focus_marks_no_row() -> None:
    app = host()
    async with app.run_test(size=(13, 6)) as pilot:
        app.set_focus(None)
        await pilot.pause()
        assert not any("▸" in line for line in app.screen_lines())


async def test_the_row_of_the_cursor_is_followed_when_it_moves_and_only_then() -> None:
    app = host()
    pane = app.pane
    assert isinstance(pane, Lines)
    async with app.run_test(size=(13, 6)) as pilot:
        await pilot.pause()
        assert "row 9" in app.screen_lines()[4]
        await pilot.press("home")
        pane.show(pane.view)
        assert "row 0" in app.screen_lines()[1]
        pane.cursor_row = 7
        pane.show(pane.view)
        assert "row 7" in app.screen_lines()[4]
        await pilot.press("home")
        await pilot.resize_terminal(13, 7)
        await pilot.pause()
        assert any("row 7" in line for line in app.screen_lines())


async def test_a_click_selects_and_a_double_click_chooses() -> None:
    app = host()
    async with app.run_test(size=(13, 6)) as pilot:
        await pilot.press("home")
        for offset in ((2, 0), (2, 5), (2, 2)):  # header, footer, row 1
            await pilot.click(app.pane, offset=offset)
        await pilot.pause()
        assert app.pane.selected == 1
        assert app.posted == []
        await pilot.click(app.pane, offset=(2, 2), times=2)
        await pilot.press("enter")
        await pilot.pause()
        assert [type(message) for message in app.posted] == [Pane.Chosen] * 2


@pytest.mark.parametrize("theme", themes.names())
async def test_styles_of_every_theme_are_understood(theme: str) -> None:
    app = host(theme)
    async with app.run_test(size=(13, 6)) as pilot:
        await pilot.pause()
        spec = themes.load(theme)
        for name in themes.VARIABLES:
            style = app.pane.painter.style_of(f"${name}")
            assert style.foreground is not None, name
        for name, value in spec.styles.items():
            style = app.pane.painter.style_of(f"$bar ${name}")
            given = {word for word in value.split() if word != "none"}
            assert all(getattr(style, word) for word in given), (name, value)
        muted = app.pane.painter.style_of("$text-muted")
        # A colour of its own, or dim where the terminal owns the colours.
        assert muted.dim if spec.ansi else muted.foreground != app.pane.visual_style.foreground
        assert app.pane.painter.style_of("$no-such-variable").foreground is None
