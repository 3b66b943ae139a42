"""The backend of every engine that tells the N likeliest tokens: our texts, its passes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.backends.abilities import Numbering, Templated
from engine.backends.base import (
    BackendError,
    Encoded,
    ForwardPass,
    NoMoreError,
    Row,
    RowLogits,
    checked_rows,
    kept_of,
    own_list,
)
from engine.backends.top_n.ahead import MOST, Foreseen, ReadAhead
from engine.backends.top_n.completer import (
    BATCH,
    Batching,
    Completer,
    Continued,
    Continuing,
    Sampling,
    Tokens,
)
from engine.backends.top_n.prefetch import Prefetch
from engine.backends.top_n.room import Growing, more_room, room_of
from engine.backends.top_n.rows import stacked
from engine.backends.top_n.slots import Slot, Slots
from engine.records.model import ModelFacts
from engine.records.vocabulary import Token, Vocabulary
from engine.timing import now_ms


class TopBackend:
    """Steps an engine that is asked by token ids, with the texts of the run kept here.

    ``facts.top`` says how many log-probabilities each pass yields; ``widened`` asks for more. The
    engine's own cache decides what a pass really computes: its answer says how much that was.
    """

    def __init__(self, completer: Completer, tokens: Tokens, facts: ModelFacts) -> None:
        if facts.top is None:
            raise BackendError("an engine of this kind needs a number of log-probabilities")
        self._completer = completer
        self._tokens = tokens
        self._facts = facts
        self._top: int = facts.top
        self._slots = Slots(completer.abilities.slots)
        self._growing = completer if isinstance(completer, Growing) else None
        self._grown = False
        self._reach = 0
        """Length of the text that is being read, whose beginning a pass may be."""
        self._ids: list[int] = []
        self._batches = completer.abilities.batch and isinstance(completer, Batching)
        self._prefetch = Prefetch(completer) if isinstance(completer, Continuing) else None
        self._ahead = ReadAhead()
        self.foreseen = 0
        """See ``Foreseeing``."""

    # --- what it is ---------------------------------------------------------------------------

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    @property
    def chat_template(self) -> str:
        """Source of the chat template, where it is at hand: of a file, not of a server."""
        return self._tokens.chat_template if isinstance(self._tokens, Templated) else ""

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        return self._tokens.tokenize(text, chat=chat, system=system)

    def token(self, token_id: int) -> Token:
        if not 0 <= token_id < self._facts.vocab_size:
            raise IndexError(
                f"token id {token_id} is outside the vocabulary 0..{self._facts.vocab_size - 1}"
            )
        return self._tokens.token(token_id)

    def vocabulary(self) -> Vocabulary:
        return self._tokens.vocabulary()

    def learn(self, tokens: Iterable[Token]) -> None:
        if isinstance(self._tokens, Numbering):
            self._tokens.learn(tokens)

    # --- passes -------------------------------------------------------------------------------

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        """One request for all rows where the engine takes several texts, else one a row.

        With ``all_positions`` one a position, if the engine needs that.
        """
        own = [(own_list(sequence), ids) for sequence, ids in checked_rows(rows)]
        for sequence, ids in own:
            self._check(sequence, ids)
        self._grown, started = False, now_ms()
        batched = self._batches and len(own) > 1 and not all_positions
        if batched:
            rows_read = self._batch([[*sequence, *map(int, ids)] for sequence, ids in own])
        elif len(own) == 1 and len(own[0][1]) == 1 and own[0][0] and not all_positions:
            rows_read = [self._next(own[0][0], int(own[0][1][0]))]
        else:
            rows_read = [self._read(sequence, ids, all_positions) for sequence, ids in own]
        # Only now: where a request fails, no sequence has changed.
        for sequence, ids in own:
            sequence.extend(int(token_id) for token_id in ids)
            self._ids = sequence
        times, shifted = rows_read[0].times, sum(one.shifted_ms for one in rows_read)
        for more in rows_read[1:]:
            times = times + more.times
        return ForwardPass(
            tuple(RowLogits(one.top, engine=one.times) for one in rows_read),
            now_ms() - started + shifted,
            warmup=self._grown,
            layers_note=f"n/a: engine {self._facts.backend} does not time its layers",
            passes=1 if batched else max(1, times.requests),
            rows_note=self._rows_note(len(own), batched=batched),
            engine=times,
            shifted_ms=shifted,
        )

    def widened(self, ids: Sequence[int], count: int) -> ForwardPass:
        """The ``count`` likeliest behind ``ids``, all of them where there are no more.

        Raises BackendError where the engine gives no more than it gave.
        """
        most, size = self._completer.abilities.most_top, self._facts.vocab_size
        if most is not None and most < min(count, size):
            raise NoMoreError(
                f"engine {self._facts.backend} tells at most {most:,} tokens of a position"
            )
        started = now_ms()
        row = self._ask(list(ids), min(count, size), reuse=True)
        return ForwardPass(
            (RowLogits(row.top),), now_ms() - started, warmup=False, engine=row.times
        )

    @property
    def own_stack(self) -> str:
        return self._facts.backend

    def own_sampler(
        self, ids: Sequence[int], dials: Mapping[str, Any], count: int
    ) -> Mapping[int, float]:
        with contextlib.suppress(BackendError):
            self._settle()
        if not isinstance(self._completer, Sampling):
            raise BackendError(
                f"engine {self._facts.backend} does not tell what its own sampler leaves"
                f"{self._why('own sampler')}"
            )
        self._slot(ids)
        return self._completer.sampled(ids, dials, count)

    def _why(self, name: str) -> str:
        """The reason for which the engine lacks an ability of its table."""
        return "".join(f": {one.note}" for one in self._facts.probed if one.name == name)

    def _rows_note(self, count: int, *, batched: bool) -> str:
        """The words on how the engine took the rows of a pass; "" for one row."""
        if count == 1:
            return ""
        if not batched:
            return f"a request for each row, one after the other{self._why(BATCH)}"
        slots = self._completer.abilities.slots
        few = f", {slots:,} at a time: it has so many slots" if 0 < slots < count else ""
        return f"one request for all rows; the engine shares its passes among them{few}"

    def _batch(self, texts: Sequence[list[int]]) -> list[Foreseen]:
        """Several texts in one request. Whichever slots read them, ``_slots`` knows then."""
        assert isinstance(self._completer, Batching), "its abilities say so"
        with contextlib.suppress(BackendError):  # nobody has asked for that yet
            self._settle()
        self._make_room(None if self._growing is None else room_of(self._growing, texts))
        try:
            found = self._completer.batch(texts, self._top)
        except BackendError:
            self._slots.clear()
            raise
        if not found.slots:
            self._slots.read(self._slots.at(0), texts[-1])
        for number, ids in zip(found.slots, texts, strict=False):
            self._slots.read(self._slots.at(number), ids)
        return [Foreseen(one.top, one.times) for one in found.answers]

    def _next(self, sequence: list[int], token_id: int) -> Foreseen:
        """One token behind a text: from what came ahead, with more ahead, or by itself."""
        whole = [*sequence, token_id]
        found = self._ahead.take(whole)
        if found is not None:
            return found
        count = min(self.foreseen, self._ahead.worth(whole))
        if self._prefetch is None or (count <= 1 and not self._prefetch.has(whole)):
            row = self._ask(whole, self._top, reuse=True)
            self._ahead.start(whole, int(row.top.ids[0]))
            return row
        started = now_ms()
        if not self._prefetch.has(whole):
            self._settle()
            self._prefetch.start(whole, self._top, count, self._slot(whole, count))
        got = self._settle()
        if got is None:
            raise BackendError("the engine gave no answer")
        row = self._ahead.put(whole, got, now_ms() - started)
        # Fewer than it was asked for: the text ends there.
        if len(got.answers) == self._prefetch.count:
            self._fetch_more([*whole, *got.taken], self.foreseen - len(got.answers))
        return row

    def _fetch_more(self, ids: list[int], wanted: int) -> None:
        """Have the rows behind ``ids`` computed, while those before are looked at."""
        count = min(wanted, MOST)
        if self._prefetch is None or count <= 1 or not self._ahead.sure:
            return
        if self._more_room(ids, count) is None:
            self._prefetch.start(ids, self._top, count, self._slots.pick(ids)[0])

    def _more_room(self, ids: Sequence[int], count: int) -> int | None:
        # The token that the engine chooses itself has its place there, too.
        length = max(len(ids) + count, self._reach + 1)
        return None if self._growing is None else more_room(self._growing, self._slots, ids, length)

    def _slot(self, ids: Sequence[int], count: int = 1) -> Slot:
        """The slot for ``count`` rows behind ``ids``, with room for them; no request may run."""
        self._make_room(self._more_room(ids, count))
        return self._slots.pick(ids)[0]

    def _make_room(self, room: int | None) -> None:
        if room is not None and self._growing is not None:
            self._slots.clear()
            self._growing.grow(room)
            self._grown = True

    def _settle(self) -> Continued | None:
        """Wait for the request that runs beside, if any; its slot is known then."""
        if self._prefetch is None or self._prefetch.slot is None:
            return None
        slot, ids = self._prefetch.slot, self._prefetch.ids
        try:
            got = self._prefetch.result()
        except BackendError:
            self._slots.lose(slot)
            raise
        # The last token that it took was not read any more.
        self._slots.read(slot, [*ids, *got.taken[: len(got.answers) - 1]])
        return got

    def _read(self, sequence: list[int], ids: Sequence[int], all_positions: bool) -> Foreseen:
        reuse, at = bool(sequence), len(sequence)
        whole = [*sequence, *(int(token_id) for token_id in ids)]
        if not all_positions:
            return self._ask(whole, self._top, reuse=reuse)
        if self._completer.abilities.prompt_logprobs:
            slot = self._slot(whole)
            answer = self._completer.positions(whole, at, self._top, slot=slot.number)
            self._slots.read(slot, whole)
            return Foreseen(answer.top, answer.times)
        found = [
            self._ask(whole[:end], self._top, reuse=reuse or end > at + 1)
            for end in range(at + 1, len(whole) + 1)
        ]
        times = found[0].times
        for more in found[1:]:
            times = times + more.times
        return Foreseen(stacked([row.top for row in found]), times)

    def _ask(self, ids: list[int], count: int, *, reuse: bool) -> Foreseen:
        with contextlib.suppress(BackendError):  # nobody has asked for that yet
            self._settle()
        slot = self._slot(ids)
        try:
            answer = self._completer.next_token(ids, count, slot=slot.number, reuse=reuse)
        except BackendError:
            self._slots.lose(slot)
            raise
        self._slots.read(slot, ids)
        return Foreseen(answer.top, answer.times)

    def _check(self, sequence: Sequence[int], ids: Sequence[int]) -> None:
        size, room = self._facts.vocab_size, self._facts.context_length
        for token_id in ids:
            if not 0 <= token_id < size:
                raise BackendError(f"token id {token_id} is outside 0..{size - 1}")
        if room is not None and len(sequence) + len(ids) > room:
            raise BackendError(
                f"the engine's context holds {room:,} tokens, and this text is "
                f"{len(sequence) + len(ids):,}"
            )

    # --- the text that is gone on with --------------------------------------------------------

    def seek(self, ids: Sequence[int]) -> int:
        self._reach = len(ids)
        kept = max(kept_of(self._ids, ids, can_rewind=True), self._slots.longest(ids[:-1]))
        if kept != len(self._ids) or self._ids[:kept] != list(ids[:kept]):
            # A new list: whoever holds the one before still has what it read.
            self._ids = list(ids[:kept])
        return kept

    @property
    def sequence(self) -> list[int]:
        return self._ids

    @property
    def length(self) -> int:
        return len(self._ids)

    def close(self) -> None:
        if self._prefetch is not None:
            self._prefetch.close()
        self._completer.close()
        self._slots.clear()
        self._ids = []
