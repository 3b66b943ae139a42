"""The one table that lists the panes, in the order of their keys."""

from __future__ import annotations

from inspector.panes.gauges.pane import GaugesPane
from inspector.panes.kv.pane import KVPane
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.prefill.pane import PrefillPane
from inspector.panes.shape.pane import ShapePane
from inspector.panes.stacks.pane import StacksPane
from inspector.panes.tokens import TokensPane
from inspector.panes.transcript.pane import TranscriptPane
from inspector.panes.tree.pane import TreePane
from inspector.widgets.line_view import Pane

PANES: tuple[tuple[str, type[Pane]], ...] = (
    ("transcript", TranscriptPane),
    ("ladder", LadderPane),
    ("tokens", TokensPane),
    ("kv", KVPane),
    ("prefill", PrefillPane),
    ("gauges", GaugesPane),
    ("shape", ShapePane),
    ("stacks", StacksPane),
    ("tree", TreePane),
)
"""(widget id, class); the first is 1, the tenth f10."""
