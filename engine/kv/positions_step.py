"""Several new positions of one branch in few operations, as a draft's verification reads them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.kv.attention import ATTENTION
from engine.kv.cache import PooledCache
from engine.kv.layer import PooledLayer


class PositionsStepLayer:
    """One layer's K and V in such a pass, and which of them each position sees."""

    def __init__(self, layer: PooledLayer, mask: torch.Tensor) -> None:
        self._layer = layer
        self._mask = mask

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Write K and V of all positions and attend; (positions, heads * size).

        ``query`` is (positions, heads, size), ``key`` and ``value`` (positions, kv_heads, size).
        """
        k, v = self._layer.update(key.transpose(0, 1)[None], value.transpose(0, 1)[None])
        by_head = query.transpose(0, 1)[None]
        seen, _ = ATTENTION(None, by_head, k, v, self._mask, scaling=scaling)
        return seen.reshape(len(query), -1)


@dataclass(frozen=True, slots=True, eq=False)
class PositionsStep:
    """All layers for one such pass; ``positions`` (n,) are those of the ids."""

    positions: torch.Tensor
    layers: list[PositionsStepLayer]


def positions_step(pool: PooledCache, positions: torch.Tensor) -> PositionsStep:
    """The pass over ``positions`` (n,), to be made and used inside ``pool.reading``."""
    masks: dict[tuple[int, int, int], torch.Tensor] = {}
    layers = []
    for layer in pool.layers:
        length, offset = layer.get_mask_sizes(len(positions))
        kind = length, offset, layer.get_max_length()
        if kind not in masks:
            masks[kind] = _mask(positions, *kind)
        layers.append(PositionsStepLayer(layer, masks[kind]))
    return PositionsStep(positions, layers)


def _mask(positions: torch.Tensor, length: int, offset: int, window: int) -> torch.Tensor:
    """True where a position sees a key, (1, 1, n, length): those up to itself, in the window."""
    back = positions[:, None] - torch.arange(offset, offset + length, device=positions.device)
    seen = back >= 0
    return (seen & (back < window) if window > 0 else seen)[None, None]
