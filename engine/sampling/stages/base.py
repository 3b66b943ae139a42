"""The interface of a sampler stage: dials, registry, context.

A stage is pure: ``apply(candidates, context)`` returns new candidates and never edits its input.
Adding one means writing its class in a file of this package with ``@stage``; the chain, the
command line, the dials on the screen and the reference page all read the registry.
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from engine.records.arrays import IntArray
from engine.records.vocabulary import Token, Vocabulary
from engine.sampling.candidates import Candidates


@dataclass(frozen=True)
class StageContext:
    """Context of a stage besides the candidates: the history and the run's keys.

    ``state`` is what stages carry from token to token (stage name -> number); it belongs to the
    node, and ``Chain.next_state`` gives the next one. ``vocabulary`` is for grammars alone;
    ``token`` names those of the history, and ``encode`` is the tokenizer, for DRY's breakers.
    """

    prompt_ids: tuple[int, ...] = ()
    output_ids: Sequence[int] = ()
    stop_ids: frozenset[int] = frozenset()
    seed: int = 0
    state: Mapping[str, float] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    token: Callable[[int], Token] | None = field(default=None, compare=False)
    encode: Callable[[str], Sequence[int]] | None = field(default=None, compare=False)

    @property
    def position(self) -> int:
        """Position, counted from 0 in the whole sequence, of the token about to be drawn."""
        return len(self.prompt_ids) + len(self.output_ids)

    @cached_property
    def history(self) -> IntArray:
        """Prompt and output ids, shape ``(position,)``."""
        return np.fromiter((*self.prompt_ids, *self.output_ids), np.int32, self.position)


Value = int | float | str
"""A dial's value. Numbers where it is one; else text in the form that its stage documents."""


@dataclass(frozen=True, slots=True)
class DialScale:
    """The part of a dial's range that people use, for a screen that turns it.

    A track from ``low`` to ``high``; a small and a large step; where to begin when off. ``log``:
    equal distances on the track are equal ratios.
    """

    low: int | float
    high: int | float
    step: int | float
    leap: int | float
    start: int | float
    log: bool = False


@dataclass(frozen=True, slots=True)
class Dial:
    """One parameter of a stage, as flags, spec strings and the screen know it.

    ``off`` is the value at which the stage does nothing; None for a dial that only says how.
    ``apart`` is a value that continues no scale, such as top_k's 0, which is looser than any k.
    ``also_off`` is another way to write ``off``, as some stacks do; it is read as ``off``.
    A dial of kind ``str`` has a ``form``: a function that returns the text in its one proper
    spelling, or raises ValueError. A ``token_list`` may name tokens by text, which a tokenizer
    turns into ids; ``numbered``: with a number for each entry.
    """

    name: str
    kind: type[int] | type[float] | type[str]
    low: float
    high: float
    off: Value | None
    summary: str
    unit: str = ""
    low_included: bool = True
    high_included: bool = True
    apart: Value | None = None
    also_off: Value | None = None
    form: Callable[[str], str] = str
    token_list: bool = False
    numbered: bool = False
    scale: DialScale | None = None

    @property
    def numeric(self) -> bool:
        """True if the dial can be turned, rather than written."""
        return self.kind is not str

    def parse(self, text: str) -> Value:
        """The value that ``text`` stands for; ValueError says what the range is."""
        if self.kind is str:
            return self.check(text)
        try:
            value = self.kind(text)
        except ValueError:
            kind = "a whole number" if self.kind is int else "a number"
            raise ValueError(f"{self.name} takes {kind}, not {text!r}") from None
        return self.check(value)

    def check(self, value: Value) -> Value:
        """``value`` when it lies in range; ValueError (also for NaN) otherwise."""
        if self.kind is str:
            if not isinstance(value, str):
                raise ValueError(f"{self.name} takes text, not {value!r}")
            try:
                return self.form(value)
            except ValueError as error:
                raise ValueError(f"{self.name}: {error}") from None
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError(f"{self.name} takes a number, not {value!r}")
        try:
            float(value)
        except OverflowError:
            raise ValueError(f"{self.name} is out of range: {self.range_text}") from None
        if self.off is not None and value == self.also_off:
            return self.off
        above = value >= self.low if self.low_included else value > self.low
        below = value <= self.high if self.high_included else value < self.high
        if not (above and below):
            raise ValueError(f"{self.name}={value:g} is out of range: {self.range_text}")
        if self.kind is int and not float(value).is_integer():
            raise ValueError(f"{self.name} takes a whole number, not {value:g}")
        return self.kind(value)

    @property
    def range_text(self) -> str:
        """The range in words, such as ``0 to 1``."""
        if self.kind is str:
            return "text"
        if self.also_off is not None:
            return f"{self.also_off:g}, or {replace(self, also_off=None).range_text}"
        low = f"{self.low:g}" if self.low_included else f"above {self.low:g}"
        if self.high == math.inf:
            return low if low.startswith("above") else f"{low} or more"
        return f"{low} to {self.high:g}" if self.high_included else f"{low} to below {self.high:g}"


class Role(StrEnum):
    """Kind of a stage: those that greedy decoding keeps, and those that it leaves out."""

    LOGITS = "logits"
    SAMPLING = "sampling"


class Locality(StrEnum):
    """Part of the distribution that decides over one token in a stage."""

    BY_ID = "by id"
    """The token's id, its own logit and the text so far; never another token."""
    LEADING = "leading"
    """A leading stretch is kept, and where it ends depends on its own tokens and on the mass of
    all that follow, one way: the more mass, the longer, or the shorter."""
    WHOLE = "whole"
    """The whole distribution."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The number by which a stage judged one token, and where the border lay.

    A token is cut when its ``value`` lies beyond the ``limit``: ``sign`` says which way, and
    whether the limit itself is beyond (``<``, ``<=``, ``>``, ``>=``).
    """

    what: str
    value: float
    sign: str
    limit: float


