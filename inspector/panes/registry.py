"""The one table that lists the panes, in the order of their keys."""

from __future__ import annotations

from inspector.panes.base import Pane
from inspector.panes.gauges import GaugesPane
from inspector.panes.kv import KVPane
from inspector.panes.ladder import LadderPane
from inspector.panes.prefill import PrefillPane
from inspector.panes.shape import ShapePane
from inspector.panes.stacks import StacksPane
from inspector.panes.tokens import TokensPane
from inspector.panes.transcript import TranscriptPane
from inspector.panes.tree import TreePane

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
