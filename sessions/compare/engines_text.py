"""A comparison of two engines as lines for a terminal, or as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.records.vocabulary import Token
from engine.text import plural, quote, share
from sessions.compare.engines import EnginePair, EnginesDiff, EngineSide
from sessions.compare.text import bound_text
from sessions.export.jsonl import plain

_RANKS_SHOWN = 3


def lines(found: EnginesDiff) -> Iterator[str]:
    """The comparison in words."""
    yield f"a: {found.a.label} ({_speed(found.a)})"
    yield f"b: {found.b.label} ({_speed(found.b)})"
    yield ""
    yield "position   p(a)     p(b)     KL(a‖b)   max Δlog p  token"
    for pair in found.pairs:
        yield _line(pair)
    yield ""
    yield from _summary(found)


def _speed(side: EngineSide) -> str:
    if side.step_ms is None or side.tps is None:
        return "—"
    return f"{side.step_ms:.1f} ms a step, {side.tps:.1f} tokens/s, measured"


def _line(pair: EnginePair) -> str:
    largest = "—" if pair.largest is None else f"{pair.largest:.3g}"
    words = [f"{quote(_text(one.token), 14)} {one.a}→{one.b}" for one in pair.ranks[:_RANKS_SHOWN]]
    more = len(pair.ranks) - len(words)
    ranks = f"  ranks {', '.join(words)}{f' and {more} more' if more > 0 else ''}" if words else ""
    flip = f"  FLIPS to {quote(_text(pair.top_b), 20)}" if pair.flips else ""
    return (
        f"{pair.position:>8}  {share(pair.prob_a):>7}  {share(pair.prob_b):>7}  "
        f"{bound_text(pair.kl):>9}  {largest:>10}  {quote(_text(pair.token), 20)}{flip}{ranks}"
    )


def _summary(found: EnginesDiff) -> Iterator[str]:
    count = len(found.pairs)
    if not count:
        yield "nothing was written: there is nothing to compare"
        return
    bound = "" if found.exact else "at least "
    worst = found.largest_kl
    assert worst is not None, "there are pairs"
    yield (
        f"KL(a‖b): {bound}{found.mean_kl:.3g} nats a token on average (derived), "
        f"{bound}{worst.kl.low:.3g} at position {worst.position:,}"
    )
    reranked = sum(bool(pair.ranks) for pair in found.pairs)
    yield f"ranks: changed among the first ten at {reranked:,} of {plural(count, 'token')}"
    if found.flips:
        first = found.flips[0]
        yield (
            f"greedy: {plural(len(found.flips), 'flip')} of {plural(count, 'token')}; left alone, "
            f"b would part at position {first.position:,}: {quote(_text(first.top_b), 20)}"
        )
    else:
        yield f"greedy: the same {plural(count, 'token')}"
    if found.a.tps and found.b.tps:
        yield f"speed: b makes {found.b.tps / found.a.tps:.2f} of the tokens a second that a makes"


def to_json(found: EnginesDiff) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "a": _side(found.a),
        "b": _side(found.b),
        "tokens": len(found.pairs),
        "exact": found.exact,
        "mean_kl": plain(found.mean_kl),
        "flips": len(found.flips),
        "divergence": found.flips[0].position if found.flips else None,
        "positions": [_pair(pair) for pair in found.pairs],
    }


def _side(side: EngineSide) -> dict[str, Any]:
    return {
        "engine": side.engine,
        "model": plain(side.model),
        "step_ms": plain(side.step_ms),
        "tps": plain(side.tps),
    }


def _pair(pair: EnginePair) -> dict[str, Any]:
    return {
        "position": pair.position,
        "token_id": pair.token.id,
        "token_bytes": pair.token.bytes.hex(),
        "prob_a": plain(pair.prob_a),
        "prob_b": plain(pair.prob_b),
        "kl": {"low": plain(pair.kl.low), "high": plain(pair.kl.high), "reason": pair.kl.why},
        "largest": plain(pair.largest),
        "top_a": pair.top_a.id,
        "top_b": pair.top_b.id,
        "ranks": [{"token_id": one.token.id, "a": one.a, "b": one.b} for one in pair.ranks],
    }


def _text(token: Token) -> str:
    return token.bytes.decode("utf-8", "replace")
