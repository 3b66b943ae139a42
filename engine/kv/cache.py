"""A transformers cache whose K and V live in a pool of blocks, for one sequence at a time.

The model writes and reads it like any other cache; what it calls the sequence is the current
branch. ``enter_prompt`` and ``enter`` choose the branch, ``reading`` brackets one pass over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Cache

from engine.kv import lookup
from engine.kv.blocks import Blocks
from engine.kv.branch import Branch, Copy
from engine.kv.budget import blocks_within
from engine.kv.layer import KeylessLayer, PooledLayer
from engine.kv.layout import Layout
from engine.kv.pool import Pool
from engine.kv.prefix import root_key
from engine.kv.quant import Int8Store
from engine.kv.scratch import Scratch
from engine.kv.state import pool_state
from engine.kv.store import Pair, Place, PlainStore, Store
from engine.records.cache import BLOCK_SIZE, PoolState, PrefixReport


class PoolMemoryError(RuntimeError):
    """The machine has no room for the pool asked for; one line says how large it was."""


class PooledCache(Cache):
    """All layers of one model over one pool."""

    def __init__(
        self,
        layout: Layout,
        *,
        budget: int,
        identity: str = "",
        block_size: int = BLOCK_SIZE,
        quantized: bool = False,
        wide: bool = False,
        window_keep: int | None = None,
        context: int | None = None,
    ) -> None:
        """Reserve the tensors, once and for all, within ``budget`` bytes.

        ``identity`` names the model in the blocks' keys. ``quantized`` keeps K and V in 8 bits;
        with ``wide`` a CPU reads them as float32, for an attention that takes them so
        (``engine.kv.attention``). ``window_keep``: see ``Pool``. Raises PoolMemoryError.
        """
        self.layout = layout
        self.quantized = quantized
        self._context = context
        windows = layout.windows
        self._block_bytes = tuple(
            block_size * layout.position_bytes(window, quantized=quantized) for window in windows
        )
        counts = blocks_within(
            budget, self._block_bytes, windows, block_size=block_size, window_keep=window_keep
        )
        dtypes = sorted({str(layer.dtype) for layer in layout.layers if layer})
        self.pool = Pool(
            groups=tuple(Blocks(count) for count in counts),
            windows=windows,
            block_size=block_size,
            root=root_key(identity, *dtypes, f"int8={quantized}", str(block_size)),
            window_keep=window_keep,
        )
        # A layer that others read from must not have its tensor overwritten by the next one.
        self._scratch = Scratch(keep=not layout.shared)
        layers: list[PooledLayer] = []
        try:
            for shape in layout.layers:
                if shape is None:
                    layers.append(KeylessLayer())
                    continue
                positions = counts[windows.index(shape.window)] * block_size
                store: Store
                if quantized:
                    widen = wide and shape.device.type == "cpu"
                    dtype = torch.float32 if widen else shape.dtype
                    store = Int8Store(shape, positions, self._scratch, dtype)
                else:
                    store = PlainStore(shape, positions, self._scratch)
                layers.append(PooledLayer(store, shape.window))
        except (RuntimeError, MemoryError) as error:
            raise PoolMemoryError(
                f"there is no room for a KV pool of {budget / 2**20:,.0f} MiB: "
                "give a smaller KV budget"
            ) from error
        super().__init__(layers=layers)
        self._groups = tuple(layout.members(window) for window in windows)
        self.device = next(shape.device for shape in layout.layers if shape)
        self.current = self.pool.open()

    # --- choosing the branch ----------------------------------------------------------------

    @property
    def length(self) -> int:
        """Positions of the current branch."""
        return len(self.current)

    def enter_prompt(self, ids: Sequence[int], variant: bytes = b"") -> PrefixReport:
        """Begin a new prompt: the current branch now holds its longest known run of blocks.

        The report says how many of ``ids`` that is, always short of the last one, and why not
        more. The branch before stays, and may be evicted. ``variant``: see ``Branch``.
        """
        branch, report = lookup.branch_for_prompt(self.pool, ids, variant)
        self.switch(branch)
        return report

    def enter(self, ids: Sequence[int], variant: bytes = b"") -> int:
        """Go to where ``ids``, short of the last one, have been read to; how many that is.

        Computes nothing and copies nothing. The branch before stays, and may be evicted.
        ``variant``: see ``Branch``.
        """
        self.switch(lookup.branch_for(self.pool, ids, self.current, variant))
        return self.length

    def fork(self, at: int) -> Branch:
        """Go to a new branch that shares the first ``at`` positions; returns the one left."""
        left = self.current
        self.switch(self.pool.fork(left, at))
        return left

    def truncate(self, length: int) -> None:
        """Forget the current branch's positions from ``length`` on. Raises ValueError."""
        self.pool.truncate(self.current, length)
        self._settle()

    def discard(self, branch: Branch) -> None:
        if branch is not self.current and branch.number in self.pool.branches:
            self.pool.close(branch)

    def forget(self, number: int, keep: int) -> None:
        """The branch ``number`` is needed for its first ``keep`` positions at most.

        It goes as a whole where another one has those. Does nothing for one that is gone already.
        """
        branch = self.pool.branches.get(number)
        if branch is None or keep >= len(branch):
            return
        branch.pinned = branch.pinned and keep > 0
        head = branch.ids[:keep]
        alike = (one for one in self.pool.branches.values() if one.variant == branch.variant)
        others = (one for one in alike if one is not branch)
        if branch is not self.current and any(one.ids[:keep] == head for one in others):
            self.pool.close(branch)
        elif self.pool.readable(branch, keep):
            self.pool.truncate(branch, keep)
        else:
            self.pool.close(branch)
            if branch is self.current:
                self.current = self.pool.open()
        self._settle()

    def crop(self, tokens_to_remove: int) -> None:
        """transformers' word for it: take the last ``-tokens_to_remove`` positions away."""
        if tokens_to_remove > 0:
            raise ValueError("crop takes the negative number of positions to remove")
        if tokens_to_remove:
            self.truncate(max(0, self.length + tokens_to_remove))

    def clear(self) -> None:
        """Forget every branch; the tensors stay."""
        for branch in list(self.pool.branches.values()):
            self.pool.close(branch)
        self.current = self.pool.open()
        self._settle()

    def switch(self, branch: Branch) -> None:
        """Go to ``branch``, which is held from now on; the one before may be evicted."""
        self.pool.hold(branch)
        if branch is not self.current:
            if self.current.number in self.pool.branches:
                self.pool.release(self.current)
            self.current = branch
        self._settle()

    def _settle(self) -> None:
        """Outside a pass: every layer has seen what the current branch holds."""
        for layer in self.layers:
            layer.place = None
            layer.seen = self.length

    # --- one pass ---------------------------------------------------------------------------

    @contextmanager
    def reading(self, ids: Sequence[int], layers: int | None = None) -> Iterator[torch.Tensor]:
        """One pass of the model over ``ids`` behind the current branch.

        Yields their position ids, (1, n). If the pass fails the branch is as it was before. With
        ``layers`` it is of the first ones alone, and the positions are to be taken back. Raises
        OutOfBlocks when there is no room, RuntimeError when a layer wrote nothing.
        """
        branch = self.current
        places = self.reserve(branch, len(ids))
        start, end = places[0].start, places[0].end
        try:
            for place, members in zip(places, self._groups, strict=True):
                for index in members:
                    self.layers[index].place = place
            yield torch.arange(start, end, device=self.device).unsqueeze(0)
            self._check_written(end, layers)
        except BaseException:
            self.pool.abandon(branch)
            raise
        else:
            self.pool.commit(branch, ids)
        finally:
            self._settle()

    def reserve(self, branch: Branch, count: int) -> tuple[Place, ...]:
        """Places that a pass over ``count`` more positions of ``branch`` uses, by group.

        The pool's ``commit`` or ``abandon`` ends it. Raises OutOfBlocks when there is no room.
        """
        extension = self.pool.extend(branch, count)
        start, end = extension.start, extension.start + count
        try:
            self._copy(extension.copies)
            firsts = (self.pool.first_seen(number, start) for number in range(len(self._groups)))
            return tuple(
                Place(
                    slots=torch.tensor(extension.slots[number], device=self.device),
                    runs=self.pool.runs(branch, number, first, end),
                    start=start,
                    count=count,
                    offset=first,
                )
                for number, first in enumerate(firsts)
            )
        except BaseException:
            self.pool.abandon(branch)
            raise

    def group_of(self, index: int) -> int:
        return next(number for number, members in enumerate(self._groups) if index in members)

    def _copy(self, copies: Sequence[Copy]) -> None:
        size = self.pool.block_size
        for copy in copies:
            for index in self._groups[copy.group]:
                store = self.layers[index].store
                store.copy(copy.source * size, copy.target * size, copy.count)

    def _check_written(self, end: int, layers: int | None) -> None:
        for members in self._groups:
            for index in members:
                of_pass = layers is None or index < layers
                if of_pass and self.layers[index].seen != end:
                    raise RuntimeError(f"layer {index} of the model did not use the cache")

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> Pair:
        result: Pair = self.layers[layer_idx].update(key_states, value_states)
        return result

    # --- what there is ----------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return sum(
            tensor.numel() * tensor.element_size()
            for members in self._groups
            for index in members
            for tensor in self.layers[index].store.tensors()
        )

    def position_bytes(self, group: int) -> int:
        """Bytes of one position in all layers of a group."""
        return self._block_bytes[group] // self.pool.block_size

    def size_of(self, branch: Branch) -> tuple[int, int]:
        """(positions that ``branch`` holds, of the group that holds most; bytes of all of them).

        Shared ones are included.
        """
        groups, size = range(len(self._groups)), self.pool.block_size
        held = [len(branch) - self.pool.first_held(branch, number) for number in groups]
        each = zip(held, self._block_bytes, strict=True)
        return max(held), sum(count * block_bytes // size for count, block_bytes in each)

    def state(self) -> PoolState:
        return pool_state(
            self.pool,
            self.current,
            layers=self._groups,
            block_bytes=self._block_bytes,
            quantized=self.quantized,
            context=self._context,
        )
