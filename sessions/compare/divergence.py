"""Divergence of columns of one run: the first token at which all of them, and each two, part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from engine.records.step import How, StepRecord
from engine.records.step_table import StepPath
from engine.records.vocabulary import Token
from sessions.export.jsonl import plain


@dataclass(frozen=True, slots=True)
class PairParts:
    """Two columns, by their place in the list: ``index`` of the first token that differs.

    None where they do not part: one is the beginning of the other, or both are the same.
    """

    a: int
    b: int
    index: int | None


@dataclass(frozen=True, slots=True)
class Divergence:
    """The place where columns part; all None where they have not.

    ``index`` counts tokens from the first drawn one, 0. ``tokens`` are those of all columns there,
    None for one that is shorter.
    """

    index: int | None
    position: int | None
    tokens: tuple[Token | None, ...]
    pairs: tuple[PairParts, ...]


def ids_of(steps: Sequence[StepRecord]) -> list[int]:
    """The token ids of a column; a path's records are not read for them."""
    return steps.token_ids if isinstance(steps, StepPath) else [one.token.id for one in steps]


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first place at which two lists of ids differ; None where one begins the other."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return None
    return next(at for at in range(shorter) if a[at] != b[at])


def divergence(columns: Sequence[Sequence[StepRecord]]) -> Divergence:
    """Compare columns token by token; all have one prompt."""
    ids = [ids_of(one) for one in columns]
    pairs = tuple(
        PairParts(a, b, first_difference(ids[a], ids[b]))
        for a, b in combinations(range(len(ids)), 2)
    )
    index = min((one.index for one in pairs if one.index is not None), default=None)
    if index is None:
        return Divergence(None, None, (), pairs)
    there = [one[index] if index < len(one) else None for one in columns]
    position = next(step.position for step in there if step is not None)
    return Divergence(
        index, position, tuple(None if step is None else step.token for step in there), pairs
    )


def margin_of(step: StepRecord) -> float | None:
    """Margin by which a step's token was drawn; None for a forced one.

    For a draw the way of u to the nearer edge of the token's stretch, else the gap between the
    first two raw logits.
    """
    draw = step.draw
    if draw.how is How.FORCED:
        return None
    if draw.u is not None:
        return min(draw.u - draw.low, draw.high - draw.u)
    if len(step.top.raw_logits) < 2:
        return None
    return float(step.top.raw_logits[0]) - float(step.top.raw_logits[1])


def token_fields(token: Token) -> dict[str, Any]:
    """A token as plain values."""
    text = token.bytes.decode("utf-8", "replace")
    return {"id": token.id, "bytes": token.bytes.hex(), "text": plain(text)}


def to_json(found: Divergence) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "index": found.index,
        "position": found.position,
        "tokens": [None if token is None else token_fields(token) for token in found.tokens],
        "pairs": [{"a": one.a, "b": one.b, "index": one.index} for one in found.pairs],
    }
