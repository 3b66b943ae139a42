"""Tokens laid out as running text: which token stands where, whatever the cursor does.

Laying out is kept apart from drawing. Appending a token wraps only the last line again, and moving
the cursor wraps nothing. Going to another branch lays out what it does not share.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len
from textual.content import Content

from engine.records.prompt import Origin, PromptRecord
from engine.records.step_table import StepPath
from engine.records.vocabulary import Token, TokenKind
from engine.run.tree import ROOT
from engine.text import IncrementalDecoder, label, visible
from inspector.draw.cells import chop, kind_style

THRESHOLDS = (0.1, 0.5, 1.0, 2.0, 4.0, 7.0)
"""Surprisal in nats from which each next shade is used.

As probabilities: 0.90, 0.61, 0.37, 0.14, 0.018 and 0.0009. The first shade is what the model was
sure of, the last what it gave less than one chance in a thousand.
"""
BOLD_FROM = 5
"""From this shade on the text is bold too, so that surprise is seen without colour."""

MARK_EVERY = 256
"""Tokens after which a layout can be taken up again when another branch is shown."""

CURSOR_MARKS = 2
"""Cells kept free on every line for the marks around the cursor's token."""


def level(surprisal: float) -> int:
    """The shade, 0 to 6, for a surprisal in nats."""
    return bisect_right(THRESHOLDS, surprisal)


def shade(index: int) -> str:
    """The style of a shade."""
    return f"on $surprisal-{index}{' bold' if index >= BOLD_FROM else ''}"


class Sign(StrEnum):
    """A sign in the laid-out text that is no part of the text."""

    NONE = ""
    NEWLINE = "⏎"
    BOUNDARY = "·"
    ACCEPTED = "✓"
    CORRECTED = "↻"
    BONUS = "+"


CAME_SIGNS = (Sign.NONE, Sign.ACCEPTED, Sign.CORRECTED, Sign.BONUS)
"""Signs of a speculative round's tokens, in the order of ``Came``."""


@dataclass(frozen=True, slots=True)
class Run:
    """Part of one token on one line; ``first`` where the token begins."""

    index: int
    text: str
    first: bool
    sign: Sign = Sign.NONE

    @property
    def leads(self) -> bool:
        """True if this is a sign that stays with what comes after it."""
        return self.sign not in (Sign.NONE, Sign.NEWLINE)

    @property
    def starts_word(self) -> bool:
        """True if a line may be broken before this run."""
        return self.sign is not Sign.NONE or self.text[0] == " " or cell_len(self.text[0]) > 1

    @property
    def ends_word(self) -> bool:
        """True if a line may be broken after this run."""
        return self.text[-1] == " " or cell_len(self.text[-1]) > 1


@dataclass(frozen=True, slots=True)
class Item:
    """One token of the text, the node to go to for it, and its own style."""

    token: Token
    node: int
    style: str
    forced: bool = False
    came: Sign = Sign.NONE
    """Its part in a speculative round."""
    round: int = 0


@dataclass(frozen=True, slots=True)
class _Mark:
    """State of a layout after so many tokens."""

    items: int
    lines: int
    last: tuple[Run, ...]
    """The last of the lines."""
    cells: int
    pending: bytes
    """Bytes of a character that was still open."""


