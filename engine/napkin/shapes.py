"""Shapes of models and datasheets of machines, as far as bytes and operations depend on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder's size. ``active`` parameters work on one token: all, but for experts.

    With multi-head latent attention ``latent`` values are kept for a position in a layer, instead
    of K and V for each head; the products with V need ``latent_values`` of them. 0 without.
    """

    name: str
    parameters: float
    layers: int
    width: int
    query_heads: int
    kv_heads: int
    head_dim: int
    latent: int = 0
    latent_values: int = 0
    active: float = 0.0
    bits: int = 16
    kv_bits: int = 16
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def working(self) -> float:
        """Parameters that work on one token."""
        return self.active or self.parameters

    @property
    def attention(self) -> str:
        """Kind of attention, such as ``MHA``, or ``GQA 8:1`` for 8 query heads a K/V head."""
        if self.latent:
            return "MLA"
        if self.kv_heads == self.query_heads:
            return "MHA"
        if self.kv_heads == 1:
            return "MQA"
        return f"GQA {self.query_heads / self.kv_heads:g}:1"

    @property
    def values(self) -> int:
        """Values that are kept for a position in one layer: ``2 x K/V heads x head dim``.

        With latent attention the latent itself and its rotary part, once for all heads
        (DeepSeek-V2, arXiv:2405.04434, section 2.1).
        """
        return self.latent or kv_values(self.kv_heads, self.head_dim)

    @property
    def products(self) -> int:
        """Multiplications in one layer of one token with one position: with K, and with V."""
        if self.latent:
            return self.query_heads * (self.latent + self.latent_values)
        return 2 * self.query_heads * self.head_dim


def kv_values(kv_heads: int, head_dim: int) -> int:
    """Values of K and V for a position in one layer."""
    return 2 * kv_heads * head_dim


@dataclass(frozen=True, slots=True)
class Machine:
    """A datasheet: memory bandwidth, matrix rate and memory; 0 for what it does not say."""

    name: str
    bytes_per_second: float
    flops_per_second: float = 0.0
    memory_bytes: float = 0.0
    source: str = ""
    notes: tuple[str, ...] = ()
