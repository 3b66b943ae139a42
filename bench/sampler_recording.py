"""The file that a recording of another engine's sampler is kept in.

A compressed ``.npz`` without pickle: ``about`` is JSON (engine, version, prompts, cases), ``raw``
each context's whole raw distribution as float16, ``head_ids`` and ``head`` its most likely tokens
as float32 (what borders are judged by), ``ids`` and ``probs`` what was left after the chain, one
case after the other, cut by ``starts``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HEAD = 2048
MOST_KEPT = 4096
"""Of a case that keeps more tokens than this only the most likely ones are recorded."""


def write(
    path: Path,
    about: Mapping[str, Any],
    contexts: Sequence[Mapping[int, float]],
    kept: Sequence[Mapping[int, float]],
    vocab_size: int,
) -> None:
    """Write a recording: id -> raw logit (or log-probability) of each context, and id ->
    probability of each case of ``about["cases"]``."""
    raw = np.full((len(contexts), vocab_size), -np.inf, np.float32)
    for row, known in zip(raw, contexts, strict=True):
        row[list(known)] = list(known.values())
    order = np.argsort(-raw, axis=1, kind="stable")[:, :HEAD]
    starts = np.cumsum([0, *map(len, kept)])
    np.savez_compressed(
        path,
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        raw=raw.astype(np.float16),
        head_ids=order.astype(np.int32),
        head=np.take_along_axis(raw, order, axis=1),
        starts=starts.astype(np.int32),
        ids=np.fromiter((one for case in kept for one in case), np.int32, starts[-1]),
        probs=np.fromiter((p for case in kept for p in case.values()), np.float32, starts[-1]),
    )
    print(f"{path}: {len(kept)} cases, {path.stat().st_size:,} bytes")
