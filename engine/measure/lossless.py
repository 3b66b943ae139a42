"""Two samples of continuations, drawn with speculative decoding and without, held together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.acceptance import acceptance
from engine.progress import Progress, silent
from engine.records.measured import Lossless, SampleTest
from engine.records.round import RoundRecord
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT

LEAST_EXPECTED = 5
"""Draws that a cell of a chi-square test is to expect in each sample; rarer ones are one cell."""
_SHUFFLES = 2000
_NO_TOKEN = -1
"""Stands for the token behind a stop token."""

Pair = tuple[int, int]


def measure_lossless(stepper: Stepper, draws: int, progress: Progress = silent) -> Lossless:
    """Draw two tokens behind the prompt's first one ``draws`` times with drafts and without.

    All begin at the same node, each with a seed of its own, so the prompt is read once. The run's
    tree keeps them. Raises StepperError where the run does not draft, or nothing was drafted.
    """
    speculation = stepper.speculation
    if speculation is None:
        raise StepperError("there is nothing to hold against plain decoding without --draft")
    start = stepper.extend(ROOT).node
    rounds: list[RoundRecord] = []

    def plain(node: int, seed: int) -> Sequence[StepRecord]:
        return (stepper.extend(node, seed=seed),)

    def drafted(node: int, seed: int) -> Sequence[StepRecord]:
        steps = stepper.grow(node, seed=seed)
        if steps[0].round:
            rounds.append(stepper.rounds[steps[0].round])
        return steps

    def pairs(grow: Callable[[int, int], Sequence[StepRecord]], first_seed: int) -> list[Pair]:
        found, nodes = [], dict[int, int]()
        for done in range(draws):
            seed = first_seed + done
            progress("drawing", seed / (2 * draws), "continuations")
            steps = list(grow(start, seed))
            first = steps[0].token.id
            # Behind the same token the distribution is known, without another pass.
            node = nodes.setdefault(first, steps[0].node)
            if len(steps) < 2 and steps[0].stop is None:
                steps += grow(node, seed)
            found.append((first, steps[1].token.id if len(steps) > 1 else _NO_TOKEN))
        return found

    without = pairs(plain, 0)
    # Seeds of their own: the samples must not depend on each other.
    with_drafts = pairs(drafted, draws)
    if not rounds:
        raise StepperError(f"{speculation.source.name} drafted nothing here: try another --draft")
    found = acceptance(rounds)
    return Lossless(
        draft=speculation.settings,
        draws=draws,
        rounds=found.rounds,
        drafted=found.drafted,
        accepted=found.accepted,
        tests=(
            compare("1st token", [one for one, _ in with_drafts], [one for one, _ in without]),
            compare("1st + 2nd", with_drafts, without),
        ),
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
