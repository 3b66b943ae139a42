"""The container of the panes: it gives each the cells that the layout says, and drags borders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from textual import events
from textual.containers import Container
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, WidgetPlacement
from textual.layout import Layout as TextualLayout
from textual.message import Message
from textual.widget import Widget

from inspector.screens.desk import Border
from inspector.screens.layout import Layout, TabStrip


class _Arranged(TextualLayout):
    """Places widgets by their ids."""

    name = "desk"

    def __init__(self, regions: Callable[[Region], Mapping[str, Region]]) -> None:
        self._regions = regions

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        parent.pre_layout(self)
        regions = self._regions(size.region)
        return [
            WidgetPlacement(regions[name], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if (name := child.id or "") in regions
        ]


class Body(Container):
    """The panes cover it whole, so it is painted as what costs least.

    Sizes are no styles: a stylesheet would be applied to every widget anew, which takes longer
    than all the rest of a zoom.
    """

    BLANK = True

    class Dragged(Message):
        """A border was moved, and let go."""

    def __init__(self, panes: Layout, *, id: str) -> None:
        super().__init__(id=id)
        self._panes = panes
        self._arranged = _Arranged(panes.regions)
        self._grip: Border | Literal["text"] | None = None

    @property
    def layout(self) -> TextualLayout:
        return self._arranged

    def rearrange(self) -> None:
        """Give the panes the cells that they have by now."""
        # A child that asks for a layout has its ancestors forget theirs; this one would not.
        for tabs in self.query(TabStrip):
            tabs.refresh(layout=True)

    # --- borders --------------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        room = self.size.region
        x, y = event.screen_x - self.region.x, event.screen_y - self.region.y
        self._grip = self._panes.grip(room, x, y) if event.button == 1 else None
        if self._grip is not None:
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grip is not None:
            x, y = event.screen_x - self.region.x, event.screen_y - self.region.y
            self._panes.drag(self._grip, self.size.region, x, y)
            self.rearrange()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._grip is not None:
            self._grip = None
            self.release_mouse()
            self.post_message(self.Dragged())
