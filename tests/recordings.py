"""Recordings of other engines' samplers (``bench/record_*.py``), as the tests replay them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.records.arrays import FloatArray, IntArray
from tests.folders import DATA


@dataclass(frozen=True, eq=False)
class Case:
    """One setting on one context: the raw logits there, and what the engine left, likeliest first.

    ``whole`` says that ``ids`` are all that were left, and not only the likeliest.
    """

    dials: dict[str, Any]
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    logits: FloatArray
    exact: IntArray
    """The likely ids, whose logits are float32; all others were rounded to float16."""
    ids: IntArray
    probs: FloatArray
    whole: bool

    @property
    def name(self) -> str:
        dials = " ".join(f"{name}={value}" for name, value in self.dials.items())
        return f"{dials or 'defaults'} after {self.prompt_ids[:3]}"


def cases(name: str) -> Iterator[Case]:
    """Every case of a recording."""
    with np.load(DATA / name, allow_pickle=False) as file:
        parts = {key: file[key] for key in file.files}
    about = json.loads(parts["about"].tobytes())
    for at, case in enumerate(about["cases"]):
        context = about["contexts"][case["context"]]
        start, end = parts["starts"][at : at + 2]
        exact = parts["head_ids"][case["context"]]
        logits = parts["raw"][case["context"]].astype(np.float32)
        logits[exact] = parts["head"][case["context"]]
        # Of a context that is recorded in part, what is left can hold one that is not.
        known = start + np.flatnonzero(logits[parts["ids"][start:end]] > -np.inf)
        yield Case(
            case["dials"],
            tuple(context["prompt_ids"]),
            tuple(context["output_ids"]),
            logits + np.float32(context.get("offset", 0.0)),
            exact,
            parts["ids"][known],
            parts["probs"][known],
            end - start < about["most_kept"],
        )
