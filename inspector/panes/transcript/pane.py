"""The transcript: the prompt and what was generated, as tokens in running text.

Each token's first letter is underlined, which shows where tokens begin without taking room; ``t``
puts marks between them instead, for terminals that do not underline. A token that was forced is
underlined as a whole. Spaces are not underlined: a token of nothing else begins with ``␣``.
Before the accepted drafts of a speculative round, which are italic, stands ``✓``, before the
correction ``↻`` and before the bonus ``+``; with ``t`` before each token.

Generated tokens stand on a shade for their surprisal. A character made of several tokens is drawn
once, when its last byte is there, and belongs to the token that completed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size

from engine.records.step import How
from engine.records.vocabulary import TokenKind
from engine.text import visible
from inspector.draw.cells import chop, hex_bytes, kind_style, token_text
from inspector.draw.numbers import FAINT, Mark
from inspector.messages import GoTo
from inspector.panes.transcript.text_layout import (
    BOLD_FROM,
    THRESHOLDS,
    Run,
    Sign,
    TextLayout,
    shade,
)
from inspector.state.account import NOT_THINKING, thinking_of
from inspector.state.loops import in_words, loop_at
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

OPENS, CLOSES = "▐", "▌"
SPACE = "␣"
_FORCED = "underline italic"
_THINKING = "italic"
_CURSOR = "$cursor-token-text on $cursor-token $cursor-token-style"
_MARK = "$cursor-token"
_MUTED = "$text-muted"
_ACCEPTED = "italic"
_ROUND_KEY = Content.assemble(
    ("✓", FAINT),
    ("accepted", f"{_MUTED} {_ACCEPTED}"),
    (" ↻", FAINT),
    ("corrected", _MUTED),
    (" +", FAINT),
    ("bonus", _MUTED),
)
_SHOWN = 4096
"""Characters that are shown of a prompt before it is read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a drawn line in one style, and the token it belongs to."""

    text: str
    style: str
    index: int


@dataclass(frozen=True, eq=False)
class Transcript:
    """The lines of a layout as they look with the cursor on token ``cursor``.

    At the root the cursor is between two tokens: half a token after the prompt's last one.
    """

    layout: TextLayout
    cursor: float
    end: str = ""
    """The reason for which the run ends here: a last line of its own."""
    thinking: NDArray[np.bool_] = field(default_factory=lambda: NOT_THINKING)
    """Truth value for each token of the output: part of a thinking span."""

    def __len__(self) -> int:
        return len(self.layout.lines) + bool(self.end)

    def __getitem__(self, index: int) -> Content:
        if index == len(self.layout.lines) and self.end:
            return Content.styled(self.end, f"{_MUTED} italic")
        if not self._settled(index):
            return self._line(index)
        line = self.layout.lines[index]
        before = self.layout.settled.get(index)
        if before is None or before[0] is not line:
            before = self.layout.settled[index] = line, self._line(index)
        return before[1]

    def _settled(self, index: int) -> bool:
        """True if all of the line lies before the cursor: it looks the same wherever that goes."""
        if index >= self.cursor_line or len(self.thinking):
            return False
        return not self.layout.lines[index] or self.layout.lines[index][-1].index < self.cursor

    def _line(self, index: int) -> Content:
        return Content.assemble(*((one.text, one.style) for one in self.pieces(index)))

    @property
    def cursor_line(self) -> int:
        """The line where the cursor's token ends, or where the next token will stand."""
        line = self.layout.line_of[int(self.cursor)]
        between = self.cursor != int(self.cursor)
        if between and [one.sign for one in self.layout.lines[line][-1:]] == [Sign.NEWLINE]:
            return line + 1
        return line

    def pieces(self, number: int) -> Iterator[Piece]:
        """Line ``number`` from left to right."""
        line, cursor = self.layout.lines[number], self.cursor
        # A token without cells of its own has a mark all the same, where its cells would be.
        bare = number == self.cursor_line and not any(self._under_cursor(run) for run in line)
        for at, run in enumerate(line):
            if bare and run.index > cursor:
                yield Piece(OPENS + CLOSES, _MARK, int(cursor))
                bare = False
            if not self._under_cursor(run):
                yield from self._run(run)
                continue
            if run.first:
                yield Piece(OPENS, _MARK, run.index)
            yield Piece(run.text, _CURSOR, run.index)
            if not self._goes_on(number, at):
                yield Piece(CLOSES, _MARK, run.index)
        if bare:
            yield Piece(OPENS + CLOSES, _MARK, int(cursor))

    def _under_cursor(self, run: Run) -> bool:
        return run.index == self.cursor and run.sign in (Sign.NONE, Sign.NEWLINE)

    def _goes_on(self, number: int, at: int) -> bool:
        """True if the token of a line's run ``at`` has more cells after it."""
        line = self.layout.lines[number]
        following = [
            *line[at + 1 : at + 2],
            *(self.layout.lines[number + 1 : number + 2] or [[]])[0][:1],
        ]
        return bool(following) and following[0].index == line[at].index

    def _thinks(self, index: int) -> bool:
        at = index - self.layout.prompt_count
        return 0 <= at < len(self.thinking) and bool(self.thinking[at])

    def _run(self, run: Run) -> Iterator[Piece]:
        item = self.layout.items[run.index]
        ahead = run.index > self.cursor
        style = f"{kind_style(item.token.kind)} {FAINT}" if ahead else item.style
        if run.sign is not Sign.NONE:
            style = FAINT
        elif item.came is Sign.ACCEPTED:
            style = f"{style} {_ACCEPTED}"
        if run.sign is Sign.NONE and self._thinks(run.index):
            style = f"{style} {_THINKING}"
        spaces, head = 0, 0
        if run.first and not self.layout.boundaries:
            spaces = len(run.text) - len(run.text.lstrip(" "))
            head = min(spaces + 1, len(run.text))
            while head < len(run.text) and not cell_len(run.text[head]):
                head += 1  # an accent stays with its letter
        if spaces:
            blank = SPACE + run.text[1:spaces] if head == spaces else run.text[:spaces]
            yield Piece(blank, style, run.index)
        rest = style
        if item.forced and run.sign is Sign.NONE:
            rest, head = f"{style} {_FORCED}", spaces
        if run.text[spaces:head]:
            yield Piece(run.text[spaces:head], f"{style} underline", run.index)
        if run.text[head:]:
            yield Piece(run.text[head:], rest, run.index)

    def token_at(self, number: int, x: int) -> int | None:
        """The index of the token at cell ``x`` of line ``number``, if there is one."""
        edge = 0
        for one in self.pieces(number) if number < len(self.layout.lines) else ():
            edge += cell_len(one.text)
            if x < edge:
                return one.index
        return None


