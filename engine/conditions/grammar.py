"""The grammar of conditions: what an expression may hold, and one clear line for what it may not.

The syntax is that of Python's expressions, less all that can do more than look: no attributes, no
assignments, no comprehensions, and no calls but those of ``engine.conditions.figures``.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Iterable

from engine.conditions.figures import NAMES
from engine.conditions.functions import FUNCTIONS
from engine.sampling.stages import DIALS, STAGES, Processor

MAX_LENGTH = 1000
MAX_DEPTH = 30

_ALLOWED = (
    *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Call, ast.Name),
    *(ast.Constant, ast.Tuple, ast.List, ast.Subscript, ast.Slice),
)
_OPERATORS = (
    *(ast.And, ast.Or, ast.Not, ast.USub, ast.UAdd),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn),
)
_INSTEAD = {"&&": "and", "||": "or", "!": "not"}
_FOREIGN = re.compile(r"&&|\|\||!(?!=)")
_STRINGS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")


class ConditionError(ValueError):
    """An expression that means nothing; ``column`` (from 1) is where, 0 the whole of it."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(f"{message} (column {column})" if column else message)
        self.column = column


def parse(text: str) -> ast.expr:
    """The tree of an expression that may be evaluated. Raises ConditionError."""
    if not text:
        raise ConditionError("the expression is empty, such as: entropy > 3")
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"the expression is longer than {MAX_LENGTH:,} characters")
    tree = _tree(text)
    _check(tree, text, 1)
    return tree


def called(node: ast.Call) -> str:
    """The name of the function that a checked tree calls."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _tree(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            # What Python finds odd, such as "\d", is no business of whoever reads the screen.
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise _syntax_error(text, error) from None
    except (ValueError, MemoryError, RecursionError):
        raise ConditionError("the expression cannot be read") from None


def _syntax_error(text: str, error: SyntaxError) -> ConditionError:
    # Outside of what is quoted, where the same signs are text.
    bare = _STRINGS.sub(lambda found: " " * len(found[0]), text)
    foreign = _FOREIGN.search(bare)
    if foreign is not None:
        sign = foreign[0]
        return ConditionError(f"write {_INSTEAD[sign]} for {sign}", foreign.start() + 1)
    single = re.search(r"(?<![=!<>])=(?!=)", bare)
    if single is not None:
        return ConditionError("write == to compare", single.start() + 1)
    if not error.offset:
        return ConditionError("the expression ends too early", len(text) + 1)
    message = error.msg.removesuffix(". Perhaps you forgot a comma?")
    return ConditionError(message, min(error.offset, len(text) + 1))


def _check(node: ast.AST, text: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ConditionError("the expression is nested too deeply")
    if not isinstance(node, _ALLOWED):
        raise ConditionError("this is not possible in a condition", _column(node, text))
    match node:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) if not isinstance(op, _OPERATORS):
            raise ConditionError("there is no such operator in a condition", _column(node, text))
        case ast.Compare(ops=ops) if not all(isinstance(op, _OPERATORS) for op in ops):
            raise ConditionError("write == or != for is and is not", _column(node, text))
        case ast.Constant(value=value) if not isinstance(value, bool | int | float | str):
            raise ConditionError("only numbers and texts can be given", _column(node, text))
        case ast.Name(id=name) if name not in NAMES:
            raise _unknown_name(name, _column(node, text))
        case ast.Call():
            _check_call(node, text)
            children: Iterable[ast.AST] = node.args
        case _:
            children = ast.iter_child_nodes(node)
    for child in children:
        if isinstance(child, ast.expr | ast.Slice):
            _check(child, text, depth + 1)


def _check_call(node: ast.Call, text: str) -> None:
    column, name = _column(node, text), called(node)
    function = FUNCTIONS.get(name)
    if function is None:
        raise _unknown_function(name, column)
    if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
        raise ConditionError(f"arguments stand alone: {function.signature}", column)
    most = len(function.parameters)
    if not most - function.optional <= len(node.args) <= most:
        raise ConditionError(f"write {function.signature}", column)
    for argument, kind in zip(node.args, function.parameters, strict=False):
        if kind == "stage":
            _check_stage(argument, text)


def _check_stage(node: ast.expr, text: str) -> None:
    name = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(name, str):
        raise ConditionError('a stage is named in quotes, such as "top_p"', _column(node, text))
    stages = (*STAGES, Processor.name)
    if name not in stages:
        near = DIALS[name][0] if name in DIALS else _nearest(name, stages, 0.5)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(stages)}"
        raise ConditionError(f"unknown stage {name!r}; {hint}", _column(node, text))


def _nearest(name: str, known: Iterable[str], likeness: float) -> str:
    """One of ``known`` that begins with ``name`` or looks like it, or nothing."""
    names = list(known)
    begins = [one for one in names if len(name) > 1 and one.startswith(name)]
    return next(iter(begins or difflib.get_close_matches(name, names, 1, likeness)), "")


def _unknown_name(name: str, column: int) -> ConditionError:
    if name in FUNCTIONS:
        return ConditionError(f"write {FUNCTIONS[name].signature}", column)
    near = _nearest(name, NAMES, 0.6)
    hint = f"did you mean {near}?" if near else f"a text is written in quotes: {name!r}"
    return ConditionError(f"unknown name {name!r}; {hint}", column)


def _unknown_function(name: str, column: int) -> ConditionError:
    if not name:
        return ConditionError("only functions by name can be called", column)
    if name in NAMES:
        return ConditionError(f"{name} takes no argument", column)
    near = _nearest(name, FUNCTIONS, 0.5)
    hint = f"; did you mean {near}?" if near else ""
    return ConditionError(f"unknown function {name!r}{hint}", column)


def _column(node: ast.AST, text: str) -> int:
    """Column of a node, in characters from 1; the parser counts bytes."""
    line = text.encode("utf-8", "surrogatepass")
    before = line[: getattr(node, "col_offset", 0)]
    return len(before.decode("utf-8", "surrogatepass")) + 1
