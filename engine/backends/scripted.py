"""A backend without a model: distributions from a function, a text, a list or a file.

Every figure it gives is one you can work out in your head, it needs no torch, and it can be told
to be slow, to fail, to hang or to die. Tests and demonstrations run on it.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from engine.backends.base import (
    BackendError,
    Encoded,
    ForwardPass,
    Row,
    RowLogits,
    TokenSequence,
    checked_rows,
    kept_of,
    own_list,
    prefix_report,
)
from engine.backends.faults import Fault
from engine.backends.scripted_tokens import END, letters, token_of, words_and_bytes
from engine.records.arrays import FloatArray
from engine.records.cache import BLOCK_SIZE, PoolState, PrefixReport
from engine.records.model import ModelFacts
from engine.records.prompt import Origin
from engine.records.vocabulary import Token, TokenKind, Vocabulary
from engine.timing import now_ms

LogitsOf = Callable[[Sequence[int]], Any]
"""Logits after the ids read so far (at least one), as anything that numpy takes for a vector."""

UNSEEN = -20.0
"""Logit of a token that a text gives no reason to expect: possible, but hardly ever drawn."""


class ScriptedBackend:
    """Logits by ``logits_of(ids read so far)`` over a given list of tokens.

    Text becomes the longest tokens that fit, from the left. ``<end>``, where it is a token, stops
    a run. Rows of the logits beyond the tokens are unused ids, as in a padded vocabulary.
    """

    def __init__(
        self,
        logits_of: LogitsOf,
        tokens: Iterable[str | bytes | Token],
        *,
        vocab_size: int | None = None,
        template: tuple[str, str] | None = None,
        delay_ms: float = 0.0,
        fault: Fault | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """``template`` is what a chat prompt has before and after it.

        ``delay_ms`` is slept in every pass. ``facts`` replaces fields of the ModelFacts, so that a
        test may see any model it likes.
        """
        self._logits_of = logits_of
        self._tokens = [token_of(token_id, one) for token_id, one in enumerate(tokens)]
        self._known = len(self._tokens)
        for token_id in range(self._known, vocab_size or 0):
            self._tokens.append(Token(token_id, b"", TokenKind.UNUSED))
        self._by_bytes = {
            token.bytes: token.id for token in reversed(self._tokens) if token.bytes != b""
        }
        self._longest = max(map(len, self._by_bytes), default=0)
        self._template = template
        self.chat_template = "".join(template or ())
        self._delay_ms = delay_ms
        self.fault = fault
        self._passes = 0
        self._ids: list[int] = []
        self._facts = replace(self._own_facts(), **(facts or {}))

    def _own_facts(self) -> ModelFacts:
        size, end = len(self._tokens), self._by_bytes.get(END.encode())
        return ModelFacts(
            name="scripted",
            identity=f"scripted:{size}",
            architecture="none: logits by a script",
            device="none",
            device_name="no model runs",
            dtype="float32",
            dtype_reason="float32: logits are given in it",
            dtype_trials=(),
            backend="scripted",
            vocab_size=size,
            tokenizer_size=self._known,
            layers=0,
            query_heads=0,
            kv_heads=0,
            head_dim=0,
            hidden_size=0,
            context_length=None,
            parameters=0,
            weight_bytes=0,
            kv_bytes_per_token_expected=None,
            kv_note="scripted: positions are counted, no tensors exist",
            cache_kind="scripted",
            can_rewind=True,
            stop_ids={} if end is None else {end: "script"},
            has_chat_template=self._template is not None,
        )

    # --- ready-made scripts -------------------------------------------------------------------

    @classmethod
    def uniform(
        cls, tokens: Iterable[str | bytes | Token] = "abcdefgh", **more: Any
    ) -> ScriptedBackend:
        """Every token as likely as any other, always: ``1 / n``, entropy ``log n``."""
        listed = list(tokens)
        size = max(len(listed), more.get("vocab_size") or 0)
        return cls(lambda ids: np.zeros(size), listed, **more)

    @classmethod
    def from_vectors(
        cls,
        vectors: Sequence[Sequence[float]],
        tokens: Iterable[str | bytes | Token] | None = None,
        **more: Any,
    ) -> ScriptedBackend:
        """Vector ``i`` after ``i + 1`` ids; the last one from there on.

        Tokens default to the letters ``a``, ``b``, ... so that a prompt ``"a"`` is one id and the
        first vector is what its first step draws from.
        """
        table = np.array(vectors, dtype=np.float32)
        if table.ndim != 2 or table.size == 0:
            raise BackendError("a script's vectors must be a list of logit vectors of one length")
        width = table.shape[1]
        listed = list(tokens) if tokens is not None else letters(width)
        more.setdefault("vocab_size", width)
        return cls(lambda ids: table[min(len(ids), len(table)) - 1], listed, **more)

    @classmethod
    def from_text(
        cls,
        text: str = "the cat sat on the mat",
        tokens: Iterable[str | bytes | Token] | None = None,
        **more: Any,
    ) -> ScriptedBackend:
        """After each word of ``text`` come the words that follow it there, as often as there.

        In ``the cat sat on the mat`` the word ``the`` is followed by `` cat`` and `` mat``, one
        half each, and ``mat`` by ``<end>``. A token that the text does not go on from is followed
        by its words as often as they occur. The vocabulary is the text's words (with the space
        before them), the 256 bytes, so that any prompt can be read, and ``<end>``; or ``tokens``.
        """
        words = re.findall(r"\s*\S+", text)
        if not words:
            raise BackendError("a script's text must hold at least one word")
        listed = list(tokens) if tokens is not None else words_and_bytes(words)
        reader = cls(lambda ids: (), listed, **more)
        # A word is followed alike wherever it stands, so the first one counts with its space too.
        ids = [token_id for word in words for token_id in reader.ids_of(word)]
        end = reader._by_bytes.get(END.encode())
        script = ids if end is None else [*ids, end]
        follows: defaultdict[bytes, Counter[int]] = defaultdict(Counter)
        for before, after in pairwise(script):
            follows[reader.token(before).bytes.strip()][after] += 1
        anything = Counter(ids)

        def logits_of(read: Sequence[int]) -> FloatArray:
            counts = follows.get(reader.token(read[-1]).bytes.strip(), anything)
            logits = np.full(reader.facts.vocab_size, UNSEEN, dtype=np.float32)
            logits[list(counts)] = np.log(list(counts.values()))
            return logits

        reader._logits_of = logits_of
        return reader

    # --- tokens -------------------------------------------------------------------------------

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    def ids_of(self, text: str) -> list[int]:
        """The longest tokens that make up ``text``, from the left. Raises BackendError."""
        data, ids, at = text.encode("utf-8", "replace"), [], 0
        while at < len(data):
            longest = min(self._longest, len(data) - at)
            for length in range(longest, 0, -1):
                token_id = self._by_bytes.get(data[at : at + length])
                if token_id is not None:
                    break
            else:
                raise BackendError(f"no token of this vocabulary begins {data[at : at + 12]!r}")
            ids.append(token_id)
            at += length
        return ids

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        """Ids of ``text``; with ``chat``, between the two halves of the template."""
        if not (chat and self._template):
            note = ("this script has no chat template: the prompt is read as it is",)
            ids = self.ids_of(text)
            return Encoded(tuple(ids), (Origin.USER,) * len(ids), note if chat else ())
        before, after = (self.ids_of(part) for part in self._template)
        parts = (
            (before, Origin.TEMPLATE),
            (self.ids_of(system or ""), Origin.USER),
            (self.ids_of(text), Origin.USER),
            (after, Origin.TEMPLATE),
        )
        return Encoded(
            tuple(token_id for ids, _ in parts for token_id in ids),
            tuple(origin for ids, origin in parts for _ in ids),
        )

    def token(self, token_id: int) -> Token:
        if not 0 <= token_id < len(self._tokens):
            raise IndexError(f"token id {token_id} is outside 0..{len(self._tokens) - 1}")
        return self._tokens[token_id]

    def vocabulary(self) -> Vocabulary:
        return Vocabulary.pack(self._tokens)

    # --- passes -------------------------------------------------------------------------------

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        """Read each row in turn; where one fails, none has been read."""
        own = [(own_list(sequence), ids) for sequence, ids in checked_rows(rows)]
        before, lengths = self._ids, [len(sequence) for sequence, _ in own]
        found = []
        try:
            for sequence, ids in own:
                self._ids = sequence
                found.append(self._read(ids, all_positions=all_positions))
        except BaseException:
            for (sequence, _), length in zip(own, lengths, strict=True):
                del sequence[length:]
            self._ids = before
            raise
        if len(found) == 1:
            return found[0]
        logits = tuple(one.rows[0] for one in found)
        return replace(found[0], rows=logits, ms=sum(one.ms for one in found), passes=len(found))

    def prefill(
        self, ids: Sequence[int], *, profile: bool = True, modules: bool = False
    ) -> ForwardPass:
        return self._read(ids)

    def decode(self, token_id: int) -> ForwardPass:
        return self._read((token_id,))

    def _read(self, ids: Sequence[int], *, all_positions: bool = False) -> ForwardPass:
        start = now_ms()
        self._passes += 1
        if self.fault:
            self.fault.strike(self._passes)
        if not ids:
            raise BackendError("there is nothing to read: a pass needs at least one token")
        outside = [token_id for token_id in ids if not 0 <= token_id < len(self._tokens)]
        if outside:
            raise BackendError(f"token id {outside[0]} is outside 0..{len(self._tokens) - 1}")
        if self._delay_ms:
            time.sleep(self._delay_ms / 1000)
        before = len(self._ids)
        self._ids.extend(int(token_id) for token_id in ids)
        try:
            if all_positions:
                ends = range(before + 1, len(self._ids) + 1)
                logits = np.stack([self._logits(self._ids[:end]) for end in ends])
            else:
                logits = self._logits(self._ids)
        except BaseException:
            # A pass that failed has read nothing.
            del self._ids[before:]
            raise
        return ForwardPass(
            (RowLogits(logits),),
            now_ms() - start,
            warmup=False,
            layers_note="a script has no layers",
        )

    def _logits(self, ids: Sequence[int]) -> FloatArray:
        logits = np.array(self._logits_of(ids), dtype=np.float32)
        if logits.shape != (len(self._tokens),):
            raise BackendError(
                f"the script gave logits of shape {logits.shape} for {len(self._tokens)} tokens"
            )
        return logits

    @property
    def sequence(self) -> list[int]:
        return self._ids

    def seek(self, ids: Sequence[int]) -> int:
        kept = kept_of(self._ids, ids, can_rewind=self.facts.can_rewind)
        if kept < len(self._ids):
            # A new list: whoever holds the one before still has what it read.
            self._ids = self._ids[:kept]
        return kept

    def fork(self, sequence: TokenSequence, *, pinned: bool = True) -> list[int]:
        return list(own_list(sequence))

    def begin_prompt(self, ids: Sequence[int]) -> PrefixReport:
        held, rewinds = list(self._ids), self.facts.can_rewind
        return prefix_report(ids, held, self.seek(ids), can_rewind=rewinds)

    def pool_state(self) -> PoolState | None:
        return None

    @property
    def branch(self) -> int | None:
        return None

    @property
    def block_size(self) -> int:
        return BLOCK_SIZE

    def forget(self, branch: int, keep: int) -> None:
        """Nothing is kept for a branch."""

    @contextmanager
    def side_sequence(self, *, cached: bool, positions: int = 0) -> Iterator[None]:
        kept, self._ids = self._ids, []
        try:
            yield
        finally:
            self._ids = kept

    def reference_logits(
        self, ids: Sequence[int], *, rows: int = 1, dtype: str | None = None
    ) -> FloatArray:
        """The script's logits after ``ids``, which company does not change."""
        if dtype not in (None, self._facts.dtype):
            raise BackendError("a script has no weights to convert")
        with self.side_sequence(cached=False):
            return self._read(ids).logits

    def rollback(self, count: int) -> None:
        if not 0 <= count <= len(self._ids):
            raise BackendError(f"cannot take back {count} of {len(self._ids)} positions")
        del self._ids[len(self._ids) - count :]

    @property
    def length(self) -> int:
        return len(self._ids)

    def kv(self, sequence: TokenSequence | None = None) -> tuple[int, int | None]:
        """(positions counted, None): there are no tensors."""
        return len(self._ids if sequence is None else sequence), None

    def clear(self) -> None:
        self._ids = []

    def close(self) -> None:
        self.clear()
