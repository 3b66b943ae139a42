"""Shape and dtype of K and V in every layer, read from a cache that the model has filled.

Reading the shapes off real tensors rather than off the configuration is right for every head
layout there is (grouped heads, a head size of its own, values narrower than keys).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

SCALE_BYTES = 2
"""Bytes of the float16 scale that an 8-bit pool keeps per position and head, for K and for V."""


_RECURRENT = (
    "it has layers with a recurrent state of constant size, which cannot be cut back: "
    "going back reads the text again"
)


class Unpooled(RuntimeError):
    """This model's cache cannot live in a pool of blocks; one line says what it is instead."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """K and V of one layer: per position ``kv_heads * key_dim`` and ``kv_heads * value_dim``.

    ``window`` is how many positions the layer can see, the new one included; None for all.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None
    dtype: torch.dtype
    device: torch.device

    def position_bytes(self, *, quantized: bool) -> int:
        numbers = self.kv_heads * (self.key_dim + self.value_dim)
        if quantized:
            return numbers + 2 * self.kv_heads * SCALE_BYTES
        return numbers * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Layout:
    """All layers in the model's order; None for one that keeps no K and V of its own.

    ``shared`` is true when layers read K and V that another layer has written.
    """

    layers: tuple[LayerShape | None, ...]
    shared: bool

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The distinct windows, each a group of layers with block tables of its own."""
        found = {layer.window for layer in self.layers if layer is not None}
        return tuple(sorted(found, key=lambda window: (window is not None, window or 0)))

    def members(self, window: int | None) -> tuple[int, ...]:
        return tuple(
            index
            for index, layer in enumerate(self.layers)
            if layer is not None and layer.window == window
        )

    def position_bytes(self, window: int | None, *, quantized: bool = False) -> int:
        """Bytes that one position takes in all layers with that window."""
        layers = (self.layers[index] for index in self.members(window))
        return sum(layer.position_bytes(quantized=quantized) for layer in layers if layer)


def layout_of(cache: Any, *, hidden_layers: int | None = None) -> Layout:
    """The layout of a transformers cache that one pass over one sequence has filled.

    ``hidden_layers`` is the model's number of layers, if known. Raises Unpooled, which says why.
    """
    held = getattr(cache, "layers", None)
    if not held:
        raise Unpooled("the model keeps no cache of K and V")
    if getattr(cache, "linear_cache", None):
        raise Unpooled(_RECURRENT)
    layers = tuple(_shape_of(layer) for layer in held)
    if not any(layers):
        raise Unpooled("the model keeps no cache of K and V")
    if len({layer.device for layer in layers if layer}) > 1:
        raise Unpooled("its layers lie on several devices")
    shared = None in layers or len(layers) < (hidden_layers or 0)
    return Layout(layers, shared)


def _shape_of(layer: Any) -> LayerShape | None:
    kind = type(layer).__name__
    keys: Any = getattr(layer, "keys", None)
    values: Any = getattr(layer, "values", None)
    if hasattr(layer, "conv_states") or hasattr(layer, "recurrent_states"):
        raise Unpooled(_RECURRENT)
    if keys is None and values is None:
        return None
    # Not isinstance: a subclass keeps more than K and V, and would lose it here.
    if kind not in ("DynamicLayer", "DynamicSlidingWindowLayer") or keys.ndim != 4:
        raise Unpooled(f"its cache layers ({kind}) keep more than one K and one V per position")
    if keys.shape[0] != 1:
        raise ValueError("a layout is taken from a pass over one sequence")
    if keys.dtype != values.dtype:
        raise Unpooled("its K and V differ in dtype")
    return LayerShape(
        kv_heads=int(keys.shape[1]),
        key_dim=int(keys.shape[3]),
        value_dim=int(values.shape[3]),
        window=int(layer.sliding_window) if layer.is_sliding else None,
        dtype=keys.dtype,
        device=keys.device,
    )
