"""Finding what was read before: for a new prompt by full blocks, for the run's own tree exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.kv.branch import Branch
from engine.kv.pool import Pool
from engine.kv.prefix import common_ids, common_keys, explain
from engine.records.cache import PrefixReport

OTHER_VARIANT = "it was read as part of a text of another length, whose positions are scaled apart"
"""Reason for a miss though the tokens are the same."""


def branch_for_prompt(
    pool: Pool, ids: Sequence[int], variant: bytes = b""
) -> tuple[Branch, PrefixReport]:
    """A branch for a new prompt that has its longest known run of full blocks in it already.

    At least the last of ``ids`` is left to compute. Only branches of the same ``variant`` count.
    """
    keys = pool.chain(ids, variant)
    best, hits, nearest, common = None, 0, None, 0
    apart = 0
    for branch in pool.branches.values():
        if branch.variant != variant:
            apart = max(apart, common_ids(ids, branch.ids))
            continue
        equal = common_keys(keys, branch.keys)
        shared = common_ids(ids, branch.ids, equal * pool.block_size)
        if nearest is None or shared > common:
            nearest, common = branch, shared
        cached = min(equal * pool.block_size, len(ids) - 1)
        if equal > hits and pool.readable(branch, cached):
            best, hits = branch, equal
    cached = min(hits * pool.block_size, len(ids) - 1)
    gone = 0
    while hits + gone < len(keys) and keys[hits + gone] in pool.evicted_keys:
        gone += 1
    report = explain(
        ids,
        nearest.ids if nearest else None,
        cached=cached,
        hit_blocks=hits,
        evicted_blocks=gone,
        size=pool.block_size,
    )
    if not gone and min(apart, len(ids) - 1) >= cached + pool.block_size:
        report = replace(report, reason=OTHER_VARIANT)
    return (pool.fork(best, cached) if best else pool.open(variant)), report


def branch_for(
    pool: Pool, ids: Sequence[int], current: Branch | None = None, variant: bytes = b""
) -> Branch:
    """The branch, held, that has the longest leading run of ``ids``, short of the last one.

    That is an existing one where the run ends at its tip (``current`` before others), else a
    fork. Every position counts here, not only full blocks, of branches of the same ``variant``.
    """
    wanted = ids[:-1]
    if current is not None and current.ids == wanted and current.variant == variant:
        return current
    keys = pool.chain(wanted, variant)
    best, rank = None, (0, False, False)
    for branch in pool.branches.values():
        if branch.variant != variant:
            continue
        equal = common_keys(keys, branch.keys)
        run = common_ids(wanted, branch.ids, equal * pool.block_size)
        ours = (run, run == len(branch), branch is current)
        if run and ours > rank and pool.readable(branch, run):
            best, rank = branch, ours
    if best is None:
        return pool.open(variant)
    if rank[0] < len(best):
        return pool.fork(best, rank[0])
    pool.hold(best)
    return best
