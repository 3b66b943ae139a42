"""Probe a loaded model with short passes: width, cache type, pool, rewinding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.backends.base import BackendError
from engine.backends.hf import facts as hf_facts
from engine.backends.hf import native_cache as hf_cache
from engine.backends.hf import pool as hf_pool
from engine.backends.hf.parts import Parts
from engine.backends.hf.pool import KVOptions
from engine.backends.hf.reader import Reader
from engine.backends.hf.upcast import ROWS
from engine.kv import attention
from engine.records.arrays import FloatArray

_ALIKE = {"float32": 0.01, "float16": 0.1}
"""Allowed distance of two ways to the same logits, in their standard deviations."""
_LOOSELY = 0.5
"""The same for bfloat16, and for K and V in 8 bits."""


@dataclass(frozen=True, eq=False)
class Tried:
    """A reader that suits the model, nothing read yet, and the facts that came out on the way."""

    reader: Reader
    facts: dict[str, Any]
    notes: tuple[str, ...]
    cache_fails: bool = False
    """True if the model has a cache that cannot be used."""


class _PassFailed(BackendError):
    """A pass of the trial that the model did not survive."""


def reader_for(
    parts: Parts, identity: str, ids: list[int], options: KVOptions, *, singly: bool = False
) -> Reader:
    """A reader that keeps K and V as ``options`` say where that can be; ``ids`` tell whether.

    Raises BackendError where there is no room for the pool.
    """
    reader = Reader(parts, cached=options.cached, singly=singly)
    whole = reader.read(ids).logits
    _settle(reader, identity, ids, whole, options)
    return reader


def try_out(parts: Parts, identity: str, ids: list[int], options: KVOptions) -> Tried:
    """Read five ``ids`` in several ways. Raises BackendError when the model cannot be run.

    A model that cannot go on with its own cache is run without.
    """
    try:
        return _try_out(Reader(parts, cached=options.cached), identity, ids, options)
    except _PassFailed as error:
        if not options.cached:
            raise
        attention.uninstall(parts.model)
        tried = _try_out(Reader(parts, cached=False), identity, ids, options)
        note = f"with its own cache it fails, so none is kept: {error}"
        return replace(tried, notes=(note, *tried.notes), cache_fails=True)


def _try_out(reader: Reader, identity: str, ids: list[int], options: KVOptions) -> Tried:
    parts = reader.parts
    shape = hf_facts.shape_of(hf_facts.decoder_config(parts.model))
    whole = _read(reader, ids)
    kind = hf_cache.kind_of(reader.cache, reader.argument)
    kv_heads, head_dim = hf_cache.head_shape(reader.cache) or (shape.kv_heads, shape.head_dim)
    pool_note = _settle(reader, identity, ids, whole, options)
    _read(reader, ids[:4])
    before = reader.kv()[1]
    stepped = _read(reader, ids[4:])
    after = reader.kv()[1]
    growth = None if after is None or before is None else after - before
    pooled = reader.pool is not None
    reader.can_rewind = (pooled or kind.always_rewinds) and _rewinds(reader, ids, stepped)
    if not reader.can_rewind:
        # Some recurrent layers take up their state for one position at a time only.
        reader.singly = not _takes_several(reader, ids, stepped)
    notes = _notes(reader, kind, options, whole, stepped)
    notes = (*notes, *filter(None, (pool_note, _rope_note(parts))))
    reader.forget()
    reader.cool_down()
    expected = 2 * shape.layers * kv_heads * head_dim * int(parts.model.dtype.itemsize)
    kv_note = _kv_note(kind, growth, expected, pooled=pooled and reader.can_rewind)
    if reader.pool is not None and reader.pool.quantized and growth is not None:
        kv_note = f"K and V in 8 bits: {growth:,} bytes a token instead of {expected:,}"
    if not options.cached:
        kv_note = "off, as was asked for (--no-cache)"
    facts = {
        "vocab_size": int(whole.size),
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "kv_bytes_per_token_expected": None if kv_note else expected,
        "kv_note": kv_note,
        "cache_kind": kind.name,
        "can_rewind": reader.can_rewind,
        "kv_storage": hf_pool.storage_of(reader.pool, cached=reader.keeps_cache),
    }
    return Tried(reader, facts, notes)


def _settle(
    reader: Reader, identity: str, ids: list[int], whole: FloatArray, options: KVOptions
) -> str:
    """Choose where K and V go from now on, nothing read yet; what there is to say.

    ``reader`` has read ``ids``, which gave ``whole``.
    """
    reader.keeps_cache = reader.cache is not None
    note = _put_in_pool(reader, identity, ids, whole, options)
    reader.forget()
    reader.cool_down()
    return note


def _put_in_pool(
    reader: Reader, identity: str, ids: list[int], whole: FloatArray, options: KVOptions
) -> str:
    """Go over to a pool if that can be, and gives the same logits; what there is to say."""
    opened = hf_pool.open_pool(reader.parts.model, reader.cache, identity, options)
    reader.forget()
    reader.pool = opened.pool
    if reader.pool is None:
        return opened.note
    try:
        # 8 bits give other logits, which is what was asked for.
        same = options.eight_bits or alike(reader, whole, reader.read(ids).logits)
    except BackendError:
        same = False
    if same:
        _check_fused(reader, ids)
        return opened.note
    reader.pool = None
    attention.uninstall(reader.parts.model)
    return "no pool of KV blocks: the model's answer was another one with it"


def _read(reader: Reader, ids: list[int]) -> FloatArray:
    try:
        return reader.read(ids).logits
    except BackendError as error:
        raise _PassFailed(str(error)) from error


def _check_fused(reader: Reader, ids: list[int]) -> None:
    """Drop the fused way through the model if its logits are other than the model's own."""
    if reader.parts.fused is None:
        return
    logits = []
    try:
        for fused in (False, True):
            reader.forget()
            reader.read(ids[:-1])
            logits.append(reader.read(ids[-1:], fused=fused).logits)
    except BackendError:
        reader.parts.fused = None
        return
    if not alike(reader, *logits):
        reader.parts.fused = None


