"""Keys of the compare screen: those of the debugger, for all columns, and its own."""

from __future__ import annotations

from textual.binding import Binding

from inspector.keys import GENERAL, NEXT_PANE, hidden, shown
from inspector.state.columns import LETTERS

_SAME = ("step", "back", "continue", "pause", "step-ten", "first", "last", "zoom")
"""Ids of keys that mean here what they mean everywhere, for all columns."""

# fmt: off
OWN: list[Binding] = [
    shown("p", "pause_column", "Pause column", "compare.pause",
          "The focused column stands, or goes on with the others"),
    shown("o", "alone", "Alone", "compare.alone",
          "The focused column goes on by itself; space stops it"),
    shown("i", "add", "Add column", "compare.add",
          "One more column, with settings of its own; it catches up with the others"),
    shown("d", "dice", "Dice", "compare.dice",
          "From the next token on: the same dice for all columns, or for each its own"),
    shown("t", "align", "Align", "compare.align",
          "A row a token, so that positions stand side by side; or running text"),
    hidden("v", "against", "Against the next", "compare.against",
           "Compare the focused column with another one"),
    hidden("h", "beside(-1)", "Column before", "compare.before", "Give it the focus"),
    hidden("l", "beside(1)", "Column after", "compare.after", "Give it the focus"),
    hidden("D", "remove", "Remove column", "compare.remove",
           "Take the focused column off the screen; its branch stays in the tree"),
    hidden("V", "as_text", "Compare as text", "compare.text",
           "Both columns to their ends as one text: what differs, word by word"),
    *(hidden(str(place + 1), f"column({place})", f"Column {letter}", f"compare.column-{place + 1}")
      for place, letter in enumerate(LETTERS)),
    hidden("ctrl+c", "interrupt", "Pause", "compare.interrupt", "Pause what runs"),
    shown("q,escape,backspace", "close", "Close", "compare.close",
          "Out of the zoomed pane; then back to the debugger, on the focused column"),
]
# fmt: on

KEYS = [*(one for one in GENERAL if one.id in _SAME), *OWN, *NEXT_PANE]
