"""llama.cpp on the default model's own file: vocabulary, tokenizer, ids and counts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from engine.backends import open_backend
from engine.backends.llamacpp.answers import request
from engine.backends.top_n.backend import TopBackend
from engine.records.partial import TopLogprobs
from engine.records.vocabulary import TokenKind
from engine.run.stepper import Stepper
from engine.sampling.chain import effective

pytestmark = pytest.mark.model

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def backend() -> Iterator[TopBackend]:
    made = open_backend("llamacpp", {"context": 256, "threads": 1})
    assert isinstance(made, TopBackend)
    yield made
    made.close()


def test_ids_of_a_text_are_those_that_transformers_gives(backend: TopBackend) -> None:
    text = "def f(x):\n    return 2 * x  # naïve ☃"
    # As transformers' tokenizer of the same model has them.
    assert backend.tokenize(PROMPT, chat=False, system=None).ids == (504, 3575, 282, 4649, 314)
    encoded = backend.tokenize(text, chat=False, system=None)
    assert b"".join(backend.token(one).bytes for one in encoded.ids) == text.encode()


def test_bytes_of_every_token_are_those_that_llama_cpp_writes(backend: TopBackend) -> None:
    """It writes control tokens as nothing."""
    asked = request([504], backend.facts.vocab_size, slot=0, reuse=False)
    found = json.loads(backend._completer._hosted.complete(asked))  # type: ignore[attr-defined]
    listed = found["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert len(listed) == backend.facts.vocab_size == 49_152
    vocabulary = backend.vocabulary()
    for one in listed:
        token = vocabulary.token(one["id"])
        special = token.kind is TokenKind.SPECIAL
        assert (b"" if special else token.bytes) == bytes(one["bytes"])


def test_the_whole_vocabulary_s_sum_is_within_the_slack_that_is_allowed_for(
    backend: TopBackend,
) -> None:
    """llama.cpp adds 49,152 weights up in float32: more than rounding, less than 2^-24 each."""
    ids = backend.tokenize(PROMPT, chat=False, system=None).ids
    backend.seek(())
    backend.forward(((backend.sequence, ids),))
    whole = backend.widened(ids, 49_152).known
    assert isinstance(whole, TopLogprobs)
    over = abs(float(np.exp(whole.logprobs.astype(np.float64)).sum()) - 1.0)
    assert over < 49_152 * 2.0**-24


def test_greedy_is_llama_cpp_s_own_and_paris(backend: TopBackend) -> None:
    made = Stepper(backend, effective("llamacpp", {"temperature": 0.0}), max_tokens=12)
    made.submit(PROMPT)
    ours = [step.token.id for step in made.run()]
    assert made.prompt is not None
    found = backend._completer.continued(made.prompt.ids, 1, 12, slot=0)  # type: ignore[attr-defined]
    assert ours == list(found.taken)
    assert made.text.startswith(" Paris.")
