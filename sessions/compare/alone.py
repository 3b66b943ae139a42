"""Columns held against their text read alone: the tokens to draw again, the result in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.records.alone import AloneParting, ColumnAlone, DrawnColumn, DrawnToken
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from engine.text import plural, visible
from sessions.compare.divergence import margin_of, token_fields
from sessions.export.jsonl import plain
from sessions.export.words import named

NOT_MEASURED = "not read alone"


def drawn_column(column: int, steps: Sequence[StepRecord]) -> DrawnColumn:
    """A column's tokens, from the first behind the prompt on, as they are drawn again."""
    tokens: list[DrawnToken] = []
    state: Mapping[str, float] = {}
    node = ROOT
    for step in steps:
        tokens.append(
            DrawnToken(
                draw=step.draw,
                margin=margin_of(step),
                ids=step.top.ids,
                logits=step.top.raw_logits,
                preset=step.preset,
                spec=step.chain_spec,
                seed=step.seed,
                state=state,
            )
        )
        state, node = step.state, step.node
    return DrawnColumn(column, node, tuple(tokens))


def alone_words(found: ColumnAlone) -> str:
    """The result of reading a column alone, in a line."""
    if found.obstacle:
        return f"{NOT_MEASURED}: {visible(found.obstacle)}"
    parting, drift = found.parting, f"largest drift {found.drift:.2g} logits"
    if parting is not None:
        return f"{_parting(parting)}; {drift}"
    if not found.near_ties:
        return f"the same {plural(found.tokens, 'token')} read alone; {drift}"
    ties = plural(found.near_ties, "near-tie")
    return (
        f"the same {plural(found.tokens, 'token')} read alone; {drift}: {ties}, the first at "
        f"position {found.near_position:,}, may come out otherwise in another pass"
    )


def alone_lines(columns: Sequence[tuple[int, ColumnAlone | None]], dtype: str) -> Iterator[str]:
    """A line a column, under a heading."""
    if any(found is not None for _, found in columns):
        yield f"each column against its text read alone ({visible(dtype)}, measured):"
        for column, found in columns:
            yield f"  {column} {NOT_MEASURED if found is None else alone_words(found)}"


def _parting(found: AloneParting) -> str:
    unit = " logits" if found.greedy else " of u"
    rounding = "not known" if found.rounding is None else f"{found.rounding:.2g}"
    verdict = "a near-tie" if found.near_tie else "MORE THAN ROUNDING, a fault in the shared pass"
    return (
        f"read alone it parts at position {found.position:,}: {named(found.other)} for "
        f"{named(found.token)}, margin {found.margin:.2g}{unit}, drift {found.drift:.2g} "
        f"logits where rounding is {rounding}: {verdict}"
    )


def alone_fields(found: ColumnAlone | None) -> dict[str, Any] | None:
    """The same as plain values; None where nothing was measured."""
    if found is None:
        return None
    parting = found.parting
    return {
        "node": found.node,
        "tokens": found.tokens,
        "drift": plain(found.drift),
        "near_ties": found.near_ties,
        "near_position": found.near_position,
        "parting": None
        if parting is None
        else {
            "position": parting.position,
            "token": token_fields(parting.token),
            "other": token_fields(parting.other),
            "margin": plain(parting.margin),
            "unit": "logits" if parting.greedy else "probability",
            "drift": plain(parting.drift),
            "rounding": plain(parting.rounding),
            "near_tie": parting.near_tie,
        },
        "obstacle": plain(found.obstacle) or None,
    }
