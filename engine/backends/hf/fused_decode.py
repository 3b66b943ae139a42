"""Decode steps of a Llama-shaped model in few operations: the same sums, fewer launches.

transformers runs a decoder layer for one position in some ninety small operations, each of which
costs a launch and the Python around it: a third of a step of a small model on a CPU. Here the
projections that read the same vector are one product, query and key are rotated together, and a
residual is added by the product that makes it. Rounding differs from transformers' in the last
bits (an addition less is rounded on the way), never in the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.nn.functional import embedding, linear, silu

from engine.backends.hf.few_rows import Blocks
from engine.kv.attention import ATTENTION
from engine.kv.cache import PooledCache
from engine.kv.positions_step import PositionsStep, PositionsStepLayer, positions_step
from engine.kv.rows_step import RowsStep, RowsStepLayer

_KNOWN = {
    ("llama", "LlamaForCausalLM"),
    ("mistral", "MistralForCausalLM"),
    ("qwen2", "Qwen2ForCausalLM"),
    ("qwen3", "Qwen3ForCausalLM"),
}
"""Model classes of transformers whose layers are the formula below and nothing else."""


MOST_ROWS = 32
"""Positions of a pass in few operations: with more, operations are large enough by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class _Norm:
    """RMSNorm (Zhang, Sennrich, arXiv:1910.07467): x / rms(x) * weight."""

    weight: torch.Tensor
    eps: float
    shape: tuple[int, ...]

    @classmethod
    def of(cls, module: Any) -> _Norm:
        weight = module.weight.data
        return cls(weight, module.variance_epsilon, tuple(weight.shape))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rms_norm(x, self.shape, self.weight, self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A linear layer: weight (out, in) as it is and transposed, and its bias if it has one."""

    weight: torch.Tensor
    transposed: torch.Tensor
    bias: torch.Tensor | None
    blocks: Blocks

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.blocks.suit(x, self.weight):
            return self.blocks.product(x, self.weight, self.bias).to(x.dtype)
        return linear(x, self.weight, self.bias)

    def onto(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """``residual`` plus the product with ``x``; both (rows, size)."""
        if self.bias is not None:
            residual = residual + self.bias
        return torch.addmm(residual, x, self.transposed)


def _product(blocks: Blocks, *modules: Any) -> _Product:
    """Several linear layers that read the same vector as one, their outputs in a row.

    The modules' own weights become views of the joint one, so that no memory is taken twice.
    """
    weight = _joined([module.weight for module in modules])
    biases = [module.bias for module in modules if module.bias is not None]
    bias = _joined(biases) if biases else None
    return _Product(weight, weight.t(), bias, blocks)


def _joined(parameters: Sequence[Any]) -> torch.Tensor:
    if len(parameters) == 1:
        only: torch.Tensor = parameters[0].data
        return only
    joint = torch.cat([parameter.data for parameter in parameters])
    start = 0
    for parameter in parameters:
        rows = parameter.shape[0]
        parameter.data = joint.narrow(0, start, rows)
        start += rows
    return joint


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The weights of one decoder layer."""

    attention_norm: _Norm
    query_key_value: _Product
    query_norm: _Norm | None
    key_norm: _Norm | None
    output: _Product
    mlp_norm: _Norm
    gate_up: _Product
    down: _Product

    @classmethod
    def of(cls, layer: Any, blocks: Blocks) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return cls(
            attention_norm=_Norm.of(layer.input_layernorm),
            query_key_value=_product(blocks, attention.q_proj, attention.k_proj, attention.v_proj),
            query_norm=_Norm.of(attention.q_norm) if hasattr(attention, "q_norm") else None,
            key_norm=_Norm.of(attention.k_norm) if hasattr(attention, "k_norm") else None,
            output=_product(blocks, attention.o_proj),
            mlp_norm=_Norm.of(layer.post_attention_layernorm),
            gate_up=_product(blocks, mlp.gate_proj, mlp.up_proj),
            down=_product(blocks, mlp.down_proj),
        )


class FusedDecoder:
    """Decode steps of one model over a pool of K/V blocks; made by ``fused_of``."""

    def __init__(self, model: Any, *, widen: bool) -> None:
        """Join the weights; ``model`` goes on with views of them, and gives what it gave.

        ``widen``: see ``few_rows.Blocks``.
        """
        blocks = Blocks(widen=widen)
        decoder, attention = model.model, model.model.layers[0].self_attn
        self._embedding = decoder.embed_tokens.weight.data
        self._rotary = decoder.rotary_emb
        self._layers = [_Layer.of(layer, blocks) for layer in decoder.layers]
        self._norm, self._head = _Norm.of(decoder.norm), _product(blocks, model.lm_head)
        self._scaling: float = attention.scaling
        width = self._width = int(attention.head_dim)
        self._queries = attention.q_proj.weight.shape[0] // width
        self._keys = attention.k_proj.weight.shape[0] // width
        self._inner = int(model.config.intermediate_size)

    def read(
        self, ids: Sequence[int], at: torch.Tensor, pool: PooledCache, *, each: bool
    ) -> torch.Tensor | None:
        """Logits of the last of ``ids``, or of ``each``; None for ids that are not read so.

        That is more than one, unless the logits of each are wanted: a short prompt is to be read as
        ``generate`` reads it. ``at`` (1, n) are their positions. To be called inside
        ``pool.reading``.
        """
        given = torch.tensor([ids], device=at.device)
        if len(ids) == 1:
            logits = self(given, at, pool)
            return logits[None] if each else logits
        if each and len(ids) <= MOST_ROWS:
            return self.rows(given[0], positions_step(pool, at[0]))
        return None

    def __call__(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        pool: PooledCache,
        layers: int | None = None,
    ) -> torch.Tensor:
        """Logits (vocabulary,) after one more position: ``ids`` and ``positions`` are (1, 1).

        With ``layers`` those of the first layers alone, by the same norm and head. To be called
        inside ``pool.reading``, which the pass's K and V are written into.
        """
        heads, queries, keys = self._queries + self._keys, self._queries, self._keys
        width, inner = self._width, self._inner
        x = embedding(ids[0], self._embedding)
        cos, sin = self._rotary(x, position_ids=positions)
        cos, sin = cos[0], _signed(sin[0], width)
        pairs = zip(self._layers, pool.layers, strict=True)
        for layer, cache in islice(pairs, layers):
            joint = layer.query_key_value(layer.attention_norm(x))
            both = joint[:, : heads * width].view(heads, width)
            if layer.query_norm is not None and layer.key_norm is not None:
                both = torch.cat([layer.query_norm(both[:queries]), layer.key_norm(both[queries:])])
            both = torch.addcmul(both * cos, both.roll(width // 2, 1), sin).view(1, heads, 1, width)
            values = joint[:, heads * width :].view(1, keys, 1, width)
            k, v = cache.update(both[:, queries:], values)
            seen, _ = ATTENTION(None, both[:, :queries], k, v, None, scaling=self._scaling)
            x = layer.output.onto(x, seen.view(1, queries * width))
            gate_up = layer.gate_up(layer.mlp_norm(x))
            x = layer.down.onto(x, silu(gate_up[:, :inner]).mul_(gate_up[:, inner:]))
        return self._head(self._norm(x))[0]

    def rows(self, ids: torch.Tensor, step: RowsStep | PositionsStep) -> torch.Tensor:
        """Logits (rows, vocabulary) after one more position of several rows; ``ids`` is (rows,).

        Or after each of several positions of one. To be called inside ``stepping_rows``, or inside
        ``pool.reading``.
        """
        rows, queries, width, inner = len(ids), self._queries, self._width, self._inner
        heads = queries + self._keys
        x = embedding(ids, self._embedding)
        cos, sin = self._rotary(x, position_ids=step.positions[None])
        cos, sin = cos[0].unsqueeze(1), _signed(sin[0], width).unsqueeze(1)
        caches: Sequence[RowsStepLayer | PositionsStepLayer] = step.layers
        for layer, cache in zip(self._layers, caches, strict=True):
            joint = layer.query_key_value(layer.attention_norm(x)).view(rows, -1, width)
            both = joint[:, :heads]
            if layer.query_norm is not None and layer.key_norm is not None:
                normed = layer.query_norm(both[:, :queries]), layer.key_norm(both[:, queries:])
                both = torch.cat(normed, 1)
            both = torch.addcmul(both * cos, both.roll(width // 2, -1), sin)
            query, key = both[:, :queries], both[:, queries:]
            seen = cache.attend(query, key, joint[:, heads:], self._scaling)
            x = layer.output.onto(x, seen)
            gate_up = layer.gate_up(layer.mlp_norm(x))
            x = layer.down.onto(x, silu(gate_up[:, :inner]).mul_(gate_up[:, inner:]))
        return self._head(self._norm(x))


def _signed(sin: torch.Tensor, width: int) -> torch.Tensor:
    """``sin`` (rows, width) with its first half negated.

    So ``x * cos + roll(x) * sin`` is the rotation that transformers writes
    ``x * cos + rotate_half(x) * sin``.
    """
    half = width // 2
    return torch.cat([-sin[:, :half], sin[:, half:]], dim=1)


def fused_of(model: Any, *, widen: bool = False) -> FusedDecoder | None:
    """A FusedDecoder for ``model``; None where its class, weights or hooks want another way.

    ``widen``: products of a few rows in 16 bits are faster in float32.
    """
    kind = type(model)
    family = kind.__module__.split(".")
    if family[:2] != ["transformers", "models"] or (family[2], kind.__name__) not in _KNOWN:
        return None
    if any(not _is_plain(module) for module in model.modules()):
        return None
    rotated = 2 * model.model.rotary_emb.inv_freq.shape[-1]
    if model.config.hidden_act != "silu" or rotated != model.model.layers[0].self_attn.head_dim:
        return None
    return FusedDecoder(model, widen=widen)


def _is_plain(module: Any) -> bool:
    """True if a module is as transformers builds it: no hooks, no quantised or moved weights."""
    hooked = module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook")
    replaced = "forward" in vars(module)
    linear_like = hasattr(module, "weight") and hasattr(module, "in_features")
    quantised = linear_like and type(module) is not torch.nn.Linear
    return not (hooked or replaced or quantised)
