"""A loaded model, and what is known of it before any pass."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.backends.hf import facts as hf_facts
from engine.backends.hf.fused_decode import FusedDecoder, fused_of
from engine.backends.hf.layer_timer import Layer, find_layers, find_outside
from engine.backends.hf.rope import LengthScaledRope, length_scaled_rope
from engine.backends.hf.upcast import Upcast, upcast_of
from engine.models import resolve as models


@dataclass(eq=False)
class Parts:
    """Everything a pass needs. ``release`` lets go of it; nothing else changes it.

    ``rows`` are those of the embedding, ``position_rows`` learned positions, None where there are
    none. ``takes_positions``: generate() tells the model the position of each token, so it is told
    here as well. ``rope`` are rotary embeddings that depend on the length of the text, None where
    none do. ``last_only`` asks the model for the last position's logits alone; ``one`` is where a
    single id goes in, shape (1, 1). ``fused`` runs one or a few positions over a pool in fewer
    operations, where the model has a shape that it knows. ``outside`` are the modules before and
    behind the layers, by what they are.
    """

    model: Any
    dtype: str
    device: torch.device
    synchronize: Callable[[], None]
    rows: int
    position_rows: int | None
    last_only: Mapping[str, Any]
    takes_positions: bool
    rope: LengthScaledRope | None
    layers: tuple[Layer, ...]
    outside: Mapping[str, Any]
    widened: Upcast | None
    one: torch.Tensor
    fused: FusedDecoder | None

    def release(self) -> None:
        self.model = self.widened = self.fused = None
        self.layers, self.outside = (), {}
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def parts_of(model: Any) -> Parts:
    """Take a model over; judges by one matrix whether long passes are widened."""
    weight = model.get_input_embeddings().weight
    known = inspect.signature(model.forward).parameters
    layers = find_layers(model, hf_facts.shape_of(hf_facts.decoder_config(model)).layers)
    widened = upcast_of(model)
    return Parts(
        model=model.eval(),
        # Counted once: over 272 parameters it takes as long as a twentieth of a step.
        dtype=models.loaded_dtype(model),
        device=weight.device,
        synchronize=_synchronizer(weight.device.type),
        rows=int(weight.shape[0]),
        position_rows=hf_facts.position_rows(model),
        last_only={"logits_to_keep": 1} if "logits_to_keep" in known else {},
        takes_positions=_takes_positions(model),
        rope=length_scaled_rope(model),
        layers=layers,
        outside=find_outside(model, layers),
        widened=widened,
        one=torch.zeros((1, 1), dtype=torch.long, device=weight.device),
        fused=fused_of(model, widen=widened is not None),
    )


def _takes_positions(model: Any) -> bool:
    """True if ``generate()`` gives ``model`` the positions of what it reads."""
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return False
    prepare = getattr(model, "_prepare_position_ids_for_generation", None)
    return prepare is None or prepare(torch.zeros((1, 1), dtype=torch.long), {}) is not None


def _synchronizer(device: str) -> Callable[[], None]:
    """A function that waits until a device type has done all its work."""
    if device == "cuda":
        return torch.cuda.synchronize
    if device == "mps":
        return torch.mps.synchronize
    return lambda: None
