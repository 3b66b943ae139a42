"""Drafts of another, smaller model with the same vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backends.abilities import take_back
from engine.backends.base import Backend, BackendError
from engine.records.vocabulary import KINDS, TokenKind, Vocabulary
from engine.run.draft import Drawer, Proposal
from engine.sampling.candidates import SamplingError
from engine.text import quote

_UNUSED = KINDS.index(TokenKind.UNUSED)


class DraftModel:
    """A backend of its own, which reads what the target reads, one draft a pass."""

    def __init__(self, name: str, backend: Backend, target: Backend) -> None:
        """Raises BackendError where the vocabularies differ."""
        self.name = name
        self.backend = backend
        self._limit = backend.facts.context_length
        require_same_vocabulary(name, backend.vocabulary(), target.vocabulary())

    def propose(self, ids: Sequence[int], count: int, drawer: Drawer) -> Proposal:
        """Fewer than ``count`` where its context ends; see ``DraftSource``."""
        if self._limit is not None:
            count = min(count, self._limit - len(ids) + 1)
        if count < 1:
            return Proposal()
        backend = self.backend
        at = backend.seek(ids)
        feed = list(ids[at:])
        try:
            for _ in range(count):
                result = backend.forward(((backend.sequence, feed),))
                feed = [drawer.draw(result.logits)]
        except SamplingError:
            pass  # the stages leave nothing of what the draft thinks: the target goes on alone
        return drawer.proposal(backend.length - at)

    def keep(self, ids: Sequence[int]) -> int:
        """Take back the drafts that were not accepted; see ``DraftSource``."""
        return take_back(self.backend, ids)

    def close(self) -> None:
        """Free the model."""
        self.backend.close()


def require_same_vocabulary(name: str, ours: Vocabulary, target: Vocabulary) -> None:
    """Raise BackendError with the first id that stands for another text in the two.

    Ids that no tokenizer knows pad a model's logits, and may be more in one than in the other.
    """
    known = [len(one) - _padding(one) for one in (ours, target)]
    if known[0] == known[1] and _same(ours, target, known[0]):
        return
    low, high = 0, min(known)
    while low < high:  # bisection for the longest beginning that is the same
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _same(ours, target, middle) else (low, middle - 1)
    shown = (_shown(one, low, count) for one, count in zip((ours, target), known, strict=True))
    raise BackendError(
        f"{name} has another vocabulary and cannot draft: id {low} is {next(shown)} there and "
        f"{next(shown)} in the target; take a model of the same family"
    )


def _same(ours: Vocabulary, target: Vocabulary, count: int) -> bool:
    end = int(ours.offsets[count])
    return bool(
        np.array_equal(ours.offsets[: count + 1], target.offsets[: count + 1])
        and ours.blob[:end] == target.blob[:end]
    )


def _padding(vocabulary: Vocabulary) -> int:
    """Number of unused ids at the end."""
    known = np.flatnonzero(vocabulary.kinds != _UNUSED)
    return len(vocabulary) - (int(known[-1]) + 1 if known.size else 0)


def _shown(vocabulary: Vocabulary, token_id: int, known: int) -> str:
    if token_id >= known:
        return "unused"
    return quote(vocabulary.token(token_id).bytes.decode("utf-8", "replace"), 40)
