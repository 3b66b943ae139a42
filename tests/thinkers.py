"""A scripted model that thinks, and counts while it does: every token is known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray

OPENS, CLOSES = "<think>", "</think>"
WORDS = [OPENS, CLOSES, " hm", " 42", "<end>", "?"]
"""Ids 0 to 5, before the single letters that make up other tags."""
THINK, CLOSE, HM, ANSWER, END, ASK = range(6)
LETTERS = "<>/thinkTHINK[]"


def next_id(ids: Sequence[int], patience: int) -> int:
    """The token that the model is sure of: think, so many times hm, close, answer, end."""
    last = ids[-1]
    if last == THINK:
        return HM if patience else CLOSE
    if last == HM:
        run = len(ids) - max(at for at, one in enumerate(ids) if one != HM) - 1
        return HM if run < patience else CLOSE
    if last == CLOSE:
        return ANSWER
    if last == ANSWER:
        return END
    return ANSWER if CLOSES_SPELT in spelt(ids) else THINK if last == ASK else HM


CLOSES_SPELT = CLOSES.encode()


def spelt(ids: Sequence[int]) -> bytes:
    """The bytes of the letters at the end of ``ids``."""
    letters = [*WORDS, *dict.fromkeys(LETTERS)]
    return "".join(letters[one] for one in ids[-len(CLOSES) :]).encode()


def logits_of(ids: Sequence[int], patience: int = 3) -> FloatArray:
    """Logits that leave no doubt."""
    found = np.full(len([*WORDS, *dict.fromkeys(LETTERS)]), -20.0, np.float32)
    found[next_id(ids, patience)] = 20.0
    return found


def patient_logits_of(ids: Sequence[int]) -> FloatArray:
    """The same of a model that thinks for nine tokens."""
    return logits_of(ids, 9)


def hasty_logits_of(ids: Sequence[int]) -> FloatArray:
    """The same of a model that thinks for two."""
    return logits_of(ids, 2)


def thinker(patience: int = 3, *, tags: bool = True) -> ScriptedBackend:
    """The model; ``tags``: its tokenizer has the tags as tokens."""
    words: list[str] = list(WORDS) if tags else ["§a", "§b", *WORDS[2:]]
    return ScriptedBackend(lambda ids: logits_of(ids, patience), [*words, *dict.fromkeys(LETTERS)])
