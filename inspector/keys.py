"""The keys: every binding has an id (rebind it under [keys] in the configuration file)."""

from __future__ import annotations

from textual.binding import Binding

GENERAL: list[Binding] = [
    Binding(
        "n,right", "step", "Step", id="step", tooltip="One forward pass, or along what is there"
    ),
    Binding(
        "b,left", "step_back", "Back", id="back", tooltip="To the token before; computes nothing"
    ),
    Binding("c", "continue", "Continue", id="continue", tooltip="Run until something stops it"),
    Binding("space", "pause_or_run", "Pause", id="pause", tooltip="Pause, or go on"),
    Binding("N", "step_ten", "Step 10", id="step-ten", show=False, key_display="N"),
    Binding("r", "redraw", "Draw again", id="redraw", show=False, tooltip="With another seed"),
    Binding("g", "first", "First", id="first", show=False, tooltip="To the prompt"),
    Binding("G", "last", "Last", id="last", show=False, key_display="G"),
    Binding("z", "screen.zoom", "Zoom", id="zoom", tooltip="This pane alone, or all again"),
    Binding("K", "restart", "Restart engine", id="restart", show=False, key_display="K"),
    Binding("question_mark", "help", "Help", id="help", key_display="?"),
    Binding("q", "quit", "Quit", id="quit"),
]


def pane_binding(number: int, name: str) -> Binding:
    """The digit that gives a pane the focus."""
    return Binding(
        str(number), f"focus_pane({number})", f"Pane: {name}", id=f"pane-{number}", show=False
    )
