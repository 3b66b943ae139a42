"""Lines that are made anew for the width there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget


class Lines(Widget):
    """A widget as high as the lines of ``make``; ``refresh(layout=True)`` has them made again."""

    DEFAULT_CSS = "Lines { height: auto; }"

    def __init__(self, make: Callable[[int], Sequence[Content]]) -> None:
        super().__init__()
        self._make = make

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._make(width))

    def render(self) -> Content:
        return Content("\n").join(self._make(self.content_size.width))
