"""The roofline of this run, how its passes grow with the text, and what K and V would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size

from engine.passes import PassKind, figures_of_kind
from inspector.draw.numbers import beside, cut, muted, percent, with_marks
from inspector.panes.roofline.growth import growth_lines
from inspector.panes.roofline.heads import head_lines
from inspector.panes.roofline.modules import module_lines
from inspector.panes.roofline.roof import Found, found_in, roof_lines
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import CEILINGS, Picture

PARTS = ("roofline", "growth", "modules", "K and V")
WIDE, TALL = 118, 26
"""From this size on the parts stand side by side."""
HEADS = 8
"""Lines that K and V of this model take."""
_GAP = 3


@dataclass(frozen=True)
class RooflineUI:
    """State of the pane: the part that is seen where there is room for one."""

    part: int = 0


def draw(view: View, size: Size, ui: RooflineUI = RooflineUI()) -> Picture:
    """The pane."""
    width, height = size.width, size.height
    found = found_in(view)
    if width >= WIDE and height >= TALL:
        lines = _side_by_side(view, found, ui.part, width, height)
    else:
        lines = [_tabs(ui.part, width), *_part(view, found, ui.part, width, height - 1)]
    decode = figures_of_kind(found.passes.get(PassKind.DECODE, ()), found.ceilings)
    mbu = decode.mbu if decode is not None else None
    return Picture(
        lines,
        subtitle=with_marks("" if mbu is None else f"MBU {percent(mbu)} ƒ", width),
        wants=(CEILINGS,),
    )


def _part(view: View, found: Found, part: int, width: int, height: int) -> Sequence[Content]:
    match PARTS[part]:
        case "growth":
            return growth_lines(view, found, width, height)
        case "modules":
            return module_lines(view, width, height)
        case "K and V":
            return head_lines(view, width, height)
    return roof_lines(view, found, width, height)


def _side_by_side(view: View, found: Found, part: int, width: int, height: int) -> list[Content]:
    left = width * 11 // 20
    right = width - left - _GAP
    first = [*roof_lines(view, found, left, height - HEADS - 1), Content("")]
    first += head_lines(view, left, HEADS)
    # At the right, growth, or the part that was asked for and is not at the left.
    second = _part(view, found, part if part in (2, 3) else 1, right, height)
    return beside(first, second, left, _GAP)


def _tabs(part: int, width: int) -> Content:
    """The parts by name, the one that is seen marked."""
    names = [
        Content.styled(f" {name} ", "bold reverse" if at == part else "")
        for at, name in enumerate(PARTS)
    ]
    return cut(Content(" ").join(names) + muted("   v: the next"), width)


class RooflinePane(Pane):
    """This run's passes below the ceilings of this machine."""

    NAME = "Roofline"
    SHORT = "Roof"
    HELP = """
A pass does **operations** on **bytes** that it has to move first. Its **intensity** is operations a
byte. Two ceilings bind it: memory **bandwidth** times intensity, which is the slope, and the
**rate** of matrix products, which is the flat roof. A **decode** step reads every weight for one
token: about half an operation a byte in float32, so bandwidth binds it and arithmetic idles.
**Prefill** reads the weights once for a whole chunk: arithmetic binds it.

**MBU** is (weights + K and V) / time / bandwidth, **MFU** operations / time / rate, of the pass
alone. Neither can be above 1 for a pass. A speculative **round** and a **batch** read the weights
once for several tokens: counted as plain steps for the same tokens they can be above 100%, and
that is what they are for.

The **floor** is (weights + K and V at this context) / bandwidth: no decode step is faster. It grows
with the context by K and V of each position. `v` shows the next part: how steps and prompts grow
with the text, and what K and V take by kind of attention. `M` measures this machine, `C` times this
text at several lengths, `T` a step and a reading module by module.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "v",
            "part",
            "Next part",
            id="roofline.part",
            tooltip="Roofline, growth, modules, K and V",
        )
    ]

    _part = 0

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, RooflineUI(self._part))

    def action_part(self) -> None:
        """Show the next part."""
        self._part = (self._part + 1) % len(PARTS)
        self.rebuild()

    def clicked(self, row: int, x: int) -> None:
        log = self.view.log
        if log.can_measure and log.ceilings is None and "measure it" in self.drawn.rows[row].plain:
            self.call_later(self.run_action, "app.measure_ceilings")
