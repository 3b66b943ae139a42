"""The breakpoints and watches as a list, and the names that a condition may use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size

from engine.conditions.condition import Unavailable
from engine.conditions.figures import NAME_GROUPS, Name
from engine.conditions.functions import FUNCTION_GROUPS, Function
from engine.conditions.moment import Moment
from engine.text import visible
from inspector.draw.cells import left
from inspector.draw.numbers import MUTED, cut, heading, right
from inspector.draw.numbers import Mark as Sign
from inspector.state.breakpoints import Mark, Watch, Watched
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from inspector.widgets.watches import SIGNS, STYLES, sign, value_text

_KIND = 6
_HITS = 6
_VALUE = 14
_NAME = 24
_SHORT_NAME = 20
_UNIT = 7
_KNOWN_BY = {"ms": Sign.MEASURED, "nats": Sign.DERIVED, "nats²": Sign.DERIVED}
"""Units of figures, with the mark of each; other values are counts, ids, or drawn."""
_WORD = re.compile(r"[A-Za-z_]\w*$")


# --- the list ----------------------------------------------------------------------------------


def draw_points(watched: Watched, size: Size) -> Picture:
    """Breakpoints first, then watches, one a row."""
    width = size.width
    if not watched:
        return Picture(
            [
                Content.styled(" None yet. Type a condition below, such as", MUTED),
                Content("   entropy > 3 and margin < 0.1"),
                Content('   token == " Paris"'),
                Content('   cut("top_p", " Lyon")'),
            ]
        )
    title = f" {'':{_KIND}}{'hits':>{_HITS}}  condition"
    marks = [_mark_row(one, width, at_prompt=watched.at_prompt) for one in watched.marks]
    signs = "   ".join(f"{one} {meaning}" for one, meaning in SIGNS.items())
    return Picture(
        marks + [_watch_row(one, width) for one in watched.watches],
        [cut(Content.styled(title, "$title"), width)],
        [cut(Content.styled(f" {signs}", MUTED), width)] if marks else (),
    )


def _mark_row(one: Mark, width: int, *, at_prompt: bool) -> Content:
    point = one.point
    shown = sign(one, at_prompt=at_prompt)
    notes = f"the next {point.ignore:,} pass" if point.ignore else ""
    if point.untold and not point.told:
        notes = f"never told: {point.untold}"
    elif point.untold and not point.enabled:
        notes = point.untold
    end = Content.styled(f"  {visible(notes)}", MUTED) if notes else Content("")
    start = Content.assemble(
        " ",
        (shown, STYLES[shown]),
        (f" {point.number:<{_KIND - 2}}", MUTED),
        f"{point.hits:>{_HITS},}  ",
        (visible(point.text), "" if point.enabled else MUTED),
    )
    return cut(start + end, width)


def _watch_row(one: Watch, width: int) -> Content:
    value = value_text(one.value)
    if isinstance(one.value, Unavailable):
        value += Content.styled(f"  {visible(str(one.value))}", MUTED)
    start = f" {'watch':<{_KIND}}{'':{_HITS}}  "
    text = Content.assemble((start, MUTED), f"{visible(one.text)} = ")
    return cut(text + value, width)


class PointsPane(Pane):
    """The breakpoints and watches; ``chosen`` is the selected one."""

    NAME = "Breakpoints and watches"
    SELECTABLE = True

    watched: Watched = Watched()

    def look(self, watched: Watched) -> None:
        self.watched = watched
        self.rebuild()

    def picture(self, view: View, size: Size) -> Picture:
        return draw_points(self.watched, size)

    @property
    def chosen(self) -> Mark | Watch | None:
        entries: tuple[Mark | Watch, ...] = (*self.watched.marks, *self.watched.watches)
        return entries[self.selected] if self.selected < len(entries) else None


# --- the names ---------------------------------------------------------------------------------


def word_at_end(text: str) -> str:
    """The name that is being typed at the end of ``text``."""
    found = _WORD.search(text)
    return found[0] if found else ""


def draw_names(word: str, moment: Moment | None, size: Size) -> Picture:
    """Every name and function, those that begin with ``word`` alone if any do, with values."""
    groups: dict[str, Sequence[Name | Function]] = {**NAME_GROUPS, **FUNCTION_GROUPS}
    every = [one for group in groups.values() for one in group]
    near = [one for one in every if one.name.startswith(word)] if word else []
    lines = [_name_row(one, moment, size.width) for one in near]
    for title, entries in () if near else groups.items():
        lines.append(heading(title, size.width))
        lines += [_name_row(one, moment, size.width) for one in entries]
    return Picture(lines)


def _name_row(one: Name | Function, moment: Moment | None, width: int) -> Content:
    name = one.signature if isinstance(one, Function) else one.name
    room = _NAME if width >= 100 else _SHORT_NAME
    start = Content.styled(f"{left(name, room)} ", "bold")
    value = Content("") if isinstance(one, Function) else _value(one, moment)
    unit = f"{one.unit} {_KNOWN_BY[one.unit]}" if one.unit in _KNOWN_BY else one.unit
    middle = right(value, _VALUE) + Content.styled(f" {left(unit, _UNIT)} ", MUTED)
    return cut(start + middle + Content.styled(visible(one.definition), MUTED), width)


def _value(one: Name, moment: Moment | None) -> Content:
    if moment is None:
        return Content("")
    try:
        return value_text(one.read(moment))
    except Unavailable as reason:
        return value_text(reason)


class NamesPane(Pane):
    """Names that a condition may use; those alone that begin like what is being typed."""

    NAME = "What a condition may use"
    word = ""
    moment: Moment | None = None

    def look(self, word: str, moment: Moment | None) -> None:
        if word != self.word:
            self.scroll_to(y=0, animate=False, force=True)
        self.word, self.moment = word, moment
        self.rebuild()

    def picture(self, view: View, size: Size) -> Picture:
        return draw_names(self.word, self.moment, size)
