"""Context of a step in a ``run --format jsonl`` file: history, position, settings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.sampling.logits_file import MOST_IDS

_MOST_POSITIONS = 1 << 63
"""A position is part of the key of the dice, which has 64 bits."""


@dataclass(frozen=True)
class RunStep:
    """Context of the stages when the step was drawn, as far as the file tells.

    ``position`` and ``seed`` are None where it does not, ``vocab_size`` is 0; ``names`` holds the
    bytes of tokens.
    """

    prompt_ids: tuple[int, ...] = ()
    output_ids: tuple[int, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    position: int | None = None
    seed: int | None = None
    vocab_size: int = 0
    names: Mapping[int, bytes] = field(default_factory=dict)


def run_step(path: Path, line: int | None) -> RunStep:
    """The step in ``line`` (from 1; else the first step) of a file that can be read.

    Asks for nothing: a line that is no step of a run, or lacks something, gives less.
    """
    run: Mapping[str, Any] = {}
    steps: dict[Any, Mapping[str, Any]] = {}
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        value = _object(text)
        if value.get("type") == "run":
            run, steps = value, {}
        if value.get("type") == "step" and line in (None, number):
            return _step(run, steps, value)
        if value.get("type") == "step":
            steps[_whole(value.get("node"))] = value
    return RunStep()


def _step(
    run: Mapping[str, Any], steps: dict[Any, Mapping[str, Any]], here: Mapping[str, Any]
) -> RunStep:
    output: list[int] = []
    parent = steps.pop(_whole(here.get("parent")), None)
    while parent is not None:
        output.extend(_ids([parent.get("token_id")]))
        parent = steps.pop(_whole(parent.get("parent")), None)
    stops = run.get("stop_ids")
    return RunStep(
        prompt_ids=_ids(run.get("prompt_ids")),
        output_ids=tuple(output[::-1]),
        stop_ids=frozenset(int(one) for one in stops if re.fullmatch("[0-9]{1,8}", one))
        if isinstance(stops, Mapping)
        else frozenset(),
        position=_whole(here.get("position"), _MOST_POSITIONS),
        seed=_whole(here.get("seed")),
        vocab_size=_whole(run.get("vocab_size")) or 0,
        names=dict(_names(here.get("top"))),
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any, below: float = math.inf) -> int | None:
    """``value`` where it is a whole number from 0 on."""
    real = isinstance(value, int) and not isinstance(value, bool)
    return value if real and 0 <= value < below else None


def _ids(values: Any) -> tuple[int, ...]:
    """The ids in a list; none of them where one is no id."""
    found = [_whole(one, MOST_IDS) for one in values] if isinstance(values, list) else []
    ids = [one for one in found if one is not None]
    return tuple(ids) if len(ids) == len(found) else ()


def _names(top: Any) -> Iterable[tuple[int, bytes]]:
    for row in top if isinstance(top, list) else []:
        if isinstance(row, Mapping) and isinstance(data := row.get("token_bytes"), str):
            token_id = _whole(row.get("id"), MOST_IDS)
            try:
                name = bytes.fromhex(data)
            except ValueError:
                continue
            if token_id is not None:
                yield token_id, name
