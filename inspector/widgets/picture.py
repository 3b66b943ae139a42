"""The lines, titles and wishes of a pane for one view and one size, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.content import Content


class Rows(Protocol):
    """Lines that are made when asked for: a list will do, and so will a whole vocabulary."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Content: ...


class Want:
    """Something that a picture lacks, and that would take a while to be had."""


DENSE = Want()
"""The whole logits of the cursor's step."""

NEXT = Want()
"""The distribution that the token after the cursor will be drawn from."""

CEILINGS = Want()
"""The ceilings of this machine, measured while nothing else runs."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A pane as it is to be seen. Each line has at most as many cells as the place is wide."""

    rows: Rows
    header: Sequence[Content] = ()
    """Lines that stay at the top while the rows scroll, and at the bottom."""
    footer: Sequence[Content] = ()
    pinned: Sequence[int] = ()
    """The rows that the footer's first lines are; there they are selected and clicked as well."""
    remark: str | Content = ""
    """Stands behind the name in the title; ``subtitle`` in the border below."""
    subtitle: str | Content = ""
    select: int | None = None
    """The row to select; None leaves the selection where it is."""
    follow: int | None = None
    """The row that belongs to the cursor; brought into sight when it changes."""
    top: bool = False
    """True if the rows are to be seen from the first on: they are those of something else."""
    tries: bool = False
    """True if this is what a chain to try would do, and not the record."""
    wants: Sequence[Want] = ()

    def room(self, height: int) -> int:
        """Number of rows in sight between the header and the footer."""
        return max(1, height - len(self.header) - len(self.footer))
