"""Chains to try: every change of one, the way back, and the command that makes it the run's own."""

from __future__ import annotations

import pytest

from engine.commands import Configure
from engine.records.vocabulary import Token, Vocabulary
from engine.sampling.chain import Chain, SpecError, effective, parse_spec
from inspector.state.view import View
from inspector.state.whatif import (
    absent_stages,
    as_recorded,
    chain_of,
    configure_for,
    hypothetical,
    inserted,
    parsed,
    recorded_chain,
    settings_at,
    shifted,
    token_ids,
    turned,
    value_in,
    values_of,
    without,
)
from tests.fake_runs import run

DEFAULT = "temperature=0.8 > top_k=40 > top_p=0.95"


def chain(spec: str = DEFAULT, preset: str = "guide") -> Chain:
    return chain_of(spec, preset)


def test_turning_changes_one_dial_and_nothing_else() -> None:
    base = chain()
    assert turned(base, "top_p", 0.5).spec == "temperature=0.8 > top_k=40 > top_p=0.5"
    assert base.spec == DEFAULT
    assert value_in(base, "top_k") == 40
    assert value_in(base, "min_p") is None
    with pytest.raises(ValueError, match="top_p=2 is out of range: 0 to 1"):
        turned(base, "top_p", 2.0)


def test_turning_a_dial_of_no_stage_puts_the_stage_in() -> None:
    assert turned(chain(), "min_p", 0.1).spec == f"{DEFAULT} > min_p=0.1"


@pytest.mark.parametrize(
    ("preset", "spec", "name", "expected"),
    [
        ("guide", DEFAULT, "min_p", "temperature=0.8 > top_k=40 > top_p=0.95 > min_p=0"),
        ("llamacpp", "top_k=40 > temperature=0.8", "min_p", "top_k=40 > min_p=0 > temperature=0.8"),
        ("vllm", DEFAULT, "min_p", "temperature=0.8 > min_p=0 > top_k=40 > top_p=0.95"),
        # no stage of hf's: at the end
        ("hf", DEFAULT, "xtc", f"{DEFAULT} > xtc_probability=0"),
    ],
)
def test_a_stage_goes_where_its_stack_has_it(
    preset: str, spec: str, name: str, expected: str
) -> None:
    assert inserted(chain(spec, preset), name).spec == expected


def test_a_stage_that_is_put_in_follows_its_stacks_rules() -> None:
    here = inserted(chain("temperature=1 >", "llamacpp"), "top_k").stages[0]
    assert here.rules == effective("llamacpp", {}).chain.stages[0].rules
    assert here.rules != inserted(chain("temperature=1 >"), "top_k").stages[1].rules


def test_stages_move_as_far_as_the_chain_goes() -> None:
    assert shifted(chain(), "top_p", -1).spec == "temperature=0.8 > top_p=0.95 > top_k=40"
    assert shifted(chain(), "top_p", 1) == chain()
    assert shifted(chain(), "temperature", 9).spec == "top_k=40 > top_p=0.95 > temperature=0.8"
    assert shifted(chain(), "min_p", 1) == chain()


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (f"min_p=0.1 > {DEFAULT}", "temperature"),
        ("top_p=0.95 > temperature=0.8 > top_k=40", "temperature"),
        ("top_p=0.95 > temperature=0.8 > top_k=40", "top_k"),
        ("temperature=0.8 > min_p=0.1 > top_k=40 > top_p=0.95", "top_k"),
    ],
)
def test_f16_a_stage_that_nobody_moved_is_as_recorded_where_it_is(changed: str, name: str) -> None:
    """F16: ``0`` on an untouched dial moved its stage in the chain."""
    assert as_recorded(chain(changed), chain(), name).spec == changed


def test_every_change_can_be_taken_back() -> None:
    base = chain()
    for changed, name in (
        (without(base, "top_k"), "top_k"),
        (shifted(base, "top_p", -2), "top_p"),
        (turned(base, "temperature", 2.0), "temperature"),
        (inserted(base, "min_p"), "min_p"),
    ):
        assert changed != base
        assert as_recorded(changed, base, name) == base


def test_the_last_stage_can_go_too() -> None:
    empty = without(chain("top_k=5 >"), "top_k")
    assert empty.stages == ()
    assert chain_of(empty.spec, "guide") == empty


def test_what_is_in_use_is_what_does_something() -> None:
    used = values_of(chain("temperature=1 > top_k=0 > top_p=0.9 > dry_multiplier=0.8"))
    assert used == {"top_p": 0.9, "dry_multiplier": 0.8}


def test_stages_that_can_be_put_in_stand_in_the_stacks_order() -> None:
    names = absent_stages(chain())
    assert names[:3] == ["logit_bias", "bad_words", "suppress"]
    assert not {"temperature", "top_k", "top_p"} & set(names)
    assert "mirostat" in absent_stages(chain(DEFAULT, "hf")), "no stage of hf's, but of ours"


