"""Lines of a pane that has nothing to show yet: what will be in it, and how loading goes."""

from __future__ import annotations

from textual.content import Content

from engine.records.events import LoadProgress
from engine.text import visible
from inspector.draw.block_chars import bar
from inspector.draw.cells import clip
from inspector.draw.numbers import cut, legend, muted, padded, wrapped
from inspector.state.view import View

NOT_LOADED = "the model is not loaded yet"
_NAME = 11
_LEAST_BAR, _LONGEST_BAR = 6, 40
_UNKNOWN = "working; how long is not known"

_NAMES = {
    "starting torch": "torch",
    "timing decode steps in each dtype": "dtype",
    "first passes": "warm-up",
}
"""Names of phases of loading that differ from what the engine tells of them."""


def about(text: str, width: int) -> list[Content]:
    """A text about the pane that is to come, in as many lines as it takes."""
    return wrapped("", 0, width, text)


def first_lines(view: View, width: int, text: str, *, none: str = "") -> list[Content]:
    """The first picture of a pane: loading or ``none``, what will be there, and the marks."""
    head = loading(view, width) if view.facts is None else [cut(muted(none), width)] if none else []
    return [*head, *about(text, width), Content(""), legend(width)]


def loading(view: View, width: int) -> list[Content]:
    """A line for each phase of loading so far, and what is waited for."""
    now = view.log.loading
    if now is None:
        return [cut(muted(NOT_LOADED), width)]
    steps = view.log.load_steps or {now.step: now}
    whole = ("load", "")
    if len(steps) > 1:
        # The end of a part is no part of its own.
        steps = {step: one for step, one in steps.items() if step != whole}
    lines = [_phase(one, width, done=one.step != now.step) for one in steps.values()]
    wait = visible(now.detail)
    return [*lines, cut(muted(f"waits for: {wait}" if wait else NOT_LOADED), width)]


def _phase(one: LoadProgress, width: int, *, done: bool) -> Content:
    """``weights   ▕████▌      ▏ 42%``; without a bar while nobody knows how far it is."""
    phase, detail = one.step
    called = visible(_NAMES.get(detail, detail or phase))
    name = padded(Content.styled(clip(called, _NAME - 1), "bold"), _NAME)
    if not done and one.fraction is None:
        return cut(name + muted(_UNKNOWN), width)
    share = 1.0 if done else min(1.0, max(0.0, one.fraction or 0.0))
    text = "done" if done else f"{share * 100:.0f}%"
    room = min(_LONGEST_BAR, width - _NAME - len(text) - 3)
    if room < _LEAST_BAR:
        return cut(name + text, width)
    frame = "$kv-free"
    return name + Content.assemble(
        ("▕", frame), (bar(share, room), "$phase-prefill"), ("▏", frame), f" {text}"
    )
