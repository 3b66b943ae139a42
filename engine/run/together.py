"""Distributions after several nodes of one run, from one pass over all that need one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backends.base import BackendError, Row
from engine.records.columns import Part
from engine.run.distribution import Distribution
from engine.run.reading import Reading
from engine.run.tree import ROOT

_SEPARATE = "this model's rows cannot share a pass, so each has one of its own"
_FAILED = "the pass that all would share failed, so each had one of its own"


@dataclass(frozen=True, slots=True)
class Text:
    """A text whose distribution is wanted: the ``ids`` that lead to ``node``, behind ``parent``.

    ``first``: it is the prompt's, and nothing was drawn from it before.
    """

    node: int
    parent: int
    ids: list[int]
    first: bool = False


@dataclass(eq=False)
class Together:
    """Distributions of several texts, or why there is none, and each one's part in the pass."""

    found: list[Distribution | BackendError]
    parts: list[Part]
    rows: int = 0
    passes: int = 0
    forward_ms: float = 0.0
    kv_bytes: int | None = None
    shared_kv_bytes: int = 0
    copied_blocks: int = 0
    evicted_blocks: int = 0
    warmup: bool = False
    note: str = ""


def read_together(reading: Reading, texts: Sequence[Text]) -> Together:
    """The distributions after ``texts``; those that are one token away share a pass.

    Texts that are the same share a row. One that has to be read again is read by itself first, and
    where one fails the others go on.
    """
    missing = BackendError("nothing was read")
    done = Together([missing] * len(texts), [Part.KNOWN] * len(texts))
    waiting: dict[tuple[int, ...], list[int]] = {}
    for index, text in enumerate(texts):
        known = reading.known(text.node, first=text.first)
        if known is None:
            waiting.setdefault(tuple(text.ids), []).append(index)
        else:
            done.found[index] = reading.with_wider(text.node, text.ids, known)
    groups = list(waiting.values())
    # What is to be read again may need the room of what another row would go on from.
    while late := [group for group in groups if not _is_next(reading, texts[group[0]])]:
        for group in late:
            _alone(reading, texts, group, done)
        groups = [group for group in groups if group not in late]
    if groups:
        _pass(reading, texts, groups, done)
    return done


def _is_next(reading: Reading, text: Text) -> bool:
    return text.node != ROOT and reading.is_next(text.parent, text.ids)


def _pass(
    reading: Reading, texts: Sequence[Text], groups: Sequence[list[int]], done: Together
) -> None:
    """One pass with a row for each group; where it fails, each by itself."""
    rows: list[Row] = []
    for text in (texts[group[0]] for group in groups):
        rows.append(reading.row(text.parent, text.ids, [sequence for sequence, _ in rows]))
    try:
        result = reading.backend.forward(rows)
    except BackendError:
        done.note = _FAILED if len(rows) > 1 else ""
        for group in groups:
            _alone(reading, texts, group, done)
        return
    done.rows, done.passes, done.forward_ms = len(rows), result.passes, result.ms
    done.copied_blocks, done.evicted_blocks = result.copied_blocks, result.evicted_blocks
    done.warmup = result.warmup
    done.note = result.rows_note or (_SEPARATE if result.passes > 1 else "")
    sizes: list[int | None] = []
    for group, (sequence, _), row in zip(groups, rows, result.rows, strict=True):
        kv = reading.keep_row([texts[index].node for index in group], row, sequence)
        engine = row.engine or result.engine
        sizes.append(kv.nbytes)
        for place, index in enumerate(group):
            text = texts[index]
            done.found[index] = reading.with_wider(
                text.node,
                text.ids,
                Distribution(row.values, result.ms, kv, warmup=result.warmup, engine=engine),
            )
            done.parts[index] = Part.TWIN if place else Part.ROW
    read, known = result.kv_read, [size for size in sizes if size is not None]
    if read is not None:
        done.kv_bytes, done.shared_kv_bytes = read.nbytes, read.shared
    elif len(known) == len(sizes):
        done.kv_bytes = sum(known)


def _alone(reading: Reading, texts: Sequence[Text], group: Sequence[int], done: Together) -> None:
    """Read the text of ``group`` by itself; what is the same then has its distribution too."""
    found: Distribution | BackendError
    text = texts[group[0]]
    try:
        found = reading.after(text.node, text.ids, first=text.first)
    except BackendError as error:
        found = error
    for place, index in enumerate(group):
        done.found[index] = found
        done.parts[index] = Part.TWIN if place else Part.ALONE
        if place and isinstance(found, Distribution):
            done.found[index] = replace(found, reused=True)
