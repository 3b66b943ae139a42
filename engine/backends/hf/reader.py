"""Reading a text with a model: passes over a pool of K/V blocks, or over the model's own cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import sub
from typing import Any

import numpy as np
import torch

from engine.backends.base import (
    BackendError,
    ForwardPass,
    RowLogits,
    TokenSequence,
    kept_of,
    own_list,
    prefix_report,
)
from engine.backends.hf import native_cache as hf_cache
from engine.backends.hf.layer_timer import HEAD, LayerTimer, stopwatch
from engine.backends.hf.parts import Parts
from engine.backends.hf.pool import branch_of
from engine.backends.hf.results import check_finite, explained, in_main_memory
from engine.backends.hf.upcast import ROWS
from engine.kv.cache import PooledCache
from engine.kv.lookup import OTHER_VARIANT
from engine.models.checks import first_line
from engine.records.cache import PrefixReport
from engine.timing import now_ms


class Reader:
    """A text that has been read, with its K and V in ``pool``, in ``cache``, or nowhere.

    A pass that fails leaves ``length`` as it was. With a pool nothing is lost; a half-written cache
    of the model's own is dropped, and the next pass reads everything again.
    """

    def __init__(self, parts: Parts, *, cached: bool, singly: bool = False) -> None:
        """Without ``cached`` each pass reads everything again; see ``singly`` for that."""
        self.parts = parts
        self.pool: PooledCache | None = None
        self.cache: Any = None
        self.keeps_cache = cached
        """True if the model keeps anything between two passes."""
        self.can_rewind = True
        """True if the last positions can be taken back alone."""
        self.singly = singly
        """True if positions behind others must be read one by one (some recurrent layers)."""
        self.argument = hf_cache.argument_of(parts.model) if cached else None
        """The name of the model's argument that takes its cache."""
        self.keywords: dict[str, Any] = {"use_cache": cached, "return_dict": True}
        self.shares_passes: bool | None = None
        """True if several rows in one pass give what each gives alone; None until it was tried."""
        self._own_ids: list[int] = []
        self._own_variant = b""
        self._whole = 0
        self._kinds: set[tuple[str, int]] = set()

    # --- where it is --------------------------------------------------------------------------

    @property
    def ids(self) -> list[int]:
        """Token ids read and not taken back. Do not change it."""
        return self._own_ids if self.pool is None else self.pool.current.ids

    @property
    def sequence(self) -> TokenSequence:
        """The sequence that the next pass goes on with."""
        return self._own_ids if self.pool is None else self.pool.current

    def go_to(self, sequence: TokenSequence) -> list[int]:
        """Make ``sequence`` the one that the next pass goes on with; ids of it to be read again.

        Raises BackendError for a branch that the pool no longer holds.
        """
        if sequence is self.sequence:
            return []
        if self.pool is None:
            again = own_list(sequence)[self.reuse([*own_list(sequence), 0]) :]
            # Not the list that somebody may hold: what is read next is another text.
            self._own_ids = list(self._own_ids)
            return again
        with self._leaving_nothing_useless(self.pool):
            self.pool.switch(branch_of(self.pool, sequence))
        self._whole = 0
        return []

    def adopt(self, sequence: list[int], ids: Sequence[int]) -> None:
        """Note that the model's own cache holds ``sequence`` now, which ``ids`` were added to."""
        sequence.extend(ids)
        self._own_ids = sequence

    def _variant(self, length: int) -> bytes:
        """Key of all besides its tokens that K and V of a text of ``length`` depend on."""
        return b"" if self.parts.rope is None else self.parts.rope.variant(length)

    def reuse(self, ids: Sequence[int]) -> int:
        """Go to where ``ids``, short of the last one, were read; how many of them that is.

        What is read next is a part of ``ids``: K and V that depend on its length are those of all.
        """
        self._whole = len(ids)
        if self.pool is not None:
            with self._leaving_nothing_useless(self.pool):
                return self.pool.enter(list(ids), self._variant(len(ids)))
        if not self.keeps_cache:
            # Where nothing is kept, to be at a place is only to know what stands before it.
            self._own_ids = list(ids[:-1])
            return len(self._own_ids)
        kept = kept_of(self._own_ids, ids, can_rewind=self.can_rewind)
        if self._own_variant != self._variant(len(ids)):
            kept = 0
        if kept < len(self._own_ids):
            # A new list: whoever holds the one before still has what it read.
            self._own_ids = list(self._own_ids)
            self.rollback(len(self._own_ids) - kept)
        self._whole, self._own_variant = len(ids), self._variant(len(ids))
        return kept

    def reuse_for_prompt(self, ids: Sequence[int]) -> PrefixReport:
        """Move to the longest cached run of ``ids`` for a new prompt; in a pool, of full blocks."""
        self._whole = len(ids)
        if self.pool is not None:
            with self._leaving_nothing_useless(self.pool):
                return self.pool.enter_prompt(list(ids), self._variant(len(ids)))
        held, variant = list(self._own_ids), self._own_variant
        if not self.keeps_cache:
            self._own_ids = []
            reason = "no cache is kept: each pass reads everything"
            return replace(prefix_report(ids, held, 0), reason=reason, moved_last=0)
        report = prefix_report(ids, held, self.reuse(ids), can_rewind=self.can_rewind)
        if report.common and variant != self._own_variant:
            return replace(report, reason=OTHER_VARIANT)
        return report

    @contextlib.contextmanager
    def _leaving_nothing_useless(self, pool: PooledCache) -> Iterator[None]:
        """Give back a branch that is gone from, where no text of another length could use it."""
        before = pool.current
        yield
        rope = self.parts.rope
        if before is pool.current or rope is None or not before.variant:
            return
        if before.variant != pool.current.variant and not rope.lasts(len(before)):
            pool.discard(before)

    def rollback(self, count: int) -> None:
        """Forget the last ``count`` positions; all of them is always possible.

        Raises BackendError, and changes nothing, for more than there are and where the cache no
        longer holds what it would have to go back to.
        """
        length = len(self.ids)
        if not 0 <= count <= length:
            raise BackendError(f"cannot take back {count} of {length} positions")
        if count == 0:
            return
        self._whole = 0
        if self.pool is not None:
            try:
                self.pool.truncate(length - count)
            except ValueError as error:
                raise BackendError(str(error)) from error
            return
        if count == length:
            self.forget()
            return
        if self.cache is not None:
            try:
                hf_cache.crop(self.cache, count, length)
            except BackendError:
                raise
            except Exception as error:
                self._drop_cache()
                raise BackendError(f"the cache cannot be rewound: {first_line(error)}") from error
        del self._own_ids[-count:]

    def kv(self) -> tuple[int, int | None]:
        """(positions stored, of the layer that stores most; bytes that they take in all layers)."""
        if self.pool is not None:
            return self.pool.size_of(self.pool.current)
        return hf_cache.stored(self.cache), hf_cache.nbytes(self.cache)

    def forget(self) -> None:
        """Forget all that was read."""
        self._whole, self._own_variant = 0, b""
        self._drop_cache()
        self._own_ids = []
        if self.pool is not None:
            self.pool.clear()

    def cool_down(self) -> None:
        """Count the next pass of each kind as a warm-up again."""
        self._kinds.clear()

    def _drop_cache(self) -> None:
        self.cache = None
        if self.argument is not None:
            self.keywords.pop(self.argument, None)

    # --- passes -------------------------------------------------------------------------------

    def prefill(
        self,
        ids: Sequence[int],
        *,
        profile: bool,
        modules: bool = False,
        all_positions: bool = False,
    ) -> ForwardPass:
        """Read ``ids`` (at least one) after what is there; logits of the last one.

        With ``profile`` layers are timed, by hooks that are there for this pass only, and with
        ``modules`` what else there is. Raises BackendError.
        """
        self.check(ids)
        if self.singly and self.ids and len(ids) > 1:
            return self._read_singly(ids, all_positions)
        if not profile:
            return self.read(ids, all_positions=all_positions)
        if not self.parts.layers:
            return replace(self.read(ids), layers_note="the model's layers could not be found")
        watch = stopwatch(self.parts.device.type, self.parts.synchronize)
        with LayerTimer(self.parts.layers, self.parts.outside, watch, every=modules) as timer:
            result = self.read(ids, fused=False)
        outside = timer.outside_ms()
        head = outside.pop(HEAD, None)
        return replace(result, layers=timer.times(), head_ms=head, outside=outside)

    def check(self, ids: Sequence[int], before: int | None = None) -> None:
        """Raises BackendError where the model cannot read ``ids`` after what is there.

        ``before``: after so many positions instead.
        """
        if not ids:
            raise BackendError("there is nothing to read: a pass needs at least one token")
        low, high = min(ids), max(ids)
        if low < 0 or high >= self.parts.rows:
            raise BackendError(
                f"token id {low if low < 0 else high} has no embedding: ids run from 0 to "
                f"{self.parts.rows - 1}"
            )
        limit = self.parts.position_rows
        if limit is None:
            return
        if (len(self.ids) if before is None else before) + len(ids) > limit:
            raise BackendError(f"the context is full: the model has {limit:,} learned positions")

    def _read_singly(self, ids: Sequence[int], all_positions: bool) -> ForwardPass:
        before = len(self.ids)
        try:
            passes = [self.read((token_id,)) for token_id in ids]
        except BaseException:
            self._drop_cache()
            del self._own_ids[before:]
            raise
        last = passes[-1].rows[0]
        if all_positions:
            last = RowLogits(np.stack([one.logits for one in passes]))
        return ForwardPass(
            (last,),
            ms=sum(one.ms for one in passes),
            warmup=passes[0].warmup,
            layers_note="its recurrent state is continued one position at a time",
            passes=len(passes),
        )

    def read(
        self, ids: Sequence[int], *, fused: bool = True, all_positions: bool = False
    ) -> ForwardPass:
        """One pass over ``ids``; over all before them too, where there is no cache of those.

        Without ``fused`` every module of the model is called, as its hooks want it.
        """
        length = max(self._whole, len(self.ids) + len(ids))
        if self.parts.rope is None:
            return self._read(ids, fused, len(ids) if all_positions else 0)
        with self._in_variant(self._variant(length)) as stale, self.parts.rope.reading(length):
            return self._read([*stale, *ids], fused, len(ids) if all_positions else 0)

    @contextlib.contextmanager
    def _in_variant(self, variant: bytes) -> Iterator[list[int]]:
        """Go to where K and V of ``variant`` lie; what of the text has to be read again there."""
        pool = self.pool
        if pool is None:
            if self._own_variant != variant:
                self._drop_cache()  # so that the next pass reads all of it
                self._own_variant = variant
            yield []
            return
        before = pool.current
        if before.variant == variant:
            yield []
            return
        with self._leaving_nothing_useless(pool):
            pool.switch(pool.pool.open(variant))
            try:
                yield before.ids
            except BaseException:
                if before.number in pool.pool.branches:
                    pool.switch(before)
                raise

    def _read(self, ids: Sequence[int], fused: bool, positions: int) -> ForwardPass:
        """Read ``ids``; logits of the last ``positions`` of them, of the last alone for 0."""
        again = self._own_ids if self.cache is None and self.pool is None else []
        count = len(again) + len(ids)
        # After a failed pass, a step is no ordinary one.
        warmup = self._first_of_its_kind(count) or (bool(again) and self.keeps_cache)
        before = self.blocks_moved()
        self.parts.synchronize()
        started = now_ms()
        try:
            with torch.inference_mode(), self._over_pool(ids, count) as more:
                logits = None
                if fused and self.pool is not None and self.parts.fused is not None:
                    at, each = more["position_ids"], positions == count
                    logits = self.parts.fused.read(ids, at, self.pool, each=each)
                if logits is not None:
                    row = in_main_memory(logits)
                else:
                    row = self._logits([*again, *ids] if again else ids, count, more, positions)
                ms = now_ms() - started
                check_finite(row, self.parts.dtype)
        except BaseException as error:
            # Some layers may have read the ids and others not.
            self._drop_cache()
            if not isinstance(error, Exception):
                raise
            raise explained(error, count) from error
        if self.pool is None:
            self._own_ids.extend(ids)
        copied, evicted = map(sub, self.blocks_moved(), before)
        return ForwardPass((row,), ms, warmup, copied_blocks=copied, evicted_blocks=evicted)

    def _first_of_its_kind(self, count: int) -> bool:
        """True if no pass of this kind (one position, or about as many) has run before."""
        kind = ("decode", 1) if self.ids and count == 1 else ("prefill", count.bit_length())
        return self.is_first_of(kind)

    def is_first_of(self, kind: tuple[str, int]) -> bool:
        """True if no pass of ``kind`` has run before; from now on one has."""
        first = kind not in self._kinds
        self._kinds.add(kind)
        return first

    def blocks_moved(self) -> tuple[int, int]:
        """Blocks copied and evicted since the pool was made."""
        if self.pool is None:
            return 0, 0
        counters = self.pool.pool.counters
        return counters.copied_blocks, counters.evicted_blocks

    @contextlib.contextmanager
    def _over_pool(self, ids: Sequence[int], count: int) -> Iterator[dict[str, Any]]:
        """One pass of ``count`` positions, over the pool if there is one.

        What the model is given for it is what ``generate()`` would give it.
        """
        if self.pool is None or self.argument is None:
            # Everything before is read again, or it lies in the model's own cache.
            end = len(self._own_ids) + len(ids)
            positions = torch.arange(end - count, end, device=self.parts.device).unsqueeze(0)
            yield {"position_ids": positions} if self.parts.takes_positions else {}
            return
        with self.pool.reading(ids) as positions:
            given = {"position_ids": positions} if self.parts.takes_positions else {}
            yield {self.argument: self.pool, **given}

    def _logits(
        self, ids: Sequence[int], count: int, more: dict[str, Any], positions: int
    ) -> RowLogits:
        """Logits in main memory of the last of ``ids``, or of the last ``positions`` of them.

        The cache now holds all of ``ids``.
        """
        parts = self.parts
        if count == 1:
            output = parts.model(parts.one.fill_(ids[0]), **self.keywords, **more)
            last = output.logits[0, -1:] if positions else output.logits[0, -1]
        else:
            given = torch.tensor([ids], device=parts.device)
            wide = parts.widened if count >= ROWS and parts.widened else contextlib.nullcontext()
            only = {} if positions else parts.last_only
            with wide:
                output = parts.model(given, **self.keywords, **only, **more)
            # Cloned, or one row would keep the rows of a whole prompt in memory.
            last = (output.logits[0, -positions:] if positions else output.logits[0, -1]).clone()
        if self.pool is None and self.cache is None and self.argument is not None:
            self.cache = getattr(output, self.argument, None)
            if self.cache is not None:
                self.keywords[self.argument] = self.cache
        elif self.argument == "state":  # a new one comes out of every pass
            self.cache = self.keywords["state"] = output.state
        return in_main_memory(last)
