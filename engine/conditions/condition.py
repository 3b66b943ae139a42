"""Conditions over the figures of a step: checked once when written, evaluated at any step.

``engine.conditions.grammar`` decides what may be written; simpleeval evaluates what is left.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from time import thread_time
from typing import Any

from simpleeval import SimpleEval

from engine.conditions.figures import NAMES, Value
from engine.conditions.functions import CHANGED, FUNCTIONS, OF_TWO_STEPS, Function
from engine.conditions.grammar import ConditionError, called, parse
from engine.conditions.moment import Moment, Unavailable, exact
from engine.records.partial import ends
from engine.text import quote

__all__ = ["Condition", "ConditionError", "Unavailable", "spell"]

EVALUATION_S = 0.25
"""Processor time that one evaluation may take; a usual one takes some 50 microseconds."""


class _SwitchedOff(Unavailable):
    """An evaluation went beyond its limit."""


class _Evaluator(SimpleEval):  # type: ignore[misc]
    """An evaluator that stops at a moment of this thread's processor time."""

    until = 0.0

    def _eval(self, node: ast.expr) -> Any:
        if thread_time() > self.until:
            raise _SwitchedOff(f"it took longer than {EVALUATION_S} s and is switched off")
        return super()._eval(node)


class Condition:
    """One expression. Raises ConditionError where it is not one, or names what does not exist.

    One that has once taken too long to evaluate is not evaluated again.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.off = ""
        """The reason for which it is not evaluated any more; empty while it is."""
        self._tree = parse(self.text)
        self._known: dict[tuple[int, int], Any] = {}
        self._evaluator = _Evaluator(_OPERATORS, self._functions())
        self._plain_call = self._evaluator.nodes[ast.Call]
        self._evaluator.nodes |= {
            ast.BoolOp: self._and_or,
            ast.Call: self._call,
            ast.Tuple: self._list,
            ast.List: self._list,
        }

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    @property
    def tokens(self) -> tuple[str, ...]:
        """Texts of the tokens whose figures it asks for by name, each once."""
        found: dict[str, None] = {}
        calls = [node for node in ast.walk(self._tree) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda node: node.col_offset):
            kinds = FUNCTIONS[called(call)].parameters
            for argument, kind in zip(call.args, kinds, strict=False):
                value = argument.value if isinstance(argument, ast.Constant) else None
                if kind == "token" and isinstance(value, str):
                    found[value] = None
        return tuple(found)

    def value(self, at: Moment) -> Value:
        """The value at a step. Raises Unavailable where it cannot be told."""
        return self._value(self._tree, at)

    def holds(self, at: Moment) -> bool:
        """True if the value at a step is true, or a number other than 0. Raises Unavailable."""
        return bool(exact(self.value(at)))

    def surely(self, at: Moment) -> bool:
        """True if it can be told at a step that it holds."""
        try:
            return self.holds(at)
        except Unavailable:
            return False

    def figures(self, at: Moment) -> dict[str, Value | Unavailable]:
        """The figures it is made of, as they are written in it, and their values at a step."""
        inside: set[ast.AST] = set()
        found: list[tuple[int, str, Value | Unavailable]] = []
        for node in ast.walk(self._tree):
            if node in inside or not isinstance(node, ast.Name | ast.Call):
                continue
            inside.update(ast.walk(node))
            written = ast.get_source_segment(self.text, node) or ast.unparse(node)
            value: Value | Unavailable
            try:
                value = self._value(node, at)
            except Unavailable as reason:
                value = reason
            found.append((node.col_offset, written, value))
        return {written: value for _, written, value in sorted(found, key=lambda one: one[0])}

    # --- evaluation ---------------------------------------------------------------------------

    def _value(self, node: ast.expr, at: Moment) -> Value:
        if self.off:
            raise Unavailable(self.off)
        self._evaluator.names = _Names(at)
        self._evaluator.until = thread_time() + EVALUATION_S
        self._known.clear()
        try:
            result = self._eval(node)
        except _SwitchedOff as reason:
            self.off = str(reason)
            raise
        except Unavailable:
            raise
        except Exception as error:  # whatever two values that do not go together may raise
            raise Unavailable(str(error) or type(error).__name__) from None
        if not isinstance(result, bool | int | float | str):
            raise Unavailable("it comes to a list, not to one value")
        return result

    def _eval(self, node: ast.expr) -> Any:
        return self._evaluator.eval(self.text, node)

    def _functions(self) -> dict[str, Callable[..., Value]]:
        def bound(one: Function) -> Callable[..., Value]:
            return lambda *given: one.call(self._evaluator.names.at, *map(exact, given))

        return {name: bound(one) for name, one in FUNCTIONS.items()}

    def _and_or(self, node: ast.BoolOp) -> Any:
        """Evaluate and/or: one side may decide what the other cannot: ``u > 0.9 or rank > 5``."""
        decisive = isinstance(node.op, ast.Or)
        untold: Unavailable | None = None
        result: Any = not decisive
        for one in node.values:
            try:
                result = exact(self._eval(one))
            except _SwitchedOff:
                raise
            except Unavailable as reason:
                untold = reason
                continue
            if bool(result) is decisive:
                return result
        if untold is not None:
            raise untold
        return result

    def _call(self, node: ast.Call) -> Any:
        name = called(node)
        if FUNCTIONS[name] not in OF_TWO_STEPS:
            return self._plain_call(node)
        # Each one looks at two steps, so that a nest of n would be evaluated 2^n times.
        key = id(node), self._evaluator.names.at.index
        if key not in self._known:
            try:
                self._known[key] = self._of_two_steps(name, node)
            except _SwitchedOff:
                raise
            except Unavailable as reason:
                self._known[key] = reason
        found = self._known[key]
        if isinstance(found, Unavailable):
            raise found
        return found

    def _of_two_steps(self, name: str, node: ast.Call) -> Any:
        here = self._evaluator.names
        before = here.at.previous
        if before is None:
            if name == CHANGED:
                return False
            raise Unavailable("there is no step before the first")
        self._evaluator.names = _Names(before)
        try:
            then = self._eval(node.args[0])
        finally:
            self._evaluator.names = here
        return exact(self._eval(node.args[0])) != exact(then) if name == CHANGED else then

    def _list(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        return tuple(exact(self._eval(one)) for one in node.elts)


class _Names:
    """The bare names at one moment, each read when it is asked for."""

    def __init__(self, at: Moment) -> None:
        self.at = at

    def __getitem__(self, name: str) -> Value:
        return NAMES[name].read(self.at)


def _of_numbers(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator that takes no texts: ``"%9999999d" % 1`` would fill the memory."""

    def checked(left: Any, right: Any) -> Any:
        for one in (left, right):
            if not isinstance(one, int | float):
                raise TypeError(f"{spell(one)} is not a number")
        return apply(exact(left), exact(right))

    return checked