class TextLayout:
    """The text of one prompt and one branch, in lines of at most ``width`` cells.

    The cursor's marks are counted in. Words move to the next line whole where they can; line
    breaks of the text are kept. With ``boundaries`` there is a mark before every token, else before
    the accepted drafts of a speculative round and before the target's own token behind them.
    """

    def __init__(self, prompt: PromptRecord, width: int, *, boundaries: bool = False) -> None:
        self.prompt = prompt
        self.width = width
        self.boundaries = boundaries
        self.items: list[Item] = []
        self.lines: list[list[Run]] = [[]]
        self.line_of: list[int] = []
        """Token index -> the line where the token ends."""
        self.settled: dict[int, tuple[list[Run], Content]] = {}
        """Lines before the cursor as they were drawn last, each with what it was drawn from."""
        self._room = max(1, width - CURSOR_MARKS)
        self._cells = 0
        self._decoder = IncrementalDecoder()
        for token, origin in zip(prompt.tokens, prompt.origins, strict=True):
            added = "" if origin is Origin.USER else kind_style(TokenKind.ADDED)
            self._append(Item(token, ROOT, kind_style(token.kind) or added))
        self._marks: list[_Mark] = []
        self._mark()

    @property
    def prompt_count(self) -> int:
        return len(self.prompt.tokens)

    def serves(self, prompt: PromptRecord, width: int, boundaries: bool) -> bool:
        """True if this is a layout of that prompt at that width."""
        return (self.prompt, self.width, self.boundaries) == (prompt, width, boundaries)

    def show(self, steps: StepPath) -> None:
        """Have this text: what it has in common with the one that is laid out stays as it is."""
        same = self._in_common(steps)
        if self.prompt_count + same < len(self.items):
            self._back_to(self.prompt_count + same)
        rest = steps[len(self.items) - self.prompt_count :]
        surprisals, forced = (-rest.figures["raw_logprob"]).tolist(), rest.figures["forced"]
        came = [CAME_SIGNS[place] for place in rest.figures["came"]]
        rounds = rest.figures["round"].tolist()
        for at, (node, surprisal) in enumerate(zip(rest.nodes, surprisals, strict=True)):
            if not len(self.items) % MARK_EVERY:
                self._mark()
            token = rest.token(at)
            style = f"{kind_style(token.kind)} {shade(level(surprisal))}"
            self._append(Item(token, node, style.strip(), bool(forced[at]), came[at], rounds[at]))

    def _in_common(self, steps: StepPath) -> int:
        """Number of ``steps`` that are laid out already."""
        laid_out = len(self.items) - self.prompt_count
        shorter = min(laid_out, len(steps))
        # A node has one parent, so two branches with the same node there are the same up to it.
        if (
            not shorter
            or steps.node(shorter - 1) == self.items[self.prompt_count + shorter - 1].node
        ):
            return shorter
        pairs = zip(self.items[self.prompt_count :], steps.nodes, strict=False)
        return next(at for at, (item, node) in enumerate(pairs) if item.node != node)

    def _mark(self) -> None:
        """Remember how things stand, so that laying out can begin here again."""
        last = tuple(self.lines[-1])
        pending = self._decoder.pending
        self._marks.append(_Mark(len(self.items), len(self.lines), last, self._cells, pending))

    def _back_to(self, count: int) -> None:
        """Take back what came after the last mark among the first ``count`` tokens."""
        while self._marks[-1].items > count:
            self._marks.pop()
        mark = self._marks[-1]
        del self.items[mark.items :], self.line_of[mark.items :], self.lines[mark.lines :]
        # Only the last line is ever changed again.
        self.lines[-1] = list(mark.last)
        for run in mark.last:
            self.line_of[run.index] = mark.lines - 1
        self._cells = mark.cells
        self._decoder = IncrementalDecoder()
        self._decoder.feed(mark.pending)

    def _append(self, item: Item) -> None:
        index = len(self.items)
        self.items.append(item)
        self.line_of.append(0)
        if item.token.kind is TokenKind.UNUSED:
            text = self._decoder.flush() + label(item.token.id, b"", "unused")
        else:
            text = self._decoder.feed(item.token.bytes)
        sign = item.came or Sign.BOUNDARY if self.boundaries else self._round_sign(index)
        if sign:
            self._put(Run(index, sign, False, sign))
        *whole, last = visible(text, newline="\n").split("\n")
        first = True
        for line in whole:
            if line:
                self._put(Run(index, line, first))
            self._put(Run(index, Sign.NEWLINE, first and not line, Sign.NEWLINE))
            self.line_of[index] = len(self.lines) - 1
            self._break()
            first = False
        if last:
            self._put(Run(index, last, first))
        if last or not whole:
            self.line_of[index] = len(self.lines) - 1

    def _round_sign(self, index: int) -> Sign:
        """The sign before a token; of a round's accepted drafts only the first has one."""
        item, before = self.items[index], self.items[index - 1]
        goes_on = item.came is Sign.ACCEPTED and (item.came, item.round) == (
            before.came,
            before.round,
        )
        return Sign.NONE if goes_on else item.came

    def _break(self) -> None:
        self.lines.append([])
        self._cells = 0

    def _put(self, run: Run) -> None:
        size = cell_len(run.text)
        if self._cells + size > self._room and self.lines[-1]:
            self._wrap(run)
            if self._cells + size > self._room and self.lines[-1]:
                self._break()
        if size <= self._room:
            self.lines[-1].append(run)
            self._cells += size
            return
        for number, piece in enumerate(chop(run.text, self._room)):
            if number:
                self._break()
            self.lines[-1].append(Run(run.index, piece, run.first and number == 0))
            self._cells = cell_len(piece)

    def _wrap(self, run: Run) -> None:
        """Begin a new line for ``run``, and take along the word that it goes on with."""
        line = self.lines[-1]
        at, following = len(line), run
        while at > 0 and (
            line[at - 1].leads or not (following.starts_word or line[at - 1].ends_word)
        ):
            at -= 1
            following = line[at]
        if at == 0:
            at = len(line)
        moved = line[at:]
        del line[at:]
        self._break()
        self.lines[-1].extend(moved)
        self._cells = sum(cell_len(one.text) for one in moved)
        for one in moved:
            self.line_of[one.index] = len(self.lines) - 1
