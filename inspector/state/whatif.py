"""Chains to try: the one at the cursor with dials turned, stages added, taken out or moved.

Pure functions from chains to chains. A stage's name stands for it: no chain holds one twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from engine.commands import Configure
from engine.records.events import SettingsChanged
from engine.records.vocabulary import Vocabulary
from engine.sampling.chain import PRESETS, Chain, SpecError, build, effective, parse_spec
from engine.sampling.stages import DIALS, STAGES, Stage, Value, default_of, lists, spelled, stage_of
from engine.text import visible
from inspector.state.view import View

# --- what is there ----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def chain_of(spec: str, preset: str) -> Chain:
    """The chain that a record wrote down. Raises SpecError."""
    order, dials = parse_spec(spec, preset)
    return build(order, dials, preset)


def recorded_chain(view: View) -> Chain | None:
    """The chain that drew the cursor's token; at the prompt, the one that will draw the next.

    None before there are settings, and where it holds a stage that only the engine can run.
    """
    step, settings = view.step, view.settings
    try:
        if step is not None:
            return chain_of(step.chain_spec, step.preset)
        return chain_of(settings.chain_spec, settings.preset) if settings is not None else None
    except SpecError:
        return None


def settings_at(view: View) -> SettingsChanged | None:
    """The settings that drew the cursor's token, with each value's source, if they are known."""
    step = view.step
    if step is None:
        return view.settings
    return view.log.all_settings.get((step.preset, step.chain_spec))


def hypothetical(view: View) -> bool:
    """True if the view tries a chain that is not the one that drew the cursor's token."""
    return view.what_if is not None and view.what_if != recorded_chain(view)


def stage_in(chain: Chain, name: str) -> Stage | None:
    """The chain's stage of this name."""
    return next((one for one in chain.stages if one.name == name), None)


def value_in(chain: Chain, dial: str) -> Value | None:
    """A dial's value; None where its stage is not in the chain."""
    stage = stage_in(chain, DIALS[dial][0])
    return None if stage is None else getattr(stage, dial)


def values_of(chain: Chain) -> dict[str, Value]:
    """Every dial of the chain that is set to do something, with its value."""
    return {
        dial.name: getattr(one, dial.name)
        for one in chain.stages
        if not one.off
        for dial in one.dials
        if getattr(one, dial.name) not in (dial.off, default_of(type(one), dial))
    }


@lru_cache(maxsize=256)
def turned_between(old: str, old_preset: str, new: str, new_preset: str) -> tuple[str, ...]:
    """Dials with both their values that differ in two recorded chains, and what else does."""
    if (old, old_preset) == (new, new_preset):
        return ()
    found = [f"preset {old_preset} → {new_preset}"] if old_preset != new_preset else []
    try:
        before, after = values_of(chain_of(old, old_preset)), values_of(chain_of(new, new_preset))
    except SpecError:
        return (*found, "chain")
    for dial in dict.fromkeys((*before, *after)):
        was, now = before.get(dial), after.get(dial)
        if was != now:
            words = ["off" if one is None else visible(spelled(one)) for one in (was, now)]
            found.append(f"{dial} {' → '.join(words)}")
    return tuple(found) or ("order",)


# --- one change -------------------------------------------------------------------------------


def turned(chain: Chain, dial: str, value: Value) -> Chain:
    """The chain with a dial at ``value``, its stage put in where it was not. Raises ValueError."""
    name, what = DIALS[dial]
    value = what.check(value)
    if stage_in(chain, name) is None:
        chain = inserted(chain, name)
    stages: list[Any] = list(chain.stages)
    at = _index(chain, name)
    stages[at] = replace(stages[at], **{dial: value})
    return replace(chain, stages=tuple(stages))


def inserted(chain: Chain, name: str, values: Mapping[str, Value] | None = None) -> Chain:
    """The chain with one more stage, where its preset's stack has it; else at the end."""
    preset = PRESETS[chain.preset]
    stage = stage_of(name, values or {}, preset.rules.get(name))
    at = len(chain.stages)
    if name in preset.order:
        mine = preset.order.index(name)
        for place, one in enumerate(chain.stages):
            if one.name in preset.order and preset.order.index(one.name) > mine:
                at = place
                break
    return _with(chain, stage, at)


def without(chain: Chain, name: str) -> Chain:
    """The chain less one stage."""
    return replace(chain, stages=tuple(one for one in chain.stages if one.name != name))


