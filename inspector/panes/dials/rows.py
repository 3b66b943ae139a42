"""The dials as a table: the chain in its order, the drafts, then every other dial of the settings.

One row a dial: its place in the chain, its value, where on its range that is, and who set it.
What differs from the record is marked by a sign before its name, and says what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from textual.content import Content

from engine.records.events import Setting
from engine.records.round import DraftSettings
from engine.sampling.chain import PRESETS, Chain
from engine.sampling.stages import DIALS, STAGES, Dial, Stage, Value, default_of, spelled
from engine.text import visible
from inspector.draw.cells import clip, left, right
from inspector.draw.numbers import NOTHING, heading
from inspector.panes.dials.drafts import draft_dials
from inspector.panes.dials.scales import track
from inspector.state.view import View
from inspector.state.whatif import recorded_chain, settings_at, stage_in, value_in

_MUTED = "$text-muted"
_TRIED = "$estimated bold"
_UNASKED = "library default"
"""The source of a value that is in use though nobody asked for it."""


class Sign(StrEnum):
    """Mark of a row: changed, added, removed or off."""

    NONE = " "
    CHANGED = "*"
    ADDED = "+"
    GONE = "✂"
    UNASKED = "!"


@dataclass(frozen=True, slots=True)
class DialRow:
    """One dial. ``place`` is its stage's place in the chain, from 1, on the stage's first row.

    ``was`` is the record's value, None where the record's chain does not have the stage.
    """

    dial: Dial
    stage: str
    place: int | None
    value: Value
    was: Value | None
    source: str
    sign: Sign
    core: bool
    """True if it belongs to the chain's own list, rather than to the rest below it."""
    shown: str = ""
    """The value in words; a dial of the drafts has some, and no stage."""

    @property
    def drafts(self) -> bool:
        """True for a dial of speculative decoding."""
        return not self.stage

    @property
    def turns(self) -> bool:
        """True if keys turn it, rather than that its value has to be written."""
        return self.dial.numeric or self.drafts

    @property
    def origin(self) -> str:
        """The source of the value; for one that was changed, its old value and source."""
        if self.sign is Sign.GONE:
            return f"taken out; was {spelled(self.was or self.value)}"
        if self.sign is Sign.ADDED:
            return "put in"
        if self.sign is Sign.CHANGED:
            change = "moved" if self.was == self.value else f"was {spelled(self.was or 0)}"
            return f"{change} · {self.source}" if self.source else change
        return self.source


def dial_rows(
    chain: Chain, recorded: Chain | None, settings: Mapping[str, Setting]
) -> list[DialRow]:
    """The chain's dials in order, then those of stages taken out, then all the rest."""
    base = recorded if recorded is not None else chain
    moved = _moved(chain, base)
    rows = [
        _row(dial, one, place, base, settings, one.name in moved)
        for place, one in enumerate(chain.stages, start=1)
        for dial in one.dials
        if _shown(one, dial, base)
    ]
    for gone in base.stages:
        if stage_in(chain, gone.name) is None:
            dial = gone.dials[0]
            old = getattr(gone, dial.name)
            rows.append(DialRow(dial, gone.name, None, old, old, "", Sign.GONE, True))
    listed = {row.dial.name for row in rows}
    names = dict.fromkeys([*_in_order(chain.preset), *settings])
    rest = [name for name in names if name in DIALS and name not in listed]
    return rows + [_idle(name, chain, settings) for name in rest if _known(name, chain, settings)]


def _shown(one: Stage, dial: Dial, base: Chain) -> bool:
    """A stage's first dial, and any that somebody has turned."""
    value = getattr(one, dial.name)
    return (
        dial is one.dials[0]
        or value != default_of(type(one), dial)
        or value_in(base, dial.name) not in (None, value)
    )


