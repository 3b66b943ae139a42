"""Rounds where K depends on the text's length: LongRoPE's border, dynamic NTK's every token (A1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.backends.hf.backend import HFBackend
from engine.records.step import Came
from tests import tiny_models
from tests.engine.backends.hf.test_length_scaled_rope import (
    BORDER,
    llama_dynamic,
    llama_long,
    phi3,
)
from tests.speculating import SOURCES, ids_of, stepper

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENS = 16


@pytest.mark.parametrize("tokens", [3, 8])
@pytest.mark.parametrize("build", [phi3, llama_long])
def test_a_round_does_not_cross_the_border(build: Callable[[], Any], tokens: int) -> None:
    """Eleven tokens of prompt: the border is at sixteen, where greedy ids go on as without drafts."""
    backend = HFBackend(build(), tiny_models.tokenizer())
    plain = ids_of(stepper(backend, max_tokens=TOKENS))
    run = stepper(backend, SOURCES["ngram"], tokens=tokens, max_tokens=TOKENS)
    assert ids_of(run) == plain
    assert run.prompt is not None
    sides = set()
    for found in run.rounds.values():
        first = run.nodes[found.node].position
        # Read with the drafts: positions up to first + drafts - 1, a text of one more.
        sides.add((first >= BORDER, first + len(found.drafted) > BORDER))
    assert (False, True) not in sides
    assert (True, True) in sides


def test_where_every_token_is_a_border_steps_are_plain() -> None:
    backend = HFBackend(llama_dynamic(), tiny_models.tokenizer())
    plain = ids_of(stepper(backend, max_tokens=TOKENS))
    run = stepper(backend, SOURCES["ngram"], max_tokens=TOKENS)
    assert ids_of(run) == plain
    beyond = [step for step in run.nodes.values() if step.position > BORDER]
    assert beyond
    assert {step.came for step in beyond} == {Came.PLAIN}
