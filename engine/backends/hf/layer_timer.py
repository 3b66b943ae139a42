"""Time of each layer in one pass, measured by hooks that exist only for that pass."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from engine.records.prompt import LayerTime

_ATTENTION = re.compile(r"(self_?|linear_|temporal_)?(attn|attention)(_layer)?")
_MLP = re.compile(r"(shared_)?(mlp|ffn|feed_?forward)(_layer)?|(block_sparse_)?moe|ff|dense_ffn")
_ATTENTION_CLASS = re.compile(r"Attention(V\d)?$|Attn$")
_MLP_CLASS = re.compile(r"(MLP|FFN|FeedForward|MoE|MoeBlock|SparseMoe\w*)$")
_NORM_CLASS = re.compile(r"(RMS|Layer)Norm(V\d)?$|Norm$")
EMBEDDING, NORM, HEAD = "embedding", "final norm", "output head"


@dataclass(frozen=True, eq=False)
class Layer:
    """One decoder layer and the direct children that are its attention, its MLP and its norms."""

    module: Any
    attention: tuple[Any, ...]
    mlp: tuple[Any, ...]
    norms: tuple[Any, ...] = ()


def find_layers(model: Any, count: int) -> tuple[Layer, ...]:
    """The decoder layers of any model: its module list of ``count`` entries; empty if none is."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    for module in decoder.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count > 0:
            return tuple(_layer(one) for one in module)
    return ()


def find_outside(model: Any, layers: tuple[Layer, ...]) -> dict[str, Any]:
    """The modules beside ``layers``, by what they are: embedding, final norm, output head."""
    found = {EMBEDDING: _embeddings(model, "input"), HEAD: _embeddings(model, "output")}
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    norms = [one for one in decoder.children() if _NORM_CLASS.search(type(one).__name__)]
    if layers and norms:
        # Some have another behind the embedding; the last one stands before the head.
        found[NORM] = norms[-1]
    return {name: one for name, one in found.items() if isinstance(one, torch.nn.Module)}


def _embeddings(model: Any, side: str) -> Any:
    """The model's input or output embeddings; None where its own code cannot tell."""
    try:
        return getattr(model, f"get_{side}_embeddings")()
    except Exception:  # code of the model's own, and times are worth no failure
        return None


def _layer(module: Any) -> Layer:
    attention, mlp, norms = [], [], []
    for name, child in module.named_children():
        kind = type(child).__name__
        # By name, or else by class; names such as post_attention_layernorm match neither.
        if _ATTENTION.fullmatch(name) or _ATTENTION_CLASS.search(kind):
            attention.append(child)
        elif _MLP.fullmatch(name) or _MLP_CLASS.search(kind):
            mlp.append(child)
        elif _NORM_CLASS.search(kind):
            norms.append(child)
    return Layer(module, tuple(attention), tuple(mlp), tuple(norms))


@dataclass(frozen=True, eq=False)
class Stopwatch:
    """Marks in a device's own order of work: ``between`` two marks lie so many milliseconds.

    ``between`` may only be asked after the device has been waited for.
    """

    mark: Callable[[], Any]
    between: Callable[[Any, Any], float]


def _host_ms(start: int, end: int) -> float:
    return (end - start) / 1e6


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _event_ms(start: Any, end: Any) -> float:
    return float(start.elapsed_time(end))


def stopwatch(device: str, synchronize: Callable[[], None]) -> Stopwatch:
    """The stopwatch of a device type: events on CUDA, else the clock once all work is done."""
    if device == "cuda":
        return Stopwatch(_event, _event_ms)
    if device == "cpu":
        return Stopwatch(time.perf_counter_ns, _host_ms)

    def mark() -> int:
        synchronize()
        return time.perf_counter_ns()

    return Stopwatch(mark, _host_ms)


@dataclass(eq=False)
class LayerTimer(AbstractContextManager["LayerTimer"]):
    """Inside ``with``, every layer of a pass is timed; afterwards ``times()`` has the figures.

    So is the output head of what is ``outside``; with ``every`` all of that, and the layers' norms.
    The hooks are gone when the block ends, whatever happened in it.
    """

    layers: tuple[Layer, ...]
    outside: Mapping[str, Any]
    watch: Stopwatch
    every: bool = False
    _spans: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    _begun: dict[int, Any] = field(default_factory=dict)
    _hooks: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> LayerTimer:
        modules = [one for name, one in self.outside.items() if self.every or name == HEAD]
        for layer in self.layers:
            modules += [layer.module, *layer.attention, *layer.mlp]
            modules += layer.norms if self.every else ()
        for module in modules:
            begin = module.register_forward_pre_hook(partial(self._begin, id(module)))
            self._hooks.callback(begin.remove)
            end = module.register_forward_hook(partial(self._end, id(module)))
            self._hooks.callback(end.remove)
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def _begin(self, key: int, *_: Any) -> None:
        self._begun[key] = self.watch.mark()

    def _end(self, key: int, *_: Any) -> None:
        self._spans.setdefault(key, []).append((self._begun[key], self.watch.mark()))

    def times(self) -> tuple[LayerTime, ...]:
        """One entry a layer, in order. Ask after the device has been waited for."""
        return tuple(
            LayerTime(
                attention_ms=self._total(layer.attention),
                mlp_ms=self._total(layer.mlp),
                total_ms=self._total((layer.module,)) or 0.0,
                norm_ms=self._total(layer.norms),
            )
            for layer in self.layers
        )

    def outside_ms(self) -> dict[str, float]:
        """Milliseconds of each module outside of the layers that was timed and ran."""
        times = {name: self._total((one,)) for name, one in self.outside.items()}
        return {name: value for name, value in times.items() if value is not None}

    def _total(self, modules: tuple[Any, ...]) -> float | None:
        """Milliseconds spent in ``modules``; None where none of them ran."""
        spans = list(self._spans_of(modules))
        return sum(self.watch.between(*span) for span in spans) if spans else None

    def _spans_of(self, modules: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
        for module in modules:
            yield from self._spans.get(id(module), ())
