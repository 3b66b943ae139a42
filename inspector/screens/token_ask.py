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
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.records.step import CUT_BY_MODEL, SURVIVES, StepRecord
from engine.records.vocabulary import Token, Vocabulary
from engine.text import visible
from inspector.draw.cells import left, right, token_parts
from inspector.draw.numbers import percent, plural
from inspector.escapes import unescaped
from inspector.modal import is_closed
from inspector.screens.dialog import Ask
from inspector.state.view import RunLog

LISTED = 100
"""Tokens that are offered at once; typing more letters finds the others."""
_HINT = "text, or #id of a token; \\n is a line break"
_WHAT, _SHARE, _CUT = 10, 8, 14
"""Cells for what an offer is (an id, or a number of tokens), a probability, and what cut it."""

TITLES = f"{left('token', _WHAT)}{right('model ƒ', _SHARE)}{right('final ƒ', _SHARE)}"

Ids = tuple[int, ...]


def containing(vocabulary: Vocabulary, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids of the tokens that have ``data`` in them, upper or lower case, and where it begins there.

    Those where it begins first stand first, and of these the shortest; a space before a word does
    not count.
    """
    blob = np.frombuffer(vocabulary.blob.lower(), np.uint8)
    at = np.arange(len(blob) - len(data) + 1)
    for place, byte in enumerate(data.lower()):
        at = at[blob[at + place] == byte]
    ids = np.searchsorted(vocabulary.offsets, at, "right") - 1
    inside = at + len(data) <= vocabulary.offsets[ids + 1]
    ids, first = np.unique(ids[inside], return_index=True)
    starts = vocabulary.offsets[ids]
    begins = at[inside][first] - starts
    begins -= (begins > 0) & (blob[starts] == ord(" "))
    order = np.lexsort((np.diff(vocabulary.offsets)[ids], begins))
    return ids[order], begins[order]


class TokenAsk(Ask[Ids]):
    """Tokens to force. ``step`` is one that stands where they are to stand, if there is one.

    ``tokenize`` asks the engine for a text's tokens; its answer comes by way of ``heard``.
    """

    OK: ClassVar[str] = "Take"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "offer(-1)", "Up", show=False, id="token-ask.up", tooltip="Another offer"),
        Binding("down", "offer(1)", "Down", show=False, id="token-ask.down", tooltip="Another"),
    ]

    def __init__(
        self, title: Content, log: RunLog, step: StepRecord | None, tokenize: Callable[[str], None]
    ) -> None:
        super().__init__(title, hint=_HINT)
        self._log = log
        self._step = step
        self._found = ""
        self._tokenize = tokenize
        self._offers: list[Ids] = []
        # Enter was pressed before the engine had said what the text is.
        self._hurried = False

    def body(self) -> Iterable[Widget]:
        line, *rest = super().body()
        yield line
        yield Static(Content.styled(TITLES, "$title"), id="titles")
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
            self.say(Content.styled(f"{_HINT}{self._found}", "$title"))
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
        what = left(plural(len(tokens), "token"), _WHAT + 2 * _SHARE + 2 + _CUT)
        return tuple(token.id for token in tokens), Content.assemble(what, *pieces)

    def _one(self, token: Token) -> tuple[Ids, Content]:
        model, final, cut = self._fate(token.id)
        what = f"{left(f'#{token.id}', _WHAT)}{right(model, _SHARE)}{right(final, _SHARE)}  "
        return (token.id,), Content.assemble(
            (what, "$title"), (left(cut, _CUT), "$cut"), *token_parts(token)
        )

    def _fate(self, token_id: int) -> tuple[str, str, str]:
        """A token's probability by the model, its final one, and what cut it, where recorded."""
        step = self._step
        if step is None or token_id not in step.top.ids:
            return percent(None), percent(None), ""
        row = int(np.flatnonzero(step.top.ids == token_id)[0])
        cut = int(step.top.cut_by[row])
        words = {SURVIVES: "", CUT_BY_MODEL: "✂ the model"}
        name = words[cut] if cut in words else f"✂ {visible(step.stages[cut].name)}"
        return percent(step.top.prob(0, row)), percent(step.top.prob(len(step.stages), row)), name

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
        """Tokens with the text in them: first those that begin with it, of these the likely ones.

        A space before the word is no difference, unless it was typed.
        """
        top = self._step.top.tokens if self._step is not None else ()
        wanted, vocabulary = text.encode("utf-8", "surrogatepass").lower(), self._log.vocabulary
        self._found = ""
        if not wanted:
            return top[:LISTED]
        likely = [one for one in top if wanted in one.bytes.lower()]
        first = [one for one in likely if one.bytes.lower().startswith((wanted, b" " + wanted))]
        if vocabulary is None:
            return likely
        ids, begins = containing(vocabulary, wanted)
        if len(ids) > LISTED:
            self._found = f" · {len(ids):,} tokens have this in them, {LISTED} are listed"
        known = {one.id for one in likely}
        listed = [one for one in ids[:LISTED].tolist() if one not in known]
        begun = int(np.count_nonzero(begins == 0))
        head = set(ids[:begun].tolist())
        others = [
            [vocabulary.token(one) for one in listed if (one in head) is is_head]
            for is_head in (True, False)
        ]
        rest = [one for one in likely if one not in first]
        return [*first, *others[0], *rest, *others[1]][:LISTED]

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
