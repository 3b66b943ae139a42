"""Prompt lookup: what followed the last time the text ended in these tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.run.draft import Drawer, Proposal
from engine.sampling.verification import Probs

LONGEST = 3
"""Tokens of the longest suffix that is looked for, unless told otherwise."""


class PromptLookup:
    """Finds the longest suffix of up to ``longest`` tokens earlier in the text, and copies on.

    Saxena, "Prompt lookup decoding"; transformers' ``prompt_lookup_num_tokens`` and vLLM's n-gram
    drafts. Of several places the first counts, as in transformers. It needs no model and writes no
    cache. Each token is certain: q is 1.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest

    @property
    def name(self) -> str:
        return f"ngram:{self.longest}"

    def propose(self, ids: Sequence[int], count: int, drawer: Drawer) -> Proposal:
        """Copy what follows the first place with the longest known suffix; see ``DraftSource``."""
        text = np.asarray(ids, np.int64)
        for size in range(min(self.longest, len(text) - 1), 0, -1):
            # Windows that something follows: the suffix itself is not one of them.
            windows = np.lib.stride_tricks.sliding_window_view(text[:-1], size)
            places = np.flatnonzero((windows == text[-size:]).all(axis=1))
            if places.size:
                start = int(places[0]) + size
                found = tuple(text[start : start + count].tolist())
                return Proposal(found, tuple(map(Probs.one, found)), (None,) * len(found))
        return Proposal()

    def keep(self, ids: Sequence[int]) -> int:
        """0: there is no cache."""
        return 0

    def close(self) -> None:
        """Nothing to free."""
