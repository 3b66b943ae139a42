"""Time a loaded model's own decode steps in several dtypes, turn and turn about."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.backends.base import BackendError
from engine.backends.hf import dtype as hf_dtype
from engine.backends.hf import facts as hf_facts
from engine.backends.hf.parts import parts_of
from engine.backends.hf.pool import KVOptions
from engine.backends.hf.probe import reader_for
from engine.backends.hf.reader import Reader
from engine.backends.hf.rows import read_rows
from engine.kv import attention
from engine.records.model import FEW_ROWS

_ROUNDS, _FEWEST, _SECONDS = 6, 3, 4.0
"""Rounds of turns: all of them, or after the fewest those that begin within the seconds."""
_STEPS = 4
"""Decode steps of one turn."""
_HOPELESS = 20.0
"""A dtype this many times slower than the best in its first turn gets no other."""
_ROOM = 1.2
"""Free memory that the copies of the weights must leave untouched, as a factor on them."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Milliseconds of a decode step: ``rounds`` has each dtype's median of every round.

    ``rounds`` is None for a dtype that this machine cannot run the model in. Where there was no
    room for all the weights, ``layers`` of ``of_layers`` were timed, and the figures are scaled by
    the weights left out.
    """

    rounds: Mapping[str, list[float] | None]
    layers: int
    of_layers: int
    rows: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds of a pass over several texts, the fastest of each dtype, where it was timed."""


@dataclass(frozen=True, eq=False)
class _InDtype:
    """The model's weights in one dtype, and a reader that runs passes with them."""

    weights: dict[str, torch.Tensor]
    reader: Reader


def time_steps(
    model: Any, ids: Sequence[int], dtypes: Sequence[str], free: int | None
) -> StepTimes:
    """Run a few decode steps after ``ids`` in each of ``dtypes``, as a session would run them.

    ``model`` holds float32 weights on the CPU and has them again afterwards. Rounds of turns, each
    beginning with another dtype, so that whatever else the machine does meets them alike; all
    threads that a session would use. Within ``free`` bytes of memory for the copies, or with as
    many of the first layers as they allow.
    """
    numbers = _numbers(model)
    with _first_layers(model, free) as (layers, of_layers):
        scale = numbers / max(1, _numbers(model))
        own = _tensors(model)
        kept = {name: tensor.data for name, tensor in own.items()}
        try:
            ready = {name: _prepared(model, kept, name, list(ids)) for name in dtypes}
            rounds = _rounds(own, ids[-1], ready)
            rows = _rows(own, ids[-1], ready, rounds)
        finally:
            _swap(own, kept)
            attention.uninstall(model)
    return StepTimes(
        {
            name: None if times is None else [ms * scale for ms in times]
            for name, times in rounds.items()
        },
        layers,
        of_layers,
        {name: ms * scale for name, ms in rows.items()},
    )


def _rounds(
    own: Mapping[str, Any], token_id: int, ready: Mapping[str, _InDtype | None]
) -> dict[str, list[float] | None]:
    """Each dtype's milliseconds a step, round by round; the first round warms up."""
    found: dict[str, list[float] | None] = {
        name: None if one is None else [] for name, one in ready.items()
    }
    running = [name for name, one in ready.items() if one is not None]
    began = time.perf_counter()
    for round_ in range(_ROUNDS + 1):
        if round_ > _FEWEST and time.perf_counter() - began > _SECONDS:
            break
        turn = round_ % max(1, len(running))
        taken: dict[str, float] = {}
        for name in running[turn:] + running[:turn]:
            one = ready[name]
            assert one is not None, "only those that run have turns"
            _swap(own, one.weights)
            taken[name] = _turn(one.reader, token_id)
        if round_:
            for name, ms in taken.items():
                times = found[name]
                assert times is not None, "only those that run have times"
                times.append(ms)
        best = min(taken.values(), default=0.0)
        for name, ms in taken.items():
            if ms > _HOPELESS * best:
                running.remove(name)
                found[name] = [*(found[name] or ()), ms]
    return found