def shifted(chain: Chain, name: str, by: int) -> Chain:
    """The chain with a stage ``by`` places later (earlier when negative), as far as it goes."""
    stage = stage_in(chain, name)
    if stage is None:
        return chain
    at = max(0, min(_index(chain, name) + by, len(chain.stages) - 1))
    return _with(without(chain, name), stage, at)


def as_recorded(chain: Chain, recorded: Chain, name: str) -> Chain:
    """The chain with one stage as the record has it: its values, its place, or its absence.

    One that was not moved stays in its place, whatever stages were put in or moved around it.
    """
    stage = stage_in(recorded, name)
    rest = without(chain, name)
    if stage is None:
        return rest
    if stage_in(chain, name) is not None and not _moved(chain, recorded, name):
        return _with(rest, stage, _index(chain, name))
    before = {one.name for one in recorded.stages[: _index(recorded, name)]}
    at = max((1 + i for i, one in enumerate(rest.stages) if one.name in before), default=0)
    return _with(rest, stage, at)


def _moved(chain: Chain, recorded: Chain, name: str) -> bool:
    """True if as many stages are in their old order without this one as with it."""
    old = {one.name: place for place, one in enumerate(recorded.stages)}
    places = [old[one.name] for one in chain.stages if one.name in old]
    others = [place for place in places if place != old[name]]
    return _longest_rise(others) == _longest_rise(places)


def _longest_rise(places: list[int]) -> int:
    """Length of the longest rising subsequence."""
    lengths: list[int] = []
    for at, place in enumerate(places):
        below = [n for n, before in zip(lengths, places[:at], strict=True) if before < place]
        lengths.append(1 + max(below, default=0))
    return max(lengths, default=0)


def _with(chain: Chain, stage: Stage, at: int) -> Chain:
    return replace(chain, stages=(*chain.stages[:at], stage, *chain.stages[at:]))


def _index(chain: Chain, name: str) -> int:
    return [one.name for one in chain.stages].index(name)


# --- values in writing ------------------------------------------------------------------------


def parsed(dial: str, text: str, vocabulary: Vocabulary | None) -> Value:
    """The value that somebody typed. Raises ValueError, which says what is possible.

    A token given as text is looked up; text of several tokens needs the model's tokenizer, which
    is not in this process.
    """
    what = DIALS[dial][1]
    value = what.parse(text.strip() if what.numeric else text)
    if not what.token_list or not isinstance(value, str):
        return value

    def ids_of(token: str) -> list[int]:
        found = token_ids(vocabulary, token.encode()) if vocabulary is not None else []
        if not found:
            raise ValueError(f"{token!r} is not one token of this model: give its ids")
        return found[:1]

    return lists.with_ids(value, what.numbered, ids_of)


def token_ids(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """The ids whose token is exactly ``data``."""
    fitting = np.flatnonzero(np.diff(vocabulary.offsets) == len(data))
    return [one for one in fitting.tolist() if vocabulary.token(one).bytes == data]


# --- for the engine ---------------------------------------------------------------------------


def configure_for(
    chain: Chain, asked: Configure, generation_config: Mapping[str, Any]
) -> Configure:
    """The command that makes ``chain`` the run's own, with as few words as it takes.

    Where turning dials of what was ``asked`` before leads to the same chain, the other dials keep
    the source of their values; else the chain is spelled out as an order of its own.
    """
    every = frozenset(name for one in chain.stages for name in one.params)
    spelled_out = replace(asked, preset=chain.preset, dials={}, spec=chain.spec, live=every)
    if chain.preset != asked.preset:
        return spelled_out
    try:
        before = effective(
            asked.preset, asked.dials, spec=asked.spec, generation_config=generation_config
        )
        changed = {
            name: value
            for one in chain.stages
            for name, value in one.params.items()
            if name not in before.dials or before.dials[name].value != value
        }
        live = asked.live | changed.keys()
        wanted = replace(asked, dials={**asked.dials, **changed}, live=live)
        after = effective(
            wanted.preset, wanted.dials, spec=wanted.spec, generation_config=generation_config
        )
    except SpecError:
        return spelled_out
    return wanted if after.chain == chain else spelled_out


def absent_stages(chain: Chain) -> list[str]:
    """Names of the registry's stages that are not in the chain, in the order of its preset."""
    there = {one.name for one in chain.stages}
    order = PRESETS[chain.preset].order
    names = [*order, *(name for name in STAGES if name not in order)]
    return [name for name in names if name not in there]
