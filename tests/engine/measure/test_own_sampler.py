"""The preset ``llamacpp`` against llama.cpp's own sampler, on distributions of a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.backends.llamacpp.dials import sampler_request
from engine.measure.own_sampler import check_sampler, compare, our_candidates
from engine.records.sampler_check import SamplerCheck
from engine.run.stepper import Stepper
from engine.sampling.candidates import Candidates
from engine.sampling.chain import effective
from inspector.cli.against import lines, report
from sessions.export.jsonl import dumps
from tests import tiny_gguf
from tests.hostile import acting, marked
from tests.recordings import cases
from tests.top_backend import TopBackend, scripted

PROMPTS = ("the cat sat on the mat. the dog sat on the mat. the cat", "a", "def add(a, b)")
UNCHECKED = ("repetition_penalty",)
"""A dial whose effect depends on logits, which llama.cpp does not tell."""


def settings() -> list[dict[str, Any]]:
    """The settings that were recorded of llama.cpp, which the preset is held against elsewhere."""
    found = {json.dumps(case.dials): case.dials for case in cases("llamacpp.npz")}
    return list(found.values())


@pytest.fixture(scope="module")
def steppers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Stepper, int]]]:
    """A token drawn behind each prompt, by llama.cpp in this process."""
    pytest.importorskip("xllamacpp")
    path = tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    backend = open_backend("llamacpp", {"model": str(path), "threads": 1})
    found = []
    for prompt in PROMPTS:
        stepper = Stepper(backend)
        stepper.submit(prompt)
        found.append((stepper, stepper.step().node))
    yield found
    backend.close()


def test_every_setting_keeps_what_llamacpp_keeps(steppers: list[tuple[Stepper, int]]) -> None:
    wrong, checked = [], 0
    for dials in settings():
        if not set(UNCHECKED) & dials.keys():
            checked += 1
            for stepper, node in steppers:
                found = check_sampler(stepper, node, dials)
                if not found.same:
                    wrong.append((dials, found.spec, found.parted, found.largest))
    assert not wrong
    assert checked >= 40


def test_it_would_notice(steppers: list[tuple[Stepper, int]]) -> None:
    """The engine is asked for something else than our chain does."""
    stepper, node = steppers[0]
    ids = stepper.path_ids(0)
    ours = check_sampler(stepper, node, {"top_k": 5, "min_p": 0.0})
    backend: Any = stepper.backend
    theirs = backend.own_sampler(ids, {"top_k": 6, "top_p": 0.95, "temperature": 0.8}, 99)
    assert ours.same
    chain = effective("llamacpp", {"top_k": 5, "min_p": 0.0})
    final = our_candidates(stepper, node, chain, ids)
    found = compare(node, chain, final, theirs, backend)
    assert not found.same
    assert found.parted == 1
    assert found.theirs == found.ours + 1


def test_a_dial_that_cannot_be_checked_says_why(steppers: list[tuple[Stepper, int]]) -> None:
    stepper, node = steppers[0]
    for dials, why in (
        ({"repetition_penalty": 1.1}, "sign of a logit"),
        ({"xtc_probability": 0.5}, "own dice"),
        ({"regex": "a*"}, "another form"),
    ):
        with pytest.raises(BackendError, match=why):
            check_sampler(stepper, node, dials)


def test_an_engine_without_a_sampler_of_its_own() -> None:
    for backend in (scripted(), TopBackend()):
        stepper = Stepper(backend)
        stepper.submit_ids([1])
        with pytest.raises(BackendError, match="does not tell what its own sampler leaves"):
            check_sampler(stepper, stepper.step().node, {})


def test_nothing_is_left_to_what_the_server_was_started_with() -> None:
    """With no dial set every stage is off, and the order is said."""
    asked = sampler_request({})
    assert (asked["temperature"], asked["top_k"], asked["top_p"], asked["min_p"]) == (
        1.0,
        0,
        1.0,
        0,
    )
    assert asked["samplers"][0] == "penalties"
    assert asked["samplers"][-1] == "temperature"
    assert sampler_request({"dry_last_n": -1})["dry_penalty_last_n"] > 100_000
    assert sampler_request({"logit_bias": "5:2, 6:-inf"})["logit_bias"] == [[5, 2.0], [6, False]]


def test_what_is_printed_is_safe_and_complete() -> None:
    stepper = Stepper(scripted())
    stepper.submit_ids([1])
    stepper.step()
    chain = effective("llamacpp", {"top_k": 3})
    ours = Candidates.from_logits(np.zeros(300, np.float32)).leading(3)
    found: SamplerCheck = marked(compare(1, chain, ours, {0: 0.5, 1: 0.5}, stepper.backend))
    facts = replace(marked(stepper.backend.facts), versions={"x": "1"})
    text = list(lines(facts, found))
    assert any("NOT the same" in line for line in text)
    assert acting(dumps(report(facts, found))) == ""