@runtime_checkable
class Stage(Protocol):
    """One operation on the distribution."""

    name: ClassVar[str]
    dials: ClassVar[tuple[Dial, ...]]
    role: ClassVar[Role]
    locality: ClassVar[Locality]

    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def rules(self) -> dict[str, Any]: ...
    @property
    def off(self) -> bool: ...
    @property
    def label(self) -> str: ...
    def apply(self, candidates: Candidates, context: StageContext) -> Candidates: ...
    def figure(
        self, candidates: Candidates, context: StageContext, token_id: int
    ) -> Figure | None: ...
    def advance(self, after: Candidates, context: StageContext, token_id: int) -> float | None: ...
    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]: ...


class Parameters:
    """Methods of every stage that follow from its dataclass fields.

    Fields that are dials are set by people; the others are rules in which stacks differ.
    """

    name: ClassVar[str]
    dials: ClassVar[tuple[Dial, ...]]
    role: ClassVar[Role]
    source: ClassVar[str]
    locality: ClassVar[Locality] = Locality.WHOLE
    beside_mirostat: ClassVar[bool] = False
    """True if the stage is still used where mirostat takes the place of the others."""

    @property
    def params(self) -> dict[str, Any]:
        """Dial name -> value, ready for JSON."""
        return {dial.name: getattr(self, dial.name) for dial in self.dials}

    @property
    def rules(self) -> dict[str, Any]:
        """Rule name -> value: where this stage follows one stack rather than another."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {one.name: getattr(self, one.name) for one in fields if one.name not in DIALS}

    @property
    def off(self) -> bool:
        """True if the stage, at these values, leaves every distribution as it is."""
        return all(
            getattr(self, dial.name) == dial.off for dial in self.dials if dial.off is not None
        )

    @property
    def label(self) -> str:
        """The stage in writing, such as ``top_p=0.95``; ``parse_spec`` reads it back.

        Dials at their default are left out, but for the first.
        """
        shown = [
            f"{dial.name}={spelled(getattr(self, dial.name))}"
            for dial in self.dials
            if getattr(self, dial.name) != default_of(type(self), dial)
        ]
        first = self.dials[0]
        return " ".join(shown) or f"{first.name}={spelled(getattr(self, first.name))}"

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure | None:
        """The number that decided over one of ``candidates``; None where there is none."""
        return None

    def advance(self, after: Candidates, context: StageContext, token_id: int) -> float | None:
        """The state for the next token, after ``token_id`` was drawn; None for a stage without."""
        return None

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        """Values the stage computed from its dials at this step, by name.

        For a stage whose real parameter follows from the distribution or from the state; ``after``
        is what ``apply`` made of ``before``.
        """
        return {}


def spelled(value: Value) -> str:
    """A dial's value as a specification writes it: no digit too many, none lost."""
    if isinstance(value, str):
        # A bare word ends at a space, a comma or a >.
        plain = value and not any(one.isspace() or one in ",>\"'\\" for one in value)
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def default_of(cls: type[Any], dial: Dial) -> Any:
    """The value that ``dial`` has in ``cls`` when nobody sets it."""
    return cls.__dataclass_fields__[dial.name].default


def with_shared_dials(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The stages of one chain, those that share a dial with another (min_keep) at its value."""
    found: list[Any] = list(stages)
    for at, one in enumerate(stages):
        for name in _shared_dials(type(one)):
            owner = next((other for other in stages if other.name == DIALS[name][0]), None)
            if owner is not None and getattr(owner, name) != getattr(one, name):
                found[at] = replace(found[at], **{name: getattr(owner, name)})
    return tuple(found)


@cache
def _shared_dials(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a stage that are another stage's dials."""
    own = {dial.name for dial in cls.dials}
    names = [one.name for one in dataclasses.fields(cls)]
    return tuple(name for name in names if name in DIALS and name not in own)


STAGES: dict[str, type[Any]] = {}
"""Stage name -> class, in the order of definition."""

DIALS: dict[str, tuple[str, Dial]] = {}
"""Dial name -> (stage name, dial)."""

_Class = TypeVar("_Class", bound=type[Any])


def stage(
    name: str,
    *dials: Dial,
    role: Role = Role.SAMPLING,
    source: str,
    locality: Locality = Locality.WHOLE,
    beside_mirostat: bool = False,
) -> Callable[[_Class], _Class]:
    """Register a stage class under ``name`` with the dials that set its fields, and its traits.

    ``source`` says where its definition comes from: a paper, or the stack that invented it.
    """

    def register(cls: _Class) -> _Class:
        cls.name, cls.dials, cls.role, cls.source = name, dials, role, source
        cls.locality, cls.beside_mirostat = locality, beside_mirostat
        STAGES[name] = cls
        DIALS.update({dial.name: (name, dial) for dial in dials})
        return cls

    return register


def stage_of(name: str, values: Mapping[str, Any], rules: Mapping[str, Any] | None = None) -> Any:
    """The stage ``name`` with its dials in ``values`` and its rules set.

    Each value is checked against its range; raises ValueError.
    """
    cls = STAGES[name]
    given = {dial.name: dial.check(values[dial.name]) for dial in cls.dials if dial.name in values}
    return cls(**given, **(rules or {}))
