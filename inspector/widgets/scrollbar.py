"""A pane's scrollbar. It is made anew at nearly every step, and so it has to be quick."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Self

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip


@lru_cache(maxsize=64)
def _strips(
    size: Size, total: int, shown: int, position: float, bar: Color, back: Color, under: Style
) -> list[Strip]:
    """One strip a line; blank where ``shown`` of ``total`` rows are all there are.

    The bar itself is ``bar`` in reverse and no more, so that it shows what is ``under`` it.
    """
    if shown >= total:
        return [Strip.blank(size.width, Style.from_color(bgcolor=back.rich_color))] * size.height
    drawn = ScrollBarRender.render_bar(
        size=size.height,
        virtual_size=total,
        window_size=shown,
        position=position,
        thickness=size.width,
        # Not Textual's colours, whatever the signature says.
        back_color=back.rich_color,
        bar_color=bar.rich_color,
    )
    return [Strip(Segment.apply_style([one], under), size.width) for one in drawn.segments]


class PaneScrollBar(ScrollBar):
    """Textual's scrollbar, without what it takes for borders and padding, which it never has."""

    # Its size is what its pane has room for: another one is no reason to lay out the screen again.
    virtual_size = Reactive(Size(0, 0), layout=False)

    def __init__(self, prepare: Callable[[], None], thickness: int) -> None:
        """``prepare`` has the pane make its lines: it is painted after its bar."""
        super().__init__(name="vertical", thickness=thickness)
        self._prepare = prepare
        self._painted: tuple[object, ...] | None = None

    @property
    def _rows(self) -> tuple[int, int, float]:
        return round(self.window_virtual_size), round(self.window_size), self.position

    @property
    def _looks(self) -> tuple[object, ...]:
        """All that it is painted from, but for colours."""
        return self.size, self._rows, self.grabbed, self.mouse_over

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Repaint it, unless it would look the same: it is asked to at every layout of its pane."""
        if layout or recompose or self._painted != self._looks:
            super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        return self

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painted = None

    def render_lines(self, crop: Region) -> list[Strip]:
        self._prepare()
        self._painted = self._looks
        assert self.parent is not None
        styles = self.parent.styles
        if self.grabbed:
            bar, back = styles.scrollbar_color_active, styles.scrollbar_background_active
        elif self.mouse_over:
            bar, back = styles.scrollbar_color_hover, styles.scrollbar_background_hover
        else:
            bar, back = styles.scrollbar_color, styles.scrollbar_background
        back = self.parent.background_colors[0] + back
        under = self.visual_style.rich_style
        strips = _strips(self.size, *self._rows, back + bar, back, under)[crop.y : crop.bottom]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, back) for strip in strips]
        return [strip.crop(*crop.column_span) for strip in strips]
