"""The stage that lets through what a grammar allows next, by llguidance (an optional extra)."""

from __future__ import annotations

import importlib.util
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.vocabulary import TokenKind, Vocabulary
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.stages.base import Dial, Locality, Parameters, Role, StageContext, stage

_EXTRA = "llm-inspect-tui[grammar]"
# Else, where a grammar leaves one text only, llguidance allows the one token it would cut it into.
_ALL_TOKENS = '%llguidance {"no_forcing": true}\n'


def _schema(text: str) -> str:
    """The form of a JSON schema: on one line."""
    try:
        return json.dumps(json.loads(text)) if text.strip() else ""
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None


@stage(
    "grammar",
    Dial("regex", str, 0, 0, "", "the output matches this regular expression"),
    Dial("json_schema", str, 0, 0, "", "the output is JSON of this schema", form=_schema),
    Dial("lark", str, 0, 0, "", "the output fits this Lark grammar"),
    role=Role.LOGITS,
    source="llguidance (github.com/guidance-ai/llguidance)",
    locality=Locality.BY_ID,
    beside_mirostat=True,
)
@dataclass(frozen=True)
class Grammar(Parameters):
    """Forbid every token that a grammar does not allow after the output so far.

    One of a regular expression, a JSON schema and a Lark grammar. A stop token is allowed where
    the text may end. Needs the bytes of every token (``StageContext.vocabulary``).
    """

    regex: str = ""
    json_schema: str = ""
    lark: str = ""

    def __post_init__(self) -> None:
        given = [dial.name for dial in self.dials if getattr(self, dial.name)]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}, not both")
        if not given:
            return
        if importlib.util.find_spec("llguidance") is None:
            raise ValueError(f"{given[0]} needs an optional extra: pip install '{_EXTRA}'")
        problem = _library().LLMatcher.validate_grammar(self._compiled())
        if problem:
            raise ValueError(f"{given[0]}: {' '.join(problem.split())}")

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        if context.vocabulary is None:
            raise SamplingError("needs the token bytes of a model")
        allowed = self._reader(context.vocabulary, context.stop_ids).allowed(context.output_ids)
        inside = np.zeros(candidates.vocab_size, dtype=np.bool_)
        inside[: allowed.size] = allowed[: candidates.vocab_size]
        return candidates.select(inside[candidates.ids])

    def _compiled(self) -> Any:
        matcher = _library().LLMatcher
        if self.regex:
            written = json.loads(matcher.grammar_from_regex(self.regex))
            rules = written["grammars"][0]["lark_grammar"]
        elif self.json_schema:
            rules = f"start: %json {self.json_schema}"
        else:
            rules = self.lark
        return matcher.grammar_from_lark(_ALL_TOKENS + rules)

    def _reader(self, vocabulary: Vocabulary, stop_ids: frozenset[int]) -> _Reader:
        """The parser for this grammar and vocabulary; the last few are kept."""
        key = (self, id(vocabulary), stop_ids)
        reader = _READERS.pop(key, None)
        if reader is None or reader.vocabulary is not vocabulary:
            reader = _Reader(self._compiled(), vocabulary, stop_ids)
        _READERS[key] = reader
        while len(_READERS) > _KEPT_READERS:
            _READERS.popitem(last=False)
        return reader


class _Reader:
    """A parser that stands after some output, and can go on, or back, to another.

    A memory, not a state: what it answers depends on its arguments alone.
    """

    def __init__(self, grammar: Any, vocabulary: Vocabulary, stop_ids: frozenset[int]) -> None:
        self.vocabulary = vocabulary
        self._stop_ids = stop_ids
        self._matcher = _library().LLMatcher(_tokenizer(vocabulary, stop_ids), grammar)
        self._read: list[int] = []

    def allowed(self, output_ids: Sequence[int]) -> NDArray[np.bool_]:
        """True if each token may follow ``output_ids``; shape ``(vocab_size,)`` or a bit more.

        After a stop token where the text may end, that is stop tokens alone.
        """
        ends = [at for at, token in enumerate(output_ids) if token in self._stop_ids]
        if not ends:
            return self._after(output_ids)
        end, last = ends[0], output_ids[ends[0]]
        after = self._after(output_ids[:end])
        if not after[last]:
            raise self._misfit(end, last)
        for place, token in enumerate(output_ids[end:], end):
            if token not in self._stop_ids:
                raise self._misfit(place, token)
        stops = np.zeros_like(after)
        stops[sorted(self._stop_ids)] = True
        return stops

    def _misfit(self, place: int, token: int) -> SamplingError:
        text = self.vocabulary.token(token).bytes.decode("utf-8", "replace")
        return SamplingError(f"output token {place} ({text!r}) does not fit the grammar")

    def _after(self, output_ids: Sequence[int]) -> NDArray[np.bool_]:
        """True if each token may follow a text without a stop token."""
        common = 0
        for ours, theirs in zip(self._read, output_ids, strict=False):
            if ours != theirs:
                break
            common += 1
        if common < len(self._read):
            self._matcher.rollback(len(self._read) - common)
            del self._read[common:]
        following = list(output_ids[common:])
        taken = self._matcher.try_consume_tokens(following)
        self._read += following[:taken]
        if taken < len(following):
            raise self._misfit(common + taken, following[taken])
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        return np.unpackbits(bits, bitorder="little").astype(np.bool_)


_READERS: OrderedDict[Any, _Reader] = OrderedDict()
_KEPT_READERS = 4


class _TokenBytes:
    """A vocabulary in the shape that llguidance asks for."""

    def __init__(self, vocabulary: Vocabulary, stop_ids: Sequence[int]) -> None:
        tokens = [vocabulary.token(token_id) for token_id in range(len(vocabulary))]
        self.tokens = [token.bytes for token in tokens]
        self.special_token_ids = [t.id for t in tokens if t.kind is TokenKind.SPECIAL]
        self.special_token_ids = sorted({*self.special_token_ids, *stop_ids})
        self.eos_token_id = stop_ids[0]
        self.bos_token_id = None
        self._by_bytes = {token.bytes: token.id for token in tokens if token.bytes}
        self._longest = max(map(len, self._by_bytes), default=1)

    def __call__(self, text: bytes) -> list[int]:
        """Longest match first; llguidance only asks for tokens that a grammar forces."""
        found, at = [], 0
        while at < len(text):
            for length in range(min(self._longest, len(text) - at), 0, -1):
                token_id = self._by_bytes.get(text[at : at + length])
                if token_id is not None:
                    found.append(token_id)
                    break
            at += length
        return found


def _tokenizer(vocabulary: Vocabulary, stop_ids: frozenset[int]) -> Any:
    if not stop_ids:
        raise SamplingError("needs a stop token, to be allowed where the text may end")
    library, stops = _library(), sorted(stop_ids)
    wrapped = library.TokenizerWrapper(_TokenBytes(vocabulary, stops))
    return library.LLTokenizer(wrapped, n_vocab=len(vocabulary), eos_token=stops)


def _library() -> Any:
    """llguidance, imported when the first grammar needs it."""
    import llguidance

    return llguidance
