"""Prefix match: the part of a prompt that is in the pool already, and why not more of it is.

The rule is that of production engines: full blocks only, each keyed by a hash chained over the
keys of all blocks before it, so that equal keys mean equal tokens from position 0 on; and at least
the last token is always computed, because its logits are what the pass is for.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from engine.records.cache import PrefixReport

Key = bytes


def root_key(*parts: str) -> Key:
    """The key that a chain starts from: the model, its dtype, whatever makes K and V differ."""
    return blake2b("\0".join(parts).encode(), digest_size=16).digest()


def next_key(before: Key, ids: Sequence[int]) -> Key:
    """The key of a block that holds ``ids`` behind the block with key ``before``."""
    return blake2b(before + array("q", ids).tobytes(), digest_size=16).digest()


def chain(root: Key, ids: Sequence[int], size: int, known: Sequence[Key] = ()) -> list[Key]:
    """The keys of all full blocks of ``ids``; ``known`` are those already computed."""
    keys = list(known)
    before = keys[-1] if keys else root
    for start in range(len(keys) * size, len(ids) - size + 1, size):
        before = next_key(before, ids[start : start + size])
        keys.append(before)
    return keys


def common_keys(ours: Sequence[Key], theirs: Sequence[Key]) -> int:
    """Number of leading keys that are equal. A chained key settles all before it: a bisection."""
    low, high = 0, min(len(ours), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if ours[middle - 1] == theirs[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


_PIECE = 256


def common_ids(ours: Sequence[int], theirs: Sequence[int], known: int = 0) -> int:
    """The length of the common leading run, of which ``known`` positions are known to agree."""
    at, end = known, min(len(ours), len(theirs))
    # Piece by piece, as comparing two lists is a hundred times as fast as their ids in turn.
    while at + _PIECE <= end and list(ours[at : at + _PIECE]) == list(theirs[at : at + _PIECE]):
        at += _PIECE
    while at < end and ours[at] == theirs[at]:
        at += 1
    return at


def explain(
    ids: Sequence[int],
    nearest: Sequence[int] | None,
    *,
    cached: int,
    hit_blocks: int,
    evicted_blocks: int,
    size: int,
) -> PrefixReport:
    """The report on a look-up of ``ids``; ``nearest`` is the read sequence with most in common."""
    theirs = () if nearest is None else nearest
    common = common_ids(ids, theirs)
    parted = common < min(len(ids), len(theirs))
    return PrefixReport(
        prompt=len(ids),
        cached=cached,
        computed=len(ids) - cached,
        block_size=size,
        hit_blocks=hit_blocks,
        common=common,
        differs_at=common if parted else None,
        ours=ids[common] if parted else None,
        theirs=theirs[common] if parted else None,
        evicted_blocks=evicted_blocks,
        moved_last=max(cached, _moved_last(ids, theirs, common, size)),
        reason=_reason(len(ids), len(theirs), common, parted, cached, evicted_blocks, size),
    )


def _moved_last(ids: Sequence[int], theirs: Sequence[int], common: int, size: int) -> int:
    """Positions found if what lies between the common head and the common tail came last."""
    room = min(len(ids), len(theirs)) - common
    tail = 0
    while tail < room and ids[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    return min((common + tail) // size * size, len(ids) - 1)


def _reason(
    count: int, before: int, common: int, parted: bool, cached: int, evicted: int, size: int
) -> str:
    if evicted:
        return f"{evicted} blocks of it were evicted to make room"
    if not before:
        return "nothing was read before"
    if cached == count - 1:
        return "all of it was read before: the last token is computed again for its logits"
    if parted:
        short = f", and what is common is shorter than one block of {size}" * (common < size)
        return f"the token at position {common} is another one{short}"
    which = "the prompt" if count <= before else "what was read before"
    if common < size:
        return f"{which} is shorter than one block of {size}"
    return f"{which} ends at position {common}"