def _of_known(apply: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that takes no intervals."""
    return lambda *given: apply(*map(exact, given))


def _order(apply: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A comparison that intervals too can decide, where all that they hold compares alike."""

    def compared(left: Any, right: Any) -> bool:
        found = {apply(one, other) for one in ends(left) for other in ends(right)}
        return found.pop() if len(found) == 1 else apply(exact(left), exact(right))

    return compared


def _power(base: float, exponent: float) -> Any:
    # Whole numbers could grow without end.
    return float(base) ** float(exponent)


_OPERATORS = {
    ast.Not: _of_known(operator.not_),
    ast.USub: operator.neg,
    ast.UAdd: _of_known(operator.pos),
    ast.Add: _of_numbers(operator.add),
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
    ast.Pow: _of_numbers(_power),
    ast.Eq: _of_known(operator.eq),
    ast.NotEq: _of_known(operator.ne),
    ast.Lt: _order(operator.lt),
    ast.LtE: _order(operator.le),
    ast.Gt: _order(operator.gt),
    ast.GtE: _order(operator.ge),
    ast.In: _of_known(lambda one, many: one in many),
    ast.NotIn: _of_known(lambda one, many: one not in many),
}


def spell(value: Value | Unavailable) -> str:
    """A value as people read it: texts in quotes, yes and no, numbers to five digits."""
    match value:
        case Unavailable():
            return f"— ({value})"
        case bool():
            return "yes" if value else "no"
        case str():
            return quote(value)
        case int():
            return str(value)
        case _:
            return f"{value:.5g}"
