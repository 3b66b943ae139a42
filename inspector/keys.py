"""The keys: every binding has an id (rebind it under [keys] in the configuration file)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from textual.binding import Binding


def shown(key: str, action: str, name: str, id: str, tooltip: str = "") -> Binding:
    """A key that the footer shows too."""
    return Binding(key, action, name, id=id, tooltip=tooltip)


def hidden(key: str, action: str, name: str, id: str, tooltip: str = "") -> Binding:
    """A key that only the help and the palette show."""
    return replace(shown(key, action, name, id, tooltip), show=False)


# fmt: off
GENERAL: list[Binding] = [
    shown("n,right", "step", "Step", "step", "One forward pass, or along what is there"),
    shown("b,left", "step_back", "Back", "back", "To the token before; computes nothing"),
    shown("c", "continue", "Continue", "continue", "Run until something stops it"),
    shown("space", "pause_or_run", "Pause", "pause", "Pause, or go on"),
    hidden("escape,backspace", "step_out", "Step out", "step-out",
           "Out of the zoomed pane or the dials; q does it too, and on the bare screen quits"),
    hidden("N", "step_ten", "Step 10", "step-ten",
           "Ten tokens, unless something stops the run before"),
    hidden("E", "step_round", "Step round", "step-round",
           "To the end of this speculative round, or of the next; without drafts one token"),
    hidden("r", "redraw", "Draw again", "redraw", "With another seed"),
    shown("B", "breakpoints", "Breakpoints", "breakpoints",
          "What stops a run, and what is watched"),
    hidden("R", "reverse", "Reverse continue", "reverse",
           "Back to the last step where a breakpoint strikes"),
    hidden("g", "first", "First", "first", "To the prompt"),
    hidden("G", "last", "Last", "last", "To the end of this branch"),
    shown("z", "screen.zoom", "Zoom", "zoom", "This pane alone, or all again"),
    hidden("K", "restart", "Restart engine", "restart",
           "A new engine, which goes on with this run; ends one that hangs"),
    shown("question_mark", "help", "Help", "help"),
    shown("q", "quit", "Quit", "quit"),
    hidden("ctrl+z", "suspend_process", "To the shell", "suspend",
           "Stop the screen as a shell's job; fg brings it back"),
    replace(shown("ctrl+p", "command_palette", "Keys", "palette",
                  "The command palette: everything a key can do, by name"), priority=True),
]

SAMPLER: list[Binding] = [
    shown("s", "screen.dials", "Dials", "dials",
          "Try other sampler settings on this token; nothing is run. Again: drop them"),
    hidden("p", "screen.stacks", "Stacks", "stacks",
           "This token in six samplers side by side, and where they part. Again: the ladder"),
    hidden("x", "screen.draws(100)", "Draw x100", "draw-100",
           "Draw from the final distribution 100 times, beside what was to be expected"),
    hidden("X", "screen.draws(10000)", "Draw x10,000", "draw-10000",
           "Draw from the final distribution 10,000 times"),
]
"""The sampler laboratory, from whatever pane."""

TRYING: list[Binding] = [
    shown("a", "app.apply(False)", "Apply", "apply",
          "What is tried holds from the next token on; inside the text that is a fork"),
    shown("A", "app.apply(True)", "Apply here", "apply-here",
          "What is tried holds from this token on: it is drawn again, with the same dice"),
    shown("minus", "app.turn(-1)", "Less", "dial-less", "Turn the chosen dial down a little"),
    shown("plus,equals_sign", "app.turn(1)", "More", "dial-more",
          "Turn the chosen dial up a little"),
    hidden("less_than_sign", "app.turn(-1, True)", "Much less", "dial-much-less",
           "Turn the chosen dial far down"),
    hidden("greater_than_sign", "app.turn(1, True)", "Much more", "dial-much-more",
           "Turn the chosen dial far up"),
]
"""While the dials are open, from whatever pane; the dials have them first in the footer."""

DIALS: list[Binding] = [
    shown("0", "reset", "As recorded", "dials.reset", "This dial, or this stage"),
    shown("i", "insert", "Insert", "dials.insert", "One more stage, from a list"),
    shown("t,delete", "out", "Take out", "dials.out", "This stage; or put it back"),
    hidden("left_curly_bracket", "shift(-1)", "Earlier", "dials.earlier",
           "This stage one place earlier in the chain"),
    hidden("right_curly_bracket", "shift(1)", "Later", "dials.later",
           "This stage one place later in the chain"),
]
"""While the dials have the focus; there a digit begins a value, and enter edits the one there."""

BRANCHING: list[Binding] = [
    shown("f", "fork", "Fork", "fork", "What to do differently here: a new branch"),
    hidden("h", "sibling(-1)", "Branch before", "branch-before",
           "To the branch before this one at the nearest fork above"),
    hidden("l", "sibling(1)", "Branch after", "branch-after",
           "To the next branch at the nearest fork above"),
    hidden("m", "name_branch", "Name branch", "branch-name",
           "Mark this branch with a name; in the tree, the selected one"),
    hidden("D", "delete_branch", "Delete branch", "branch-delete",
           "Delete this branch, after asking; in the tree, the selected one"),
    hidden("u", "undo_delete", "Undo delete", "branch-undo",
           "Bring back the branch deleted last; possible until the next new token"),
    shown("P", "prompt", "Prompt", "prompt",
           "Edit the prompt and begin a new run; what stays the same is not read again"),
]
"""The tree of the run."""

SESSIONS: list[Binding] = [
    shown("w", "save", "Save", "save", "Give this run's session a name"),
    shown("e", "export", "Export", "export",
           "This run, or its columns where they are shown, as HTML, Markdown, JSONL or CSV; this "
          "screen as SVG"),
    shown("o", "sessions", "Sessions", "sessions",
           "Look at saved runs: search, open, rename, compare, delete"),
    shown("I", "interrupted", "Interrupted run", "interrupted",
          "Open, keep or discard the run that a crash has interrupted"),
    hidden("y", "copy", "Copy text", "copy",
           "The prompt and this branch's text, to the terminal's clipboard"),
    hidden("V", "compare_branches", "Compare", "compare-branches",
           "Branches side by side, in columns that step together; with the dials open, what is "
           "tried; on the stacks, each stack"),
]
"""Keys of saved runs."""

MEASURING: list[Binding] = [
    hidden("d", "drift", "Drift", "drift",
           "How exact the cursor's logits are: held against a fresh read of the text"),
    hidden("M", "measure_ceilings", "Measure machine", "measure-ceilings",
           "What this machine can do at best, for the gauges' MBU; waits for the run to stop"),
    hidden("T", "time_modules", "Time modules", "time-modules",
           "Where a step and a reading spend their time, module by module, and what timing costs"),
    hidden("C", "compare_cache", "Cache on/off", "compare-cache",
           "Time this branch's tokens with a KV cache and without; the gauges draw both"),
    hidden("W", "napkin", "Another machine", "napkin",
           "Bytes, ceilings and batch of this model, or another, on another machine"),
]
"""Keys of measurements on demand, beside the run."""

REPLAYING: list[Binding] = [
    hidden("S", "stream", "Streaming on/off", "stream",
           "With --speed, also while it plays: tokens as they came, or the whole text when "
           "its last token comes, which is the same moment"),
]
"""Additional keys of a recording that is played."""

TOURING: list[Binding] = [
    hidden("right_parenthesis", "tour(1)", "Next stop", "tour-next", "Of the guided tour"),
    hidden("left_parenthesis", "tour(-1)", "Stop before", "tour-before", "Of the guided tour"),
]
"""Additional keys of the guided tour."""

NEXT_PANE: list[Binding] = [
    hidden("tab", "next_pane(1)", "Next pane", "pane-next",
           "One after another, those too that share a place"),
    hidden("shift+tab", "next_pane(-1)", "Pane before", "pane-before"),
]
"""From pane to pane."""

DESK: list[Binding] = [
    hidden("L", "layouts", "Layout", "layouts",
           "Choose, order and size the panes, and keep that under a name"),
    hidden("J", "jump", "Jump", "jump", "Show a letter on every pane; pressing it goes there"),
    hidden("shift+right", "grow('|', 2)", "Wider", "pane-wider", "This pane wider"),
    hidden("shift+left", "grow('|', -2)", "Narrower", "pane-narrower", "This pane narrower"),
    hidden("shift+down", "grow('/', 1)", "Higher", "pane-higher", "This pane a line higher"),
    hidden("shift+up", "grow('/', -1)", "Lower", "pane-lower", "This pane a line lower"),
]
"""Places and sizes of the panes."""
# fmt: on


FOOTER = (
    *("step", "back", "continue", "interrupted", "fork", "dials", "palette", "pause", "zoom"),
    *("breakpoints", "prompt", "sessions", "export", "save"),
)
"""The app's keys in the footer: the last ones give way first. Help and quit never do."""


