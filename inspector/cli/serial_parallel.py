"""One long thought against several short ones: the same tokens of thinking, in series and in rows.

Serial is one row that may think ``rows`` times as long; parallel are ``rows`` rows of one prompt
that share each pass, and vote with their answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from textual.content import Content

from engine.commands import Column, Configure, StepMany, Submit
from engine.records.columns import PassRecord
from engine.records.prompt import PromptRecord
from engine.records.step import StopKind
from engine.records.thinking import ThinkingSettings
from engine.run.tree import ROOT
from engine.text import quote
from engine.thinking import thinking_mask
from inspector.draw.numbers import cut, derived, ms, muted, padded, right, three, wrapped
from inspector.state.answers import Answers
from inspector.state.view import RunLog
from sessions.export.jsonl import plain
from sessions.export.words import output_text

_TEMPERATURE = 0.8
_TAG_ROOM = 24
"""Tokens that a closing tag may be made of, beside the thinking and the answer."""
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_SHOWN = 40
_NAME, _COUNT, _TIME = 22, 10, 12


@dataclass(frozen=True)
class Way:
    """One way to think: its rows, tokens of all of them, passes, time, and what they answered."""

    name: str
    rows: int
    budget: int
    """Of each row."""
    thought: int
    answered: int
    passes: int
    ms: float
    """The passes; the prompt, which is the same, is not in it."""
    votes: tuple[tuple[str, int], ...]
    """(answer, rows that gave it), the one with most votes first."""

    @property
    def per_second(self) -> float | None:
        """Tokens of all rows together, a second."""
        return (self.thought + self.answered) / self.ms * 1000 if self.ms > 0 else None


def answer_of(text: str) -> str:
    """A row's answer: the last number in its text, or else its first line."""
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else text.strip().partition("\n")[0].strip()


def both_ways(
    answers: Answers,
    prompt: str,
    thinking: ThinkingSettings,
    rows: int,
    output: int,
    show: Callable[[str, float], None],
) -> tuple[Way, Way]:
    """Answer ``prompt`` in both ways; ``thinking`` has each row's budget."""
    each = thinking.budget or 0
    ways = (("serial", 1, each * rows), ("parallel", rows, each))
    serial, parallel = (
        _way(answers, name, prompt, replace(thinking, budget=budget), count, output, show)
        for name, count, budget in ways
    )
    return serial, parallel


def _way(
    answers: Answers,
    name: str,
    prompt: str,
    thinking: ThinkingSettings,
    rows: int,
    output: int,
    show: Callable[[str, float], None],
) -> Way:
    budget = thinking.budget or 0
    most = budget + _TAG_ROOM + output
    answers.tell(Configure(dials={"temperature": _TEMPERATURE}, max_tokens=most, thinking=thinking))
    answers.ask(Submit(prompt), PromptRecord)
    tips = dict.fromkeys(range(1, rows + 1), ROOT)
    going, passes, spent = set(tips), 0, 0.0
    while going:
        show(f"{name}: {rows} × {budget}", passes / most)
        columns = tuple(Column(one, tips[one], seed=one) for one in sorted(going))
        record = answers.ask(StepMany(columns), PassRecord)
        passes, spent = passes + 1, spent + record.total_ms
        for one in record.columns:
            if one.nodes:
                tips[one.column] = one.nodes[-1]
            step = answers.log.nodes.get(tips[one.column])
            answered = _split(answers.log, tips[one.column], thinking)[1]
            if not one.nodes or step is None or step.stop is not None or answered >= output:
                going.discard(one.column)
    counts = [_split(answers.log, tip, thinking) for tip in tips.values()]
    votes = Counter(_answer(answers.log, tip, thinking) for tip in tips.values())
    return Way(
        name,
        rows,
        budget,
        sum(thought for thought, _ in counts),
        sum(answered for _, answered in counts),
        passes,
        spent,
        tuple(votes.most_common()),
    )


def _split(log: RunLog, tip: int, thinking: ThinkingSettings) -> tuple[int, int]:
    """(tokens of thinking, tokens of the answer) on the way to a node."""
    mask = thinking_mask(log.prompt, log.path(tip).tokens, thinking)
    thought = int(np.count_nonzero(mask))
    return thought, len(mask) - thought


def _answer(log: RunLog, tip: int, thinking: ThinkingSettings) -> str:
    path, stop = log.path(tip), log.nodes[tip].stop
    if stop is not None and stop.kind is StopKind.STOP_TOKEN:
        path = path[:-1]
    mask = thinking_mask(log.prompt, path.tokens, thinking)
    return answer_of(output_text(path.only(~mask)))


def way_lines(ways: Sequence[Way], width: int) -> Iterator[Content]:
    """Both ways as a table: tokens, time, answer."""
    head = padded(muted("way"), _NAME)
    for title in ("thought", "answered", "passes"):
        head += right(muted(title), _COUNT)
    head += right(muted("time  "), _TIME) + right(muted("tok/s  "), _TIME)
    yield cut(head, width)
    for one in ways:
        line = padded(Content(f"{one.name}, {one.rows} × {one.budget:,}"), _NAME)
        for count in (one.thought, one.answered, one.passes):
            line += right(Content(f"{count:,}"), _COUNT)
        speed = one.per_second
        line += right(derived(ms(one.ms)), _TIME)
        line += right(derived(three(speed) if speed is not None else "—"), _TIME)
        yield cut(line, width)
        said = "; ".join(
            f"{count} of {one.rows}: {quote(answer, _SHOWN) if answer else 'none'}"
            for answer, count in one.votes[:3]
        )
        yield from wrapped("  answer", _NAME, width, said)


def way_fields(one: Way) -> dict[str, Any]:
    """A way as plain values."""
    votes = [{"answer": plain(answer), "rows": count} for answer, count in one.votes]
    return asdict(one) | {"tps": plain(one.per_second), "votes": votes}