def transcript(
    view: View, width: int, layout: TextLayout | None = None, *, boundaries: bool = False
) -> Transcript | None:
    """The transcript at ``width``; ``layout`` is the last one, built upon where it still holds."""
    prompt = view.prompt
    if prompt is None:
        return None
    if layout is None or not layout.serves(prompt, width, boundaries):
        layout = TextLayout(prompt, width, boundaries=boundaries)
    layout.show(view.branch)
    step, outputs = view.step, len(view.path)
    end = f"■ {step.stop.detail}" if step is not None and step.stop and not view.ahead else ""
    place = layout.prompt_count + outputs - (1 if outputs else 0.5)
    return Transcript(layout, place, end, thinking_of(view))


def not_read(text: str, width: int) -> list[Content]:
    """A prompt that is not read yet."""
    if not text:
        return [Content.styled("no prompt yet", _MUTED)]
    text = text[:_SHOWN] + "…" * (len(text) > _SHOWN)
    shown = [part for line in text.split("\n") for part in chop(visible(line), width) or [""]]
    state = Content.styled("not yet tokens: they come with the model", f"{_MUTED} italic")
    return [*(Content.styled(line, _MUTED) for line in shown), state.truncate(width, ellipsis=True)]


def legend(
    width: int,
    *,
    boundaries: bool = False,
    colour: bool = True,
    forced: bool = False,
    rounds: bool = False,
    thinking: bool = False,
) -> Content:
    """The shades with the surprisal each begins at, and the other marks as far as they fit."""
    if colour:
        scale = [Content.styled(f"surprisal, nats {Mark.DERIVED} ", _MUTED)]
        for index, lowest in enumerate((0.0, *THRESHOLDS)):
            scale.append(Content.styled(f" {lowest:g} ".replace(" 0.", " ."), shade(index)))
        scale.append(Content.styled("+", _MUTED))
    else:
        least = f"surprisal of {THRESHOLDS[BOLD_FROM - 1]:g} nats or more"
        scale = [Content.styled("bold", "bold"), Content.styled(f" {least}", _MUTED)]
    edge = (Sign.BOUNDARY, FAINT) if boundaries else ("t", f"{_MUTED} underline")
    token = ("token", _MUTED) if boundaries else ("oken", _MUTED)
    extras = [
        *([_ROUND_KEY] if rounds else []),
        Content.assemble((OPENS, _MARK), ("cursor", _CURSOR), (CLOSES, _MARK)),
        *([Content.styled("forced", f"{_MUTED} {_FORCED}")] if forced else []),
        *([Content.styled("thinking", _THINKING)] if thinking else []),
        Content.assemble(edge, token, (" start", _MUTED)),
        Content.styled("ahead", FAINT),
    ]
    line = Content.assemble(*scale)
    for extra in extras:
        if line.cell_length + 2 + extra.cell_length <= width:
            line = line + "  " + extra
    return line.truncate(width, ellipsis=True)


