"""A column's text: running, or a row a token so that columns stand aligned; partings are marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.records.vocabulary import TokenKind
from inspector.draw.cells import kind_style, token_parts
from inspector.draw.numbers import FAINT, cut, padded
from inspector.panes.transcript.pane import Piece, Transcript, transcript
from inspector.panes.transcript.text_layout import TextLayout, level, shade
from inspector.state.columns import ColumnView

PARTS = "≠"
_PARTS = "$warning bold"
_CURSOR = "$cursor-token-text on $cursor-token $cursor-token-style"
_PLACE, _SURPRISAL = 5, 6


@dataclass(frozen=True, eq=False)
class ColumnText(Transcript):
    """Running text with a mark before the token ``parting`` of the layout."""

    parting: int | None = None

    def _parts(self, number: int) -> bool:
        return self.parting is not None and any(
            run.index == self.parting and run.first for run in self.layout.lines[number]
        )

    def _settled(self, index: int) -> bool:
        return super()._settled(index) and not self._parts(index)

    def pieces(self, number: int) -> Iterator[Piece]:
        begins = self._parts(number)
        for piece in super().pieces(number):
            if begins and piece.index == self.parting:
                yield Piece(PARTS, _PARTS, piece.index)
                begins = False
            yield piece


def running(
    view: ColumnView, width: int, layout: TextLayout | None, parting: int | None
) -> ColumnText | None:
    """The column's text at ``width``; ``parting`` is the depth of its first token that differs."""
    # A cell is left for the mark.
    found = transcript(view, max(1, width - 1), layout)
    if found is None:
        return None
    at = None if parting is None else found.layout.prompt_count + parting
    return ColumnText(found.layout, found.cursor, found.end, found.thinking, at)


@dataclass(frozen=True, eq=False)
class TokenRows:
    """A row a token: position, a mark where the other column has another one, token, surprisal."""

    view: ColumnView
    width: int
    other: Sequence[int] = ()
    """Ids of the column that this one is held against, from the first token on."""
    parting: int | None = None

    def __len__(self) -> int:
        return len(self.view.branch)

    def __getitem__(self, row: int) -> Content:
        branch = self.view.branch
        token, figures = branch.token(row), branch.figures[row]
        surprisal = -float(figures["raw_logprob"])
        differs = row < len(self.other) and self.other[row] != token.id
        mark = PARTS if row == self.parting or differs else " "
        here = row + 1 == len(self.view.path)
        kind = kind_style(token.kind)
        style = _CURSOR if here else f"{kind} {shade(level(surprisal))}".strip()
        unusual = token.kind not in (TokenKind.NORMAL, TokenKind.ADDED)
        shown = Content.assemble(*token_parts(token, style if not unusual or here else ""))
        place = f"{self.view.prompt_length + row:>{_PLACE},}"
        room = max(1, self.width - _PLACE - 1 - _SURPRISAL)
        return Content.assemble(
            (place, FAINT),
            (mark, _PARTS if row == self.parting else "$warning"),
            padded(cut(shown, room), room),
            (f"{surprisal:>{_SURPRISAL}.2f}", "$title"),
        )
