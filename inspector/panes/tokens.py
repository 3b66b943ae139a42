"""The tokens as a table: position, id, kind, who put it there, surprisal, bytes and text."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from textual.content import Content
from textual.geometry import Size

from engine.records.prompt import Origin, PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import StepPath
from engine.records.vocabulary import Token, TokenKind
from engine.run.tree import ROOT
from inspector.draw.cells import GLYPHS, hex_bytes, kind_style, left, right, token_parts
from inspector.draw.numbers import FAINT, Mark
from inspector.messages import GoTo
from inspector.panes.waiting import about
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

OUTPUT = "output"
CURSOR = "●"
_MUTED = "$text-muted"
_AHEAD = FAINT
_TEXT_AT_LEAST = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column before the text: its title, its width, and where its words stand."""

    title: str
    cells: int
    to_right: bool = False

    def cell(self, text: str) -> str:
        """``text`` in this column, and the space after it."""
        return (right if self.to_right else left)(text, self.cells) + " "


POSITION = Column("pos", 6, True)
ID = Column("id", 6, True)
KIND = Column("kind", 9)
ORIGIN = Column("origin", 9)
NATS = Column(f"nats {Mark.DERIVED}", 6, True)
RANK = Column("rank", 6, True)
BYTES = Column("bytes", 12)
WIDE_BYTES = Column("bytes", 24)

_BY_WORTH = (ID, POSITION, KIND, ORIGIN, NATS, BYTES, RANK)
"""Columns to keep where not all have room, the most telling first."""
_IN_ORDER = (POSITION, ID, KIND, ORIGIN, NATS, RANK, BYTES)


def fitting(by_worth: Sequence[Column], room: int) -> tuple[list[Column], int]:
    """The first of these columns that fit in ``room`` cells, and the cells left over."""
    ends = list(accumulate(column.cells + 1 for column in by_worth))
    kept = bisect_right(ends, room)
    return list(by_worth[:kept]), room - (ends[kept - 1] if kept else 0)


def columns(width: int) -> tuple[Column, ...]:
    """The columns that fit beside the text at this width."""
    kept, room = fitting(_BY_WORTH, width - 1 - _TEXT_AT_LEAST)
    roomy = room >= WIDE_BYTES.cells - BYTES.cells + _TEXT_AT_LEAST
    return tuple(
        WIDE_BYTES if column is BYTES and roomy else column
        for column in _IN_ORDER
        if column in kept
    )


def heading(width: int) -> Content:
    """The columns' titles."""
    titles = "".join(column.cell(column.title) for column in columns(width))
    return Content.styled(f" {titles}text", "$title").truncate(width, ellipsis=True)


@dataclass(frozen=True, eq=False)
class TokenRows:
    """The rows of the prompt and one branch, made one by one when they are asked for."""

    prompt: PromptRecord
    steps: StepPath
    cursor: int
    """The index of the cursor's row; at the root, of the prompt's last token."""
    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.prompt.tokens) + len(self.steps)

    def node(self, row: int) -> int:
        """The node to go to for a row: the root for all of the prompt."""
        at = row - len(self.prompt.tokens)
        return ROOT if at < 0 else self.steps.node(at)

    def __getitem__(self, row: int) -> Content:
        at = row - len(self.prompt.tokens)
        step = self.steps[at] if at >= 0 else None
        token = self.prompt.tokens[row] if step is None else step.token
        origin = OUTPUT if step is not None else self.prompt.origins[row].value
        style = "" if row <= self.cursor or step is None else _AHEAD
        cells = self._cells(row, token, origin, step)
        parts = [(" ", "")]
        for column in self.columns:
            text = column.cell(cells[column.title])
            parts.append((text, self._style(column, token, origin) or style))
        line = Content.assemble(*parts, *token_parts(token, style))
        if row == self.cursor:
            line = Content.styled(CURSOR, "$bar-drawn") + line[1:]
            return line.stylize_before("bold")
        return line

    def _cells(
        self, row: int, token: Token, origin: str, step: StepRecord | None
    ) -> dict[str, str]:
        return {
            "pos": f"{row}",
            "id": f"{token.id}",
            "kind": f"{GLYPHS[token.kind]} {token.kind.value}",
            "origin": origin,
            NATS.title: "" if step is None else f"{step.surprisal:.2f}",
            "rank": "" if step is None else f"{step.rank}",
            "bytes": hex_bytes(token.bytes),
        }

    def _style(self, column: Column, token: Token, origin: str) -> str:
        if column is KIND and token.kind is not TokenKind.NORMAL:
            return kind_style(token.kind)
        if column is ORIGIN and origin in (Origin.TEMPLATE, Origin.TOKENIZER):
            return kind_style(TokenKind.ADDED)
        return _MUTED if column in (KIND, BYTES, WIDE_BYTES) else ""


def token_rows(view: View, width: int) -> TokenRows | None:
    """The table at this width; None before there is a prompt."""
    if view.prompt is None:
        return None
    cursor = view.prompt_length + len(view.path) - 1
    return TokenRows(view.prompt, view.branch, cursor, columns(width))


@lru_cache(maxsize=4)
def _origins(prompt: PromptRecord) -> Counter[Origin]:
    return Counter(prompt.origins)


def counts(view: View) -> str:
    """Number of tokens, and where they come from."""
    if view.prompt is None:
        return ""
    origins = _origins(view.prompt)
    parts = [
        f"{origins[origin]:,} {word}"
        for origin, word in (
            (Origin.USER, "user"),
            (Origin.TEMPLATE, "template"),
            (Origin.TOKENIZER, "tokenizer"),
        )
        if origins[origin] or origin is Origin.USER
    ]
    total = f"prompt {len(view.prompt.tokens):,}"
    if len(parts) > 1:
        total += f" = {' + '.join(parts)}"
    return f"{total} · output {len(view.path):,}"


WILL_BE = "The tokens of the prompt and of the output will be here, with id, bytes and kind."


def draw(view: View, size: Size, before: int | None = None) -> Picture:
    """The pane. ``before``: the cursor's row in the picture before; another one is selected."""
    header = [heading(size.width)] if size.height > 1 else []
    rows = token_rows(view, size.width)
    if rows is None:
        return Picture(about(WILL_BE, size.width), header)
    return Picture(
        rows,
        header,
        subtitle=counts(view),
        select=rows.cursor if rows.cursor != before else None,
        follow=rows.cursor,
    )


class TokensPane(Pane):
    """Every token, one a row. Enter or a double click on a row posts ``GoTo`` with its node."""

    NAME = "Tokens"
    SELECTABLE = True

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, self.drawn.follow)

    def action_choose(self) -> None:
        if isinstance(self.drawn.rows, TokenRows):
            self.post_message(GoTo(self.drawn.rows.node(self.selected)))
