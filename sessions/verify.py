"""Verify a saved run: once more on a model, token by token, beside what was recorded.

Each step is drawn anew with the recorded chain, seed and history, then compared; the next one goes
on from the *recorded* token, so that one difference does not hide what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.records.model import ModelFacts
from engine.records.round import MOST_DRAFTED
from engine.records.step import How, StepRecord
from engine.records.vocabulary import Token
from engine.run.draft import DraftSource
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import Effective, SpecError, effective
from engine.text import quote
from sessions.compare.diff import Change, model_changes
from sessions.compare.divergence import margin_of
from sessions.compare.tables import largest_difference
from sessions.export.jsonl import plain
from sessions.export.words import named
from sessions.file.format import SessionError
from sessions.reader import Session


@dataclass(frozen=True, slots=True)
class Check:
    """One step, recorded and again."""

    node: int
    position: int
    recorded: Token
    found: Token
    forced: bool
    """The token was given: by the user, or because its speculative round differed before it."""
    logit_difference: float | None
    """Largest difference of a raw logit among candidates that both steps kept."""
    margin: float | None
    """Margin of the recorded token.

    For a draw the way of u to the nearer edge of the token's stretch, else the gap between the
    first two raw logits.
    """

    @property
    def same(self) -> bool:
        return self.recorded.id == self.found.id


@dataclass(frozen=True, slots=True)
class Verification:
    """A whole branch, checked."""

    session: str
    changes: tuple[Change, ...]
    """Differences between the recorded model and this one."""
    checks: tuple[Check, ...]

    @property
    def reproduced(self) -> bool:
        """True if every token came out as it was recorded."""
        return all(check.same for check in self.checks)

    @property
    def first(self) -> Check | None:
        """The first token that came out differently."""
        return next((check for check in self.checks if not check.same), None)

    @property
    def largest_logit_difference(self) -> float | None:
        found = [one.logit_difference for one in self.checks if one.logit_difference is not None]
        return max(found, default=None)


def verify(
    session: Session,
    stepper: Stepper,
    tip: int | None = None,
    drafts: Callable[[str], DraftSource] | None = None,
) -> Verification:
    """Run the branch to ``tip`` (default: the one extended last) again on the stepper's model.

    ``drafts`` opens a draft source by its name, for a run with speculative rounds. The stepper's
    own run is lost. Raises SessionError where the two cannot be compared at all, and
    what the stepper raises.
    """
    checks = tuple(checking(session, stepper, tip, drafts))
    changes = tuple(model_changes(session.facts, stepper.backend.facts))
    return Verification(session.path.name, changes, checks)


def checking(
    session: Session,
    stepper: Stepper,
    tip: int | None = None,
    drafts: Callable[[str], DraftSource] | None = None,
) -> Iterator[Check]:
    """``verify`` step by step, for who wants to show how far it is."""
    _require_comparable(session, stepper.backend.facts)
    if session.prompt is None:
        raise SessionError(f"{session.path} holds no prompt: there is nothing to check")
    stepper.submit_ids(session.prompt.ids, session.prompt.text)
    at, ready, sources = ROOT, list[StepRecord](), dict[str, DraftSource]()
    path = session.path_nodes(session.tip if tip is None else tip)
    stepper.max_tokens = len(path) + MOST_DRAFTED + 1
    for node in path:
        recorded = session.step(node)
        settings, seed = _settings_of(session, recorded), recorded.seed
        if recorded.round == node:
            stepper.speculation = _speculation(session, node, drafts, sources)
            ready = list(stepper.grow(at, seed=seed, settings=settings))
        # After a difference, what the rest of its round would be is another round's.
        inside = recorded.round not in (0, node)
        forced = recorded.draw.how is How.FORCED or (inside and not ready)
        if ready:
            found = ready.pop(0)
        else:
            force = recorded.token.id if forced else None
            found = stepper.extend(at, force=force, seed=seed, settings=settings)
        yield Check(
            node=node,
            position=recorded.position,
            recorded=recorded.token,
            found=found.token,
            forced=forced,
            logit_difference=largest_difference(recorded.top, found.top),
            margin=margin_of(recorded),
        )
        if found.token.id != recorded.token.id:
            # The distribution is known already: this costs no pass.
            ready = []
            found = stepper.extend(at, force=recorded.token.id, seed=seed, settings=settings)
        at = found.node


def _speculation(
    session: Session,
    node: int,
    drafts: Callable[[str], DraftSource] | None,
    sources: dict[str, DraftSource],
) -> Speculation:
    """The drafting of the round that begins with ``node``; its source is opened once."""
    found = session.rounds.get(node)
    if found is None or drafts is None:
        what = "was not kept" if found is None else f"drafted from {found.source!r:.60}"
        raise SessionError(f"{session.path}: the round of node {node} {what}: it cannot be checked")
    if found.source not in sources:
        sources[found.source] = drafts(found.source)
    return Speculation(sources[found.source], found.asked, found.accept)


def _settings_of(session: Session, step: StepRecord) -> Effective:
    try:
        return effective(step.preset, {}, spec=step.chain_spec)
    except SpecError as error:
        raise SessionError(
            f"{session.path}: the chain of node {step.node} cannot be built again: {error}"
        ) from None


def lines(found: Verification) -> Iterator[str]:
    """The result in words, safe for a terminal."""
    for change in found.changes:
        yield f"{change.name}: recorded {_value(change.a)}, now {_value(change.b)}"
    count, first = len(found.checks), found.first
    largest = found.largest_logit_difference
    difference = "—" if largest is None else f"{largest:.3g}"
    if first is None:
        yield f"reproduced: {count:,} of {count:,} tokens; largest logit difference {difference}"
        return
    same = sum(check.same for check in found.checks)
    yield (
        f"not reproduced: {same:,} of {count:,} tokens are the same; "
        f"largest logit difference {difference}"
    )
    margin = "—" if first.margin is None else f"{first.margin:.3g}"
    yield (
        f"first at position {first.position} (node {first.node}): recorded "
        f"{named(first.recorded)}, now {named(first.found)}; the race was {margin} close"
    )


def to_json(found: Verification) -> dict[str, Any]:
    """The result as plain values: no NaN, no infinity."""
    first = found.first
    return {
        "session": plain(found.session),
        "reproduced": found.reproduced,
        "tokens": len(found.checks),
        "same": sum(check.same for check in found.checks),
        "largest_logit_difference": plain(found.largest_logit_difference),
        "first_divergence": None if first is None else _check_json(first),
        "changes": [
            {"name": one.name, "recorded": plain(one.a), "now": plain(one.b)}
            for one in found.changes
        ],
        "checks": [_check_json(check) for check in found.checks],
    }


def _require_comparable(session: Session, facts: ModelFacts) -> None:
    recorded = session.facts
    if recorded is not None and recorded.vocab_size != facts.vocab_size:
        raise SessionError(
            f"{session.path} was recorded with a vocabulary of {recorded.vocab_size:,} tokens, and "
            f"{facts.name} has {facts.vocab_size:,}: check it with {recorded.name}"
        )


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "node": check.node,
        "position": check.position,
        "recorded": check.recorded.id,
        "found": check.found.id,
        "same": check.same,
        "forced": check.forced,
        "logit_difference": plain(check.logit_difference),
        "margin": plain(check.margin),
    }


def _value(value: Any) -> str:
    return "—" if value is None else quote(str(value))
