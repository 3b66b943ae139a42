"""Contents of a transformers cache, and removing positions from it.

The model makes its own cache, of whatever kind it needs. Its layers are told apart by what they
hold rather than by name, so that a kind nobody has heard of is refused and never read wrongly.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.backends.base import BackendError

_ARGUMENTS = ("cache", "past_key_values", "cache_params", "state")
_STATES = ("conv_states", "recurrent_states", "ssm_states")


def argument_of(model: Any) -> str | None:
    """The name under which ``model`` takes and returns its cache; None if it has none.

    transformers 5.24 renames them all to ``cache`` and warns of the old names.
    """
    known = inspect.signature(model.forward).parameters
    return next((name for name in _ARGUMENTS if name in known), None)


@dataclass(frozen=True, slots=True)
class CacheKind:
    """Number of cache layers that hold each kind of state (some hold two kinds, some nothing)."""

    layers: int = 0
    full: int = 0
    sliding: int = 0
    recurrent: int = 0
    unknown: bool = False
    window: int | None = None
    """Positions of the smallest sliding window."""

    @property
    def name(self) -> str:
        """In words, such as ``full attention``."""
        if self.unknown:
            return "the model's own kind"
        parts = [
            name
            for name, count in (
                ("full attention", self.full),
                ("sliding window", self.sliding),
                ("recurrent state", self.recurrent),
            )
            if count
        ]
        if not parts:
            return "none"
        return parts[0] if len(parts) == 1 else f"hybrid: {' + '.join(parts)}"

    @property
    def always_rewinds(self) -> bool:
        """True if positions can be taken out however many there are."""
        return not (self.unknown or self.sliding or self.recurrent)


def kind_of(cache: Any, argument: str | None) -> CacheKind:
    """The kind of a cache that at least one pass has filled; ``None`` is a model without one.

    ``argument`` is the name that the model has for it.
    """
    if cache is None:
        return CacheKind()
    layers = getattr(cache, "layers", None)
    if layers is None:
        # RWKV hands its list of states around under a name of its own.
        return CacheKind(layers=1, recurrent=1) if argument == "state" else CacheKind(unknown=True)
    recurrent = sum(_states(layer) for layer in layers) + len(_beside(cache))
    keyed = [layer for layer in layers if getattr(layer, "keys", None) is not None]
    windows = [int(layer.sliding_window) for layer in keyed if getattr(layer, "is_sliding", False)]
    return CacheKind(
        layers=len(layers),
        full=len(keyed) - len(windows),
        sliding=len(windows),
        recurrent=recurrent,
        window=min(windows, default=None),
    )


def _beside(cache: Any) -> list[Any]:
    """States of linear attention that a cache keeps beside its layers, as that of MiniMax does."""
    return [one for one in getattr(cache, "linear_cache", ()) if hasattr(one, "element_size")]


def _states(layer: Any) -> bool:
    return any(hasattr(layer, name) for name in _STATES)


def _stored_of(layer: Any) -> int | None:
    """Positions one layer holds; None for a layer without keys."""
    keys = getattr(layer, "keys", None)
    return None if keys is None else int(keys.shape[-2])


def stored(cache: Any) -> int:
    """Positions held, of the layer that holds most; 0 where no layer holds any."""
    counts = [_stored_of(layer) for layer in getattr(cache, "layers", None) or ()]
    return max((count for count in counts if count is not None), default=0)


def _tensors(layer: Any) -> Iterator[Any]:
    for name in ("keys", "values", "indexer_keys", *_STATES):
        held = getattr(layer, name, None)
        if held is None:
            continue
        for tensor in held.values() if isinstance(held, dict) else (held,):
            if tensor is not None:
                yield tensor


def nbytes(cache: Any) -> int | None:
    """Bytes of the tensors that the layers hold; None where no layer holds keys and values."""
    layers = getattr(cache, "layers", None) or ()
    if all(getattr(layer, "keys", None) is None for layer in layers):
        return None
    held = [*(tensor for layer in layers for tensor in _tensors(layer)), *_beside(cache)]
    return sum(tensor.numel() * tensor.element_size() for tensor in held)


def head_shape(cache: Any) -> tuple[int, int] | None:
    """(key/value heads, size of one) of the first layer with keys; None if there is none."""
    for layer in getattr(cache, "layers", None) or ():
        keys = getattr(layer, "keys", None)
        if keys is not None and keys.ndim == 4:
            return int(keys.shape[1]), int(keys.shape[3])
    return None


def crop(cache: Any, count: int, length: int) -> None:
    """Take the last ``count`` of ``length`` positions out; ``0 < count < length``.

    Raises BackendError, and leaves the cache as it was, where a layer no longer holds what would
    then be its past. Raises RuntimeError when transformers left another number than asked for.
    """
    layers = getattr(cache, "layers", None)
    if layers is None or _beside(cache) or any(_states(layer) for layer in layers):
        raise BackendError(
            "a recurrent state cannot be taken back a step: the text has to be read again"
        )
    for layer in layers:
        held = _stored_of(layer)
        if held is not None and held != length:
            raise BackendError(
                f"the sliding window has dropped what came before it ({held} of {length} positions "
                "are held): the text has to be read again"
            )
    # Every release takes a negative number as "remove so many"; what a positive one or zero
    # means has changed between them.
    cache.crop(-count)
    for index, layer in enumerate(layers):
        held = _stored_of(layer)
        if held is not None and held != length - count:
            raise RuntimeError(f"layer {index} holds {held} positions, not {length - count}")
