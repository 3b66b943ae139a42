"""A comparison of two runs as lines for a terminal, or as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.text import quote, visible
from sessions.compare.align import Segment
from sessions.compare.diff import Change, Diff, Pair, Place
from sessions.compare.tables import Bound
from sessions.export.jsonl import plain

_RANKS_SHOWN = 3
_TEXT_SHOWN = 200


def lines(found: Diff) -> Iterator[str]:
    """The comparison in words. Every line is safe for a terminal."""
    yield f"a: {visible(found.a)}"
    yield f"b: {visible(found.b)}"
    yield ""
    if found.changes:
        yield "differs:"
        yield from _changes(found.changes)
    else:
        yield "settings, model and prompt: the same"
    yield ""
    yield from _parting(found)
    if found.settings_there is not None:
        there = found.settings_there
        yield f"settings where they part, position {there.position:,}:"
        yield from _changes(there.changes)
        if not there.changes:
            yield "  the same"
    yield ""
    for segment in found.segments:
        yield from _segment(segment)
    if found.note:
        yield ""
        yield f"distributions: — ({found.note})"
    elif found.pairs:
        yield ""
        yield "position  byte    KL(a‖b) model  KL(a‖b) final  max Δlogit  token, changed ranks"
        for pair in found.pairs:
            yield _pair(pair)


def _changes(changes: Sequence[Change]) -> Iterator[str]:
    width = max((len(change.name) for change in changes), default=0)
    for change in changes:
        yield f"  {visible(change.name):<{width}}  a {_value(change.a)}  b {_value(change.b)}"


def to_json(found: Diff) -> dict[str, Any]:
    """The comparison as plain values: no NaN, no infinity; bytes as hex beside the text."""
    parting = found.parting
    return {
        "a": plain(found.a),
        "b": plain(found.b),
        "same_output": found.same_output,
        "changes": _changes_json(found.changes),
        "settings_at_divergence": None
        if found.settings_there is None
        else {
            "position": found.settings_there.position,
            "changes": _changes_json(found.settings_there.changes),
        },
        "divergence": None
        if parting is None
        else {"byte": parting.offset, "a": _place(parting.a), "b": _place(parting.b)},
        "segments": [
            {"same": True, **_text("", segment.a)}
            if segment.same
            else {"same": False, **_text("a_", segment.a), **_text("b_", segment.b)}
            for segment in found.segments
        ],
        "positions": [_pair_json(pair) for pair in found.pairs],
        "note": found.note,
    }


def _changes_json(changes: Sequence[Change]) -> list[dict[str, Any]]:
    return [{"name": change.name, "a": plain(change.a), "b": plain(change.b)} for change in changes]


def _parting(found: Diff) -> Iterator[str]:
    if found.parting is None:
        yield "output: the same to the last byte"
        return
    count = found.parting.offset
    yield f"output: the same for {count:,} byte{'' if count == 1 else 's'}, then"
    for name, place in (("a", found.parting.a), ("b", found.parting.b)):
        if place is None:
            yield f"  {name} ends"
        else:
            token = quote(place.token.bytes.decode("utf-8", "replace"))
            yield (
                f"  {name} {token} (id {place.token.id}, position {place.position}, "
                f"probability {place.final_prob:.4f})"
            )


def _segment(segment: Segment) -> Iterator[str]:
    if segment.same:
        yield f"    {_shown(segment.a)}"
        return
    if segment.a:
        yield f"a - {_shown(segment.a)}"
    if segment.b:
        yield f"b + {_shown(segment.b)}"


def _shown(data: bytes) -> str:
    """The text of a stretch on one line; of a long one its two ends."""
    text = data.decode("utf-8", "replace")
    if len(text) > _TEXT_SHOWN:
        half = _TEXT_SHOWN // 2
        left_out = len(text) - 2 * half
        return f"{visible(text[:half])} … {left_out:,} characters … {visible(text[-half:])}"
    return visible(text)


def _pair(pair: Pair) -> str:
    logit = "—" if pair.logit_difference is None else f"{pair.logit_difference:.4g}"
    tokens = [pair.token_a] if pair.token_a == pair.token_b else [pair.token_a, pair.token_b]
    named = " | ".join(quote(token.bytes.decode("utf-8", "replace"), 20) for token in tokens)
    ranks = [
        f"{quote(one.token.bytes.decode('utf-8', 'replace'), 12)} {one.a}→{one.b}"
        for one in pair.ranks[:_RANKS_SHOWN]
    ]
    more = len(pair.ranks) - len(ranks)
    changed = ", ".join(ranks) + (f" and {more} more" if more > 0 else "")
    return (
        f"{pair.position:>8}  {pair.offset:>4}  {bound_text(pair.kl_raw):>15}  "
        f"{bound_text(pair.kl_final):>13}  {logit:>10}  {named}{'  ' if changed else ''}{changed}"
    )


def bound_text(bound: Bound | None) -> str:
    """A figure as ``0.0123``, a bound as ``≥ 0.0123``, nothing as ``—``."""
    if bound is None:
        return "—"
    value = "∞" if bound.low == float("inf") else f"{bound.low:.4g}"
    return value if bound.exact else f"≥ {value}"


def _value(value: Any) -> str:
    if value is None:
        return "—"
    return quote(value) if isinstance(value, str) else str(value)


def _text(prefix: str, data: bytes) -> dict[str, str]:
    return {f"{prefix}text": data.decode("utf-8", "replace"), f"{prefix}bytes": data.hex()}


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "node": place.node,
        "position": place.position,
        "token_id": place.token.id,
        "final_prob": plain(place.final_prob),
        **_text("token_", place.token.bytes),
    }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {
        "byte": pair.offset,
        "position": pair.position,
        "a": {"node": pair.a, "token_id": pair.token_a.id, **_text("token_", pair.token_a.bytes)},
        "b": {"node": pair.b, "token_id": pair.token_b.id, **_text("token_", pair.token_b.bytes)},
        "kl_raw": _bound_json(pair.kl_raw),
        "kl_final": _bound_json(pair.kl_final),
        "logit_difference": plain(pair.logit_difference),
        "ranks": [
            {"token_id": one.token.id, "a": one.a, "b": one.b, **_text("token_", one.token.bytes)}
            for one in pair.ranks
        ],
    }


def _bound_json(bound: Bound | None) -> dict[str, Any] | None:
    """Both ends; null for an end that is infinite or not known, and the reason."""
    if bound is None:
        return None
    high = None if bound.high is None else plain(bound.high)
    return {"low": plain(bound.low), "high": high, "exact": bound.exact, "reason": bound.why}