def _rewinds(reader: Reader, ids: list[int], logits: FloatArray) -> bool:
    """True if taking positions out and reading them again gives the same ``logits``."""
    try:
        reader.rollback(3)
        return alike(reader, logits, reader.read(ids[2:]).logits)
    except BackendError:
        return False


def _takes_several(reader: Reader, ids: list[int], logits: FloatArray) -> bool:
    """True if several positions read behind others give the same ``logits`` as one by one."""
    reader.forget()
    try:
        reader.read(ids[:2])
        return alike(reader, logits, reader.read(ids[2:]).logits)
    except BackendError:
        return False


def alike(reader: Reader, left: FloatArray, right: FloatArray) -> bool:
    """True if two vectors of logits differ by no more than rounding in the reader's dtype."""
    eight = reader.pool is not None and reader.pool.quantized
    tolerance = _ALIKE.get("int8" if eight else reader.parts.dtype, _LOOSELY)
    finite = np.isfinite(left)
    distance = np.abs(left[finite] - right[finite]).max()
    return bool(distance <= tolerance * left[finite].std())


def _notes(
    reader: Reader,
    kind: hf_cache.CacheKind,
    options: KVOptions,
    whole: FloatArray,
    stepped: FloatArray,
) -> tuple[str, ...]:
    """Notes for the user on how this model is run."""
    found = {
        "the model keeps no cache between passes: each step reads the whole text again": (
            options.cached and not reader.keeps_cache
        ),
        "no cache is kept (--no-cache): each step reads the whole text again": not options.cached,
        "K and V are kept in 8 bits, which changes the logits a little": (
            reader.pool is not None and reader.pool.quantized
        ),
        "with its cache the model gives other logits than reading the same text at once does; "
        "--no-cache reads all of it at each step": (
            reader.keeps_cache and not alike(reader, whole, stepped)
        ),
        "taking positions out of its cache changes its answer: the text is read again": (
            kind.always_rewinds and not reader.can_rewind
        ),
        f"passes of {ROWS} positions or more multiply in float32, faster on this CPU": (
            reader.parts.widened is not None
        ),
    }
    return tuple(note for note, holds in found.items() if holds)


def _rope_note(parts: Parts) -> str:
    """A note on the effect of a text's length on K; empty where it has none."""
    if parts.rope is None:
        return ""
    border = parts.rope.border
    if parts.rope.lasts(border):
        return (
            f"its rotary angles are others from {border:,} tokens on: there K and V are read again"
        )
    return (
        f"its rotary angles change with every token from {border:,} tokens on: there each step "
        "reads the whole text again"
    )


def _kv_note(kind: hf_cache.CacheKind, growth: int | None, expected: int, *, pooled: bool) -> str:
    """The reason for which bytes per token are not the simple formula's; empty where they are."""
    if kind.sliding and kind.window and not pooled:
        return (
            f"{kind.sliding} of {kind.layers} layers keep at most {kind.window - 1:,} positions, "
            "so a token's share is not constant"
        )
    if kind.recurrent and not kind.full:
        return "recurrent state, constant size: there is no KV cache"
    if kind.recurrent:
        return f"{kind.recurrent} of {kind.layers} layers keep a recurrent state of constant size"
    if growth is None:
        return "the model has no KV cache that can be measured"
    if growth != expected:
        return f"measured {growth:,} bytes a token, which the usual formula does not give"
    return ""
