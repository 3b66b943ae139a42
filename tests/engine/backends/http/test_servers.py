"""Engines behind a URL, against servers that speak as the real ones do, over a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.backends.top_n.backend import TopBackend
from engine.commands import Restore
from engine.records.partial import TopLogprobs
from engine.records.prompt import Origin
from engine.records.vocabulary import TokenKind
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.partial import TailMissing
from tests.fake_servers import (
    BYTE,
    END,
    FAKES,
    Fake,
    FakeLlama,
    FakeOpenai,
    FakeVllm,
    logprobs_of,
    some_words,
)
from tests.hostile import MARKER, acting
from tests.http_server import Asked, Server, reply, serving

BY_IDS = ("llamacpp", "vllm")


@contextmanager
def attached(fake: Fake, **options: Any) -> Iterator[tuple[TopBackend, Server]]:
    """A backend attached to a server that answers as ``fake`` does."""
    name = next(one for one, kind in FAKES.items() if isinstance(fake, kind))
    with serving(fake) as server:
        backend = open_backend(name, {"url": server.url, **options})
        assert isinstance(backend, TopBackend)
        try:
            yield backend, server
        finally:
            backend.close()


def refusal(fake: Fake, **options: Any) -> str:
    """The line for a server that cannot be attached to."""
    with pytest.raises(BackendError) as raised, attached(fake, **options):
        pass
    assert len(str(raised.value).splitlines()) == 1
    assert acting(str(raised.value)) == ""
    return str(raised.value)


def probed(backend: TopBackend) -> dict[str, str]:
    return {one.name: one.value for one in backend.facts.probed}


# --- what is found out ----------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_IDS)
def test_a_server_that_can_all(name: str) -> None:
    with attached(FAKES[name]()) as (backend, _):
        facts, found = backend.facts, probed(backend)
        assert (facts.backend, facts.name) == (name, "words.gguf")
        assert (facts.vocab_size, facts.context_length, facts.top) == (300, 512, 100)
        assert facts.stop_ids.keys() == {END}
        assert facts.has_chat_template
        assert set(facts.versions.values()) == {"b1-fake" if name == "llamacpp" else "0.0-fake"}
        assert found["ids in and out"] == "yes"
        assert found["log-probabilities"] == "raw log-probabilities"
        assert found["candidates"] == "any number"
        assert found["metrics"] == "yes"
        assert facts.tells_all, "panes may ask for the whole vocabulary"


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs", "raw_logits"])
@pytest.mark.parametrize("name", FAKES)
def test_what_is_lacking_says_why(name: str, mode: str) -> None:
    mode = mode if name == "vllm" else "raw_logprobs"
    with attached(FAKES[name](metrics=False, mode=mode)) as (backend, _):
        lacking = [one for one in backend.facts.probed if not one.given]
        assert "metrics" in [one.name for one in lacking]
        assert all(one.note for one in lacking)


@pytest.mark.parametrize("name", BY_IDS)
def test_the_most_log_probabilities_are_found_by_trying(name: str) -> None:
    with attached(FAKES[name](most=23)) as (backend, _):
        assert backend.facts.top == 23
        assert backend.facts.vocab_size == 300
        assert probed(backend)["candidates"] == "23"
        assert not backend.facts.tells_all
        with pytest.raises(BackendError, match="at most 23"):
            backend.widened([1, 2], 24)


@pytest.mark.parametrize("name", FAKES)
def test_more_than_it_gives_cannot_be_asked_for(name: str) -> None:
    assert refusal(FAKES[name](most=5), top=6).startswith("--top 6: this server gives at most 5")


def test_figures_after_the_sampler_are_told_from_raw_ones() -> None:
    with attached(FakeVllm(mode="processed_logprobs")) as (backend, _):
        assert probed(backend)["log-probabilities"] == "after its sampler log-probabilities"


def test_logits_of_a_whole_vocabulary_are_made_log_probabilities() -> None:
    with attached(FakeVllm(mode="raw_logits")) as (backend, _):
        assert probed(backend)["log-probabilities"] == "raw logits"
        found = backend.forward((([], [1, 2, 3]),)).known
        assert isinstance(found, TopLogprobs)
        expected = logprobs_of(some_words().reference_logits([1, 2, 3]))
        np.testing.assert_allclose(found.logprobs, expected[found.ids], atol=1e-5)


def test_logits_of_some_tokens_are_no_distribution() -> None:
    line = refusal(FakeVllm(mode="raw_logits", most=20))
    assert "--logprobs-mode raw_logprobs" in line


@pytest.mark.parametrize("name", FAKES)
def test_no_log_probabilities(name: str) -> None:
    assert "log-probabilities" in refusal(FAKES[name](gives=False))


def test_a_model_that_is_not_there() -> None:
    assert "no model nobody; it has words.gguf" in refusal(FakeVllm(), model="nobody")
    assert "no model nobody; it has words.gguf" in refusal(FakeOpenai(), model="nobody")
    assert "has the model words.gguf, and not /x/other.gguf" in refusal(
        FakeLlama(), model="/x/other.gguf"
    )


def test_another_server_than_the_one_meant() -> None:
    assert "is no llama-server" in refusal(FakeLlama(override=lambda asked: reply({}, 404)))
    llama = FakeLlama()
    line = refusal(FakeVllm(override=llama.answer))
    assert line.endswith(
        "is no vLLM: --engine llamacpp attaches to a llama-server, openai to others"
    )


def test_without_an_address() -> None:
    for name in ("vllm", "openai"):
        with pytest.raises(BackendError, match="--url"):
            open_backend(name, {})


# --- distributions --------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_IDS)
def test_rows_are_the_models_own(name: str) -> None:
    with attached(FAKES[name](), top=20) as (backend, _):
        found = backend.forward((([], [1, 2, 3]),)).known
        assert isinstance(found, TopLogprobs)
        expected = logprobs_of(some_words().reference_logits([1, 2, 3]))
        assert found.ids.tolist() == np.lexsort((np.arange(300), -expected))[:20].tolist()
        np.testing.assert_allclose(found.logprobs, expected[found.ids], atol=1e-6)


@pytest.mark.parametrize("name", BY_IDS)
def test_all_positions_of_a_text(name: str) -> None:
    with attached(FAKES[name](), top=20) as (backend, _):
        found = backend.forward((([], [1, 2, 3]),), all_positions=True).known
        assert isinstance(found, TopLogprobs)
        for row, ids in enumerate(([1], [1, 2], [1, 2, 3])):
            expected = logprobs_of(some_words().reference_logits(ids))
            assert found.ids[row, 0] == int(expected.argmax())
            np.testing.assert_allclose(found.logprobs[row], expected[found.ids[row]], atol=1e-6)


@pytest.mark.parametrize("name", FAKES)
def test_several_texts_are_one_request(name: str) -> None:
    """Rows are one pass, each the one of its own text, whatever order the answer has."""
    with attached(FAKES[name](), top=5) as (backend, server):
        assert probed(backend)["batch of prompts"] == "yes"
        texts = [backend.tokenize(one, chat=False, system=None).ids for one in (" w1 w2", " w3")]
        texts = [*texts, texts[0][:1]]
        before = len(server.asked)
        found = backend.forward([(list(ids[:-1]), ids[-1:]) for ids in texts])
        assert len(server.asked) == before + 1
        assert found.passes == 1
        assert found.rows_note.startswith("one request for all rows")
        assert ("2 at a time" in found.rows_note) == (name == "llamacpp")
        for row, ids in zip(found.rows, ([1, 2], [3], [1]), strict=True):
            assert isinstance(row.values, TopLogprobs)
            expected = logprobs_of(some_words().reference_logits(ids))
            best = [backend.token(int(one)).bytes for one in row.values.ids]
            assert best[0] == f" w{int(expected.argmax())}".encode()
            np.testing.assert_allclose(row.values.logprobs, np.sort(expected)[::-1][:5], atol=1e-6)


@pytest.mark.parametrize("name", FAKES)
def test_a_request_a_row_where_a_server_takes_one_text(name: str) -> None:
    with attached(FAKES[name](batch=False), top=5) as (backend, _):
        assert probed(backend)["batch of prompts"] == ""
        found = backend.forward([([0], [1]), ([0], [2])])
        assert (found.passes, len(found.rows)) == (2, 2)
        assert found.rows_note.startswith("a request for each row, one after the other: http")


@pytest.mark.parametrize("name", FAKES)
def test_an_answer_to_another_number_of_texts_is_refused(name: str) -> None:
    fake = FAKES[name]()
    with attached(fake, top=5) as (backend, _):

        def one_text_less(asked: Asked) -> bytes | None:
            body = asked.body or {}
            if not isinstance(body.get("prompt"), list) or asked.path == "/tokenize":
                return None
            return fake.answer(replace(asked, body={**body, "prompt": body["prompt"][1:]}))

        fake.override = one_text_less
        with pytest.raises(BackendError, match="is not of 2 texts"):
            backend.forward([([0], [1]), ([0], [2])])


def test_the_whole_vocabulary_on_demand() -> None:
    with attached(FakeLlama()) as (backend, _):
        found = backend.widened([1, 2], 300).known
        assert isinstance(found, TopLogprobs)
        assert sorted(found.ids.tolist()) == list(range(300))


def test_a_run_draws_what_the_script_draws() -> None:
    """Greedy, a step back and a fork, through the stepper."""
    chain = effective("guide", {"temperature": 0.0})
    whole = Stepper(some_words(), chain)
    whole.submit_ids([1, 2, 3])
    expected = [whole.step().token.id for _ in range(6)]
    for name in BY_IDS:
        with attached(FAKES[name](), top=20) as (backend, _):
            stepper = Stepper(backend, chain)
            stepper.submit_ids([1, 2, 3])
            assert [stepper.step().token.id for _ in range(6)] == expected
            stepper.back()
            stepper.step(force=9)
            assert stepper.path()[-1].token.id == 9
            assert stepper.step().token.id not in (None, 9)


# --- tokens ---------------------------------------------------------------------------------


def test_llama_server_tells_the_exact_bytes() -> None:
    with attached(FakeLlama()) as (backend, _):
        assert (backend.token(BYTE).bytes, backend.token(BYTE).kind) == (b"\xe2", TokenKind.BYTE)
        assert backend.token(END).kind is TokenKind.SPECIAL
        vocabulary = backend.vocabulary()
        assert [vocabulary.token(one).bytes for one in (3, BYTE)] == [b" w3", b"\xe2"]


def test_vllm_tells_texts_and_a_note_says_so() -> None:
    with attached(FakeVllm()) as (backend, _):
        assert backend.token(3).bytes == b" w3"
        assert backend.token(BYTE).bytes == "\ufffd".encode()
        assert any("--tokenizer" in note for note in backend.facts.notes)
        with pytest.raises(BackendError, match="--tokenizer"):
            backend.vocabulary()


def test_vllm_names_the_candidates_of_a_step_in_one_request() -> None:
    """Each has the text that it has by itself, the part of a character too."""
    with attached(FakeVllm(), top=100) as (backend, server):
        stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
        stepper.submit_ids([1, 2])
        before = len(server.asked)
        step = stepper.step()
        asked = [one for one in server.asked[before:] if one.path == "/detokenize"]
        assert len(asked) == 1
        assert len(asked[0].body["tokens"]) > 100
        for token in step.top.tokens:
            expected = some_words().token(token.id).bytes if token.id != BYTE else "\ufffd".encode()
            assert token.bytes == expected


def test_vllm_names_a_token_by_itself_where_texts_run_together() -> None:
    """A server that leaves out special tokens gives nothing that would keep them apart."""
    fake = FakeVllm()

    def without_ends(asked: Asked) -> bytes | None:
        if asked.path != "/detokenize":
            return None
        kept = [one for one in asked.body["tokens"] if one != END]
        return fake.answer(replace(asked, body={"tokens": kept}))

    fake.override = without_ends
    with attached(fake, top=100) as (backend, _):
        stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
        stepper.submit_ids([1, 2])
        for token in stepper.step().top.tokens:
            assert token.id in (BYTE, END) or token.bytes == some_words().token(token.id).bytes


@pytest.mark.parametrize("name", BY_IDS)
def test_a_chat_prompt_is_in_the_servers_template(name: str) -> None:
    with attached(FAKES[name]()) as (backend, _):
        found = backend.tokenize(" w5 w6", chat=True, system=None)
        assert found.ids == (1, 5, 6, 2)
        assert found.origins == (Origin.TEMPLATE, Origin.USER, Origin.USER, Origin.TEMPLATE)
        assert backend.tokenize(" w5", chat=False, system=None).ids == (5,)


def test_a_server_of_texts() -> None:
    with attached(FakeOpenai(), top=5) as (backend, server):
        prompt = backend.tokenize(" w5 w6", chat=False, system=None)
        assert [backend.token(one).bytes for one in prompt.ids] == [b" w5", b" w6"]
        found = backend.forward((([], prompt.ids),)).known
        assert isinstance(found, TopLogprobs)
        expected = logprobs_of(some_words().reference_logits([5, 6]))
        best = [f" w{one}".encode() for one in np.argsort(-expected)[:5].tolist()]
        assert [backend.token(int(one)).bytes for one in found.ids] == best
        assert server.asked[-1].body["prompt"] == " w5 w6"


@pytest.mark.parametrize("name", FAKES)
def test_a_draw_among_tokens_that_are_not_told_says_what_to_do(name: str) -> None:
    """Nothing is made up; the line has the mass, the most that the server tells, and a way."""
    with attached(FAKES[name](most=5)) as (backend, _):
        stepper = Stepper(backend, effective("guide", {"temperature": 2.0}), seed=3)
        stepper.submit_ids([1, 2])
        with pytest.raises(TailMissing, match=r"% of the mass .*top_k.*at most 5 tokens"):
            list(stepper.run())
        narrow = effective("guide", {"temperature": 2.0, "top_k": 4})
        assert stepper.step(settings=narrow).draw.token_id >= 0


def test_a_server_of_texts_goes_on_in_a_new_process() -> None:
    """The numbers of its tokens are ours, and the records of the run have them."""
    with attached(FakeOpenai(), top=5) as (backend, _):
        stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
        prompt = stepper.submit(" w5 w6")
        for _ in range(3):
            stepper.step()
        expected = [*stepper.path(), stepper.step()]
    restore = Restore(prompt, None, {one.node: one for one in expected[:3]})
    with attached(FakeOpenai(), top=5) as (backend, server):
        backend.learn(restore.tokens)
        again = Stepper(backend, stepper.settings)
        again.restore(prompt, None, restore.records, cursor=expected[2].node)
        assert again.step().token == expected[3].token
        told = b" w5 w6" + b"".join(one.token.bytes for one in expected[:3])
        assert server.asked[-1].body["prompt"] == told.decode()


# --- a server that goes wrong in the middle of a run ------------------------------------------


def _row(value: object) -> Callable[[Asked], bytes]:
    content = [{"top_logprobs": [value]}]
    return lambda asked: reply({"choices": [{"logprobs": {"content": content}}]})


WRONG: dict[str, Callable[[Asked], bytes]] = {
    "no choices": lambda asked: reply({"choices": []}),
    "no object": lambda asked: reply([1]),
    "no log-probabilities": lambda asked: reply({"choices": [{"logprobs": None}]}),
    "an id that is none": _row({"id": 300, "logprob": -0.1, "bytes": []}),
    "a text for an id": _row({"id": MARKER, "logprob": -0.1, "bytes": []}),
    "no number": _row({"id": 1, "logprob": MARKER, "bytes": []}),
    "more than 1": _row({"id": 1, "logprob": 5.0, "bytes": []}),
    "no bytes": _row({"id": 1, "logprob": -0.5, "bytes": [900]}),
    "not a list": lambda asked: reply({"choices": MARKER}),
    "a deep one": lambda asked: reply("[" * 9000 + "]" * 9000),
    "nothing": lambda asked: reply(b""),
    "a context that is full": lambda asked: reply({"error": {"message": "8 > 4 tokens"}}, 400),
    "a crash": lambda asked: reply("Internal Server Error", 500),
    "a key that ran out": lambda asked: reply({"error": MARKER}, 401),
    "too often": lambda asked: reply({}, 429, Retry_After="3"),
    "elsewhere": lambda asked: reply("", 302, Location="http://127.0.0.1:1/"),
}


def test_one_clear_line_and_nothing_lost() -> None:
    fake = FakeLlama()
    with attached(fake, top=20) as (backend, _):
        stepper = Stepper(backend)
        stepper.submit_ids([1, 2])
        stepper.step()
        for wrong, answer in WRONG.items():
            fake.override, before = answer, stepper.path()
            with pytest.raises(BackendError) as raised:
                stepper.step()
            assert len(str(raised.value).splitlines()) == 1, wrong
            assert acting(str(raised.value)) == "", wrong
            assert stepper.path() == before, wrong
            fake.override = lambda asked: None
            assert stepper.step().position == len(before) + 2, wrong


@pytest.mark.parametrize("name", BY_IDS)
def test_a_server_started_anew_with_the_same_model_goes_on(name: str) -> None:
    fake = FAKES[name]()
    with attached(fake, top=20) as (backend, server):
        stepper = Stepper(backend)
        stepper.submit_ids([1, 2])
        server.closes = True
        for _ in range(3):
            stepper.step()
        assert len(stepper.path()) == 3


@pytest.mark.parametrize("name", BY_IDS)
def test_a_server_started_anew_with_another_model_is_noticed(name: str) -> None:
    fake = FAKES[name]()
    with attached(fake, top=20) as (backend, server):
        stepper = Stepper(backend)
        stepper.submit_ids([1, 2])
        stepper.step()
        server.closes, fake.model = True, "other.gguf"
        stepper.extend(0)
        with pytest.raises(BackendError, match=r"started anew with another model: other.gguf"):
            stepper.extend(1)


@pytest.mark.parametrize("name", BY_IDS)
def test_another_model_is_noticed_where_it_refuses_the_text(name: str) -> None:
    """It has other tokens, or less room: that the text is refused is not the news."""
    fake = FAKES[name]()
    with attached(fake, top=20) as (backend, server):
        stepper = Stepper(backend)
        stepper.submit_ids([1, 2])
        server.closes = True
        stepper.step()
        stepper.step()
        fake.model, fake.context = "other.gguf", 2
        with pytest.raises(BackendError, match=r"started anew with another model: other.gguf"):
            stepper.step()


@pytest.mark.parametrize("name", FAKES)
def test_hostile_words_of_a_server_are_harmless(name: str) -> None:
    with attached(FAKES[name](model=MARKER), top=5) as (backend, _):
        Stepper(backend).submit_ids([1])
    line = refusal(FAKES[name](model=MARKER), model="x")
    assert "evil" in line
