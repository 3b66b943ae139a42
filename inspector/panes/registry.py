"""The one table that lists the panes, in the order of their keys."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.panes.batch.pane import BatchPane
from inspector.panes.bill.pane import BillPane
from inspector.panes.dials.pane import DialsPane
from inspector.panes.gauges.pane import GaugesPane
from inspector.panes.kv.pane import KVPane
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.prefill.pane import PrefillPane
from inspector.panes.roofline.pane import RooflinePane
from inspector.panes.shape.pane import ShapePane
from inspector.panes.speculation.pane import SpeculationPane
from inspector.panes.stacks.pane import StacksPane
from inspector.panes.tokens import TokensPane
from inspector.panes.transcript.pane import TranscriptPane
from inspector.panes.tree.pane import TreePane
from inspector.widgets.line_view import Pane

LAST_PLACE = "gauges"


@dataclass(frozen=True, slots=True)
class PaneSpec:
    """A pane of the debugger's screen."""

    name: str
    """Its widget's id."""
    pane: type[Pane]
    place: str = LAST_PLACE
    """Name of the pane whose place in the wide layout it shares; its own, where it has one."""
    tried: bool = False
    """True if what is tried on the dials is seen on it at once."""
    alone: bool = False
    """True if in the compact layout it has the whole screen."""


PANES: tuple[PaneSpec, ...] = (
    PaneSpec("transcript", TranscriptPane, "transcript"),
    PaneSpec("ladder", LadderPane, "ladder", tried=True),
    PaneSpec("tokens", TokensPane, "tokens"),
    PaneSpec("kv", KVPane, "kv"),
    PaneSpec("prefill", PrefillPane, "prefill"),
    PaneSpec("gauges", GaugesPane),
    PaneSpec("shape", ShapePane, tried=True),
    PaneSpec("stacks", StacksPane, "ladder", tried=True, alone=True),
    PaneSpec("tree", TreePane, "tokens"),
    PaneSpec("speculation", SpeculationPane, "ladder", alone=True),
    PaneSpec("roofline", RooflinePane, "ladder", alone=True),
    PaneSpec("bill", BillPane, alone=True),
    PaneSpec("batch", BatchPane, "ladder", alone=True),
)
"""The first has the key 1, the tenth f10, and so on."""

DIALS_SPEC = PaneSpec("dials", DialsPane, "tokens", tried=True)
"""Opened by a key of its own."""
