"""Differences between two runs: two sessions, or two branches of one.

Texts are aligned by their bytes, so that runs of different tokenizers compare too. Distributions
are compared only where both runs had read the same tokens, up to the one at which they part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from engine.records.arrays import FloatArray
from engine.records.events import SettingsChanged
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.records.vocabulary import Token
from engine.sampling.spec import SpecError, parse_spec
from sessions.compare.align import Segment, align, common_prefix
from sessions.compare.identical import identical
from sessions.compare.tables import (
    Bound,
    RankChange,
    kl,
    largest_difference,
    rank_changes,
    same_tokens,
)
from sessions.reader import Session

_FACTS = ("name", "identity", "dtype", "device", "backend", "vocab_size")
_NONE = Bound(0.0, 0.0)
_Steps = tuple[StepRecord, StepRecord, int]
"""Two steps and the byte at which both begin."""


def _no_logits(node: int) -> FloatArray | None:
    return None


@dataclass(frozen=True, eq=False)
class Side:
    """One of two runs to compare: a path of steps and what they were drawn with."""

    label: str
    steps: Sequence[StepRecord]
    facts: ModelFacts | None = None
    prompt: PromptRecord | None = None
    settings: SettingsChanged | None = None
    dense: Callable[[int], FloatArray | None] = _no_logits
    """The whole logit vector of a node, where it was kept."""
    run: object = None
    """Identity of the run: two sides of one run have the same steps. None: not known."""

    @property
    def output(self) -> bytes:
        return b"".join(step.token.bytes for step in self.steps)


def side_of(session: Session, tip: int | None = None, label: str = "") -> Side:
    """The branch of ``session`` that ends at ``tip`` (default: the one extended last)."""
    node = session.tip if tip is None else tip

    def dense(of: int) -> FloatArray | None:
        found = session.dense(of)
        return found.logits if found else None

    return Side(
        label or f"{session.path.name} to node {node}",
        session.branch(node),
        session.facts,
        session.prompt,
        session.settings,
        dense,
        session.path.resolve(),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """One setting or fact that differs."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Place:
    """The token of one run that lies at a byte of its output; None past its end."""

    node: int
    position: int
    token: Token
    final_prob: float


@dataclass(frozen=True, slots=True)
class Parting:
    """The first byte at which two outputs differ, and each run's token there."""

    offset: int
    a: Place | None
    b: Place | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two steps that read the same and begin at the same byte."""

    offset: int
    a: int
    b: int
    position: int
    token_a: Token
    token_b: Token
    kl_raw: Bound | None = None
    """KL(a || b) of the models' own distributions, in nats; None where it cannot be told.

    Exactly 0 where both steps are one record, or were drawn from one and the same vector.
    """
    kl_final: Bound | None = None
    """KL(a || b) of what the chains left to draw from."""
    logit_difference: float | None = None
    """Largest difference of a raw logit among candidates that both steps kept."""
    ranks: tuple[RankChange, ...] = ()
    """Candidates whose raw rank differs, the most likely first."""


@dataclass(frozen=True, slots=True)
class SettingsThere:
    """Differences between the settings of the two steps at which the runs part."""

    position: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences between the runs ``a`` and ``b``."""

    a: str
    b: str
    changes: tuple[Change, ...]
    parting: Parting | None
    """None where the outputs are the same to the last byte."""
    segments: tuple[Segment, ...]
    pairs: tuple[Pair, ...]
    settings_there: SettingsThere | None = None
    """Settings where they part; None where no two steps do, after the same tokens."""
    note: str = ""
    """The reason for which distributions were not compared; empty where they were."""

    @property
    def same_output(self) -> bool:
        return self.parting is None


def diff(a: Side, b: Side) -> Diff:
    """Compare two runs."""
    length = common_prefix(a.output, b.output)
    starts_a, starts_b = _starts(a.steps), _starts(b.steps)
    parting = None
    if a.output != b.output:
        parting = Parting(length, _place(a, starts_a, length), _place(b, starts_b, length))
    together = _same_ids(a, b)
    note = _why_not_comparable(a, b, together)
    pairs = together if not note else _same_bytes(a, b, starts_a, starts_b, length)
    return Diff(
        a=a.label,
        b=b.label,
        changes=tuple(_changes(_settings(a), _settings(b))),
        parting=parting,
        segments=tuple(align(a.output, b.output)),
        pairs=tuple(_pairs(a, b, pairs, not note)),
        settings_there=_settings_there(a, b, together),
        note=note,
    )


def _settings_there(a: Side, b: Side, together: Iterable[_Steps]) -> SettingsThere | None:
    """The settings of the first two steps that differ, or are not one and the same of one run."""
    one_run = a.run is not None and a.run == b.run
    for one, other, _ in together:
        if one.node != other.node if one_run else one.token != other.token:
            return SettingsThere(one.position, settings_between(one, other))
    return None


def settings_between(one: StepRecord, other: StepRecord) -> tuple[Change, ...]:
    """Differences between the settings that two tokens were drawn with, the seed among them."""
    changes = tuple(_changes(_drawn_with(one), _drawn_with(other)))
    if not changes and one.chain_spec != other.chain_spec:
        return (Change("chain", one.chain_spec, other.chain_spec),)
    return changes


