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
    Binding(
        "B",
        "breakpoints",
        "Breakpoints",
        id="breakpoints",
        show=False,
        key_display="B",
        tooltip="What stops a run, and what is watched",
    ),
    Binding(
        "R",
        "reverse",
        "Reverse continue",
        id="reverse",
        show=False,
        key_display="R",
        tooltip="Back to the last step where a breakpoint strikes",
    ),
    Binding("g", "first", "First", id="first", show=False, tooltip="To the prompt"),
    Binding("G", "last", "Last", id="last", show=False, key_display="G"),
    Binding("z", "screen.zoom", "Zoom", id="zoom", tooltip="This pane alone, or all again"),
    Binding("K", "restart", "Restart engine", id="restart", show=False, key_display="K"),
    Binding("question_mark", "help", "Help", id="help", key_display="?"),
    Binding("q", "quit", "Quit", id="quit"),
    Binding(
        "ctrl+z",
        "suspend_process",
        "To the shell",
        id="suspend",
        show=False,
        key_display="^z",
        tooltip="Stop the screen as a shell's job; fg brings it back",
    ),
    Binding(
        "ctrl+p",
        "command_palette",
        "Keys",
        id="palette",
        key_display="^p",
        priority=True,
        tooltip="The command palette: everything a key can do, by name",
    ),
]

SAMPLER: list[Binding] = [
    Binding(
        "s",
        "screen.dials",
        "Dials",
        id="dials",
        tooltip="Try other sampler settings on this token; nothing is run. Again: drop them",
    ),
    Binding(
        "p",
        "screen.stacks",
        "Stacks",
        id="stacks",
        tooltip="This token in six samplers side by side, and where they part. Again: the ladder",
        show=False,
    ),
    Binding(
        "x",
        "screen.draws(100)",
        "Draw x100",
        id="draw-100",
        tooltip="Draw from the final distribution 100 times, beside what was to be expected",
        show=False,
    ),
    Binding(
        "X",
        "screen.draws(10000)",
        "Draw x10,000",
        id="draw-10000",
        show=False,
        key_display="X",
        tooltip="Draw from the final distribution 10,000 times",
    ),
]
"""The sampler laboratory, from whatever pane."""

TRYING: list[Binding] = [
    Binding(
        "a",
        "app.apply(False)",
        "Apply",
        id="apply",
        tooltip="What is tried holds from the next token on; inside the text that is a fork",
    ),
    Binding(
        "A",
        "app.apply(True)",
        "Apply here",
        id="apply-here",
        key_display="A",
        tooltip="What is tried holds from this token on: it is drawn again, with the same dice",
    ),
    Binding(
        "minus",
        "app.turn(-1)",
        "Less",
        id="dial-less",
        key_display="-",
        tooltip="Turn the chosen dial down a little",
    ),
    Binding(
        "plus,equals_sign",
        "app.turn(1)",
        "More",
        id="dial-more",
        key_display="+",
        tooltip="Turn the chosen dial up a little",
    ),
    Binding(
        "less_than_sign",
        "app.leap(-1)",
        "Much less",
        id="dial-much-less",
        key_display="<",
        show=False,
        tooltip="Turn the chosen dial far down",
    ),
    Binding(
        "greater_than_sign",
        "app.leap(1)",
        "Much more",
        id="dial-much-more",
        key_display=">",
        show=False,
        tooltip="Turn the chosen dial far up",
    ),
]
"""While the dials are open, from whatever pane; the dials have them first in the footer."""

DIALS: list[Binding] = [
    Binding("0", "reset", "As recorded", id="dials.reset", tooltip="This dial, or this stage"),
    Binding("i", "insert", "Insert", id="dials.insert", tooltip="One more stage, from a list"),
    Binding("t,delete", "out", "Take out", id="dials.out", tooltip="This stage; or put it back"),
    Binding(
        "left_curly_bracket",
        "shift(-1)",
        "Earlier",
        id="dials.earlier",
        key_display="{",
        show=False,
        tooltip="This stage one place earlier in the chain",
    ),
    Binding(
        "right_curly_bracket",
        "shift(1)",
        "Later",
        id="dials.later",
        key_display="}",
        show=False,
        tooltip="This stage one place later in the chain",
    ),
]
"""While the dials have the focus; there a digit begins a value, and enter edits the one there."""

