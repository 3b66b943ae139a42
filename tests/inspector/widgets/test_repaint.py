"""What a pane paints again and what it leaves: its frame, its scrollbar, and when it makes lines."""

from __future__ import annotations

from typing import Any

import pytest
from textual._compositor import Compositor
from textual.content import Content
from textual.events import Resize
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from tests.fake_runs import Themed
from tests.settling import until


class Counting(Pane):
    """As many rows as it is told to have; notes what it made them for. Deaf to a resize."""

    NAME = "Rows"
    SELECTABLE = True

    def __init__(self) -> None:
        super().__init__()
        self.count, self.below = 3, "below"
        self.made: list[tuple[int, int]] = []

    def picture(self, view: View, size: Size) -> Picture:
        height = size.height - 1
        self.made.append((view.cursor, height))
        return Picture(
            [Content(f" {row} of {view.cursor} in {height}") for row in range(self.count)],
            footer=[Content(f"at {self.selected}, {size.width} wide")],
            subtitle=self.below,
        )

    def on_resize(self, event: Resize) -> None:
        event.prevent_default()


class Framed(Themed):
    """One pane with a border and padding; counts how often the screen is laid out."""

    CSS = """
    Pane {
        height: 1fr; border: round $panel; padding: 0 1; background: $background;
        scrollbar-size-vertical: 1; overflow-x: hidden;
    }
    Pane:focus { border: dashed $primary; }
    """

    def __init__(self, theme: str = "dark") -> None:
        super().__init__(Counting(), theme)
        self.layouts = 0

    def on_mount(self) -> None:
        def counted(_: object) -> None:
            self.layouts += 1

        self.screen.screen_layout_refresh_signal.subscribe(self, counted)

    def painted(self) -> list[str]:
        """The whole screen, as it was put together."""
        strips = self.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]


def cells(strip: Strip) -> list[tuple[str, object]]:
    return [(char, one.style) for one in strip.simplify() for char in one.text]


@pytest.mark.parametrize("theme", ["dark", "ansi-dark", "mono"])
async def test_lines_stand_in_the_frame_that_textual_draws(theme: str) -> None:
    app = Framed(theme)
    async with app.run_test(size=(30, 8)) as pilot:
        for count, focused in ((3, True), (20, True), (20, False), (3, False)):
            app.pane.count = count
            app.set_focus(app.pane if focused else None)
            app.pane.show(View(RunLog(), count))
            await pilot.pause()
            whole = Region(0, 0, 30, 8)
            ours = app.pane.render_lines(whole)
            textuals = ScrollView.render_lines(app.pane, whole)
            assert f"0 of {count} in 5" in ours[1].text
            assert [one.text for one in ours] == [one.text for one in textuals]
            assert [cells(one) for one in ours[1:-1]] == [cells(one) for one in textuals[1:-1]]


async def test_a_part_of_a_pane_is_that_part_of_it() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        whole = app.pane.render_lines(Region(0, 0, 30, 8))
        part = app.pane.render_lines(Region(2, 1, 7, 3))
        assert [one.text for one in part] == [one.text[2:9] for one in whole[1:4]]
        assert part[0].text == "▸0 of 0"


async def test_the_first_picture_of_another_size_has_the_lines_of_that_size() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        assert "0 of 0 in 5" in app.painted()[1]
        await pilot.resize_terminal(40, 12)
        await pilot.pause()
        # Nobody but the painting itself can have made them.
        assert "0 of 0 in 9" in app.painted()[1]
        assert app.pane.made[-1] == (0, 9)


async def test_a_hidden_pane_makes_no_lines_and_then_those_of_the_last_view_once() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        app.pane.display = False
        await pilot.pause()
        made = len(app.pane.made)
        app.pane.show(View(RunLog(), 5))
        app.pane.show(View(RunLog(), 7))
        await pilot.pause()
        assert len(app.pane.made) == made
        app.pane.display = True
        await pilot.pause()
        assert "0 of 7 in 5" in app.painted()[1]
        assert app.pane.made[made:] == [(7, 5)]


async def test_what_changes_in_a_hidden_pane_is_there_when_it_is_seen_again() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        assert "at 0, 25 wide" in app.painted()[6]
        app.pane.display = False
        await pilot.pause()
        app.pane.select(1)
        app.pane.display = True
        await pilot.pause()
        assert "at 1, 25 wide" in app.painted()[6]
        app.pane.display = False
        await pilot.pause()
        app.pane.count = 2
        app.pane.rebuild()
        app.pane.display = True
        await pilot.pause()
        assert "1 of 0" in app.painted()[2]
        assert not app.painted()[3].strip("│╎ ")


