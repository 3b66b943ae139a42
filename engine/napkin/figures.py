"""Figures of a shape on a machine: bytes a token, cache, decode ceiling, batch, each with formula.

What follows from a shape alone is derived; what rests on a datasheet is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.napkin.shapes import Machine, ModelShape
from engine.records.figure import Figure, Source

DEFAULT_CONTEXT = 128 << 10
NO_MACHINE = "no machine: add @ h100, or @ 3.35TB/s 989TFLOPs"
NO_RATE = "the machine's rate of matrix products is not known: add for example 989TFLOPs"
NO_MEMORY = "the machine's memory is not known: add for example 80GB"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to keep weights and K/V, and the figures that it has."""

    label: str
    shape: ModelShape
    figures: tuple[Figure, ...]


# --- formulas -------------------------------------------------------------------------------


def weight_bytes(shape: ModelShape) -> float:
    """``parameters x bits / 8``."""
    return shape.parameters * shape.bits / 8


def token_bytes(shape: ModelShape) -> float:
    """Bytes of K and V for one position: ``layers x values x bits / 8``."""
    return shape.layers * shape.values * shape.kv_bits / 8


def read_bytes(shape: ModelShape, context: int) -> float:
    """Bytes that a decode step of one sequence has to read: weights that work, and its K/V."""
    return shape.working * shape.bits / 8 + token_bytes(shape) * context


def token_flops(shape: ModelShape, context: int) -> float:
    """Operations of one token at a context: ``2 x active + 2 x layers x products x context``."""
    return 2.0 * shape.working + 2.0 * shape.layers * shape.products * context


def binding_batch(shape: ModelShape, machine: Machine, context: int) -> float | None:
    """Sequences in one pass from which arithmetic takes longer than reading the bytes.

    ``weights / bandwidth = B x (operations / rate - K/V at the context / bandwidth)``: the weights
    are read once for all of them, K and V for each. None where each one's own K and V take longer
    to read than its arithmetic: then bytes bind however many there are.
    """
    computing = token_flops(shape, context) / machine.flops_per_second
    reading = token_bytes(shape) * context / machine.bytes_per_second
    if computing <= reading:
        return None
    return weight_bytes(shape) / machine.bytes_per_second / (computing - reading)


# --- figures --------------------------------------------------------------------------------


def variants(
    shape: ModelShape, machine: Machine | None, context: int = DEFAULT_CONTEXT
) -> tuple[Variant, ...]:
    """The shape as given, and with weights or K/V in fewer bits, as far as that is fewer."""
    cheaper = [
        ("int8 weights", shape.bits > 8, replace(shape, bits=8)),
        ("int4 weights", shape.bits > 4, replace(shape, bits=4)),
        ("int8 K/V", shape.kv_bits > 8, replace(shape, kv_bits=8)),
    ]
    given = f"{shape.bits} bit" if shape.bits == shape.kv_bits else "as given"
    shapes = [(given, shape), *((label, one) for label, fewer, one in cheaper if fewer)]
    return tuple(
        Variant(label, one, tuple(_figures(one, machine, context))) for label, one in shapes
    )


def _figures(shape: ModelShape, machine: Machine | None, context: int) -> Iterator[Figure]:
    at = short(context)
    kept = (
        f"{shape.latent} of the latent"
        if shape.latent
        else f"2 x {shape.kv_heads} K/V heads x {shape.head_dim}"
    )
    weights, token = weight_bytes(shape), token_bytes(shape)
    yield _derived("weights", weights, "B", "parameters x bits / 8")
    yield _derived(
        "K/V a token", token, "B", f"{shape.layers} layers x {kept} x {shape.kv_bits} bits / 8"
    )
    yield _derived(f"K/V at {at}", token * context, "B", f"K/V a token x {context:,}")
    bandwidth = machine.bytes_per_second if machine is not None else 0.0
    rate = machine.flops_per_second if machine is not None else 0.0
    for name, length in (("decode", 0), (f"decode at {at}", context)):
        yield _estimated(
            name,
            bandwidth and bandwidth / read_bytes(shape, length),
            "tok/s",
            "bandwidth / (weights + K/V)" if length else "bandwidth / weights",
            NO_MACHINE,
        )
    why = NO_MACHINE if machine is None else NO_RATE
    for name, length in (("batch", 0), (f"batch at {at}", context)):
        batch = binding_batch(shape, machine, length) if machine is not None and rate else 0.0
        yield _estimated(
            name,
            batch,
            "rows",
            "weights / bandwidth / (operations / rate - K/V / bandwidth)",
            "bytes bind at any batch: a row's K/V take longer to read than its arithmetic"
            if batch is None
            else why,
        )
    reading = 2.0 * shape.working * context + shape.layers * shape.products * float(context) ** 2
    yield _estimated(
        f"prefill of {at}",
        rate and reading / rate * 1000,
        "ms",
        "operations of all positions / rate; a position sees half of the prompt on average",
        why,
    )
    memory = machine.memory_bytes if machine is not None else 0.0
    yield _estimated(
        f"fit, of {at}",
        memory and max(0.0, math.floor((memory - weights) / (token * context))),
        "rows",
        "(memory - weights) / K/V at the context",
        NO_MACHINE if machine is None else NO_MEMORY,
        zero=memory > 0,
    )


def _derived(name: str, value: float, unit: str, formula: str) -> Figure:
    return Figure(name, value, unit, Source.DERIVED, formula)


def _estimated(
    name: str, value: float | None, unit: str, formula: str, reason: str, *, zero: bool = False
) -> Figure:
    """An estimated figure; one that is not known (0, but for ``zero``) becomes None."""
    there = value is not None and (value > 0 or zero)
    return Figure(
        name, value if there else None, unit, Source.ESTIMATED, formula, "" if there else reason
    )


def short(count: int) -> str:
    """A number of positions as people say it: ``128K`` for 131,072."""
    return f"{count >> 10}K" if count and count % 1024 == 0 else f"{count:,}"


def remarks(shape: ModelShape, machine: Machine | None) -> Sequence[str]:
    """Assumptions of the figures, and what an estimate leaves out."""
    found = [*shape.notes, *(machine.notes if machine is not None else ())]
    if shape.active:
        found.append(
            "with experts a single row reads the active ones only; a batch is held to read all"
        )
    if shape.latent:
        found.append(
            "latent attention is counted as it decodes: on the latent, without unpacking it"
        )
    found.append(
        "fewer bits change what is read; products are counted at the 16-bit rate whatever the bits"
    )
    return found
