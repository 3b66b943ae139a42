"""A run as a Markdown report: what ran, what came out, and the figures of each token."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from engine.records.partial import Interval, ends
from engine.records.step import StepRecord
from engine.text import visible, visible_bytes
from sessions.export.bill import COLUMNS, answer_texts, bill_rows, prices_words
from sessions.export.source import Source
from sessions.export.words import about, output_text, speeds

_ROWS = 500
# What acts within a line, and the dots and colons of addresses, which become links by themselves.
_ACTING = re.compile(r"[\\`*_\[\]<>|~&!$@#]|(?<=\w)[.:](?=[A-Za-z/])")
_BACKTICKS = re.compile("`+")


def markdown_lines(source: Source) -> Iterator[str]:
    """The report along the branch that is followed. Model text cannot become markup."""
    steps = source.branch()
    yield f"# {escape(source.title)}\n"
    yield "\n"
    yield from _table(("", ""), about(source))
    yield "\n## Prompt\n\n"
    yield from _fenced(source.prompt.text if source.prompt else "")
    name = source.name()
    branch = f', branch "{escape(name)}"' if name else ""
    yield f"\n## Output{branch}\n\n"
    yield from _fenced(output_text(steps))
    yield "\n## Speed\n\n"
    yield from _table(("", ""), speeds(source))
    found = source.account()
    if found.bill.lines:
        yield "\n## Bill\n\n"
        yield from _table(COLUMNS, bill_rows(found.bill))
        yield f"\n{escape(prices_words(found.bill))}\n"
        for question, text in answer_texts(found):
            yield f"\n**{escape(question)}** {escape(text)}\n"
    if source.settings and source.settings.dials:
        yield "\n## Settings\n\n"
        dials = source.settings.dials.items()
        rows = [(name, str(setting.value), setting.source) for name, setting in dials]
        yield from _table(("dial", "value", "set by"), rows)
    yield "\n## Tokens\n\n"
    # A column more only where tokens came in rounds: how each did.
    rounds = bool(source.branch_rounds())
    head = ("position", "token", "id", "p model", "p final", "rank", "entropy, nats", "ms")
    yield from _table(
        (*head, "came") if rounds else head,
        ((*_row(step), step.came.value) if rounds else _row(step) for step in steps[:_ROWS]),
    )
    if len(steps) > _ROWS:
        yield f"\n{len(steps) - _ROWS:,} more tokens are left out here.\n"


def escape(text: str) -> str:
    """``text`` on one line, with nothing that Markdown or HTML would act on."""
    return _ACTING.sub(r"\\\g<0>", visible(text))


def _row(step: StepRecord) -> tuple[str, ...]:
    return (
        str(step.position),
        visible_bytes(step.token.bytes),
        str(step.token.id),
        f"{Interval.of(*map(math.exp, ends(step.raw_logprob))):.4f}",
        f"{step.final_prob:.4f}",
        f"{step.rank}",
        f"{step.entropy_raw:.3f}",
        f"{step.timing.total_ms:.1f}",
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, head))} |\n"
    yield f"|{'---|' * len(head)}\n"
    for row in rows:
        yield f"| {' | '.join(map(escape, row))} |\n"


def _fenced(text: str) -> Iterator[str]:
    """``text`` as a code block whose fence it does not contain."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text\n{visible(text, newline=chr(10))}\n{fence}\n"