async def test_more_rows_than_fit_bring_a_bar_and_no_layout() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        layouts = app.layouts
        bar = app.pane.vertical_scrollbar
        place = Region(0, 0, 1, 6)
        assert len({one.style for strip in bar.render_lines(place) for one in strip}) == 1
        app.pane.count = 60
        app.pane.show(View(RunLog(), 1))
        await pilot.pause()
        reverse = [one.style.reverse for strip in bar.render_lines(place) for one in strip]
        assert [bool(one) for one in reverse] == [True, *[False] * 5]
        app.pane.count = 2
        app.pane.show(View(RunLog(), 2))
        await pilot.pause()
        assert len({one.style for strip in bar.render_lines(place) for one in strip}) == 1
        assert app.layouts == layouts


async def test_the_bar_looks_as_textuals_own_and_obeys_the_mouse() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        app.pane.count = 15
        app.pane.show(View(RunLog(), 1))
        for y in (0, 4, 9):
            app.pane.scroll_to(y=y, animate=False)
            await pilot.pause()
            bar, place = app.pane.vertical_scrollbar, Region(0, 0, 1, 6)
            textuals = ScrollBar.render_lines(bar, place)
            assert list(map(cells, bar.render_lines(place))) == list(map(cells, textuals))
        app.pane.scroll_home(animate=False)
        await pilot.pause()
        await pilot.mouse_down(app.pane.vertical_scrollbar, offset=(0, 5))
        await until(lambda: app.pane.scroll_offset.y > 0)


LINES = (
    "plain",
    Content.styled("all of it", "bold"),
    Content.assemble("no style, ", ("red", "$error"), " none ", ("end", "on $panel")),
    Content.assemble(("ab", "$error"), ("cd", "bold")).stylize("italic", 1, 3),
    Content.assemble("x", ("y", "$error"), "z").stylize_before("bold on $panel"),
    Content.assemble(("表 wide", "$error"), "表"),
)


@pytest.mark.parametrize("line", LINES)
async def test_a_line_has_the_styles_that_textual_gives_its_text(line: str | Content) -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        painter, content = app.pane.painter, Content(line) if isinstance(line, str) else line
        base = app.pane.visual_style
        found = content.render(base, end="", parse_style=painter.style_of)
        wanted = [(char, style.rich_style) for text, style in found for char in text]
        wanted += [(" ", base.rich_style)] * (25 - content.cell_length)
        strip = painter.strip(0, content, 25, selected=False)
        assert [style for _, style in cells(strip)] == [style for _, style in wanted]


def repainted(app: Framed) -> set[int]:
    """The lines of the pane that are due to be painted again."""
    return {y for region in app.pane._repaint_regions for y in region.line_range}


async def test_a_title_repaints_its_own_line_and_no_other() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        assert not repainted(app)
        app.pane.below = "another"
        app.pane.show(app.pane.view)
        assert repainted(app) == {7}
        await pilot.pause()
        assert "another" in app.painted()[7]
        app.pane.show(View(RunLog(), 4))
        assert repainted(app) == {1, 2, 3}


async def test_border_and_titles_are_those_of_now_after_any_change_of_size_and_focus() -> None:
    app = Framed()
    async with app.run_test(size=(30, 8)) as pilot:
        for width, height, focused in (
            (30, 11, True),
            (30, 8, False),
            (40, 8, True),
            (30, 8, True),
        ):
            await pilot.resize_terminal(width, height)
            app.set_focus(app.pane if focused else None)
            app.pane.below = f"{width} and {height}"
            app.pane.show(app.pane.view)
            await pilot.pause()
            whole = Region(0, 0, width, height)
            textuals = ScrollView.render_lines(app.pane, whole)
            assert list(map(cells, app.pane.render_lines(whole))) == list(map(cells, textuals))
            assert f"{width} and {height}" in app.painted()[height - 1]


async def test_another_size_is_painted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app, paints, update = Framed(), 0, Compositor.render_update

    def counted(compositor: Compositor, **how: Any) -> object:
        nonlocal paints
        paints += bool(compositor._dirty_regions)
        return update(compositor, **how)

    async with app.run_test(size=(30, 12)) as pilot:
        app.pane.count = 20
        app.pane.show(View(RunLog(), 1))
        await pilot.pause()
        bar = app.pane.vertical_scrollbar
        app.pane.below = "with another title"
        monkeypatch.setattr(Compositor, "render_update", counted)
        app.pane.styles.height = 8
        await pilot.pause()
        assert paints == 1
        assert "another" in app.painted()[7]
        assert bar.window_size == 6
        # Neither is a bar that looks as it did.
        bar.refresh()
        assert not bar._repaint_regions
        app.pane.scroll_to(y=9, animate=False)
        assert bar._repaint_regions