def _row(
    dial: Dial, one: Stage, place: int, base: Chain, settings: Mapping[str, Setting], moved: bool
) -> DialRow:
    value, was = getattr(one, dial.name), value_in(base, dial.name)
    setting = settings.get(dial.name)
    source = setting.source if setting is not None else ""
    sign = Sign.UNASKED if source == _UNASKED and value != dial.off else Sign.NONE
    if was is None:
        sign = Sign.ADDED
    elif was != value or (moved and dial is one.dials[0]):
        sign = Sign.CHANGED
    shown = place if dial is one.dials[0] else None
    return DialRow(dial, one.name, shown, value, was, source, sign, True)


def _idle(name: str, chain: Chain, settings: Mapping[str, Setting]) -> DialRow:
    """A dial whose stage is not in the chain, or that is as it always is."""
    stage, dial = DIALS[name]
    setting, there = settings.get(name), value_in(chain, name)
    value = there if there is not None else default_of(STAGES[stage], dial)
    source = "off" if value == dial.off else "default"
    if setting is not None and setting.value is not None and there is None:
        value, source = setting.value, setting.source
    return DialRow(dial, stage, None, value, None, source, Sign.NONE, False)


def _known(name: str, chain: Chain, settings: Mapping[str, Setting]) -> bool:
    """True if the preset's stack has the dial at all."""
    return name in settings or name not in PRESETS[chain.preset].lacks


def _in_order(preset: str) -> list[str]:
    return [dial.name for stage in PRESETS[preset].order for dial in STAGES[stage].dials]


def _moved(chain: Chain, base: Chain) -> set[str]:
    """Stages that do not stand where they stood: few, though others would explain it as well."""
    there = [one.name for one in base.stages]
    names = [one.name for one in chain.stages if one.name in there]
    blocks = SequenceMatcher(None, there, names, autojunk=False).get_matching_blocks()
    staying = {name for block in blocks for name in names[block.b : block.b + block.size]}
    return set(names) - staying


# --- lines ------------------------------------------------------------------------------------

NAME, VALUE = 20, 9
_DRAFTS = " drafts, from the next round on"
_REST = " other dials, off or as they come"
_LEAST = 8
"""Cells from which the source is shown at all."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths in cells. The row's first cell is the selection's, the next two the place."""

    name: int
    buttons: bool
    value: int
    track: int
    source: int

    @property
    def minus(self) -> int:
        """The cell of ``−``; -1 without buttons."""
        return 5 + self.name + 1 if self.buttons else -1

    @property
    def plus(self) -> int:
        return self.minus + self.value + 3 if self.buttons else -1

    @property
    def value_at(self) -> int:
        return 5 + self.name + (3 if self.buttons else 1)

    @property
    def track_at(self) -> int:
        return self.plus + 2

    def editor(self, dial: Dial) -> int:
        """Cells of a value that is being written: a text has the track's as well."""
        return self.value if dial.numeric else self.value + 2 * self.buttons + self.track


def columns(width: int) -> Columns:
    """The columns at a width: the name and the value first, then who set it, then the rest."""
    room = width - 5 - NAME - 1 - VALUE - 1
    if room < _LEAST:
        return Columns(max(4, NAME + min(room, 0)), False, VALUE, 0, 0)
    buttons = room >= 4 + 12
    room -= 4 if buttons else 0
    length = max(0, min(24, room - 24 - 1)) if room >= 24 + 1 + 8 else 0
    return Columns(NAME, buttons, VALUE, length, max(0, room - length - (1 if length else 0)))


