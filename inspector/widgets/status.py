"""One line: what the engine is doing, with what, and where in the text the cursor stands."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.widget import Widget

from engine.records.events import EngineError, LoadProgress, RunState
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.draw.numbers import MUTED, Mark, cut, padded, plural, right
from inspector.state.branches import place
from inspector.state.loops import briefly, in_words, loop_at
from inspector.state.view import RunLog, View
from inspector.state.whatif import hypothetical

LONG_PASS_S = 2.0
SHORT_REASON = 40
SHORT_NAME = 12
BETWEEN = " │ "

SIGNS = {
    RunState.STARTING: ("◌", MUTED),
    RunState.LOADING: ("◌", "$warning"),
    RunState.READY: ("○", "$success"),
    RunState.PREFILL: ("▶", "$success"),
    RunState.RUNNING: ("▶", "$success"),
    RunState.PAUSED: ("‖", "$warning"),
    RunState.STOPPED: ("■", "$accent"),
    RunState.DEAD: ("✗", "$error"),
}
"""A sign and a colour for each state; its name always stands beside them."""


@dataclass(frozen=True)
class Part:
    """One piece of the line: from the longest way to say it to the shortest, which may be ""."""

    variants: tuple[str, ...]
    style: str = ""


def status_line(view: View, width: int, busy_s: float | None = None) -> Content:
    """The line, in at most ``width`` cells. ``busy_s``: how long a pass has been running."""
    if view.log.error is not None:
        return _error(view.log.error, view.log.state.state, width)
    parts = _parts(view, busy_s)
    chosen = dict.fromkeys(parts, 0)
    for name, variant in _SHORTENED:
        if _cells(parts, chosen) <= width:
            break
        if name in parts:
            chosen[name] = min(variant, len(parts[name].variants) - 1)
    shown = [
        Content.styled(text, part.style)
        for name, part in parts.items()
        if (text := part.variants[chosen[name]])
    ]
    return cut(Content.styled(BETWEEN, "$kv-free").join(shown), width)


# What gives way first. Each item: a part, and which of its variants is to be tried.
_SHORTENED = (
    ("unsaved", 1),
    ("device", 1),
    ("preset", 1),
    ("what-if", 1),
    ("loop", 1),
    ("device", 2),
    ("position", 1),
    ("preset", 2),
    ("branch", 1),
    ("state", 1),
    ("model", 1),
    ("seed", 1),
    ("kv", 1),
    ("device", 3),
    ("model", 2),
    ("branch", 2),
    ("loop", 2),
    ("state", 2),
    ("position", 2),
)


def _cells(parts: dict[str, Part], chosen: dict[str, int]) -> int:
    texts = [part.variants[chosen[name]] for name, part in parts.items()]
    shown = [Content(text).cell_length for text in texts if text]
    return sum(shown) + len(BETWEEN) * max(0, len(shown) - 1)


def _parts(view: View, busy_s: float | None) -> dict[str, Part]:
    parts = {"state": _state(view, busy_s)}
    if view.log.unsaved:
        parts["unsaved"] = Part((f"NOT SAVED {visible(view.log.unsaved)}", "NOT SAVED"), "$error")
    if hypothetical(view):
        spec = view.what_if.spec if view.what_if is not None else ""
        tried = visible(spec).removesuffix(" >")
        parts["what-if"] = Part((f"WHAT IF {tried}", "WHAT IF"), "$estimated bold")
    if (loop := loop_at(view)) is not None:
        parts["loop"] = Part((in_words(loop), briefly(loop), ""), "$warning bold")
    if view.prompt is not None:
        parts["position"] = Part(_position(view))
        parts["branch"] = Part(_branch(view), "bold")
    if view.facts is not None:
        name = visible(view.facts.name)
        parts["model"] = Part((name, cut(Content(name), SHORT_NAME).plain, ""), "bold")
        parts["device"] = Part(_device(view.facts))
        if (kept := view.facts.kv_storage) is not None and kept.unusual:
            parts["kv"] = Part((kept.unusual, ""), "$warning")
    if view.settings is not None:
        seed, preset = view.settings.seed, view.settings.preset
        drawn = view.step.seed if view.step is not None else seed
        other = f" (run's {seed})" if drawn != seed else ""
        parts["seed"] = Part((f"seed {drawn}{other}", ""))
        # The > behind a single stage is for those who read it back.
        chain = visible(view.settings.chain_spec).removesuffix(" >")
        parts["preset"] = Part((f"{preset}: {chain}" if chain else preset, preset, ""), MUTED)
    return parts


def _state(view: View, busy_s: float | None) -> Part:
    log = view.log
    state, reason = log.state.state, visible(log.state.reason)
    if state is RunState.STOPPED and (view.step is None or view.step.stop is None):
        # What ended a branch says nothing of the token that the cursor has gone to.
        state, reason = RunState.PAUSED, ""
    sign, style = SIGNS[state]
    word = f"{sign} {state}"
    waiting = log.queued
    queued = f", {plural(waiting, 'step')} queued" if waiting else ""
    loading = state in (RunState.LOADING, RunState.STARTING)
    if loading and log.loading is not None:
        reason = _loading(log.loading)
    if busy_s is not None and busy_s > LONG_PASS_S:
        waited = f"{word}, {'' if loading else 'this pass '}{busy_s:,.0f} s so far{queued}"
        phase = f"{word}: {reason}{waited.removeprefix(word)}" if loading and reason else waited
        return Part((phase, waited, f"{word} {busy_s:,.0f} s"), f"{style} bold")
    short = f"{word} +{waiting}" if waiting else word
    if not reason:
        return Part((word + queued, word + queued, short), f"{style} bold")
    whole = Content(f"{word}: {reason}")
    return Part((whole.plain + queued, cut(whole, SHORT_REASON).plain + queued, short), style)


def _loading(now: LoadProgress) -> str:
    share = f" {now.fraction * 100:.0f}%" if now.fraction is not None else ""
    detail = f" ({visible(now.detail)})" if now.detail else ""
    return f"{visible(now.phase)}{share}{detail}"


def _position(view: View) -> tuple[str, ...]:
    """The cursor's position, of the last one there is, and the context's length."""
    here = max(0, view.prompt_length + len(view.path) - 1)
    ahead = len(view.ahead)
    of = f" of {here + ahead:,}" if ahead else ""
    context = view.facts.context_length if view.facts is not None else None
    room = f"/{context:,}" if context is not None else ""
    return (f"position {here:,}{of}{room}", f"{here:,}{of}{room}", "")


def _branch(view: View) -> tuple[str, ...]:
    """Number and name of the cursor's branch at the fork above it."""
    here = place(view)
    if here.of == 1 and not here.name:
        return ("",)
    name = visible(here.name)
    number = f"branch {here.number} of {here.of}" if here.of > 1 else "branch"
    long = f"{number}: {name}" if name else number
    short = f"{here.number}/{here.of}" if here.of > 1 else ""
    return (long, f"{cut(Content(name), SHORT_NAME).plain or 'branch'} {short}".rstrip(), "")


