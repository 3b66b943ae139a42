"""A branch of a run as conditions look at it: one step, and everything that led to it.

Everything here is read from records, so that a condition means the same on a running model, on a
saved session and over steps that lie in the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np

from engine.records.partial import Interval, ends
from engine.records.prompt import PromptRecord
from engine.records.round import RoundRecord
from engine.records.step import SURVIVES
from engine.records.step_table import StepPath
from engine.sampling.loops import WINDOW, Loop, find_loop
from engine.text import IncrementalDecoder

Figure = TypeVar("Figure")


class Unavailable(Exception):
    """Something that cannot be told at a step; the message says why."""


class NotHere(Unavailable):
    """Something that other steps of the run have, and this one has not: no condition strikes."""


def exact(figure: Figure) -> Figure:
    """``figure``, which is no interval. Raises Unavailable for one."""
    if isinstance(figure, Interval):
        low, high = figure.low, figure.high
        raise Unavailable(f"only that it lies in {low:.5g} .. {high:.5g} is known of it")
    return figure


class Moments:
    """State that moments of one run share: the prompt, and the text of the path looked at last."""

    def __init__(
        self,
        prompt: PromptRecord,
        vocab_size: int | None = None,
        rounds: Mapping[int, RoundRecord] | None = None,
    ) -> None:
        """``rounds``: speculative rounds by the node of their first token."""
        self.prompt = prompt
        self.vocab_size = vocab_size
        self.rounds: Mapping[int, RoundRecord] = {} if rounds is None else rounds
        # The bytes of one path from the prompt on, and where each step's end.
        self._path: StepPath | None = None
        self._data = bytearray()
        self._ends: list[int] = []

    def at(self, path: StepPath) -> Moment:
        """The moment of the last step of ``path``, which begins at the first token."""
        return Moment(self, path, len(path) - 1)

    def text(self, path: StepPath, index: int) -> str:
        """The text generated up to and with a step, less a character that is still open."""
        known = self._path
        shared = 0 if known is None else min(len(known), len(path))
        # Paths with the same node at the same place are the same up to there.
        if known is not None and shared and known.node(shared - 1) != path.node(shared - 1):
            shared = 0
        del self._ends[shared:]
        del self._data[self._ends[-1] if self._ends else 0 :]
        for token in path[len(self._ends) :].tokens:
            self._data += token.bytes
            self._ends.append(len(self._data))
        self._path = path
        return IncrementalDecoder().feed(bytes(self._data[: self._ends[index]]))

    def loop(self, path: StepPath, index: int) -> Loop | None:
        """The cycle that prompt and output are in after a step."""
        output = path[max(0, index + 1 - WINDOW) : index + 1].token_ids
        before = self.prompt.tokens[-(WINDOW - len(output)) :] if len(output) < WINDOW else ()
        return find_loop([*(token.id for token in before), *output])


class Moment:
    """One step on its moments, and what can be told of tokens and stages there."""

    def __init__(self, moments: Moments, path: StepPath, index: int) -> None:
        """Raises Unavailable where the step's record is not kept here."""
        self.moments = moments
        self.path = path
        self.index = index
        try:
            self.step = path[index]
        except KeyError:
            why = "the step before is too long ago: the engine keeps the newest records"
            raise Unavailable(why) from None

    @property
    def previous(self) -> Moment | None:
        """The moment of the step before; None at the first. Raises Unavailable."""
        return Moment(self.moments, self.path, self.index - 1) if self.index else None

    @cached_property
    def round(self) -> RoundRecord | None:
        """The speculative round that the token came in; None for a plain one. Unavailable."""
        if not self.step.round:
            return None
        try:
            return self.moments.rounds[self.step.round]
        except KeyError:
            raise Unavailable("the round that it came in is not kept here") from None

    @cached_property
    def text(self) -> str:
        return self.moments.text(self.path, self.index)

    @cached_property
    def loop(self) -> Loop | None:
        return self.moments.loop(self.path, self.index)

    # --- tokens -------------------------------------------------------------------------------

    def row(self, token: str | int) -> int | None:
        """The row of a token, given by its text or its id, among the recorded candidates."""
        top = self.step.top
        if isinstance(token, str):
            data = token.encode("utf-8", "surrogatepass")
            found = (row for row, one in enumerate(top.tokens) if one.bytes == data)
        else:
            found = (row for row, one in enumerate(top.tokens) if one.id == token)
        return next(found, None)

    def known_row(self, token: str | int) -> int:
        """The row of a recorded candidate. Raises Unavailable for a token that was not recorded."""
        row = self.row(token)
        if row is None:
            count = len(self.step.top.tokens)
            raise Unavailable(f"{token!r} is not among the {count} recorded candidates")
        if not self.step.top.seen(row):
            raise Unavailable(f"{token!r} is not among the leading candidates that are known")
        return row

    # --- stages -------------------------------------------------------------------------------

    def stage(self, name: str) -> int:
        """The index of the stage called ``name``. Raises Unavailable where the chain has none."""
        for index, one in enumerate(self.step.stages):
            if one.name == name:
                return index
        raise Unavailable(f"the chain has no {name} stage")

    def cut_by(self, token: str | int) -> int:
        """The index of the stage that cut a token, SURVIVES or CUT_BY_MODEL.

        A token that was not recorded can be told where all that were not met the same end.
        """
        row = self.row(token)
        if row is not None:
            cut_by = int(self.step.top.cut_by[row])
            if cut_by == SURVIVES and self.step.top.slack is not None:
                final = self.step.top.prob(-1, row)
                if ends(final)[0] == 0.0:
                    raise Unavailable(f"{token!r} may be cut or not, which is not known")
            return cut_by
        others = self._others
        dead = next((index for index, alive in enumerate(others) if alive == 0), None)
        # Before the first stage it is the model that may have ruled some of them out.
        if dead and self._all_alive(dead - 1):
            return dead
        if dead is None and others and self._all_alive(len(others) - 1):
            return SURVIVES
        return self.known_row(token)

    def was_cut(self, stage: int, token: str | int) -> bool:
        """True if a stage cut the token. Raises Unavailable where that is not recorded."""
        row = self.row(token)
        if row is not None:
            return self.cut_by(token) == stage
        if self._all_alive(stage) or (stage and self._others[stage - 1] == 0):
            return False
        return self.cut_by(token) == stage

    def final_prob(self, token: str | int) -> float:
        """A token's probability after the chain. Raises Unavailable where that is not recorded."""
        row = self.row(token)
        if row is None and self._others and self._others[-1] == 0:
            return 0.0
        return exact(self.step.top.prob(-1, self.known_row(token) if row is None else row))

    @cached_property
    def _others(self) -> list[float]:
        """Number of unrecorded tokens still possible after each stage."""
        cut_by = self.step.top.cut_by
        return [
            exact(one.survivors) - int(np.count_nonzero((cut_by == SURVIVES) | (cut_by > index)))
            for index, one in enumerate(self.step.stages)
        ]

    def _all_alive(self, stage: int) -> bool:
        """True if after a stage every token that was not recorded was still possible."""
        size = self.moments.vocab_size
        return size is not None and self._others[stage] == size - len(self.step.top.tokens)
