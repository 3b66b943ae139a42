"""Two samples of continuations, drawn with speculative decoding and without, held together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.measure.continuations import Continuations
from engine.progress import Progress, silent
from engine.records.measured import Lossless, SampleTest
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT

LEAST_EXPECTED = 5
"""Draws that a cell of a chi-square test is to expect in each sample; rarer ones are one cell."""
_SHUFFLES = 2000
_TOLD_EVERY = 50
_NO_TOKEN = -1
"""Stands for the token behind a stop token."""

Pair = tuple[int, int]


def measure_lossless(stepper: Stepper, draws: int, progress: Progress = silent) -> Lossless:
    """Draw two tokens behind the prompt's first one ``draws`` times with drafts and without.

    All go on the same text, each with a seed of its own. Raises StepperError where the run does not
    draft, or nothing was drafted.
    """
    speculation = stepper.speculation
    if speculation is None:
        raise StepperError("there is nothing to hold against plain decoding without --draft")
    drawn = Continuations(stepper, speculation, stepper.extend(ROOT).node)

    def pairs(draw: Callable[[int], Sequence[int]], first_seed: int) -> list[Pair]:
        found = []
        for seed in range(first_seed, first_seed + draws):
            if not seed % _TOLD_EVERY:
                progress("drawing", seed / (2 * draws), "continuations")
            first, *rest = draw(seed)
            found.append((first, rest[0] if rest else _NO_TOKEN))
        return found

    # Seeds of their own: the samples must not depend on each other.
    with_drafts = pairs(drawn.drafted, 0)
    without = pairs(drawn.plain, draws)
    counts = drawn.drafts
    if not counts.rounds:
        raise StepperError(f"{speculation.source.name} drafted nothing here: try another --draft")
    return Lossless(
        draft=speculation.settings,
        draws=draws,
        rounds=counts.rounds,
        drafted=counts.drafted,
        accepted=counts.accepted,
        tests=(
            compare("1st token", [one for one, _ in with_drafts], [one for one, _ in without]),
            compare("1st + 2nd", with_drafts, without),
        ),
        rounding=drawn.rounding(),
    )


def compare(name: str, ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> SampleTest:
    """A chi-square test of whether two samples of one size come from one distribution.

    The total variation is that of the test's cells, and ``by_chance`` its mean and ``error`` its
    standard deviation where the same draws are dealt to the two samples at random.
    """
    table = _cells(ours, theirs)
    both = table.sum(axis=0)
    freedom = both.size - 1
    statistic = float(((table[0] - table[1]) ** 2 / both).sum())
    # A fixed seed: the same draws give the same report.
    dealt = np.random.default_rng(0).multivariate_hypergeometric(both, len(ours), _SHUFFLES)
    chance = np.abs(2 * dealt - both).sum(axis=1) / (2 * len(ours))
    return SampleTest(
        name=name,
        cells=both.size,
        statistic=statistic,
        p_value=chi_square_tail(statistic, freedom) if freedom else None,
        variation=float(np.abs(table[0] - table[1]).sum() / (2 * len(ours))),
        by_chance=float(chance.mean()),
        error=float(chance.std()),
    )


def _cells(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> NDArray[np.int64]:
    """Counts of each outcome in each sample, shape (2, cells); rare ones are the last cell."""
    counts = Counter(ours), Counter(theirs)
    # By what both have, which is as it would be were the samples' labels swapped.
    total = counts[0] + counts[1]
    often = [one for one, count in total.items() if count >= 2 * LEAST_EXPECTED]
    columns = [[count[one] for one in often] for count in counts]
    rare = [len(sample) - sum(row) for sample, row in zip((ours, theirs), columns, strict=True)]
    if sum(rare):
        columns = [[*row, rest] for row, rest in zip(columns, rare, strict=True)]
    return np.array(columns, np.int64)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """The probability of a chi-square of ``freedom`` degrees that is at least ``statistic``."""
    half = statistic / 2
    if half <= 0.0:
        return 1.0
    # The regularised upper gamma function at a multiple of 1/2, by its recurrence.
    tail, at = (math.erfc(math.sqrt(half)), 0.5) if freedom % 2 else (math.exp(-half), 1.0)
    while at < freedom / 2:
        tail += math.exp(at * math.log(half) - half - math.lgamma(at + 1))
        at += 1
    return min(1.0, tail)