def cursor_info(view: View) -> Content:
    """The cursor's token: place, id, bytes where it is no whole character, surprisal."""
    if view.prompt is None:
        return Content("")
    count = len(view.prompt.tokens)
    step = view.step
    if step is None:
        return Content(f"prompt, {count:,} token{'' if count == 1 else 's'}")
    parts = [f"position {step.position:,}", f"id {step.token.id}"]
    if step.token.kind is TokenKind.BYTE:
        parts.append(f"bytes {hex_bytes(step.token.bytes)}")
    parts += ["forced"] if step.draw.how is How.FORCED else []
    parts += ["thinking"] if thinking_of(view)[len(view.path) - 1 :][:1].any() else []
    parts += [f"{step.surprisal:.2f} nats {Mark.DERIVED}", f"rank {step.rank:,}"]
    return Content.assemble(" · ".join(parts) + " · ", token_text(step.token))


@dataclass(frozen=True, eq=False)
class TranscriptUI:
    """State of the pane: how beginnings of tokens are shown, and the layout to build upon."""

    boundaries: bool = False
    colour: bool = True
    """False where no shade is seen."""
    layout: TextLayout | None = None
    """The one of the picture before, which is of no use after this one."""


def draw(view: View, size: Size, ui: TranscriptUI = TranscriptUI()) -> Picture:
    """The pane."""
    width, marks = size.width, ui.boundaries
    rows = transcript(view, width, ui.layout, boundaries=marks)
    forced = rows is not None and bool(view.branch.figures["forced"].any())
    rounds = rows is not None and bool(view.branch.figures["came"].any())
    thinks = rows is not None and bool(rows.thinking.any())
    key = legend(
        width,
        boundaries=marks,
        colour=ui.colour,
        forced=forced,
        rounds=rounds,
        thinking=thinks,
    )
    header = [key] if size.height >= 3 else []
    if rows is None:
        return Picture(not_read(view.log.asked, width), header)
    loop = loop_at(view)
    return Picture(
        rows,
        header,
        remark="" if loop is None else Content.styled(in_words(loop), "$warning bold"),
        subtitle=cursor_info(view),
        # At the end, show why the run ended as well.
        follow=rows.cursor_line + bool(rows.end),
    )


class TranscriptPane(Pane):
    """The text so far. Posts ``GoTo`` with the node of a token that is clicked."""

    NAME = "Transcript"
    SHORT = "Text"

    BINDINGS = [
        Binding(
            "t",
            "boundaries",
            "Token marks",
            show=False,
            id="transcript.boundaries",
            tooltip="Show where tokens begin by marks instead of underlines",
        )
    ]

    _boundaries = False

    @property
    def _rows(self) -> Transcript | None:
        return self.drawn.rows if isinstance(self.drawn.rows, Transcript) else None

    def picture(self, view: View, size: Size) -> Picture:
        layout = self._rows.layout if self._rows is not None else None
        colour = not (self.app.no_color and self.app.native_ansi_color)
        return draw(view, size, TranscriptUI(self._boundaries, colour, layout))

    def clicked(self, row: int, x: int) -> None:
        rows = self._rows
        index = rows.token_at(row, x) if rows is not None else None
        if rows is not None and index is not None:
            self.post_message(GoTo(rows.layout.items[index].node))

    def action_boundaries(self) -> None:
        """Marks between tokens, or underlined first cells."""
        self._boundaries = not self._boundaries
        self.rebuild()
