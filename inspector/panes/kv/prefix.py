"""Prefix match of the prompt in words: length, rule, and why not more."""

from __future__ import annotations

from textual.content import Content

from engine.records.cache import PrefixReport
from engine.records.vocabulary import Token
from engine.text import visible
from inspector.draw.cells import token_text
from inspector.draw.numbers import (
    MUTED,
    Mark,
    cut,
    heading,
    labelled,
    marked,
    muted,
    plural,
    row,
    wrapped,
)
from inspector.state.rerun import token_of
from inspector.state.view import View

LABEL = 12
_REASON = 200
"""Characters of a reason that are shown: a file may hold any text."""


def report_of(view: View) -> PrefixReport | None:
    """The look-up of the run's prompt; None where it was not noted."""
    return view.prefill.prefix if view.prefill is not None else None


def total(report: PrefixReport) -> tuple[str, ...]:
    """``2 blocks hit: 32 cached + 5 computed = 37``, long and short."""
    parts = f"{report.cached:,} cached + {report.computed:,} computed = {report.prompt:,}"
    tight = f"{report.cached:,} + {report.computed:,} = {report.prompt:,}"
    if report.block_size == 1:
        return f"{parts} tokens", parts, tight
    hit = f"{plural(report.hit_blocks, 'block')} hit"
    return f"{hit}: {parts} tokens", f"{hit}: {parts}", parts, tight


def known_token(view: View, token_id: int) -> Token | None:
    """A token by its id, where the run, or a vocabulary that was asked for, has it."""
    vocabulary = view.log.vocabulary
    if vocabulary is not None:
        return vocabulary.token(token_id) if 0 <= token_id < len(vocabulary) else None
    prompt = view.prompt.tokens if view.prompt is not None else ()
    own = next((token for token in prompt if token.id == token_id), None)
    return own if own is not None else token_of(view, token_id)


def prefix_lines(view: View, width: int) -> list[Content]:
    """All there is to say about the look-up; nothing where there was none."""
    report = report_of(view)
    if report is None:
        return []
    lines = [
        heading("Prefix: what of the prompt was found", width),
        labelled("prompt", LABEL, width, *(Content(text) for text in total(report))),
        *wrapped("why", LABEL, width, visible(report.reason[:_REASON])),
    ]
    if report.differs_at is not None:
        lines.append(_difference(view, report, width))
    elif report.common:
        same = f"the first {plural(report.common, 'token')}: no other token follows there"
        lines.append(labelled("the same", LABEL, width, Content(same), Content(f"{report.common}")))
    if report.evicted_blocks:
        gone = f"{plural(report.evicted_blocks, 'block')} of it thrown out for room before"
        lines.append(labelled("evicted", LABEL, width, Content(gone), Content(gone[:-7])))
    if report.differs_at is not None:
        figure = marked(f"{report.moved_last:,} cached", Mark.ESTIMATED)
        better = report.moved_last > report.cached
        notes = ("with the part that differs moved last", "with what differs last")
        equal = ("as many, with the part that differs moved last", "as many as now", "as many")
        lines.append(row("moved last", LABEL, width, figure, *(notes if better else equal)))
    if report.block_size > 1:
        rule = f"whole blocks of {report.block_size}, by hash; the last token is always computed"
        lines.append(labelled("rule", LABEL, width, muted(rule), muted("whole blocks, by hash")))
    return lines


def _difference(view: View, report: PrefixReport, width: int) -> Content:
    ours, theirs = _named(view, report.ours), _named(view, report.theirs)
    both = Content.assemble(ours, (" here, ", MUTED), theirs, (" before", MUTED))
    at = f"{report.differs_at:,}: "
    short = Content.assemble(at, ours, " / ", theirs)
    return labelled(
        "differs", LABEL, width, Content(f"position {at}") + both, Content(at) + both, short
    )


def _named(view: View, token_id: int | None) -> Content:
    if token_id is None:
        return muted("?")
    token = known_token(view, token_id)
    return token_text(token) if token is not None else Content(f"id {token_id}")


def prefix_short(view: View, width: int, label: int) -> list[Content]:
    """The same in two lines at most: the sum, and the reason where something was missed."""
    report = report_of(view)
    if report is None:
        return []
    lines = [labelled("prefix", label, width, *(Content(text) for text in total(report)))]
    why = Content(visible(report.reason[:_REASON]))
    if report.differs_at is not None:
        why = Content.assemble(
            f"at {report.differs_at:,}: ",
            _named(view, report.ours),
            (", before it was ", MUTED),
            _named(view, report.theirs),
        )
    if report.common:
        lines.append(cut(labelled("", label, width, why.stylize_before(MUTED)), width))
    return lines
