"""Log-probabilities that an engine lists, made into rows: sorted, checked, cut to a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backends.base import BackendError
from engine.records.partial import TopLogprobs

_LEAST = -3.0e38
"""Engines write a probability of 0 as minus infinity or as the least number of float32."""
_OVER = 1e-3
"""More than any engine's rounding makes log-probabilities add up to beyond 1."""


def top_logprobs(
    ids: Sequence[int], logprobs: Sequence[float], *, count: int, vocab_size: int
) -> TopLogprobs:
    """The ``count`` likeliest of what an engine listed, from the most likely down.

    Some engines add the token that they chose themselves, however unlikely: as no token that is
    not in a row may be likelier than its last, only the first ``count`` are taken; fewer where
    fewer were listed. Equal ones come by id. Raises BackendError for what is no part of a
    distribution over ``vocab_size`` tokens.
    """
    if not len(ids) or len(ids) != len(logprobs):
        raise BackendError(f"the engine gave {len(ids)} ids and {len(logprobs)} log-probabilities")
    try:
        found = np.asarray(ids, dtype=np.int64)
        values = np.asarray(logprobs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BackendError("the engine's log-probabilities are no numbers") from None
    if found.min() < 0 or found.max() >= vocab_size:
        raise BackendError(f"the engine names tokens that are outside 0..{vocab_size - 1}")
    if np.isnan(values).any() or values.max() > _OVER:
        raise BackendError("the engine's log-probabilities hold NaN, or a probability above 1")
    # Most engines list them in this order already.
    if not (values[1:] < values[:-1]).all():
        order = np.lexsort((found, -values))
        found, values = found[order], values[order]
    found, values = found[:count], values[:count]
    if len(set(found.tolist())) != found.size:
        raise BackendError("the engine names a token twice among the likeliest")
    if np.exp(values).sum() > 1.0 + _OVER:
        raise BackendError("the engine's probabilities add up to more than 1")
    values = np.where(values < _LEAST, -np.inf, np.minimum(values, 0.0))
    return TopLogprobs(found.astype(np.int32), values.astype(np.float32), vocab_size)


def missing_mass(row: TopLogprobs) -> float:
    """The share of the distribution that is not among the row's tokens; float32 can tell 4e-6."""
    return max(0.0, 1.0 - float(np.exp(row.logprobs.astype(np.float64)).sum()))


def stacked(rows: Sequence[TopLogprobs]) -> TopLogprobs:
    """Several positions of one text as one record, each as long as the shortest."""
    count = min(row.ids.size for row in rows)
    return TopLogprobs(
        np.stack([row.ids[:count] for row in rows]),
        np.stack([row.logprobs[:count] for row in rows]),
        rows[0].vocab_size,
    )
