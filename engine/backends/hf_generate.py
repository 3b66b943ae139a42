"""transformers' own ``generate()``, to measure ours against."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

from engine import models


class Generate:
    """A second copy of a model, as it comes: in its own dtype, with its own loop."""

    def __init__(
        self,
        options: Mapping[str, Any],
        device: str,
        progress: Callable[[str, float | None, str], None],
    ) -> None:
        """Load the model that a backend's ``options`` name. Raises ModelError."""
        resolved = models.resolve(
            options.get("model"), progress, offline=bool(options.get("offline", False))
        )
        self._model, _ = models.load(
            resolved,
            device=device,
            trust_remote_code=bool(options.get("trust_remote_code", False)),
            progress=progress,
        )

    @property
    def dtype(self) -> str:
        return models.loaded_dtype(self._model)

    def gaps(self, ids: Sequence[int], tokens: int) -> list[float]:
        """Milliseconds of each step after the first token, greedy."""
        return generate_gaps(self._model, ids, tokens)


def generate_gaps(model: Any, ids: Sequence[int], tokens: int) -> list[float]:
    """Milliseconds between the tokens of a greedy ``generate()``: ``tokens - 1`` of them.

    Told to go on past a stop token, so that whoever it is compared with does the same work.
    """
    prompt = torch.tensor([list(ids)], device=model.device)
    clock = _Clock()
    with _endless(model):
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=tokens,
            streamer=clock,
        )
    # The first call is the prompt; the gap after it is prefill.
    return [(after - before) * 1000 for before, after in pairwise(clock.times[1:])]


@contextmanager
def _endless(model: Any) -> Iterator[None]:
    """No stop token meanwhile. One that is None in settings given to ``generate()`` would be
    taken from the model's own settings again.
    """
    own = model.generation_config
    model.generation_config = copy.deepcopy(own)
    model.generation_config.eos_token_id = None
    try:
        yield
    finally:
        model.generation_config = own


class _Clock:
    """A transformers streamer that only notes when each token came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass
