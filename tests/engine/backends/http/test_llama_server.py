"""The HTTP client against a real llama-server: a process of its own that holds the package's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.backends.top_n.backend import TopBackend
from engine.measure.own_sampler import check_sampler
from engine.records.partial import TopLogprobs
from engine.records.prompt import Origin
from engine.run.step_many import ColumnStep, going_on, step_many
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from tests import tiny_gguf
from tests.tiny_models import EOS, VOCAB

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 256, 2, 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
"""It ends with its standard input, and so with whoever started it."""
TEMPLATE = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
PROMPT = "hello world"


class Process:
    """A llama-server that can be ended and started anew."""

    def __init__(self, path: Path) -> None:
        self._command = [sys.executable, "-c", SERVER, str(path)]
        self.url = ""
        self.start()

    def start(self) -> None:
        """Start it; ``url`` is where it listens."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def end(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp")
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", template=TEMPLATE)


@pytest.fixture(scope="module")
def process(path: Path) -> Iterator[Process]:
    made = Process(path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def backend(process: Process) -> Iterator[TopBackend]:
    opened = open_backend("llamacpp", {"url": process.url, "top": 20})
    assert isinstance(opened, TopBackend)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def hosted(path: Path) -> Iterator[TopBackend]:
    """The same file in llama.cpp in this process."""
    opened = open_backend("llamacpp", {"model": str(path), "top": 20, "threads": 1})
    assert isinstance(opened, TopBackend)
    yield opened
    opened.close()


def test_what_it_is_and_can(backend: TopBackend) -> None:
    facts = backend.facts
    assert (facts.name, facts.vocab_size, facts.context_length) == ("tiny.gguf", VOCAB, 256)
    assert facts.stop_ids.keys() == {EOS}
    assert "llama.cpp" in facts.versions
    told = {one.name: one.value for one in facts.probed}
    assert told["log-probabilities"] == "raw log-probabilities"
    assert told["candidates"] == "any number"
    assert told["cached tokens"] == "yes"
    assert told["slots"] == "2"
    assert told["metrics"] == ""


def test_it_gives_what_llamacpp_gives_in_process(backend: TopBackend, hosted: TopBackend) -> None:
    ids = backend.tokenize(PROMPT, chat=False, system=None).ids
    assert ids == hosted.tokenize(PROMPT, chat=False, system=None).ids
    one, other = (each.forward((([], ids),)).known for each in (backend, hosted))
    assert isinstance(one, TopLogprobs)
    assert isinstance(other, TopLogprobs)
    assert one.ids.tolist() == other.ids.tolist()
    np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
    for token_id in range(VOCAB):
        assert backend.token(token_id).bytes == hosted.token(token_id).bytes or token_id < 3


@pytest.mark.parametrize("kind", ["over http", "in this process"])
def test_columns_are_one_request(kind: str, backend: TopBackend, hosted: TopBackend) -> None:
    """Three branches on two slots: each has its own distribution, and its own engine's figures."""
    engine = backend if kind == "over http" else hosted
    stepper = Stepper(engine, effective("guide", {"temperature": 0.0}))
    stepper.submit(PROMPT)
    forks = [stepper.extend(0, force=force).node for force in (5, 6, 7)]
    columns = [ColumnStep(at, node) for at, node in enumerate(forks)]
    found = step_many(stepper, columns)
    assert (found.record.rows, found.record.passes) == (3, 1)
    assert found.record.note.startswith("one request for all rows")
    assert "2 at a time" in found.record.note
    prompt = stepper.prompt
    assert prompt is not None
    for step, force in zip(found.steps, (5, 6, 7), strict=True):
        alone = engine.forward((([], (*prompt.ids, force)),)).known
        assert isinstance(alone, TopLogprobs)
        assert step.token.id == alone.ids[0]
        # K and V are float16, and a pass over several rows rounds differently.
        assert step.raw_logprob == pytest.approx(float(alone.logprobs[0]), abs=2e-3)
        times = step.timing.engine
        assert times is not None
        assert times.cached is not None
        assert times.evaluated is not None
        assert (
            times.cached + times.evaluated == len(prompt.ids) + 1 == step.kv.computed + times.cached
        )
    again = step_many(stepper, going_on(stepper, columns, found.record)[:2])
    assert (again.record.rows, again.record.passes) == (2, 1)
    assert "at a time" not in again.record.note


def test_its_own_figures_say_what_was_cached(backend: TopBackend) -> None:
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
    stepper.submit("the cat sat on the mat")
    stepper.step()
    engine = stepper.step().timing.engine
    assert engine is not None
    assert (engine.cached, engine.evaluated) == (22, 1)
    assert engine.prompt_ms is not None
    assert engine.prompt_ms > 0


def test_a_chat_prompt_is_in_its_template(backend: TopBackend) -> None:
    found = backend.tokenize("hi", chat=True, system=None)
    text = b"".join(backend.token(one).bytes for one in found.ids)
    assert text == b"[user:hi]"
    own = [at for at, origin in enumerate(found.origins) if origin is Origin.USER]
    assert own == [6, 7]


def test_its_own_sampler_is_checked(backend: TopBackend) -> None:
    stepper = Stepper(backend)
    stepper.submit(PROMPT)
    assert check_sampler(stepper, stepper.step().node, {"top_k": 7, "temperature": 0.5}).same


def test_a_prompt_that_is_longer_than_its_context(backend: TopBackend) -> None:
    stepper = Stepper(backend)
    with pytest.raises(Exception, match="context holds 256"):
        stepper.submit("a" * 300)


def test_a_server_that_ends_and_is_started_anew(path: Path) -> None:
    """One line while it is down; then a new attachment goes on with the recorded tree."""
    process = Process(path)
    try:
        opened = open_backend("llamacpp", {"url": process.url, "top": 20})
        stepper = Stepper(opened, effective("guide", {"temperature": 0.0}))
        prompt = stepper.submit(PROMPT)
        stepper.step()
        process.end()
        with pytest.raises(BackendError, match=r"cannot be reached|ended in the middle"):
            stepper.step()
        process.start()
        again = Stepper(open_backend("llamacpp", {"url": process.url, "top": 20}), stepper.settings)
        again.restore(prompt, stepper.prefill_record, stepper.nodes, cursor=stepper.cursor)
        assert again.step().position == stepper.path()[-1].position + 1
    finally:
        process.end()
