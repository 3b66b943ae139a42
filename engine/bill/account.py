"""The bill of a run's branch with the answers to its questions, out of the run's records alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.bill.bill import Bill, Line, bill_of, shares
from engine.bill.prices import PriceList
from engine.bill.questions import Answer, answers, rates
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.round import RoundRecord
from engine.records.step_table import StepPath
from engine.records.thinking import ThinkingSettings
from engine.thinking import span_count, thinking_mask
from engine.timing import speed


@dataclass(frozen=True, eq=False)
class Account:
    """A bill, its four answers, and which of the output's tokens were thinking."""

    bill: Bill
    answers: tuple[Answer, ...]
    thinking: NDArray[np.bool_]
    forced: int
    """Thinking tokens that were forced: the closing tag, where a budget was used up."""

    @property
    def spans(self) -> int:
        """Thinking spans, one that is still open among them."""
        return span_count(self.thinking)


def account(
    facts: ModelFacts | None,
    prompt: PromptRecord | None,
    prefill: PrefillRecord | None,
    path: StepPath,
    rounds: Mapping[int, RoundRecord],
    tags: ThinkingSettings,
    prices: PriceList,
) -> Account:
    """The account of the branch whose steps ``path`` has; no step of it is read."""
    figures = path.figures
    # Tokens are asked for only where there are tags to look for.
    mask = thinking_mask(prompt, path.tokens, tags) if tags.known else np.zeros(len(path), np.bool_)
    split = shares(facts, figures, rounds)
    found = rates(facts, prefill, speed(prompt, prefill, path), figures, split)
    return Account(
        bill_of(facts, prefill, figures, split, mask, prices),
        answers(facts, prefill, figures, split, mask, found),
        mask,
        int(np.count_nonzero(figures["forced"] & mask)),
    )


def every_line(bill: Bill) -> tuple[Line, ...]:
    """The lines of a bill and, behind them, their sum."""
    return (*bill.lines, bill.total)
