"""An engine that is asked by token ids, without a process: a script behind the top-N protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.backends.base import BackendError
from engine.backends.scripted import ScriptedBackend
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import Abilities, Answer, Continued
from engine.backends.top_n.rows import stacked, top_logprobs
from engine.kv.prefix import common_ids
from engine.records.arrays import FloatArray
from engine.records.engine import EngineTimes
from engine.sampling.candidates import Candidates

LogitsOf = Callable[[Sequence[int]], FloatArray]


@dataclass
class AskedEngine:
    """A ``Completer`` over a function; it keeps what each slot holds, and what it was asked."""

    logits_of: LogitsOf
    abilities: Abilities = field(default_factory=lambda: Abilities(slots=2))
    fails: bool = False
    asked: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """(ids, top, slot, reuse) of every row."""
    requests: int = 0
    ends: tuple[int, ...] = ()
    """Tokens behind which the engine does not go on by itself."""
    held: dict[int, list[int]] = field(default_factory=dict)

    def next_token(self, ids: Sequence[int], top: int, *, slot: int, reuse: bool) -> Answer:
        if self.fails:
            raise BackendError("the engine does not answer")
        self.requests += 1
        self.asked.append((len(ids), top, slot, reuse))
        cached = min(common_ids(self.held.get(slot, ()), ids), len(ids) - 1) if reuse else 0
        self.held[slot] = list(ids)
        logits = self.logits_of(ids)
        model = Candidates.from_logits(logits)
        at = model.order(top)[:top]
        logprobs = model.logits[at].astype(np.float64) - model.log_z
        row = top_logprobs(
            model.ids[at].tolist(), logprobs.tolist(), count=top, vocab_size=logits.size
        )
        return Answer(row, EngineTimes(cached, len(ids) - cached, 2.0, 0.5, 0.25))

    def continued(self, ids: Sequence[int], top: int, count: int, *, slot: int) -> Continued:
        answers, taken, text = [], [], list(ids)
        for _ in range(count):
            answers.append(self.next_token(text, top, slot=slot, reuse=True))
            taken.append(int(answers[-1].top.ids[0]))
            text.append(taken[-1])
            self.requests -= len(taken) > 1
            if taken[-1] in self.ends:
                break
        return Continued(tuple(answers), tuple(taken))

    def positions(self, ids: Sequence[int], start: int, top: int, *, slot: int) -> Answer:
        rows = [
            self.next_token(ids[: end + 1], top, slot=slot, reuse=True)
            for end in range(start, len(ids))
        ]
        times = replace(rows[-1].times, evaluated=len(rows))
        return Answer(stacked([one.top for one in rows]), times)

    def close(self) -> None:
        self.held.clear()


def asked_backend(
    tokens: ScriptedBackend, logits_of: LogitsOf, *, top: int = 20, **more: object
) -> tuple[TopBackend, AskedEngine]:
    """A backend of ``tokens`` whose engine tells the ``top`` likeliest of ``logits_of``."""
    engine = AskedEngine(logits_of, **more)  # type: ignore[arg-type]
    facts = replace(tokens.facts, backend="asked", name="asked", top=top)
    return TopBackend(engine, tokens, facts), engine
