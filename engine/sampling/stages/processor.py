"""Any transformers ``LogitsProcessor`` as a stage; runs in the engine process, where torch is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.stages.base import Dial, Parameters, Role, StageContext


@dataclass(frozen=True, eq=False)
class Processor(Parameters):
    """Hand the scores to a callable ``(input_ids, scores) -> scores`` and take what it returns.

    It gets tensors of its own, of shapes ``(1, position)`` and ``(1, vocab_size)``; tokens cut
    before are minus infinity there, and stay cut.
    """

    name: ClassVar[str] = "processor"
    dials: ClassVar[tuple[Dial, ...]] = ()
    role: ClassVar[Role] = Role.LOGITS
    source: ClassVar[str] = "transformers LogitsProcessor"

    processor: Callable[[Any, Any], Any]
    title: str = ""

    @property
    def label(self) -> str:
        return f"processor={self.title or type(self.processor).__name__}"

    @property
    def params(self) -> dict[str, Any]:
        return {"processor": self.title or type(self.processor).__name__}

    @property
    def off(self) -> bool:
        return False

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        import torch

        dense = np.full(candidates.vocab_size, -np.inf, dtype=np.float32)
        dense[candidates.ids] = candidates.logits
        input_ids = torch.tensor(context.history.astype(np.int64))[None]
        scores = self.processor(input_ids, torch.from_numpy(dense)[None])
        if tuple(scores.shape) != (1, candidates.vocab_size):
            raise SamplingError(f"returned scores of shape {tuple(scores.shape)}")
        changed = scores[0].detach().to("cpu", torch.float32).numpy()
        return candidates.with_logits(changed[candidates.ids])


def load_processor(path: str) -> Processor:
    """The processor at ``package.module:name``; a class is called without arguments.

    Raises ValueError for a path that leads nowhere or to no callable. This runs code: only for
    paths that the user typed.
    """
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise ValueError(f"{path!r} is not of the form package.module:name")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load {path!r}: {error}") from None
    processor = found() if isinstance(found, type) else found
    if not callable(processor):
        raise ValueError(f"{path!r} is not callable")
    return Processor(processor, path)