def _drawn_with(step: StepRecord) -> dict[str, Any]:
    """The settings of one step, dial by dial; of a chain that is not known here, as a whole."""
    try:
        dials = parse_spec(step.chain_spec, step.preset)[1]
    except SpecError:
        dials = {"chain": step.chain_spec}
    return {"preset": step.preset, **dials, "seed": step.seed, "drawn": step.draw.how.value}


def _starts(steps: Sequence[StepRecord]) -> list[int]:
    """The byte at which each step's token begins, and the end."""
    return [0, *accumulate(len(step.token.bytes) for step in steps)]


def _prompt_bytes(side: Side) -> bytes | None:
    if side.prompt is None:
        return None
    return b"".join(token.bytes for token in side.prompt.tokens)


def _place(side: Side, starts: Sequence[int], offset: int) -> Place | None:
    """The token that holds byte ``offset``."""
    for step, start, end in zip(side.steps, starts, starts[1:], strict=False):
        if start <= offset < end:
            return Place(step.node, step.position, step.token, step.final_prob)
    return None


def _same_ids(a: Side, b: Side) -> list[_Steps]:
    """Pairs of steps before which both runs had drawn the same ids."""
    found, offset = [], 0
    for one, other in zip(a.steps, b.steps, strict=False):
        found.append((one, other, offset))
        if one.token != other.token:
            break
        offset += len(one.token.bytes)
    return found


def _same_bytes(
    a: Side, b: Side, starts_a: Sequence[int], starts_b: Sequence[int], length: int
) -> list[_Steps]:
    """Pairs of steps that begin at the same byte, before which both outputs are the same."""
    if _prompt_bytes(a) != _prompt_bytes(b):
        return []
    at_b: dict[int, StepRecord] = {}
    for step, start in zip(b.steps, starts_b, strict=False):
        # Where tokens without bytes begin at the same place, the first one counts.
        at_b.setdefault(start, step)
    found = []
    for step, start in zip(a.steps, starts_a, strict=False):
        if start > length:
            break
        if start in at_b:
            found.append((step, at_b.pop(start), start))
    return found


def _why_not_comparable(a: Side, b: Side, together: Iterable[_Steps]) -> str:
    """The reason for which these distributions cannot be compared; empty where they can."""
    if a.facts and b.facts and a.facts.vocab_size != b.facts.vocab_size:
        return f"vocabularies of {a.facts.vocab_size:,} and {b.facts.vocab_size:,} tokens"
    if _prompt_bytes(a) != _prompt_bytes(b):
        return "the prompts differ, so no step of one run read what a step of the other did"
    if a.prompt and b.prompt and a.prompt.ids != b.prompt.ids:
        return "the prompt was read as other tokens"
    if not all(same_tokens(one.top, other.top) for one, other, _ in together):
        return "the same ids stand for different tokens"
    return ""


def _pairs(a: Side, b: Side, pairs: Iterable[_Steps], comparable: bool) -> Iterator[Pair]:
    one_run = a.run is not None and a.run == b.run
    for one, other, offset in pairs:
        pair = Pair(offset, one.node, other.node, one.position, one.token, other.token)
        if comparable:
            alike = identical(one, other, one_run=one_run)
            pair = replace(
                pair,
                kl_raw=_NONE
                if alike.model
                else kl(one.top, other.top, 0, a.dense(one.node), b.dense(other.node)),
                kl_final=_NONE if alike.final else kl(one.top, other.top, -1),
                logit_difference=largest_difference(one.top, other.top),
                ranks=tuple(rank_changes(one.top, other.top)),
            )
        yield pair


def model_changes(a: ModelFacts | None, b: ModelFacts | None) -> Iterator[Change]:
    """Differences between two models and the machines they ran on."""
    return _changes(_model(a), _model(b))


def _changes(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys((*left, *right)):
        if left.get(name) != right.get(name):
            yield Change(name, left.get(name), right.get(name))


def _model(facts: ModelFacts | None) -> dict[str, Any]:
    if facts is None:
        return {}
    found = {f"model {name}": getattr(facts, name) for name in _FACTS}
    if facts.kv_storage is not None and facts.kv_storage.unusual:
        # As usual reads like not recorded, which older sessions are.
        found["KV cache"] = facts.kv_storage.unusual
    found.update({f"version of {name}": what for name, what in facts.versions.items()})
    return found


def _settings(side: Side) -> dict[str, Any]:
    found = _model(side.facts)
    if side.prompt is not None:
        found["prompt"] = side.prompt.text
        found["prompt tokens"] = len(side.prompt.tokens)
        found["chat"] = side.prompt.chat
    if side.settings is not None:
        found["preset"] = side.settings.preset
        found.update({name: setting.value for name, setting in side.settings.dials.items()})
        draft = side.settings.draft
        if draft.source:
            tokens = draft.tokens or "auto"
            found["draft"] = f"{draft.source}, {tokens} tokens, {draft.accept.value}"
    # What the steps really used: settings may have changed on the way.
    found["chain"] = " | ".join(dict.fromkeys(step.chain_spec for step in side.steps))
    found["seed"] = ", ".join(dict.fromkeys(str(step.seed) for step in side.steps))
    found["tokens"] = len(side.steps)
    return found
