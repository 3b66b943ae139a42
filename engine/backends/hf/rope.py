"""Rotary position embeddings whose angles depend on the length of the text, not on position alone.

LongRoPE changes its factors where a text outgrows the original context, dynamic NTK its base with
every token past it. K that was computed for one length is then wrong for another, and a chunk of a
prompt must be given the angles of the whole prompt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Any

import torch

_FAR = 1 << 24
"""A length beyond every border there is; float32 still counts up to it in ones."""


class LengthScaledRope:
    """The rotary modules of one model whose angles depend on the length of the text.

    Inside ``reading`` they compute the angles for the length given there, whatever positions the
    pass holds, and whatever lengths they were given before. Outside they are as transformers has
    them.
    """

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        self._length: int | None = None
        self._modules = modules
        self._initial = {module: _growth(module) for module in modules}
        for module in modules:
            module.register_forward_pre_hook(self._before, with_kwargs=True)
            module.register_forward_hook(self._after, with_kwargs=True)
        self.variant = lru_cache(maxsize=4096)(self._variant)
        """Key of the angles of a text of that many positions; empty for those of a short text.

        Equal for equal angles. Part of the identity of K.
        """
        self._short = self._print_of(2)

    @contextlib.contextmanager
    def reading(self, length: int) -> Iterator[None]:
        """A pass over a part of a text that is ``length`` positions long."""
        before, self._length = self._length, length
        try:
            yield
        finally:
            self._length = before

    @property
    def border(self) -> int:
        """The least length at which the angles are no longer those of a short text."""
        low, high = 2, _FAR
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.variant(middle) else (middle, high)
        return high

    def lasts(self, length: int) -> bool:
        """True if a text of one more position has the same angles."""
        return self.variant(length) == self.variant(length + 1)

    def lasting(self, length: int, most: int) -> int:
        """Positions, ``most`` at most, by which a text of ``length`` grows at the same angles."""
        own = self.variant(length)
        more = takewhile(lambda one: self.variant(length + one) == own, range(1, most + 1))
        return sum(1 for _ in more)

    def _variant(self, length: int) -> bytes:
        found = self._print_of(max(length, 2))
        return b"" if found == self._short else found

    def _print_of(self, length: int) -> bytes:
        digest = blake2b(digest_size=16)
        with torch.inference_mode(), self.reading(length):
            for module in self._modules:
                for more in _layer_types(module):
                    for angles in _angles(module, [1], more):
                        digest.update(angles.float().cpu().numpy().tobytes())
        return digest.digest()

    def _before(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """Let the module see the last position of the text too: all of them pick by the largest."""
        if self._length is None:
            return None
        for name, value in self._initial[module].items():
            setattr(module, name, value)
        given = kwargs["position_ids"] if "position_ids" in kwargs else args[1]
        last = torch.full_like(given[..., :1], self._length - 1)
        longer = torch.cat((given, last), -1)
        if "position_ids" in kwargs:
            return args, {**kwargs, "position_ids": longer}
        return (args[0], longer, *args[2:]), kwargs

    def _after(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if self._length is None:
            return None
        if isinstance(output, tuple):
            return tuple(one[..., :-1, :] for one in output)
        return output[..., :-1, :]


def length_scaled_rope(model: Any) -> LengthScaledRope | None:
    """The rotary modules of ``model`` whose angles depend on length; None where none do."""
    found = [
        module
        for module in model.modules()
        if "rotary" in type(module).__name__.lower() and _depends_on_length(module)
    ]
    return LengthScaledRope(found) if found else None


def _depends_on_length(module: torch.nn.Module) -> bool:
    initial = _growth(module)
    try:
        with torch.inference_mode():
            return any(
                not torch.equal(short[..., :1, :], long[..., :1, :])
                for more in _layer_types(module)
                for short, long in zip(
                    _angles(module, [1, 2], more), _angles(module, [1, _FAR], more), strict=True
                )
            )
    except Exception:
        # Another interface than (x, position_ids): a table by position, or angles made in place.
        return False
    finally:
        for name, value in initial.items():
            setattr(module, name, value)


def _layer_types(module: torch.nn.Module) -> list[dict[str, str]]:
    """Keywords for each kind of layer that a module has other angles for, or none."""
    types = getattr(module, "rope_type", None)
    return [{"layer_type": kind} for kind in types] if isinstance(types, dict) else [{}]


def _angles(
    module: torch.nn.Module, positions: list[int], more: dict[str, str]
) -> tuple[torch.Tensor, ...]:
    """A module's output for ``positions``: cosines and sines, or complex numbers."""
    device = next((one.device for one in module.buffers()), torch.device("cpu"))
    given = torch.zeros(1, 1, dtype=torch.float32, device=device)
    output = module(given, torch.tensor([positions], device=device), **more)
    parts = output if isinstance(output, tuple) else (output,)
    return tuple(torch.view_as_real(one).flatten(-2) if one.is_complex() else one for one in parts)


def _growth(module: torch.nn.Module) -> dict[str, Any]:
    """State that a dynamic module changes for good at a longer text than ever before."""
    if "dynamic" not in str(getattr(module, "rope_type", "")):
        return {}
    grows = ("max_seq_len_cached", "inv_freq", "attention_scaling")
    plain = {name: value for name, value in vars(module).items() if name.endswith(grows)}
    # Made at the first growth only: one for each kind of layer.
    unmade = {
        f"{more['layer_type']}_max_seq_len_cached": plain["max_seq_len_cached"]
        for more in _layer_types(module)
        if more and "max_seq_len_cached" in plain
    }
    buffers = {name: one for name, one in module.named_buffers() if name.endswith(grows)}
    return {**unmade, **plain, **buffers}
