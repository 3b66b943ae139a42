"""One new position of several branches at once, in few operations.

What all rows begin with, such as the prompt, lies in the pool once: its keys are multiplied with
the queries of all rows in one product, read once, and never copied. What is each row's own behind
that is gathered, padded on the right. Products and the softmax over both parts are in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from engine.kv.branch import Branch
from engine.kv.cache import PooledCache
from engine.kv.rows import kv_read, reserved
from engine.kv.store import Place, PlainStore
from engine.records.cache import KVRead


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Physical positions that a pass writes and reads in one group of layers.

    ``slots`` (rows,) are written. All rows see ``shared`` positions from ``start`` on, and each
    its own ``index`` (rows * longest,), of which ``hidden`` (rows, 1, longest), minus infinity, is
    padding; None without any.
    """

    slots: torch.Tensor
    start: int
    shared: int
    index: torch.Tensor
    hidden: torch.Tensor | None


class RowsStepLayer:
    """One layer's K and V in such a pass."""

    def __init__(self, joint: torch.Tensor, group: _Group) -> None:
        """``joint`` (2, 1, kv_heads, positions, size) are K and V of the whole pool."""
        self._joint = joint[:, 0]
        self._group = group

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Write each row's K and V and attend to all that it sees; (rows, heads * size).

        ``query`` is (rows, heads, size), ``key`` and ``value`` (rows, kv_heads, size).
        """
        group, joint = self._group, self._joint
        rows, heads, width = query.shape
        kv_heads = key.shape[1]
        joint[0].index_copy_(1, group.slots, key.transpose(0, 1))
        joint[1].index_copy_(1, group.slots, value.transpose(0, 1))
        own = joint.index_select(2, group.index).float().view(2, kv_heads, rows, -1, width)
        # The query heads of one K/V head are rows of one product.
        folded = query.float().mul(scaling).view(rows, kv_heads, -1, width).transpose(0, 1)
        scores = folded @ own[0].transpose(2, 3)
        if group.hidden is not None:
            scores += group.hidden
        if not group.shared:
            seen = scores.softmax(-1) @ own[1]
        else:
            shared = joint.narrow(2, group.start, group.shared).float()
            flat = folded.reshape(kv_heads, -1, width)
            before = (flat @ shared[0].transpose(1, 2)).view(kv_heads, rows, -1, group.shared)
            weights = torch.cat((before, scores), -1).softmax(-1)
            seen = weights[..., group.shared :] @ own[1]
            flat = weights[..., : group.shared].reshape(kv_heads, -1, group.shared)
            seen += (flat @ shared[1]).view_as(seen)
        return seen.transpose(0, 1).reshape(rows, heads * width).to(query.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class RowsStep:
    """All layers for one such pass; ``positions`` (rows,) are those of the ids."""

    positions: torch.Tensor
    layers: list[RowsStepLayer]
    read: KVRead


def can_step(pool: PooledCache) -> bool:
    """True if the pool's K and V can be read so: as they are, each layer's in one tensor."""
    return all(_joint(layer.store) is not None for layer in pool.layers)


@contextmanager
def stepping_rows(
    pool: PooledCache, rows: Sequence[tuple[Branch, Sequence[int]]]
) -> Iterator[RowsStep]:
    """One pass over the one id that each row has behind its branch; see ``reading_rows``."""
    with reserved(pool, rows) as places:
        groups = [_group([own[number] for own in places]) for number in range(len(places[0]))]
        layers = []
        for index, layer in enumerate(pool.layers):
            joint = _joint(layer.store)
            assert joint is not None, "asked of can_step"
            layers.append(RowsStepLayer(joint, groups[pool.group_of(index)]))
        positions = torch.tensor([own[0].start for own in places], device=pool.device)
        yield RowsStep(positions, layers, kv_read(pool, places, [one.shared for one in groups]))


def _joint(store: object) -> torch.Tensor | None:
    return store.joint if isinstance(store, PlainStore) else None


def _group(places: Sequence[Place]) -> _Group:
    starts = {(place.offset, place.runs[0][0]) for place in places}
    shared = min(place.runs[0][1] for place in places) if len(starts) == 1 else 0
    own = [_slots(place, shared) for place in places]
    longest = max(len(one) for one in own)
    device = places[0].slots.device
    # Padding is read where the row's last key lies; its score is then put out of sight.
    padded = [torch.cat((one, one[-1:].expand(longest - len(one)))) for one in own]
    hidden = None
    if any(len(one) < longest for one in own):
        hidden = torch.zeros(len(own), 1, longest)
        for row, one in enumerate(own):
            hidden[row, :, len(one) :] = -math.inf
        hidden = hidden.to(device)
    return _Group(
        slots=torch.cat([place.slots for place in places]),
        start=places[0].runs[0][0],
        shared=shared,
        index=torch.cat(padded).to(device),
        hidden=hidden,
    )


def _slots(place: Place, skip: int) -> torch.Tensor:
    """Physical positions that a place reads behind the first ``skip`` of them."""
    (first, count), *rest = place.runs
    runs = [(first + skip, count - skip), *rest]
    return torch.cat([torch.arange(at, at + length) for at, length in runs])