# --- what the record says -----------------------------------------------------------------------


def test_the_chain_at_the_cursor_is_the_one_that_drew_its_token() -> None:
    view = run("ab", [0.5, 0.5], spec="top_k=5 > temperature=0.5")
    recorded = recorded_chain(view)
    assert recorded is not None
    assert recorded.spec == "top_k=5 > temperature=0.5"
    assert settings_at(view) is view.settings
    assert not hypothetical(view)
    assert not hypothetical(View(view.log, view.cursor, recorded))
    assert hypothetical(View(view.log, view.cursor, turned(recorded, "top_k", 1)))


def test_at_the_prompt_it_is_the_one_that_will_draw_the_next() -> None:
    view = run("ab", [0.5, 0.5], spec="top_k=5 > temperature=0.5", forces=[])
    assert view.step is None
    assert recorded_chain(view) == chain_of("top_k=5 > temperature=0.5", "guide")


def test_a_chain_that_cannot_be_read_back_is_none() -> None:
    view = run("ab", [0.5, 0.5])
    assert view.step is not None
    with pytest.raises(SpecError):
        chain_of("processor=mine.module:Thing >", "guide")
    object.__setattr__(view.step, "chain_spec", "processor=mine.module:Thing >")
    assert recorded_chain(view) is None


# --- values in writing --------------------------------------------------------------------------


def vocabulary() -> Vocabulary:
    return Vocabulary.pack([Token(0, b"a"), Token(1, b" Paris"), Token(2, b"a"), Token(3, b"")])


def test_values_are_read_as_flags_are() -> None:
    assert parsed("top_k", " 12 ", None) == 12
    assert parsed("temperature", ".5", None) == 0.5
    with pytest.raises(ValueError, match="top_k takes a whole number, not 'x'"):
        parsed("top_k", "x", None)


def test_a_token_in_text_is_looked_up() -> None:
    assert token_ids(vocabulary(), b"a") == [0, 2]
    assert parsed("suppress", "' Paris', 7", vocabulary()) == "1, 7"
    assert parsed("logit_bias", "' Paris':-2", vocabulary()) == "1:-2"
    for known in (vocabulary(), None):
        with pytest.raises(ValueError, match="' New York' is not one token of this model"):
            parsed("suppress", "' New York'", known)


# --- for the engine -----------------------------------------------------------------------------


def test_a_value_that_the_models_file_would_change_is_named_too() -> None:
    asked = Configure(dials={"top_k": 20}, seed=7, max_tokens=9)
    wanted = turned(effective("guide", {"top_k": 20}).chain, "temperature", 1.5)
    dials = {"top_k": 20, "temperature": 1.5, "top_p": 0.95}
    assert configure_for(wanted, asked, {"top_p": 0.8}) == Configure(
        dials=dials, seed=7, max_tokens=9, live=frozenset({"temperature", "top_p"})
    )


def test_dials_are_named_one_by_one_where_that_is_enough() -> None:
    config = {"top_p": 0.8}
    base = effective("guide", {}, generation_config=config).chain
    command = configure_for(turned(base, "temperature", 1.5), Configure(seed=3), config)
    live = frozenset({"temperature"})
    assert command == Configure(dials={"temperature": 1.5}, seed=3, live=live)
    dials = effective("guide", command.dials, generation_config=config, live=command.live).dials
    assert dials["top_p"].source == "generation_config.json"
    assert dials["temperature"].source == "session"


@pytest.mark.parametrize("preset", ["guide", "hf", "vllm", "llamacpp", "sglang", "mlx"])
@pytest.mark.parametrize("asked", [Configure(), Configure("hf", {"top_k": 7}, seed=1)])
def test_the_command_leads_to_the_very_chain_that_was_tried(preset: str, asked: Configure) -> None:
    base = effective(preset, {"temperature": 0.7}).chain
    config = {"top_k": 11, "temperature": 0.3}
    for wanted in (
        base,
        turned(base, "temperature", 0.0),
        turned(base, "min_p", 0.2),
        without(base, "temperature"),
        shifted(base, "temperature", -9),
        inserted(base, "dry", {"dry_multiplier": 0.8}),
        turned(base, "logit_bias", "3:-1"),
    ):
        command = configure_for(wanted, asked, config)
        got = effective(command.preset, command.dials, spec=command.spec, generation_config=config)
        assert got.chain == wanted
        assert command.seed == asked.seed
        live = effective(command.preset, command.dials, spec=command.spec, live=command.live).dials
        turned_there = {name for name, one in live.items() if one.source.startswith("session")}
        named = {**parse_spec(command.spec, command.preset)[1], **command.dials}
        assert turned_there == command.live & named.keys()
