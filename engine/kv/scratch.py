"""Buffers that are kept between passes, so that a step allocates nothing of the cache's size."""

from __future__ import annotations

from math import prod

import torch

SMALL = 1 << 18
"""Numbers up to which new memory costs less than the work of keeping some."""


class Scratch:
    """Named flat buffers that grow when asked for more than they hold.

    A tensor from here is overwritten by the next request for the same name: use it, do not keep
    it. With ``keep`` false every request gets memory of its own.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._buffers: dict[tuple[str, torch.dtype, torch.device], torch.Tensor] = {}

    def take(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """A contiguous tensor of ``shape`` with undefined content."""
        if not self._keep:
            return torch.empty(shape, dtype=dtype, device=device)
        need = prod(shape)
        key = (name, dtype, device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < need:
            # Half as much again, so that a growing context seldom asks for a new one. An
            # inference tensor could not be written outside inference mode.
            with torch.inference_mode(False):
                buffer = torch.empty(need + need // 2, dtype=dtype, device=device)
            self._buffers[key] = buffer
        return buffer[:need].view(shape)

    def widened(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor`` in float32: itself if it is that already, else a contiguous copy."""
        if tensor.dtype == torch.float32 or tensor.numel() <= SMALL:
            return tensor.float()
        wide = self.take(name, tuple(tensor.shape), torch.float32, tensor.device)
        return wide.copy_(tensor)
