"""The dials' rows at a view, with a heading between the chain's own and all others."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from engine.sampling.chain import Chain
from inspector.panes.dials.rows import DialRow, columns, dial_line, dial_rows, rest_heading
from inspector.state.view import View
from inspector.state.whatif import recorded_chain, settings_at


def chain_in(view: View) -> Chain | None:
    """The chain whose dials are shown: what is tried, else what is recorded."""
    return view.what_if or recorded_chain(view)


@dataclass(frozen=True, eq=False)
class DialTable:
    """Rows by their place on the screen. ``heading`` is the heading's; -1 without one."""

    rows: tuple[DialRow, ...] = ()
    heading: int = -1

    @classmethod
    def of(cls, view: View) -> DialTable:
        """The table at the cursor; empty where there is no chain to turn."""
        chain, settings = chain_in(view), settings_at(view)
        if chain is None:
            return cls()
        dials = settings.dials if settings is not None else {}
        rows = dial_rows(chain, recorded_chain(view), dials)
        core = sum(row.core for row in rows)
        return cls(tuple(rows), core if core < len(rows) else -1)

    def at(self, line: int) -> DialRow | None:
        """The dial in a line; None for the heading, and beyond the last."""
        if line == self.heading:
            return None
        index = line - (0 <= self.heading < line)
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def line_of(self, dial: str) -> int | None:
        """The line of a dial."""
        for index, row in enumerate(self.rows):
            if row.dial.name == dial:
                return index + (0 <= self.heading <= index)
        return None

    def lines(self, width: int, writing: str, typed: str | None) -> list[Content]:
        """All lines; ``typed`` stands in place of the value of the dial ``writing``."""
        at = columns(width)
        lines = [
            dial_line(row, at, typed if row.dial.name == writing else None) for row in self.rows
        ]
        if self.heading >= 0:
            lines.insert(self.heading, rest_heading(width))
        return lines
