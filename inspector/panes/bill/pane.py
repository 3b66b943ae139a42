"""The tokens that the branch up to the cursor used, by kind, and four questions about them."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.geometry import Size

from engine.bill.account import Account, every_line
from engine.bill.bill import Bill, Line
from engine.bill.questions import Answer
from engine.text import visible
from inspector.draw.figures import figure_content, flowed, money
from inspector.draw.numbers import (
    Mark,
    cut,
    heading,
    ms,
    muted,
    padded,
    plural,
    right,
    with_marks,
    wrapped,
)
from inspector.state.account import account_at, tags_of
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

_LABEL = 21
_COUNT = 8
_COLUMN = 13
_HEADS = ("time", "moved", "price")
_NO_TAGS = "thinking is not told apart: this model has no tags of its own (--think-tags gives them)"


def draw(view: View, size: Size) -> Picture:
    """The pane."""
    width = size.width
    found = account_at(view)
    if not found.bill.lines:
        why = "What this run uses will be here: tokens by kind, time, bytes, a price."
        return Picture(wrapped("", 0, width, why))
    lines = [
        *bill_lines(found.bill, width),
        *_thinking_lines(found, view.log, width),
        *(line for one in found.answers for line in answer_lines(one, width)),
    ]
    total = found.bill.total
    words = f"{plural(total.tokens, 'token')}, {ms(total.time.value)} {Mark.DERIVED}"
    return Picture(lines, subtitle=with_marks(words, width))


def bill_lines(bill: Bill, width: int) -> Iterator[Content]:
    """A line a kind of tokens, and their sum; columns from the right give way."""
    columns = max(1, min(len(_HEADS), (width - _LABEL - _COUNT) // _COLUMN))
    head = padded(muted("tokens of"), _LABEL) + right(muted("count"), _COUNT)
    for title in _HEADS[:columns]:
        # Figures end in a blank and a mark: their heading ends where they do.
        head += right(muted(f"{title}  "), _COLUMN)
    yield cut(head, width)
    for line in every_line(bill):
        name = Content.styled("sum", "bold") if line is bill.total else Content(line.name)
        text = padded(name, _LABEL) + right(Content(f"{line.tokens:,}"), _COUNT)
        for figure in _figures(line)[:columns]:
            text += right(figure, _COLUMN)
        yield cut(text, width)
    listed = visible(bill.list_name) or "without a name"
    yield from wrapped("", 0, width, f"prices: estimated by the list {listed} (prices.toml)")


def _figures(line: Line) -> list[Content]:
    return [figure_content(line.time), figure_content(line.moved), money(line.price)]


def _thinking_lines(found: Account, log: RunLog, width: int) -> list[Content]:
    tags = tags_of(log)
    if not tags.known:
        return wrapped("", 0, width, _NO_TAGS)
    budget = "no budget" if tags.budget is None else f"at most {plural(tags.budget, 'token')}"
    forced = ", its end was forced" if found.forced else ""
    spans = plural(found.spans, "span")
    words = (
        f"thinking: {spans} between {tags.opens} and {tags.closes} ({tags.source}), "
        f"{budget}{forced}"
    )
    return wrapped("", 0, width, visible(words))


def answer_lines(answer: Answer, width: int) -> list[Content]:
    """A question, and its answer out of this run's rates or why there is none."""
    head = heading(answer.question, width)
    if not answer.parts:
        return [head, *wrapped("", 0, width, f"— {answer.reason}")]
    return [head, *flowed(answer.parts, width)]


class BillPane(Pane):
    """The bill up to the cursor."""

    NAME = "Bill"
    HELP = """
Tokens by **kind**, with the time and the bytes that they took and a price. Time is measured; where
one pass served several kinds, as in a speculative round, it is divided by positions (**ƒ**). Bytes
are the weights once a pass and K and V as far as they went. A **price** is tokens × the price of a
million, by a list of your own: `prices.toml` in the configuration folder. The one that ships is an
example, nobody's prices.

The four answers are this run's own rates, not a table's.
"""

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size)
