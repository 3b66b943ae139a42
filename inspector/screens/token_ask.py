"""Choose tokens to take instead of drawing: typed as text or as an id, or picked from a list."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from engine.records.step import TopTable
from engine.records.vocabulary import Token, Vocabulary
from inspector.draw.cells import left, token_parts
from inspector.draw.numbers import percent, plural
from inspector.escapes import unescaped
from inspector.modal import is_closed
from inspector.screens.dialog import Ask
from inspector.state.view import RunLog

COMPLETIONS = 10
_HINT = "text, or #id of a token; \\n is a line break"
_WHAT = 12
"""Cells for what an offer is: an id, or a number of tokens."""

Ids = tuple[int, ...]


def starting_with(vocabulary: Vocabulary, data: bytes) -> NDArray[np.int64]:
    """The ids of all tokens that begin with ``data``, lowest first."""
    blob = np.frombuffer(vocabulary.blob, np.uint8)
    starts = vocabulary.offsets[:-1]
    ids = np.flatnonzero(np.diff(vocabulary.offsets) >= len(data))
    for at, byte in enumerate(data):
        ids = ids[blob[starts[ids] + at] == byte]
    return ids


class TokenAsk(Ask[Ids]):
    """Tokens to force. ``top`` are the candidates where they are to stand, where that is known.

    ``tokenize`` asks the engine for a text's tokens; its answer comes by way of ``heard``.
    """

    OK: ClassVar[str] = "Take"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "offer(-1)", "Up", show=False, id="token-ask.up", tooltip="Another offer"),
        Binding("down", "offer(1)", "Down", show=False, id="token-ask.down", tooltip="Another"),
    ]

    def __init__(
        self, title: Content, log: RunLog, top: TopTable | None, tokenize: Callable[[str], None]
    ) -> None:
        super().__init__(title, hint=_HINT)
        self._log = log
        self._top = top
        self._tokenize = tokenize
        self._offers: list[Ids] = []
        # Enter was pressed before the engine had said what the text is.
        self._hurried = False

    def body(self) -> Iterable[Widget]:
        line, *rest = super().body()
        yield line
        yield OptionList(id="offers", compact=True)
        yield from rest

    def on_mount(self) -> None:
        if is_closed(self):
            return
        super().on_mount()
        self.query_one(OptionList).can_focus = False
        self._offer()

    # --- what is typed ----------------------------------------------------------------------------

    def changed(self, text: str) -> None:
        self._hurried = False
        self.hint()
        with contextlib.suppress(ValueError):
            if text and self._heard(unescaped(text)) is None:
                self._tokenize(unescaped(text))
        self._offer()

    def heard(self, log: RunLog) -> None:
        if self.is_mounted:
            self._offer()
            if self._hurried:
                self.answer()

    def _heard(self, text: str) -> Sequence[Token] | None:
        """The tokens of a text; None while the engine has not said. Raises ValueError."""
        told = self._log.tokenized
        if told is None or told.text != text:
            return None
        if told.problem:
            raise ValueError(told.problem)
        return told.tokens

    def understand(self, text: str) -> Ids:
        """The offer that is highlighted."""
        self._rows()
        at = self.query_one(OptionList).highlighted
        if at is None:
            raise ValueError("there is nothing to take yet: type some text, or an id")
        return self._offers[at]

    def answer(self) -> None:
        at = self.query_one(OptionList).highlighted
        self._hurried = at is not None and not self._offers[at]
        if not self._hurried:
            super().answer()

    # --- what is offered --------------------------------------------------------------------------

    def _offer(self) -> None:
        rows: Sequence[tuple[Ids, Content]] = ()
        try:
            rows = self._rows()
        except ValueError as error:
            self.refuse(error)
        offers = self.query_one(OptionList)
        at = offers.highlighted
        before = self._offers[at] if at is not None else ()
        self._offers = [ids for ids, _ in rows]
        offers.clear_options()
        offers.add_options([Option(line) for _, line in rows])
        # Another offer that was chosen stays so while the answers of the engine come in.
        kept = self._offers.index(before) if before in self._offers else 0
        offers.highlighted = kept if rows else None

    def _rows(self) -> list[tuple[Ids, Content]]:
        """Offers for the typed text, and the lines that show them. Raises ValueError."""
        typed = self.typed
        number = _id_in(typed)
        if number is not None:
            return [self._one(self._named(number))]
        text = unescaped(typed)
        rows = [self._as_typed(text)] if text else []
        if typed.isdecimal() and typed.isascii() and int(typed) < self._vocab_size:
            rows.append(self._one(self._named(int(typed))))
        there = {ids for ids, _ in rows}
        completions = (self._one(token) for token in self._completions(text))
        return [*rows, *(row for row in completions if row[0] not in there)]

    def _as_typed(self, text: str) -> tuple[Ids, Content]:
        tokens = self._heard(text)
        if tokens is None:
            return (), Content("… asking the tokenizer")
        if len(tokens) == 1:
            return self._one(tokens[0])
        pieces = (part for token in tokens for part in (*token_parts(token), (" ", "")))
        what = left(plural(len(tokens), "token"), _WHAT)
        return tuple(token.id for token in tokens), Content.assemble(f"{what}        ", *pieces)

    def _one(self, token: Token) -> tuple[Ids, Content]:
        share = percent(self._prob(token.id))
        what = f"{left(f'#{token.id}', _WHAT)}{share:>6}  "
        return (token.id,), Content.assemble((what, "$title"), *token_parts(token))

    def _prob(self, token_id: int) -> float | None:
        """The model's own probability, where it is recorded."""
        if self._top is None:
            return None
        found = np.flatnonzero(self._top.ids == token_id)
        return float(np.exp(self._top.raw_logprobs[found[0]])) if found.size else None

    @property
    def _vocab_size(self) -> int:
        return self._log.facts.vocab_size if self._log.facts is not None else 0

    def _named(self, number: int) -> Token:
        if number >= self._vocab_size:
            raise ValueError(
                f"token id {number} is outside the vocabulary 0..{self._vocab_size - 1}"
            )
        vocabulary = self._log.vocabulary
        return vocabulary.token(number) if vocabulary is not None else Token(number, b"")

    def _completions(self, text: str) -> Iterable[Token]:
        """Tokens that begin like the text, with or without a space: the likely ones first."""
        top = self._top.tokens if self._top is not None else ()
        wanted = text.removeprefix(" ").encode("utf-8", "surrogatepass")
        starts = (b" " + wanted,) if text.startswith(" ") else (wanted, b" " + wanted)
        likely = [token for token in top if token.bytes.startswith(starts)]
        vocabulary = self._log.vocabulary
        if not text or vocabulary is None:
            return likely[:COMPLETIONS]
        ids = np.concatenate([starting_with(vocabulary, start) for start in starts])
        lengths = np.diff(vocabulary.offsets)[ids]
        shortest = ids[np.argsort(lengths, kind="stable")][:COMPLETIONS]
        known = {token.id for token in likely}
        others = [vocabulary.token(one) for one in shortest.tolist() if one not in known]
        return [*likely, *others][:COMPLETIONS]

    # --- choosing ---------------------------------------------------------------------------------

    def action_offer(self, by: int) -> None:
        offers = self.query_one(OptionList)
        if offers.option_count:
            offers.highlighted = ((offers.highlighted or 0) + by) % offers.option_count

    @on(OptionList.OptionSelected)
    def _clicked(self, message: OptionList.OptionSelected) -> None:
        self.answer()


def _id_in(text: str) -> int | None:
    """The id in ``#123``; None for what is no id."""
    rest = text.removeprefix("#").strip()
    return int(rest) if text.startswith("#") and rest.isdecimal() and rest.isascii() else None