def _rows(
    own: Mapping[str, Any],
    token_id: int,
    ready: Mapping[str, _InDtype | None],
    rounds: Mapping[str, list[float] | None],
) -> dict[str, float]:
    """The fastest pass over several texts in each dtype that is not hopeless, turn by turn."""
    best = min((min(times) for times in rounds.values() if times), default=0.0)
    found: dict[str, float] = {}
    for _ in range(_FEWEST):
        for name, one in ready.items():
            times = rounds[name]
            if one is None or not times or min(times) > _HOPELESS * best:
                continue
            _swap(own, one.weights)
            with contextlib.suppress(BackendError):  # then it is not known
                ms = _few_rows(one.reader, token_id)
                found[name] = min(ms, found.get(name, ms))
    return found


def _few_rows(reader: Reader, token_id: int) -> float:
    """Milliseconds of a pass over texts that go on from the reader's, and are taken back."""
    pool = reader.pool
    if pool is None:
        raise BackendError("rows share a pass over a pool of blocks only")
    here = pool.current
    twins = [pool.pool.fork(here, len(here)) for _ in range(FEW_ROWS)]
    try:
        return read_rows(reader, [(one, (token_id,)) for one in twins], all_positions=False).ms
    finally:
        pool.switch(here)
        for one in twins:
            pool.discard(one)


def _turn(reader: Reader, token_id: int) -> float:
    """The median of a few decode steps, which are taken back afterwards."""
    times = [reader.read((token_id,)).ms for _ in range(_STEPS)]
    reader.rollback(_STEPS)
    return statistics.median(times)


def _prepared(
    model: Any, weights: Mapping[str, torch.Tensor], dtype: str, ids: list[int]
) -> _InDtype | None:
    """The model in ``dtype`` with ``ids`` read; None where torch cannot run it so."""
    own = _tensors(model)
    wanted = getattr(torch, dtype)
    copies = dict(hf_dtype.converted(model, wanted)) if dtype != "float32" else {}
    _swap(own, {**weights, **copies})
    try:
        # Each of several texts writes into a block of its own; trying them out takes some too.
        more = 2 * FEW_ROWS * KVOptions().block_size
        room = KVOptions(positions=len(ids) + 2 * _STEPS + more)
        reader = reader_for(parts_of(model), "", ids, room)
        reader.read(ids)
        reader.read((ids[-1],))
        reader.rollback(1)
    except (BackendError, RuntimeError):
        return None
    # Joined for fused steps, the weights may lie elsewhere now.
    return _InDtype({name: tensor.data for name, tensor in own.items()}, reader)


def _tensors(model: Any) -> dict[str, Any]:
    return dict(model.named_parameters())


def _swap(tensors: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        tensor.data = weights[name]


def _numbers(model: Any) -> int:
    """Numbers in the matrices that one step multiplies with."""
    return sum(weight.numel() for weight in hf_dtype.matrices(model))


@contextmanager
def _first_layers(model: Any, free: int | None) -> Iterator[tuple[int, int]]:
    """Inside ``with``, the model has only as many layers as copies of them have room.

    Yields (layers left, layers of the whole).
    """
    config = hf_facts.decoder_config(model)
    whole = hf_facts.shape_of(config).layers
    # Two copies in 16 bits, and one layer at a time joined anew.
    needed = sum(one.numel() for one in model.parameters() if one.is_floating_point()) * 4 * _ROOM
    found = _layer_list(model, whole)
    if free is None or needed <= free or found is None:
        yield whole, whole
        return
    parent, name, layers = found
    left = max(1, int(whole * free / needed))
    setattr(parent, name, layers[:left])
    config.num_hidden_layers = left
    try:
        yield left, whole
    finally:
        setattr(parent, name, layers)
        config.num_hidden_layers = whole


def _layer_list(model: Any, count: int) -> tuple[Any, str, Any] | None:
    """(module, name, list) of the decoder's module list of ``count`` layers; None if none is."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, torch.nn.ModuleList) and len(child) == count > 1:
                return module, name, child
    return None
