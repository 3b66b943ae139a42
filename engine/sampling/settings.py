"""The effective settings: every dial with its value, and where the value came from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.records.events import Setting
from engine.sampling.ladder import Chain
from engine.sampling.presets import Preset
from engine.sampling.spec import SpecError, build, checked, has_order, parse_spec, preset_of
from engine.sampling.stages import DIALS, STAGES, Role, Temperature, default_of, lists

MIROSTAT_REPLACES, GREEDY_ALONE = "mirostat replaces it", "not used: greedy"
FLAG, SESSION, GENERATION_CONFIG, OFF = "flag", "session", "generation_config.json", "off"
DEFAULT = "default"

_LISTS_IN_FILE: dict[str, tuple[str, Callable[[Any], list[lists.Entry]]]] = {
    "bad_words_ids": ("bad_words", lambda ids: [lists.Entry(tuple(map(int, one))) for one in ids]),
    "suppress_tokens": ("suppress", lambda ids: [lists.Entry((int(one),)) for one in ids]),
    "sequence_bias": (
        "logit_bias",
        lambda pairs: [lists.Entry(tuple(map(int, ids)), None, float(b)) for ids, b in pairs],
    ),
}
"""Fields of a generation_config.json -> the dial that does the same, and how they are read."""

_NOT_REPRODUCED = {
    "num_beams": 1,
    "guidance_scale": None,
    "penalty_alpha": None,
    "min_length": 0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "begin_suppress_tokens": None,
    "watermarking_config": None,
}
"""Other settings of generate(), and the value at which each does nothing."""


@dataclass(frozen=True)
class Effective:
    """The settings a run really uses: the chain, and each dial's value with its source.

    ``notes`` says in words what the preset's stack does that people do not expect, and which of
    the model's own settings it does not reproduce.
    """

    chain: Chain
    dials: dict[str, Setting]
    notes: tuple[str, ...] = field(default=())

    @property
    def spec(self) -> str:
        return self.chain.spec


def effective(
    preset: str,
    given: Mapping[str, Any],
    *,
    spec: str = "",
    generation_config: Mapping[str, Any] | None = None,
    resolve: lists.Resolver | None = None,
    live: Collection[str] = (),
) -> Effective:
    """Resolve every dial: flags and the specification, then the model's file, then the stack.

    Given dials that are in ``live`` were turned while the session ran.

    An explicit order (``>``) is taken as it stands: what it does not name is not in the chain.
    ``resolve`` turns text into token ids, for the dials that take both; without it text stays
    text, and a stage that meets some refuses. Raises SpecError.
    """
    found = preset_of(preset)
    order, from_spec = parse_spec(spec, preset)
    named = {**from_spec, **dict(checked(name, value) for name, value in given.items())}
    config = generation_config or {}
    asked = [
        (SESSION, {name: value for name, value in named.items() if name in live}),
        (FLAG, {name: value for name, value in named.items() if name not in live}),
    ]
    if has_order(spec):
        _refuse_outside(named, order, frozenset(), "this order")
        dials = _dials(order, asked, found.lacks - named.keys())
        values, found_notes = _values(found, dials, resolve)
        return Effective(build(order, values, preset), dials, tuple(found_notes))
    _refuse_outside(named, found.order, found.lacks, f"preset {preset}")
    from_file, unusable = _from_file(found, config)
    sources = [
        *asked,
        (GENERATION_CONFIG, from_file),
        (found.defaults_source, found.defaults),
    ]
    dials = _dials(found.order, sources, found.lacks)
    values, warnings = _values(found, dials, resolve)
    order = next((other for dial, other in found.orders.items() if values[dial]), found.order)
    stages, dials = _used(found, order, dials, values, named)
    chain = build(stages, {name: values[name] for name in values}, preset)
    return Effective(chain, dials, (*warnings, *found.notes, *unusable, *_unread(found, config)))


def in_vain(dials: Mapping[str, Setting]) -> dict[str, Setting]:
    """The dials that are set and come to nothing, because of mirostat or greedy decoding."""
    return {
        name: one
        for name, one in dials.items()
        if one.source.endswith((MIROSTAT_REPLACES, GREEDY_ALONE))
    }


def _dials(
    order: Iterable[str], sources: Sequence[tuple[str, Mapping[str, Any]]], lacks: Iterable[str]
) -> dict[str, Setting]:
    """Each dial of the stages in ``order``, from the first source that has it."""
    missing = set(lacks)
    dials: dict[str, Setting] = {}
    for cls in (STAGES[name] for name in order):
        for dial in cls.dials:
            if dial.name in missing:
                continue
            for source, values in sources:
                if dial.name in values:
                    dials[dial.name] = Setting(values[dial.name], source)
                    break
            else:
                value = default_of(cls, dial)
                dials[dial.name] = Setting(value, OFF if value == dial.off else DEFAULT)
    return dials


def _used(
    preset: Preset,
    order: Sequence[str],
    dials: dict[str, Setting],
    values: Mapping[str, Any],
    named: Mapping[str, Any],
) -> tuple[list[str], dict[str, Setting]]:
    """(stages that the chain holds, the dials with a word on those that came to nothing)."""
    on = [
        name
        for name in order
        if name in preset.core
        or any(dial.name in named for dial in STAGES[name].dials)
        or any(
            dial.off is not None and values.get(dial.name, dial.off) != dial.off
            for dial in STAGES[name].dials
        )
    ]
    why, idle = "", []
    if values.get("mirostat_tau"):
        why, idle = MIROSTAT_REPLACES, [name for name in on if not STAGES[name].beside_mirostat]
    elif preset.greedy_alone and build(("temperature",), values, preset.name).greedy:
        why = GREEDY_ALONE
        idle = [name for name in on if STAGES[name] is not Temperature and _samples(name)]
    marked = {
        name: Setting(setting.value, f"{setting.source}, {why}")
        if DIALS[name][0] in idle and setting.source not in (OFF, DEFAULT)
        else setting
        for name, setting in dials.items()
    }
    return [name for name in on if name not in idle], marked


def _samples(name: str) -> bool:
    return bool(STAGES[name].role is Role.SAMPLING)


def _values(
    preset: Preset, dials: Mapping[str, Setting], resolve: lists.Resolver | None
) -> tuple[dict[str, Any], list[str]]:
    """(dial values as the stages take them: text turned into ids where somebody can, warnings)."""
    values: dict[str, Any] = {name: setting.value for name, setting in dials.items()}
    warnings = []
    for name, (_, dial) in DIALS.items():
        if resolve is None or not dial.token_list or not values.get(name):
            continue
        try:
            if name == "bad_words" and preset.words_with_space:
                values[name] = lists.with_space_too(values[name], resolve)
                continue
            if name == "bad_words":
                warnings += _twins(values[name], resolve)
            values[name] = lists.with_ids(values[name], dial.numbered, resolve)
        except ValueError as error:
            raise SpecError(f"{name}: {error}") from None
    if values.get("xtc_probability") and values["xtc_threshold"] == 0.0:
        warnings.append(
            "xtc_threshold=0 makes every token a top choice: "
            "whenever XTC acts, only the least likely is left."
        )
    return values, warnings


def _twins(written: str, resolve: lists.Resolver) -> list[str]:
    """For each bad word the same with or without a space, where that is another single token."""
    listed = lists.with_ids(written, False, resolve)
    forbidden = {entry.sequence for entry in lists.entries(listed, False)}
    found = []
    for text in lists.texts(written, False):
        other = lists.twin(text)
        ids = tuple(resolve(other)) if other else ()
        if len(ids) == 1 and ids not in forbidden:
            found.append(
                f"bad_words={text!r} is taken as written: {other!r} ({ids[0]}) is still possible."
            )
    return found


def _refuse_outside(
    named: Iterable[str], order: Sequence[str], lacks: frozenset[str], where: str
) -> None:
    for name in named:
        if DIALS[name][0] not in order or name in lacks:
            raise SpecError(
                f"{name} is not part of {where}; write an order of your own with >, "
                f"or use a preset that has it, such as guide"
            )


def _from_file(preset: Preset, config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(dials that a generation_config.json sets, what of it cannot be used)."""
    written = {name: config.get(name) for name in DIALS if DIALS[name][1].numeric}
    notes = []
    for name, (dial, read) in _LISTS_IN_FILE.items():
        # A mapping of biases is keyed by tuples, which JSON has not: nothing writes one.
        if not config.get(name) or (name == "sequence_bias" and isinstance(config[name], dict)):
            continue
        try:
            written[dial] = lists.spell(read(config[name]))
        except (TypeError, ValueError, OverflowError):
            notes.append(f"generation_config.json: {name} is no list of token ids; left out.")
    found: dict[str, Any] = {}
    for name, value in written.items():
        if value is None or (preset.from_config is not None and name not in preset.from_config):
            continue
        try:
            found[name] = DIALS[name][1].check(value)
        except ValueError as error:
            notes.append(f"generation_config.json: {error}; left out.")
    return found, notes


def _unread(preset: Preset, config: Mapping[str, Any]) -> list[str]:
    """Settings in the model's file that this preset does not apply."""
    if preset.name != "hf":
        return []
    return [
        f"generation_config.json sets {name}={config[name]}, which is not reproduced."
        for name, idle in _NOT_REPRODUCED.items()
        if config.get(name) not in (None, idle)
    ]
