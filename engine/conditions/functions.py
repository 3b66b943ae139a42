"""Every function that a condition may call: one table, from which help and docs are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.conditions.figures import Value, survivors
from engine.conditions.moment import Moment
from engine.records.step import CUT_BY_MODEL, SURVIVES


@dataclass(frozen=True, slots=True)
class Function:
    """A figure with arguments. ``parameters`` says what each is; the last ``optional`` may lack.

    ``stage`` is a stage's name in quotes, ``token`` a token's text in quotes or its id, ``value``
    any expression.
    """

    name: str
    parameters: tuple[str, ...]
    unit: str
    definition: str
    call: Callable[..., Value]
    optional: int = 0

    @property
    def signature(self) -> str:
        """The call as it is written, such as ``cut(stage, token)``."""
        return f"{self.name}({', '.join(self.parameters)})"


def _cut(at: Moment, stage: str, token: str | int) -> bool:
    return at.was_cut(at.stage(stage), token)


def _cut_by(at: Moment, token: str | int) -> str:
    stage = at.cut_by(token)
    if stage == SURVIVES:
        return ""
    return "model" if stage == CUT_BY_MODEL else at.step.stages[stage].name


# fmt: off
FUNCTIONS_OF_A_TOKEN = (
    Function("prob", ("token",), "0..1",
             "a token's probability after the chain; final_prob is another name for it",
             lambda at, token: at.final_prob(token)),
    Function("final_prob", ("token",), "0..1", "the same", lambda at, token: at.final_prob(token)),
    Function("raw_prob", ("token",), "0..1", "its probability by the model",
             lambda at, token: float(at.step.top.probs[0, at.known_row(token)])),
    Function("raw_logprob", ("token",), "nats", "the logarithm of that",
             lambda at, token: float(at.step.top.raw_logprobs[at.known_row(token)])),
    Function("logit", ("token",), "", "the model's raw logit",
             lambda at, token: float(at.step.top.raw_logits[at.known_row(token)])),
    Function("rank", ("token",), "count", "its place in the model's order",
             lambda at, token: int(at.step.top.ranks[at.known_row(token)])),
    Function("survives", ("token",), "yes/no", "it is still possible after the chain",
             lambda at, token: at.cut_by(token) == SURVIVES),
    Function("cut_by", ("token",), "text",
             'the stage that cut it, "model" for a logit of minus infinity, "" for a survivor',
             _cut_by),
    Function("cut", ("stage", "token"), "yes/no", "this stage cut this token", _cut),
)
FUNCTIONS_OF_A_STAGE = (
    Function("survivors", ("stage",), "count", "tokens still possible after the stage", survivors),
    Function("mass_removed", ("stage",), "0..1", "share of its own input that the stage cut",
             lambda at, stage: at.step.stages[at.stage(stage)].mass_removed),
    Function("entropy_after", ("stage",), "nats", "entropy after the stage",
             lambda at, stage: at.step.stages[at.stage(stage)].entropy),
    Function("has", ("stage",), "yes/no", "the chain has such a stage",
             lambda at, stage: any(one.name == stage for one in at.step.stages)),
)
# fmt: on


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


_MOST_DIGITS = 2000
"""More than any number here has: an expression is at most 1,000 characters long."""


def _round(value: Any, digits: Any) -> Any:
    # Python would work out 10 to the power of any number of digits, for hours.
    return round(value, max(-_MOST_DIGITS, min(digits, _MOST_DIGITS)))


# fmt: off
GENERAL = (
    Function("abs", ("value",), "", "size without sign", lambda at, value: abs(value)),
    Function("round", ("value", "digits"), "", "to so many decimals",
             lambda at, value, digits=0: _round(value, digits), optional=1),
    Function("min", ("value", "value"), "", "the smaller", lambda at, a, b: min(a, b)),
    Function("max", ("value", "value"), "", "the larger", lambda at, a, b: max(a, b)),
    Function("len", ("value",), "count", "characters of a text",
             lambda at, value: len(_text(value))),
    Function("lower", ("value",), "text", "in small letters",
             lambda at, value: _text(value).lower()),
    Function("strip", ("value",), "text", "without space at either end",
             lambda at, value: _text(value).strip()),
    Function("startswith", ("value", "value"), "yes/no", "the first text begins with the second",
             lambda at, text, start: _text(text).startswith(_text(start))),
    Function("endswith", ("value", "value"), "yes/no", "the first text ends with the second",
             lambda at, text, end: _text(text).endswith(_text(end))),
)
# fmt: on


def _of_two_steps(*_: Any) -> Value:
    # The evaluator looks at another step for these; engine.conditions.condition has them.
    raise NotImplementedError


PREVIOUS, CHANGED = "previous", "changed"
# fmt: off
OF_TWO_STEPS = (
    Function(PREVIOUS, ("value",), "", "an expression at the step before", _of_two_steps),
    Function(CHANGED, ("value",), "yes/no",
             "an expression is not what it was at the step before; no at the first step",
             _of_two_steps),
)
# fmt: on

FUNCTION_GROUPS: dict[str, tuple[Function, ...]] = {
    "of a token": FUNCTIONS_OF_A_TOKEN,
    "of a stage": FUNCTIONS_OF_A_STAGE,
    "of two steps": OF_TWO_STEPS,
    "general": GENERAL,
}
FUNCTIONS = {one.name: one for group in FUNCTION_GROUPS.values() for one in group}
