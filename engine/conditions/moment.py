"""A branch of a run as conditions look at it: one step, and everything that led to it.

Everything here is read from records, so that a condition means the same on a running model, on a
saved session and over steps that lie in the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from engine.records.prompt import PromptRecord
from engine.records.step import SURVIVES, StepRecord
from engine.records.step_table import StepTable
from engine.records.vocabulary import Token
from engine.sampling.loops import WINDOW, Loop, find_loop
from engine.text import IncrementalDecoder

_ROOT = 0


class Untold(Exception):
    """Something that cannot be told at a step; the message says why."""


class Trail:
    """The steps of one branch in order. It grows with the run, and turns where the run forks."""

    def __init__(self, prompt: PromptRecord, vocab_size: int | None = None) -> None:
        self.prompt = prompt
        self.vocab_size = vocab_size
        self._steps: Mapping[int, StepRecord] = {}
        self._nodes: list[int] = []
        self._index: dict[int, int] = {}
        self._ids = list(prompt.ids)
        self._data = bytearray()
        # Where each step's bytes end, so that the text so far is had without joining it anew.
        self._ends: list[int] = []

    def at(
        self, nodes: Mapping[int, StepRecord], node: int, table: StepTable | None = None
    ) -> Moment:
        """The moment of ``node``, which lies among ``nodes`` with all its ancestors.

        With their ``table`` only those steps are read that a condition looks at.
        """
        self._steps = nodes
        missing: list[int] = []
        parent = node
        while parent != _ROOT and parent not in self._index:
            missing.append(parent)
            parent = nodes[parent].parent if table is None else table.parents[parent]
        if missing:
            self._cut(self._index[parent] + 1 if parent != _ROOT else 0)
            for one in reversed(missing):
                token = nodes[one].token if table is None else table.token(table.row(one))
                self._append(one, token)
        return self.moment(self._index[node])

    def moment(self, index: int) -> Moment:
        """The moment of the step with this index, 0 the first."""
        return Moment(self, index)

    def step(self, index: int) -> StepRecord:
        """The step with this index. Raises Untold where its record is not kept here."""
        found = self._steps.get(self._nodes[index])
        if found is None:
            raise Untold("the step before is too long ago: the engine keeps the newest records")
        return found

    def text(self, index: int) -> str:
        """What was generated up to and with a step, less a character that is still open."""
        return IncrementalDecoder().feed(bytes(self._data[: self._ends[index]]))

    def loop(self, index: int) -> Loop | None:
        """The cycle that prompt and output are in after a step."""
        end = len(self.prompt.tokens) + index + 1
        return find_loop(self._ids[max(0, end - WINDOW) : end])

    def _cut(self, length: int) -> None:
        for node in self._nodes[length:]:
            del self._index[node]
        del self._nodes[length:]
        del self._ids[len(self.prompt.tokens) + length :]
        del self._ends[length:]
        del self._data[self._ends[-1] if self._ends else 0 :]

    def _append(self, node: int, token: Token) -> None:
        self._index[node] = len(self._nodes)
        self._nodes.append(node)
        self._ids.append(token.id)
        self._data += token.bytes
        self._ends.append(len(self._data))


class Moment:
    """One step on its trail, and what can be told of tokens and stages there."""

    def __init__(self, trail: Trail, index: int) -> None:
        self.trail = trail
        self.index = index
        self.step = trail.step(index)

    @property
    def previous(self) -> Moment | None:
        """The moment of the step before; None at the first."""
        return self.trail.moment(self.index - 1) if self.index else None

    @cached_property
    def text(self) -> str:
        return self.trail.text(self.index)

    @cached_property
    def loop(self) -> Loop | None:
        return self.trail.loop(self.index)

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
        """As ``row``. Raises Untold for a token that was not recorded."""
        row = self.row(token)
        if row is None:
            count = len(self.step.top.tokens)
            raise Untold(f"{token!r} is not among the {count} recorded candidates")
        return row

    # --- stages -------------------------------------------------------------------------------

    def stage(self, name: str) -> int:
        """The index of the stage called ``name``. Raises Untold where the chain has none."""
        for index, one in enumerate(self.step.stages):
            if one.name == name:
                return index
        raise Untold(f"the chain has no {name} stage")

    def cut_by(self, token: str | int) -> int:
        """The index of the stage that cut a token, SURVIVES or CUT_BY_MODEL.

        A token that was not recorded can be told where all that were not met the same end.
        """
        row = self.row(token)
        if row is not None:
            return int(self.step.top.cut_by[row])
        others = self._others
        dead = next((index for index, alive in enumerate(others) if alive == 0), None)
        # Before the first stage it is the model that may have ruled some of them out.
        if dead and self._all_alive(dead - 1):
            return dead
        if dead is None and others and self._all_alive(len(others) - 1):
            return SURVIVES
        return self.known_row(token)

    def was_cut(self, stage: int, token: str | int) -> bool:
        """Whether a stage cut the token. Raises Untold where that is not recorded."""
        row = self.row(token)
        if row is not None:
            return int(self.step.top.cut_by[row]) == stage
        if self._all_alive(stage) or (stage and self._others[stage - 1] == 0):
            return False
        return self.cut_by(token) == stage

    def final_prob(self, token: str | int) -> float:
        """A token's probability after the chain. Raises Untold where that is not recorded."""
        row = self.row(token)
        if row is None and self._others and self._others[-1] == 0:
            return 0.0
        return float(self.step.top.probs[-1, self.known_row(token) if row is None else row])

    @cached_property
    def _others(self) -> list[int]:
        """How many tokens that were not recorded were still possible after each stage."""
        cut_by = self.step.top.cut_by
        return [
            one.survivors - int(np.count_nonzero((cut_by == SURVIVES) | (cut_by > index)))
            for index, one in enumerate(self.step.stages)
        ]

    def _all_alive(self, stage: int) -> bool:
        """Whether after a stage every token that was not recorded was still possible."""
        size = self.trail.vocab_size
        return size is not None and self._others[stage] == size - len(self.step.top.tokens)