def dial_line(row: DialRow, at: Columns, typed: str | None = None) -> Content:
    """One row. ``typed`` is what is being written in place of the value."""
    place = "" if row.place is None else f"{row.place}"
    tried = row.sign in (Sign.CHANGED, Sign.ADDED, Sign.GONE)
    muted = row.sign is Sign.GONE or not row.core
    name_style = "$cut $cut-style" if row.sign is Sign.GONE else _MUTED if muted else ""
    style = _TRIED if tried else "$warning bold" if row.sign is Sign.UNASKED else name_style
    parts = [
        (f" {right(place, 2)} ", _MUTED),
        (row.sign, style),
        (left(row.dial.name, at.name) + " ", _TRIED if tried and not muted else name_style),
    ]
    minus, plus = ("− ", " +") if row.turns else ("  ", "  ")
    if not at.buttons:
        minus, plus = "", ""
    elif row.place is None and not row.core:
        minus = "  "
    parts.append((minus, _MUTED))
    if typed is not None:
        room = at.editor(row.dial)
        parts.append((left(f"{visible(typed)[-(room - 1) :]}▏", room), "reverse"))
        if not row.dial.numeric:
            return Content.assemble(*parts)
    else:
        parts.append((_value(row, at.value), style if tried else name_style or "bold"))
    parts.append((f"{plus} ", _MUTED))
    if at.track:
        drawn = track(row.dial, row.value, row.was, at.track if row.core else 0).ljust(at.track)
        parts.append((f"{drawn} ", "$estimated" if tried else "$bar" if row.core else "$cut"))
    origin = f"! {row.origin}" if row.sign is Sign.UNASKED else row.origin
    parts.append((clip(visible(origin), at.source), style if tried else _MUTED))
    return Content.assemble(*parts)


def _value(row: DialRow, cells: int) -> str:
    if row.drafts:
        return right(clip(visible(row.shown), cells), cells)
    if row.dial.numeric:
        return right(spelled(row.value), cells)
    return left(visible(str(row.value)), cells) if row.value else right(NOTHING, cells)


def titles(at: Columns, width: int) -> Content:
    """The names of the columns."""
    buttons = "  " if at.buttons else ""
    text = f"  {'#':>1}  {left('dial', at.name)} {buttons}{right('value', at.value)}{buttons} "
    text += left("range", at.track) + " " if at.track else ""
    return Content.styled(clip(f"{text}from", width), "$title").stylize("underline")


def stage_line(name: str, width: int) -> Content:
    """A stage that could be put in."""
    about = STAGES[name].dials[0].summary
    return Content.assemble(
        "   ", (left(name, NAME) + " ", "bold"), (clip(about, max(0, width - 4 - NAME)), _MUTED)
    )


# --- all rows -----------------------------------------------------------------------------------


def chain_in(view: View) -> Chain | None:
    """The chain whose dials are shown: what is tried, else what is recorded."""
    return view.what_if or recorded_chain(view)


@dataclass(frozen=True, eq=False)
class DialTable:
    """Rows and headings in the order of the screen's lines."""

    entries: tuple[DialRow | str, ...] = ()

    @classmethod
    def of(cls, view: View, drafting: DraftSettings | None = None) -> DialTable:
        """The table at the cursor; empty where there is no chain to turn.

        ``drafting``: drafts that the engine has been asked for and not told of yet.
        """
        chain, settings = chain_in(view), settings_at(view)
        if chain is None:
            return cls()
        dials = settings.dials if settings is not None else {}
        rows = dial_rows(chain, recorded_chain(view), dials)
        core = sum(row.core for row in rows)
        entries: list[DialRow | str] = [*rows[:core]]
        if view.settings is not None:
            found = draft_dials(drafting or view.settings.draft)
            entries.append(_DRAFTS)
            entries += (
                DialRow(one.dial, "", None, one.value, None, "", Sign.NONE, True, one.shown)
                for one in found
            )
        if rows[core:]:
            entries += [_REST, *rows[core:]]
        return cls(tuple(entries))

    def at(self, line: int) -> DialRow | None:
        """The dial in a line; None for a heading, and beyond the last."""
        found = self.entries[line] if 0 <= line < len(self.entries) else None
        return found if isinstance(found, DialRow) else None

    def is_heading(self, line: int) -> bool:
        """True for a line that is no dial's."""
        return 0 <= line < len(self.entries) and isinstance(self.entries[line], str)

    def line_of(self, dial: str) -> int | None:
        for line, entry in enumerate(self.entries):
            if isinstance(entry, DialRow) and entry.dial.name == dial:
                return line
        return None

    def lines(self, width: int, writing: str, typed: str | None) -> list[Content]:
        """All lines; ``typed`` stands in place of the value of the dial ``writing``."""
        at = columns(width)
        return [
            heading(entry, width)
            if isinstance(entry, str)
            else dial_line(entry, at, typed if entry.dial.name == writing else None)
            for entry in self.entries
        ]
