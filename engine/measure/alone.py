"""Columns of a comparison against their text read alone: drift, and tokens that it decides.

A column's pass has rows for others too, and rounds otherwise than a pass for one. To tell what
that does, its text is read once more, by itself, several positions a pass, and each token is drawn
again from that: by the recorded settings, with the recorded number. With the default model such a
read lies as far from the columns' passes as single steps do, within a third, in each dtype, and
costs a fifth to a tenth of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from engine.backends.abilities import (
    LengthScaled,
    Measurable,
    MeasurableBackend,
    measurable,
    missing,
)
from engine.backends.base import BackendError, whole
from engine.measure.ceilings import never
from engine.measure.drift import rounding
from engine.progress import Progress, silent
from engine.records.alone import (
    MEASURING_ALONE,
    AloneMeasured,
    AloneParting,
    ColumnAlone,
    DrawnColumn,
    DrawnToken,
)
from engine.records.arrays import FloatArray
from engine.records.step import Draw, DrawnOn, How
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Effective, SpecError, effective
from engine.sampling.draw import argmax, draw

_AT_ONCE = 64
"""Positions of a pass; the logits of each are in memory."""


def measure_alone(
    stepper: Stepper,
    columns: Sequence[DrawnColumn],
    progress: Progress = silent,
    called: Callable[[], bool] = never,
) -> AloneMeasured:
    """Read each column alone and draw its tokens again; the run stays as it is.

    Ends early, with the columns that are done, once ``called`` is true. Where the backend cannot
    read beside the run, each column says so.
    """
    dtype, backend = stepper.backend.facts.dtype, stepper.backend
    if not isinstance(backend, Measurable):
        return AloneMeasured(dtype, tuple(_untold(columns, missing(backend.facts, Measurable))))
    backend, prompt = measurable(backend), list(stepper.path_ids(ROOT))
    longest = max((len(one.tokens) for one in columns), default=0)
    checks: list[_Check] = []
    try:
        with backend.side_sequence(cached=True, positions=2 * (len(prompt) + longest)):
            reader = _Reader(backend, prompt, stepper.reading.chunk)
            for done, column in enumerate(columns, start=1):
                progress(MEASURING_ALONE, (done - 1) / len(columns), f"{done} of {len(columns)}")
                check = _Check(stepper, prompt, column)
                if not check.run(reader, called):
                    break
                checks.append(check)
    except BackendError as error:
        return AloneMeasured(dtype, tuple(_untold(columns, " ".join(str(error).split()))))
    return AloneMeasured(dtype, tuple(check.with_rounding(backend) for check in checks))


def _untold(columns: Sequence[DrawnColumn], why: str) -> Iterator[ColumnAlone]:
    return (ColumnAlone(one.column, one.node, 0, obstacle=why) for one in columns)


class _Reader:
    """Reads texts that begin with one prompt; the prompt itself only where it is not held."""

    def __init__(self, backend: MeasurableBackend, prompt: list[int], chunk: int) -> None:
        self._backend, self._prompt, self._chunk = backend, prompt, chunk
        self._scaled = backend if isinstance(backend, LengthScaled) else None
        self._first: FloatArray | None = None

    def before_each(self, tokens: Sequence[int]) -> Iterator[FloatArray]:
        """Logits before each of ``tokens``, the first behind the prompt. Raises BackendError."""
        backend, prompt = self._backend, self._prompt
        at = backend.seek(prompt if self._first is None else [*prompt, tokens[0]])
        while at < len(prompt):
            piece = prompt[at : at + self._chunk]
            result = backend.forward(((backend.sequence, piece),))
            at += len(piece)
            self._first = np.array(result.logits)
        assert self._first is not None, "a prompt has a token"
        yield self._first
        read = 0
        while read < len(tokens) - 1:
            count = min(_AT_ONCE, len(tokens) - 1 - read)
            if self._scaled is not None:
                # One pass has one scaling, and single steps change it where the text gets there.
                count = max(1, self._scaled.lasting(len(prompt) + read, count))
            piece = list(tokens[read : read + count])
            result = backend.forward(((backend.sequence, piece),), all_positions=True)
            yield from whole(result.logits)
            read += count


class _Check:
    """One column, token by token."""

    def __init__(self, stepper: Stepper, prompt: list[int], column: DrawnColumn) -> None:
        self._stepper, self._column, self._prompt = stepper, column, prompt
        self._chains: dict[tuple[str, str], Effective] = {}
        self._found = ColumnAlone(column.column, column.node, len(column.tokens))
        # Text, candidates and logits before the token at which they part.
        self._there: tuple[list[int], DrawnToken, FloatArray] | None = None

    def run(self, reader: _Reader, called: Callable[[], bool]) -> bool:
        """Read the column and draw all its tokens again; False if it was called away."""
        tokens = self._column.tokens
        if not tokens:
            return True
        history = list(self._prompt)
        try:
            rows = reader.before_each([one.draw.token_id for one in tokens])
            for token, row in zip(tokens, rows, strict=True):
                if called():
                    return False
                self._look(token, row, history)
                history.append(token.draw.token_id)
        except (BackendError, SamplingError, SpecError) as error:
            self._found = replace(self._found, obstacle=" ".join(str(error).split()))
        return True

    def with_rounding(self, backend: MeasurableBackend) -> ColumnAlone:
        """The result, with the rounding at the place where they part."""
        found, parting = self._found, self._found.parting
        if parting is None or self._there is None:
            return found
        text, token, row = self._there
        try:
            measured = rounding(backend, text, row, token.ids)
        except (BackendError, ValueError):
            return found
        # Less than a unit of the last place of a logit is no measure of anything.
        unit = float(np.spacing(np.abs(token.logits).max()))
        return replace(found, parting=replace(parting, rounding=max(measured, unit)))

    def _look(self, token: DrawnToken, row: FloatArray, history: list[int]) -> None:
        """Hold one token against the logits before it, behind ``history``."""
        found, drift = self._found, _difference(token, row)
        found = self._found = replace(found, drift=max(found.drift, drift))
        again = self._again(token, row, history)
        if again is None or token.margin is None:
            return
        other, was = again.token_id != token.draw.token_id, token.draw
        moved = 2 * drift
        if was.u is not None:
            moved = max(abs(again.low - was.low), abs(again.high - was.high))
        if not (other or token.margin <= moved):
            return
        position = found.near_position
        found = replace(
            found,
            near_ties=found.near_ties + 1,
            near_position=len(history) if position is None else position,
        )
        if other and found.parting is None:
            self._there = list(history), token, np.array(row)
            backend = self._stepper.backend
            parting = AloneParting(
                position=len(history),
                token=backend.token(was.token_id),
                other=backend.token(again.token_id),
                margin=token.margin,
                greedy=was.u is None,
                drift=drift,
            )
            found = replace(found, parting=parting)
        self._found = found

    def _again(self, token: DrawnToken, row: FloatArray, history: list[int]) -> Draw | None:
        """The draw from ``row``; None for a token that no draw of this kind has chosen."""
        was = token.draw
        if was.how is How.FORCED or was.on is not DrawnOn.SURVIVORS:
            return None
        key = token.preset, token.spec
        if key not in self._chains:
            self._chains[key] = effective(token.preset, {}, spec=token.spec)
        settings, drawing = self._chains[key], self._stepper.drawing
        context = drawing.context(settings, tuple(self._prompt), history, token.seed, token.state)
        final = settings.chain.run(row, context).final
        return argmax(final) if was.u is None else draw(final, was.u)


def _difference(token: DrawnToken, row: FloatArray) -> float:
    """Largest difference of a leading candidate's logit, of those that are finite in both."""
    ours, alone = token.logits.astype(np.float64), row[token.ids].astype(np.float64)
    both = np.isfinite(ours) & np.isfinite(alone)
    return float(np.abs(ours[both] - alone[both]).max()) if both.any() else 0.0