BRANCHING: list[Binding] = [
    Binding("f", "fork", "Fork", id="fork", tooltip="What to do differently here: a new branch"),
    Binding(
        "h",
        "sibling(-1)",
        "Branch before",
        id="branch-before",
        show=False,
        tooltip="To the branch before this one at the nearest fork above",
    ),
    Binding(
        "l",
        "sibling(1)",
        "Branch after",
        id="branch-after",
        show=False,
        tooltip="To the next branch at the nearest fork above",
    ),
    Binding(
        "m",
        "name_branch",
        "Name branch",
        id="branch-name",
        show=False,
        tooltip="Mark this branch with a name; in the tree, the selected one",
    ),
    Binding(
        "D",
        "delete_branch",
        "Delete branch",
        id="branch-delete",
        show=False,
        key_display="D",
        tooltip="Delete this branch, after asking; in the tree, the selected one",
    ),
    Binding(
        "u",
        "undo_delete",
        "Undo delete",
        id="branch-undo",
        show=False,
        tooltip="Bring back the branch deleted last; possible until the next new token",
    ),
    Binding(
        "P",
        "prompt",
        "Prompt",
        id="prompt",
        show=False,
        key_display="P",
        tooltip="Edit the prompt and begin a new run; what stays the same is not read again",
    ),
]
"""The tree of the run."""

SESSIONS: list[Binding] = [
    Binding("w", "save", "Save", id="save", show=False, tooltip="Give this run's session a name"),
    Binding(
        "e",
        "export",
        "Export",
        id="export",
        show=False,
        tooltip="This run as HTML, Markdown, JSONL or CSV; this screen as SVG",
    ),
    Binding(
        "o",
        "sessions",
        "Sessions",
        id="sessions",
        show=False,
        tooltip="Look at saved runs: search, open, rename, compare, delete",
    ),
    Binding(
        "V",
        "compare_branches",
        "Compare branches",
        id="compare-branches",
        show=False,
        key_display="V",
        tooltip="This branch beside the next one at the nearest fork above",
    ),
]
"""Keys of saved runs."""


MEASURING: list[Binding] = [
    Binding(
        "d",
        "drift",
        "Drift",
        id="drift",
        show=False,
        tooltip="How exact the cursor's logits are: held against a fresh read of the text",
    ),
    Binding(
        "M",
        "measure_ceilings",
        "Measure machine",
        id="measure-ceilings",
        show=False,
        key_display="M",
        tooltip="What this machine can do at best, for the gauges' MBU; waits for the run to stop",
    ),
    Binding(
        "C",
        "compare_cache",
        "Cache on/off",
        id="compare-cache",
        show=False,
        key_display="C",
        tooltip="Time this branch's tokens with a KV cache and without; the gauges draw both",
    ),
]
"""Keys of measurements on demand, beside the run."""


REPLAYING: list[Binding] = [
    Binding(
        "S",
        "stream",
        "Streaming on/off",
        id="stream",
        show=False,
        key_display="S",
        tooltip="With --speed, also while it plays: tokens as they came, or the whole text when "
        "its last token comes, which is the same moment",
    ),
]
"""Additional keys of a recording that is played."""


NEXT_PANE: list[Binding] = [
    Binding(
        "tab",
        "next_pane(1)",
        "Next pane",
        id="pane-next",
        show=False,
        tooltip="One after another, those too that share a place",
    ),
    Binding("shift+tab", "next_pane(-1)", "Pane before", id="pane-before", show=False),
]
"""From pane to pane."""


def pane_key(number: int) -> str:
    """The key of the pane with this number: there are nine digits, and function keys after them."""
    return str(number) if number < 10 else f"f{number}"


def pane_binding(number: int, name: str) -> Binding:
    """The key that gives a pane the focus."""
    key, action = pane_key(number), f"focus_pane({number})"
    return Binding(key, action, f"Pane: {name}", id=f"pane-{number}", show=False)