def _device(facts: ModelFacts) -> tuple[str, ...]:
    short = f"{facts.device} {facts.dtype}"
    reason = visible(facts.dtype_reason).removeprefix(f"{facts.dtype}: ")
    if not reason:
        return (short, short, short, "")
    # What stands in brackets in a reason are other dtypes' figures; doctor shows those.
    brief, _, rest = reason.partition(" (")
    mark = f" {Mark.MEASURED}" if "measured" in rest else ""
    return (f"{short}: {reason}", f"{short}: {brief}{mark}", short, "")


def _error(error: EngineError, state: RunState, width: int) -> Content:
    """The error takes the line; the state stays where there is room for both."""
    word = "engine lost" if error.fatal or state is RunState.DEAD else "error"
    line = Content.styled(f"! {word}: {visible(error.message)}", "$error bold")
    mark, style = SIGNS[state]
    tail = Content.styled(f"{mark} {state}", style)
    room = width - tail.cell_length - 2
    if line.cell_length <= room:
        return padded(line, room) + right(tail, width - room)
    return cut(line, width)


class StatusLine(Widget):
    """The status line, always one line high."""

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; padding: 0 1; background: $surface; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._view = View(RunLog())
        self._busy_s: float | None = None

    def show(self, view: View, busy_s: float | None = None) -> None:
        self._view, self._busy_s = view, busy_s
        self.refresh()

    def render(self) -> Content:
        return status_line(self._view, self.content_size.width, self._busy_s)