def in_footer_order(bindings: Iterable[Binding]) -> list[Binding]:
    """The bindings of ``FOOTER`` in its order, then all others."""
    place = {name: at for at, name in enumerate(FOOTER)}
    return sorted(bindings, key=lambda one: place.get(one.id or "", len(place)))


APP = [
    *TRYING,
    *in_footer_order([*GENERAL, *BRANCHING, *SAMPLER, *SESSIONS, *MEASURING, *REPLAYING, *TOURING]),
]

OPENING = frozenset(
    [
        *("save", "export", "sessions", "compare_branches", "drift", "compare_cache"),
        *("measure_ceilings", "time_modules", "napkin"),
    ]
)
"""Actions that open a window, or answer with a line: not while another window is open."""

NEEDS_MODEL = frozenset(
    [one.action for one in BRANCHING if "sibling" not in one.action]
    + ["apply", "redraw", "restart", "drift", "compare_cache", "measure_ceilings", "time_modules"]
)
"""Actions that a recording without a model is too little for."""

USES_FILES = frozenset(["save", "export", "sessions", "interrupted", "suspend_process"])
"""Actions that write a file, look for others or lead to the shell: none of them in a browser."""


ANYWHERE = frozenset(
    [
        *("help", "command_palette", "breakpoints", "restart", "suspend_process", "save"),
        *("export", "stream"),
    ]
)
"""Actions that also mean something above a screen that shows the run in its own way."""


def pane_key(number: int) -> str:
    """The key of the pane with this number: there are nine digits, and function keys after them."""
    return str(number) if number < 10 else f"f{number}"


def pane_binding(number: int, name: str) -> Binding:
    """The key that gives a pane the focus."""
    key, action = pane_key(number), f"focus_pane({number})"
    return hidden(key, action, f"Pane: {name}", f"pane-{number}")
