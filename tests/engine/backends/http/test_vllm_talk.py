"""A talk with a real vLLM 0.32 over the default model, recorded by bench/vllm_server.py.

It was started with ``--max-logprobs 50 --enable-prompt-tokens-details``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import Batching
from engine.records.partial import TopLogprobs
from engine.records.prompt import Origin
from engine.records.vocabulary import TokenKind
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from tests.http_server import serving
from tests.talks import replayed

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def backend() -> Iterator[TopBackend]:
    with serving(replayed("vllm_talk.json.gz")) as server:
        opened = open_backend("vllm", {"url": server.url, "top": 50})
        assert isinstance(opened, TopBackend)
        yield opened
        opened.close()


def test_what_it_is_and_can(backend: TopBackend) -> None:
    facts = backend.facts
    assert (facts.name, facts.versions) == ("m", {"vllm": "0.32.0"})
    assert (facts.vocab_size, facts.context_length, facts.top) == (49152, 1024, 50)
    assert facts.stop_ids.keys() == {2}, "<|im_end|>, as generation_config.json has it"
    assert {one.name: one.value for one in facts.probed} == {
        "ids in and out": "yes",
        "log-probabilities": "raw log-probabilities",
        "candidates": "50",
        "prompt log-probabilities": "yes",
        "batch of prompts": "yes",
        "cached tokens": "yes",
        "own milliseconds": "",
        "slots": "",
        "metrics": "yes",
        "chat template": "yes",
        "own sampler": "",
    }


def test_a_greedy_run_and_a_fork(backend: TopBackend) -> None:
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
    prompt = stepper.submit(PROMPT)
    assert prompt.ids == (504, 3575, 282, 4649, 314)
    steps = [stepper.step() for _ in range(6)]
    assert stepper.text.startswith(" Paris")
    assert all(step.rank == 1 for step in steps)
    assert steps[0].token.id == 7042
    assert steps[0].raw_logprob == pytest.approx(-0.25807321, abs=1e-6)
    fork = stepper.extend(steps[2].node, force=int(steps[3].top.ids[1]))
    assert fork.rank == 2


def test_the_mass_that_is_not_told_is_bounded(backend: TopBackend) -> None:
    found = backend.forward((([], (504, 3575, 282, 4649, 314)),)).known
    assert isinstance(found, TopLogprobs)
    assert found.ids.shape == (50,)
    assert (np.diff(found.logprobs) <= 0).all()
    assert 0.9 < float(np.exp(found.logprobs).sum()) < 1.0


def test_two_texts_are_one_request(backend: TopBackend) -> None:
    """The first is the one that is read alone above, and the same but for rounding."""
    found = backend.forward([([504, 3575], [282]), ([504], [3575])])
    assert (found.passes, len(found.rows)) == (1, 2)
    server = backend._completer
    assert isinstance(server, Batching)
    one, other = server.batch([(504, 3575, 282, 4649, 314), (504,)], 1).answers
    assert one.top.ids.tolist() == [7042]
    assert one.top.logprobs[0] == pytest.approx(-0.25807321, abs=1e-3)
    assert other.top.ids.tolist() != [7042]
    assert one.times.cached is None, "vLLM tells that of both together"


def test_a_chat_prompt_is_in_its_template(backend: TopBackend) -> None:
    found = backend.tokenize("Hello", chat=True, system="Be brief.")
    own = [at for at, origin in enumerate(found.origins) if origin is Origin.USER]
    assert [found.ids[at] for at in own] == [19556]
    assert len(found.ids) == 18


def test_a_part_of_a_character_is_not_told(backend: TopBackend) -> None:
    assert backend.token(7042).bytes == b" Paris"
    assert backend.token(7042).kind is TokenKind.NORMAL
    with pytest.raises(BackendError, match="50"):
        backend.widened((504,), 51)
