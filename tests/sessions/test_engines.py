"""Two engines on one text: exact where both tell all, else bounds that hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engine.backends.base import Backend
from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from sessions.compare.diff import Side
from sessions.compare.engines import compare_engines
from sessions.compare.engines_text import lines, to_json
from sessions.export.jsonl import dumps
from tests.fake_servers import logprobs_of
from tests.hostile import MARKER, acting
from tests.top_backend import TOKENS, TopBackend, words

PROMPT = (1, 2)


def rounded(ids: Any) -> FloatArray:
    """The words' logits to the next quarter, as a quantised model may have them."""
    return np.round(words(ids) * 4) / np.float32(4)


def whole(logits: Callable[[Any], FloatArray], tokens: Sequence[Any] = TOKENS) -> ScriptedBackend:
    return ScriptedBackend(logits, tokens)


def side(backend: Backend, *, force: Sequence[int] = (), exact: bool = True) -> Side:
    """Six greedy tokens, or those that are forced."""
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
    stepper.submit_ids(PROMPT)
    for at in range(6):
        stepper.step(force=force[at] if force else None)
    steps = tuple(stepper.path())
    dense = {step.node: stepper.dense(step.node) for step in steps} if exact else {}
    return Side("x", steps, backend.facts, dense=dense.get)


def ids_of(one: Side) -> list[int]:
    return [step.token.id for step in one.steps]


def kl(p: FloatArray, q: FloatArray) -> float:
    return float((np.exp(p.astype(np.float64)) * (p.astype(np.float64) - q)).sum())


def true_kls(one: Side) -> list[float]:
    ids = [*PROMPT, *ids_of(one)]
    found = []
    for end in range(len(PROMPT), len(ids)):
        p, q = logprobs_of(words(ids[:end])), logprobs_of(rounded(ids[:end]))
        found.append(kl(p, q))
    return found


def test_whole_vectors_give_exact_figures() -> None:
    a = side(whole(words))
    found = compare_engines(a, side(whole(rounded), force=ids_of(a)))
    assert found.exact
    assert [pair.kl.low for pair in found.pairs] == pytest.approx(true_kls(a), abs=1e-5)
    ids = [*PROMPT, *ids_of(a)]
    flips = [int(rounded(ids[:end]).argmax()) != ids[end] for end in range(2, 8)]
    assert [pair.flips for pair in found.pairs] == flips


@pytest.mark.parametrize("both", [False, True])
def test_leading_candidates_give_a_bound_below_the_true_figure(both: bool) -> None:
    inner = whole(words)
    a = side(TopBackend(inner) if both else inner, exact=False)
    b = side(TopBackend(whole(rounded)), force=ids_of(a), exact=False)
    found = compare_engines(a, b)
    assert not found.exact
    for pair, true in zip(found.pairs, true_kls(a), strict=True):
        assert 0.0 < pair.kl.low <= true + 1e-6
        assert pair.kl.high is None


def test_an_engine_against_itself_is_the_same() -> None:
    a = side(whole(words))
    text = list(lines(compare_engines(a, side(whole(words), force=ids_of(a)))))
    assert "greedy: the same 6 tokens" in text
    assert any(line.startswith("KL(a‖b): 0 nats a token on average") for line in text)


def test_other_tokens_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="the same tokens"):
        compare_engines(side(whole(words)), side(whole(words), force=[9] * 6))


def test_hostile_tokens_are_harmless() -> None:
    tokens = [MARKER + one for one in TOKENS]
    a = side(whole(words, tokens))
    found = compare_engines(a, side(whole(rounded, tokens), force=ids_of(a)))
    assert all(acting(line) == "" for line in lines(found))
    assert acting(dumps(to_json(found))) == ""
