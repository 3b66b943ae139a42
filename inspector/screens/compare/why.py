"""Reasons for which two columns part, at the cursor or where they did, in words and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from textual.content import Content
from textual.geometry import Size

from engine.records.partial import Interval
from engine.records.step import How, StepRecord
from engine.records.vocabulary import Token
from engine.text import visible
from inspector.draw.cells import token_text
from inspector.draw.numbers import cut, derived, muted, wrapped
from inspector.state.columns import ComparedColumn
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from sessions.compare.tables import Bound
from sessions.compare.text import bound_text
from sessions.compare.why_part import MODEL, OtherDice, StageParting, WhyPart, why_part

_LABEL = 10
_SETTINGS_NAMED = 6


@dataclass(frozen=True)
class Pair:
    """Two columns by their letters, and their steps at one depth."""

    a: str
    b: str
    at: int
    """Tokens from the prompt to these steps, themselves included."""
    step_a: StepRecord | None = None
    """None where the column has no token there."""
    step_b: StepRecord | None = None
    parted: int | None = None
    """Tokens before the first that differs; None while there is none."""
    elsewhere: bool = False
    """True if the cursor is further on, where the two read different texts."""


def pair_of(
    first: tuple[str, ComparedColumn], second: tuple[str, ComparedColumn], parted: int | None
) -> Pair:
    """The steps to compare: those at the cursor of ``first``, or where the two parted before."""
    (a, one), (b, other) = first, second
    at = one.position
    elsewhere = parted is not None and at > parted + 1
    if elsewhere and parted is not None:
        at = parted + 1
    steps = [_step(column, at) for column in (one, other)]
    return Pair(a, b, at, steps[0], steps[1], parted, elsewhere)


def _step(column: ComparedColumn, depth: int) -> StepRecord | None:
    if not 0 < depth <= column.depth:
        return None
    node = column.log.tree.above(column.tip, depth)
    return None if node is None else column.log.nodes.get(node)


@dataclass(frozen=True)
class WhyUI:
    """The pair to speak of, and what was found of it."""

    pair: Pair | None = None
    found: WhyPart | None = None


def draw(view: View, size: Size, ui: WhyUI = WhyUI()) -> Picture:
    """The pane."""
    pair, width = ui.pair, size.width
    if pair is None:
        return Picture([muted("two columns are compared here")])
    remark = f"{pair.a} and {pair.b}"
    if ui.found is None:
        return Picture(wrapped("", 0, width, _nothing_to_compare(pair)), remark=remark)
    prompt = view.prompt_length
    lines = [cut(one, width) for one in why_lines(ui.found, pair, prompt, width)]
    return Picture(lines, remark=f"{remark}, position {prompt + pair.at - 1:,}")


def _nothing_to_compare(pair: Pair) -> str:
    if pair.at == 0:
        return "no token here: n steps all columns"
    if pair.step_a is None or pair.step_b is None:
        return f"{pair.a if pair.step_a is None else pair.b} has no token here"
    return f"{pair.a} and {pair.b} share this token: they are one branch so far"


def why_lines(found: WhyPart, pair: Pair, prompt: int, width: int) -> list[Content]:
    """The verdict, and what it rests on."""
    a, b = pair.a, pair.b
    lines = [_verdict(found, a, b)]
    if pair.elsewhere:
        lines.append(muted("from here on they read different texts: this is where they parted"))
    lines.append(_labelled("drew", _drawn(found, a, b)))
    lines.append(_labelled("settings", muted(_settings(found))))
    lines.append(_labelled("sets", _stage(found.stage, a, b)))
    divergence = Content.assemble(
        f"KL({a}‖{b}) ",
        _bound(found.kl),
        "  total variation ",
        derived(f"{found.total_variation:.4f}"),
    )
    lines.append(_labelled("final", divergence))
    if found.kl.why:
        lines.append(_labelled("", muted(visible(found.kl.why))))
    if isinstance(found.total_variation, Interval):
        lines.append(_labelled("", muted("between: the records do not hold all candidates")))
    if not found.same_dice:
        lines.append(_labelled("dice", _swapped(f"{b} with {a}'s", found.b_with_a, found.a)))
        lines.append(_labelled("", _swapped(f"{a} with {b}'s", found.a_with_b, found.b)))
    return lines


def _labelled(label: str, line: Content) -> Content:
    return muted(label.ljust(_LABEL)) + line


def _verdict(found: WhyPart, a: str, b: str) -> Content:
    """One line: what made them part, or that they do not."""
    if not found.parts:
        alike = found.stage is None and found.total_variation == 0.0
        words = "the same token from the same distribution" if alike else "the same token"
        return Content.styled(f"= {words}", "$success")
    with_a, with_b = found.same_with_dice_of_a, found.same_with_dice_of_b
    sides = ((a, found.how_a), (b, found.how_b))
    forced = [name for name, how in sides if how is How.FORCED]
    greedy = [name for name, how in sides if how is How.GREEDY]
    if forced:
        words = f"forced: {' and '.join(forced)} took a token that somebody chose"
    elif found.by_logits:
        apart = "" if found.drift is None else f", up to {found.drift:.2g} apart"
        words = f"the logits of two passes over one text{apart}: nothing else differs"
    elif greedy:
        words = f"the settings: {' and '.join(greedy)} greedy, whatever the dice"
    elif found.same_dice:
        words = "the settings: the same dice fell on other tokens"
    elif with_a and with_b:
        words = "the dice: with those of either, both draw the same"
    elif with_a is False and with_b is False:
        words = "the settings: the dice of either fall on other tokens"
    elif with_a is None or with_b is None:
        words = "it cannot be told whether the settings or the dice did it"
    else:
        same = a if with_a else b
        words = f"both: with {same}'s dice they draw the same, with the others' not"
    return Content.styled(f"≠ {words}", "$warning bold")


def _drawn(found: WhyPart, a: str, b: str) -> Content:
    sides = []
    for name, token, u in ((a, found.a, found.u_a), (b, found.b, found.u_b)):
        dice = "" if u is None else f" (u {u:.5f})"
        sides.append(Content.assemble(f"{name} ", token_text(token), (dice, "$title")))
    return Content("  ").join(sides)


def _settings(found: WhyPart) -> str:
    if not found.settings:
        return "the same"
    shown = [
        f"{visible(one.name)} {_value(one.a)} → {_value(one.b)}"
        for one in found.settings[:_SETTINGS_NAMED]
    ]
    more = len(found.settings) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _value(value: Any) -> str:
    return "off" if value is None else visible(str(value))


def _stage(stage: StageParting | None, a: str, b: str) -> Content:
    if stage is None:
        return muted("the same after every stage")
    where = "before any stage" if stage.stage == MODEL else f"first at {visible(stage.stage)}"
    parts: list[Content | str] = [f"{where}: {a} {stage.a:,}, {b} {stage.b:,}"]
    for name, tokens in ((a, stage.only_a), (b, stage.only_b)):
        if tokens:
            parts.append(Content.assemble(f"  only {name} ", _named(tokens)))
    return Content.assemble(*parts)


def _named(tokens: tuple[Token, ...]) -> Content:
    return Content(" ").join(token_text(one) for one in tokens)


def _bound(bound: Bound) -> Content:
    text = bound_text(bound)
    return derived(text if text == "∞" else f"{text} nats")


def _swapped(who: str, found: OtherDice, drawn: Token) -> Content:
    """The token that a side would have drawn with the other's dice, or why it is not known."""
    if found.token is None:
        return muted(f"{who}: — {visible(found.why)}")
    same = "the same" if found.token.id == drawn.id else "another"
    return Content.assemble(f"{who}: ", token_text(found.token), (f"  {same}", "$title"))


class WhyPane(Pane):
    """The reasons for which the focused column and another one part."""

    NAME = "Why they part"
    SHORT = "Why"
    HELP = """
The focused column and another one (**v** takes the next) at the cursor, or where they parted
before it. *sets*: the first stage of the sampler after which other candidates are left. *final*:
the distance of the two final distributions: **KL**, and **total variation**, which is the least
share of draws that must differ. *dice*: what each would have drawn with the other's random number,
so that one sees whether the settings or the dice made them part.
"""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._ui = WhyUI()

    def show_pair(self, view: View, pair: Pair | None) -> None:
        """Speak of this pair from now on."""
        ui = WhyUI(pair, _found(pair) if pair is not None else None)
        if ui != self._ui:
            self._ui = ui
            self.show(view)

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, self._ui)


def _found(pair: Pair) -> WhyPart | None:
    a, b = pair.step_a, pair.step_b
    return None if a is None or b is None or a.node == b.node else _why_part(a, b)


_why_part = lru_cache(maxsize=8)(why_part)
"""The pairs of columns looked at in turn need not be compared again."""
