"""A column's settings in writing: a sampler specification, and what stands beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.records.round import MOST_DRAFTED, Accept, DraftSettings, parsed_source
from engine.sampling.spec import preset_of
from inspector.state.request import MAX_SEED

NO_DRAFT = "none"
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*')"""
_WORD = re.compile(
    rf"(?:^|[\s,]+)(?P<name>preset|seed|draft[_-]tokens|draft|accept)\s*=\s*"
    rf"(?P<value>{_QUOTED}|[^\s,>]+)|{_QUOTED}"
)


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """``spec`` is the sampler's own part; what is None was not written.

    ``draft`` without a source is a column that does not draft, whatever the run does.
    """

    spec: str
    preset: str | None = None
    seed: int | None = None
    draft: DraftSettings | None = None


def column_words(text: str) -> ColumnWords:
    """Read ``preset=``, ``seed=``, ``draft=``, ``draft_tokens=`` and ``accept=`` out of settings.

    Raises ValueError, which says what is wrong.
    """
    named: dict[str, str] = {}

    def take(found: re.Match[str]) -> str:
        if found["name"] is None:
            return found[0]  # a value in quotes, whatever stands in it
        name = found["name"].replace("-", "_")
        if name in named:
            raise ValueError(f"{name} is given twice")
        named[name] = found["value"].strip("\"'")
        return ""

    spec = _WORD.sub(take, text).strip(" ,")
    preset, seed = named.get("preset"), named.get("seed")
    if preset is not None:
        preset_of(preset)
    if seed is not None and not (
        seed.isascii() and seed.isdigit() and len(seed) < 20 and int(seed) <= MAX_SEED
    ):
        raise ValueError(f"seed is a whole number from 0 to {MAX_SEED:,}")
    return ColumnWords(spec, preset, None if seed is None else int(seed), _draft(named))


def _draft(named: dict[str, str]) -> DraftSettings | None:
    source, tokens = named.get("draft"), named.get("draft_tokens")
    if source is None or source == NO_DRAFT:
        beside = [one for one in ("draft_tokens", "accept") if one in named]
        if beside:
            raise ValueError(f"{beside[0]} needs draft=: without drafts there is nothing to accept")
        return None if source is None else DraftSettings()
    parsed_source(source)
    settings = DraftSettings(source)
    count = settings.tokens
    if tokens == "auto":
        count = 0
    elif tokens is not None:
        count = int(tokens) if tokens.isascii() and tokens.isdigit() and len(tokens) < 6 else 0
        if not 1 <= count <= MOST_DRAFTED:
            raise ValueError(f"draft_tokens is auto or a whole number from 1 to {MOST_DRAFTED}")
    try:
        accept = Accept(named.get("accept", settings.accept))
    except ValueError:
        raise ValueError(f"accept is {' or '.join(Accept)}") from None
    return DraftSettings(source, count, accept)
