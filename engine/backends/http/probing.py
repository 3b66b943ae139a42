"""Trying out what a server can do: pure judgements on its answers, and searches for its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.backends.base import BackendError
from engine.backends.http.errors import ServerError
from engine.backends.top_n.completer import BATCH
from engine.records.arrays import DoubleArray
from engine.records.engine import Probed

if TYPE_CHECKING:
    from engine.backends.http.client import Answer, Client

_NEAR = 2e-3
"""More than printing and another way of computing make of a log-probability."""
_WHOLE = 1e-2
MOST_TOP = 4096
"""Most log-probabilities of a position that are tried for, where not the whole vocabulary's are
given."""

REFUSED = (400, 404, 405, 422, 501)
"""Statuses by which servers say that they cannot do something, or do not know it."""


class Values(StrEnum):
    """Kind of a server's figures."""

    LOGPROBS = "log-probabilities"
    LOGITS = "logits"


def values_are(values: Sequence[float], *, whole: bool) -> Values:
    """Tell logits from log-probabilities: of a whole vocabulary these add up to 1.

    Raises ServerError where they are neither.
    """
    found = np.asarray(values, np.float64)
    if found.size == 0 or np.isnan(found).any():
        raise ServerError("the server's log-probabilities are NaN, or there are none")
    total = math.exp(min(log_sum(found), 700.0))
    if abs(total - 1.0) <= _WHOLE or (not whole and total <= 1.0 and found.max() <= 0.0):
        return Values.LOGPROBS
    return Values.LOGITS


def log_sum(values: DoubleArray) -> float:
    """The logarithm of the sum of ``exp(values)``."""
    return float(np.logaddexp.reduce(values))


def alike(one: Mapping[Any, float], other: Mapping[Any, float]) -> bool:
    """True if the tokens of both have the same figures, and are the same but for the last ones."""
    common = one.keys() & other.keys()
    return len(common) * 2 > len(one) and all(abs(one[i] - other[i]) <= _NEAR for i in common)


def largest(works: Callable[[int], bool], most: int) -> int:
    """The largest number up to ``most`` that works, 0 for none; every smaller one does too."""
    low, high = 0, most
    if works(most):
        return most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def accepted(ask: Callable[[], object]) -> bool:
    """True if the server does it; False where it says that it does not.

    Raises ServerError for anything else, such as a server that is not there.
    """
    try:
        ask()
    except ServerError as error:
        if error.status in REFUSED:
            return False
        raise
    return True


def posted(client: Client, path: str, body: Mapping[str, Any], check: Callable[[], None]) -> Answer:
    """The answer to ``body``. ``check`` raises ServerError where another model gave it.

    One that refuses may be another model too, which has other tokens or less room.
    """
    try:
        answer = client.post(path, body)
    except ServerError as error:
        if error.status in REFUSED:
            check()
        raise
    check()
    return answer


def batch_row(ask: Callable[[], object]) -> Probed:
    """The row of the table for several texts in one request, which ``ask`` tries."""
    try:
        ask()
    except BackendError as error:
        return Probed(BATCH, "", str(error))
    return Probed(BATCH, "yes", "several texts in one request, tried")


def metrics_row(client: Client, how: str) -> Probed:
    """The row of the table for metrics; ``how`` says what would make the server tell them."""
    if accepted(lambda: client.text("/metrics")):
        return Probed("metrics", "yes", "/metrics")
    return Probed("metrics", "", how)
