"""The dials of speculative decoding: what drafts, how many tokens a round, and the rule.

They are no part of the chain: by a lossless rule they change when tokens come, and never which. So
there is nothing to try at a token; what is turned holds from the next round on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.records.round import MOST_DRAFTED, Accept, DraftSettings, parsed_source
from engine.sampling.stages import Dial, DialScale, Value
from inspector.state.view import View

NONE, AUTO = "none", "auto"
_RULES = tuple(one.value for one in Accept)


def _source(text: str) -> str:
    text = "" if text.strip() == NONE else text.strip()
    parsed_source(text)
    return text


def _rule(text: str) -> str:
    if text.strip() not in _RULES:
        raise ValueError(f"must be {' or '.join(_RULES)}")
    return text.strip()


SOURCE = Dial(
    *("draft", str, 0, 0, ""),
    "what drafts: none, ngram:N (the text's own), self:LAYERS, or a model of the same vocabulary",
    form=_source,
)
TOKENS = Dial(
    *("draft_tokens", int, 0, MOST_DRAFTED, None),
    "drafts a round; 0, auto: as many as what was accepted suggests",
    apart=0,
    scale=DialScale(1, 16, 1, 4, 4),
)
RULE = Dial(
    "accept", str, 0, 0, None, "exact, match (llama.cpp), or typical: not lossless", form=_rule
)


@dataclass(frozen=True, slots=True)
class DraftDial:
    """One of them: its value, and how that is written."""

    dial: Dial
    value: Value
    shown: str


def draft_dials(settings: DraftSettings) -> list[DraftDial]:
    """The dials at their settings: the source alone where nothing drafts."""
    source = DraftDial(SOURCE, settings.source, settings.source or NONE)
    if not settings.source:
        return [source]
    count = str(settings.tokens) if settings.tokens else AUTO
    rule = settings.accept.value
    return [source, DraftDial(TOKENS, settings.tokens, count), DraftDial(RULE, rule, rule)]


def set_to(settings: DraftSettings, dial: Dial, value: Value) -> DraftSettings:
    """The settings with one dial at ``value``."""
    if dial is SOURCE:
        return replace(settings, source=str(value))
    if dial is TOKENS:
        return replace(settings, tokens=int(value))
    return replace(settings, accept=Accept(str(value)))


def parsed(dial: Dial, text: str) -> Value:
    """The value that somebody typed. Raises ValueError, which says what is possible."""
    return 0 if dial is TOKENS and text.strip() == AUTO else dial.parse(text)


def beside(dial: Dial, value: Value, by: int, view: View) -> Value:
    """The choice before or after a dial's one of text; a model's name is typed."""
    choices = list(_RULES)
    if dial is SOURCE:
        facts = view.log.facts
        layers = max(1, (facts.layers if facts is not None else 0) * 2 // 3)
        choices = ["", "ngram", f"self:{layers}"]
    at = choices.index(str(value)) if value in choices else 0
    return choices[(at + by) % len(choices)]
