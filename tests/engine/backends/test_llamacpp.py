"""llama.cpp in this process, on a small file: what it loads, draws, refuses and leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends import BACKENDS, Engine, open_backend
from engine.backends.base import BackendError
from engine.backends.llamacpp import load
from engine.backends.llamacpp.answers import continued_of, times_of
from engine.backends.top_n.backend import TopBackend
from engine.models.checks import ModelError
from engine.models.gguf_model import read_model
from engine.records.arrays import FloatArray
from engine.records.engine import EngineTimes
from engine.records.partial import TopLogprobs
from engine.records.prompt import Origin
from engine.records.vocabulary import TokenKind
from engine.run.stepper import Stepper
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import PRESETS, Chain, build, effective, parse_spec
from engine.sampling.partial import Partial, SignMissing, TailMissing
from engine.sampling.stages import StageContext
from tests import tiny_gguf
from tests.folders import ROOT
from tests.tiny_models import BOS, CHAT_TEMPLATE, EOS, KNOWN, VOCAB

TOP = 20
TEXTS = ("the cat", "abc abc", "1 + 1 = ", "zzzzzz", "a [b] (c)!")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", template=CHAT_TEMPLATE)


def opened(path: Path, **more: Any) -> TopBackend:
    wanted = {"model": str(path), "threads": 1, "top": TOP, "context": 256, **more}
    found = open_backend("llamacpp", wanted)
    assert isinstance(found, TopBackend)
    return found


@pytest.fixture(scope="module")
def backend(path: Path) -> Iterator[TopBackend]:
    made = opened(path)
    yield made
    made.close()


def stepper(backend: TopBackend, spec: str, *, seed: int = 0, text: str = "the cat") -> Stepper:
    made = Stepper(backend, effective("guide", {}, spec=spec), seed=seed, max_tokens=40)
    made.submit(text)
    return made


# --- the file ---------------------------------------------------------------------------------


def test_facts_are_the_file_s_own(backend: TopBackend) -> None:
    facts = backend.facts
    assert (facts.name, facts.architecture, facts.backend) == ("tiny", "llama", "llamacpp")
    assert (facts.vocab_size, facts.tokenizer_size, facts.top) == (VOCAB, KNOWN, TOP)
    assert (facts.layers, facts.query_heads, facts.kv_heads, facts.head_dim) == (2, 4, 2, 8)
    assert facts.weight_bytes == 4 * facts.parameters
    # K and V of two layers, two heads of 8 in float16.
    assert facts.kv_bytes_per_token_expected == 2 * 2 * 2 * 8 * 2
    assert facts.stop_ids == {EOS: "GGUF file: eos"}
    assert facts.context_length == 256
    assert facts.identity.startswith("gguf-sha256:")
    assert facts.has_chat_template
    assert {one.name for one in facts.probed if not one.given} >= {"logits", "layers"}
    assert all(one.note for one in facts.probed if not one.given)


def test_tokens_are_the_file_s_bytes_and_kinds(path: Path) -> None:
    model = read_model(path)
    assert model.token(BOS).kind is TokenKind.SPECIAL
    assert model.token(BOS).bytes == b"<bos>"
    assert [model.token(3 + at).bytes for at in range(3)] == [b"a", b"b", b"c"]
    assert model.token(KNOWN - 1).bytes == b"\n"
    assert model.token(VOCAB - 1).kind is TokenKind.UNUSED
    assert (model.quantisation, model.chat_template) == ("float32", CHAT_TEMPLATE)


def test_the_chat_template_is_rendered_here_and_the_user_s_words_are_the_user_s(
    backend: TopBackend,
) -> None:
    encoded = backend.tokenize("hi", chat=True, system=None)
    text = b"".join(backend.token(one).bytes for one in encoded.ids)
    assert text == b"[user:hi][assistant:"
    pairs = zip(encoded.ids, encoded.origins, strict=True)
    own = b"".join(backend.token(one).bytes for one, who in pairs if who is Origin.USER)
    assert own == b"hi"


def test_special_tokens_in_the_text_are_named(backend: TopBackend) -> None:
    encoded = backend.tokenize("a<eos>", chat=False, system=None)
    assert encoded.ids[-1] == EOS
    assert any("special tokens" in note for note in encoded.notes)


# --- what is drawn ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_greedy_gives_the_ids_that_llama_cpp_gives_itself(backend: TopBackend, text: str) -> None:
    made = stepper(backend, "temperature=0 >", text=text)
    ours = [step.token.id for step in made.run()]
    assert made.prompt is not None
    found = backend._completer.continued(made.prompt.ids, 1, 40, slot=0)  # type: ignore[attr-defined]
    theirs = list(found.taken)
    # It does not say the token that ends the text.
    assert ours[: len(theirs)] == theirs
    assert len(ours) - len(theirs) in (0, 1)


def whole_row(backend: TopBackend, text: str) -> tuple[TopLogprobs, FloatArray]:
    """The 20 likeliest behind a text, and the log-probabilities of all."""
    ids = backend.tokenize(text, chat=False, system=None).ids
    backend.seek(())
    known = backend.forward(((backend.sequence, ids),)).known
    every = backend.widened(ids, VOCAB).known
    assert isinstance(known, TopLogprobs)
    assert isinstance(every, TopLogprobs)
    return known, every.scattered()


def test_log_probabilities_are_the_engine_s_as_printed(backend: TopBackend) -> None:
    for text in TEXTS:
        known, every = whole_row(backend, text)
        # A row of one position and one of several differ in the last bits of float32.
        np.testing.assert_allclose(known.logprobs, every[known.ids], atol=1e-5)
        assert np.exp(every.astype(np.float64)).sum() == pytest.approx(1.0, abs=1e-5)
        np.testing.assert_allclose(np.sort(every)[::-1][:TOP], known.logprobs, atol=1e-5)


STAGES = (
    *("temperature=0", "temperature=0.4", "temperature=1.6", "top_k=3", "top_k=12", "top_k=30"),
    *("top_p=0.3", "top_p=0.95", "min_p=0.02", "min_p=0.3", "typical_p=0.6", "top_n_sigma=1"),
    *("epsilon_cutoff=0.01", "eta_cutoff=0.01", "xtc_probability=1 xtc_threshold=0.05"),
    *("frequency_penalty=0.8", "presence_penalty=-1", "logit_bias='3:2, 40:-3'"),
    *("repetition_penalty=1.4", "dry_multiplier=1 dry_allowed_length=1", "no_repeat_ngram_size=2"),
)


def test_survivors_are_those_of_the_whole_vocabulary_wherever_they_are_called_exact(
    backend: TopBackend,
) -> None:
    """1,200 random chains over what llama.cpp tells: no claim that is wrong, many that are made."""
    rng, claimed = np.random.default_rng(0), 0
    rows = [whole_row(backend, text) for text in TEXTS]
    presets = sorted(PRESETS)
    for number in range(1200):
        known, every = rows[number % len(rows)]
        parts = rng.choice(STAGES, rng.integers(1, 5), replace=False)
        preset = presets[number % len(presets)]
        stages = [stage for part in parts for stage in chain(f"{part} >", preset).stages]
        one = Chain(tuple(stages), preset)
        context = StageContext((3, 5), (7, 3, 9, 3), frozenset({EOS}), seed=number)
        claimed += agrees(one, known, every, context)
    assert claimed > 400


def chain(spec: str, preset: str) -> Chain:
    return build(*parse_spec(spec, preset), preset)


def agrees(one: Chain, known: TopLogprobs, every: FloatArray, context: StageContext) -> bool:
    """Whether exactness is claimed; then asserts it, of the survivors and of the draw."""
    try:
        ours = one.run(known, context)
    except SamplingError:
        with pytest.raises(SamplingError):
            one.run(every, context)
        return False
    truth = one.run(every, context)
    try:
        drawn = one.choose(ours, context)
    except (SignMissing, TailMissing):
        return False
    assert drawn.token_id == one.choose(truth, context).token_id
    if isinstance(ours.final, Partial):
        return False
    assert ours.final.ids.tolist() == truth.final.ids.tolist()
    np.testing.assert_allclose(ours.final.probs, truth.final.probs, rtol=1e-4, atol=1e-7)
    return True


def test_a_draw_among_the_unknown_asks_for_them(backend: TopBackend) -> None:
    """Nearly flat: most draws fall behind the 20 likeliest of 64."""
    made = stepper(backend, "temperature=8 >")
    steps = [made.step() for _ in range(6)]
    assert any(step.rank > TOP for step in steps)
    assert all(isinstance(step.rank, int) for step in steps)


def test_a_repetition_penalty_is_refused_with_the_reason(backend: TopBackend) -> None:
    made = stepper(backend, "repetition_penalty=1.3 > temperature=0")
    with pytest.raises(SignMissing, match="log-probabilities"):
        made.step()


# --- the cache --------------------------------------------------------------------------------


def test_a_step_computes_one_position_and_a_step_back_none(backend: TopBackend) -> None:
    made = stepper(backend, "top_k=5 > temperature=1")
    steps = [made.step() for _ in range(5)]
    timing = steps[-1].timing.engine
    assert timing is not None
    assert (timing.cached, timing.evaluated) == (len(made.path_ids(4)) - 1, 1)
    made.back()
    made.back()
    again = made.extend(made.cursor, seed=5)
    # The distribution there is known already; behind it one position is computed.
    assert again.timing.reused
    following = made.extend(again.node).timing.engine
    assert following is not None
    assert following.evaluated == 1


def test_a_fork_at_the_prompt_keeps_the_long_branch_in_its_slot(path: Path) -> None:
    backend = opened(path)
    try:
        made = stepper(backend, "top_k=5 > temperature=1")
        long = [made.step() for _ in range(30)][-1]
        first = made.extend(0, force=9)
        made.extend(first.node)
        back = made.extend(long.node)
        assert back.timing.engine is not None
        assert back.timing.engine.evaluated == 1
    finally:
        backend.close()


def test_the_context_is_refused_before_it_is_full(path: Path) -> None:
    made = opened(path, context=32, slots=1)
    try:
        with pytest.raises(BackendError, match="context holds 32 tokens"):
            made.forward(((made.sequence, [5] * 33),))
        made.forward(((made.sequence, [5] * 31),))
    finally:
        made.close()


# --- room -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def roomy_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "roomy.gguf", context=2048)


@pytest.mark.parametrize("spec", ["temperature=0 >", "top_k=5 > temperature=1"])
def test_a_text_that_outgrows_the_room_goes_on_in_more_of_it(roomy_path: Path, spec: str) -> None:
    """256 positions at first: the step that needs one more reads all again, and says so."""
    with (
        closing(opened(roomy_path, context=None, max_tokens=20)) as growing,
        closing(opened(roomy_path, context=1024)) as wide,
    ):
        assert growing.facts.context_length == 2048
        assert any("room for 256 tokens at first" in note for note in growing.facts.notes)
        text = "the cat " * 29
        ours, truth = (stepper(one, spec, text=text) for one in (growing, wide))
        steps, expected = ([one.step() for _ in range(40)] for one in (ours, truth))
        assert [step.token.id for step in steps] == [step.token.id for step in expected]
        again = [step for step in steps if step.timing.warmup]
        assert [step.kv.computed for step in again] == [again[0].position]
        # The first one's is the prompt's.
        assert {step.kv.computed for step in steps[1:] if step not in again} == {1}
        # Time travel and forks on both sides of the place where it grew.
        fork = ours.extend(steps[4].node, force=9)
        other = truth.extend(expected[4].node, force=9)
        assert ours.extend(fork.node).token == truth.extend(other.node).token
        back, there = ours.extend(steps[-1].node), truth.extend(expected[-1].node)
        assert back.token == there.token
        assert back.kv.computed == there.kv.computed


def test_a_prompt_that_is_longer_than_the_room_is_read_once(roomy_path: Path) -> None:
    with closing(opened(roomy_path, context=None, max_tokens=20)) as backend:
        made = stepper(backend, "temperature=0 >", text="the cat " * 90)
        *_, read = made.prefill()
        times = [chunk.engine for chunk in read.chunks]
        assert len(times) == 3
        assert sum(one.evaluated or 0 for one in times if one is not None) == 720
        assert [chunk.warmup for chunk in read.chunks] == [True, False, False]


def test_texts_of_one_request_have_room_side_by_side(roomy_path: Path) -> None:
    """Two of 200 tokens in a cache of 256: opened again with more, both are read whole."""
    with closing(opened(roomy_path, context=None, max_tokens=20)) as backend:
        texts = [[5 + at % 7 for at in range(200)], [6 + at % 5 for at in range(200)]]
        found = backend.forward([([], text) for text in texts])
        assert found.warmup
        for text, row in zip(texts, found.rows, strict=True):
            alone = backend.widened(text, TOP).known
            assert isinstance(alone, TopLogprobs)
            assert isinstance(row.values, TopLogprobs)
            assert row.values.ids[0] == alone.ids[0]
            # K and V are float16, and a pass over one position rounds differently.
            np.testing.assert_allclose(row.values.logprobs, alone.logprobs, atol=0.01)
        again = backend.forward([(text, [9]) for text in texts])
        assert not again.warmup


def test_where_there_is_no_memory_for_more_room_the_run_stays_as_it_was(
    roomy_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(roomy_path, context=None, max_tokens=4)) as backend:
        made = stepper(backend, "temperature=0 >", text="the cat " * 31)
        made.step()
        with monkeypatch.context() as patched:
            patched.setattr(load, "available_memory", lambda: 1)
            with pytest.raises(BackendError, match=r"not enough memory for roomy.*context of 512"):
                list(made.run())
        held = len(made.nodes)
        assert 0 < held <= 9
        assert len(list(made.run())) == 40 - held


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "there/is/none.gguf"}, "there is no file"),
        ({"context": 4096}, "--context 4,096: this model was made for 256 tokens"),
        ({"cache_type": "q9"}, "unknown type of K and V 'q9'"),
        ({"colour": 1}, "unknown option 'colour'"),
        ({"timeout": 3}, "need --url"),
        ({"url": "http://127.0.0.1:1"}, "--context: the server at --url"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(
    path: Path, options: Mapping[str, Any], said: str
) -> None:
    with pytest.raises((BackendError, ModelError), match=said):
        open_backend("llamacpp", {"model": str(path), "context": 64, **options})


def test_a_folder_is_refused_with_the_file_in_it(path: Path) -> None:
    with pytest.raises(ModelError, match=f"give the file .*{path.name}"):
        open_backend("llamacpp", {"model": str(path.parent)})


def test_a_file_that_llama_cpp_cannot_load_is_one_line(path: Path, tmp_path: Path) -> None:
    """Its header is whole; a tensor that every Llama has is not there."""
    data = path.read_bytes().replace(b"blk.1.ffn_up", b"blk.1.xxx_up")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data)
    with pytest.raises(ModelError, match=r"llama\.cpp cannot load broken: .*ffn_up"):
        opened(broken)


def test_without_the_package_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        BACKENDS, "llamacpp", Engine("none", "", package="no_such_package", extra="llamacpp")
    )
    expected = r"needs the package no_such_package: pip install \"llm-inspect-tui\[llamacpp\]\""
    with pytest.raises(BackendError, match=expected):
        open_backend("llamacpp", {})


@pytest.mark.parametrize(
    "found",
    [
        *(None, [], "text", {}, {"choices": []}, {"choices": [{"logprobs": None}]}),
        {"choices": [{"logprobs": {"content": [{"id": 1, "top_logprobs": [{"id": 1}]}]}}]},
        {"choices": [{"logprobs": {"content": [{"id": "x", "top_logprobs": []}]}}]},
    ],
)
def test_an_answer_that_is_none_is_refused(found: Any) -> None:
    with pytest.raises(BackendError):
        continued_of(found, 5, 64)


def test_an_error_of_the_engine_is_shown_safely() -> None:
    error = {"error": {"message": "too \x1b[31m long\n" + "x" * 900}}
    with pytest.raises(BackendError) as refusal:
        continued_of(error, 5, 64)
    assert "\x1b" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_figures_that_are_none_are_not_known() -> None:
    assert times_of({"cache_n": -1, "prompt_n": "3", "prompt_ms": None}) == EngineTimes()
    assert times_of(None) == EngineTimes()
    assert times_of({"cache_n": 3, "prompt_n": 1, "prompt_ms": 2, "predicted_ms": 0.5}) == (
        EngineTimes(3, 1, 2.0, 0.5)
    )


# --- no door is open, and nothing stays behind ------------------------------------------------

_OPENS = """
import sys
from engine.backends import open_backend
backend = open_backend("llamacpp", {"model": sys.argv[1], "threads": 1, "context": 64})
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the socket stays until the end")
def test_nobody_can_connect_and_a_killed_engine_leaves_nothing(path: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _OPENS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        assert list(tmp_path.iterdir()) == []
        listening = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
        ours = sockets_of(process.pid)
        assert not [line for line in listening if line.split()[9] in ours]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(tmp_path.iterdir()) == []


def sockets_of(pid: int) -> set[str]:
    """Inodes of the sockets that a process has open."""
    found = set()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(one)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def test_a_key_is_asked_for(backend: TopBackend) -> None:
    hosted = backend._completer._hosted  # type: ignore[attr-defined]
    key, hosted._key = hosted._key, "another"
    try:
        with pytest.raises(BackendError, match="failed with 401"):
            hosted.tokenize("a", special=False)
    finally:
        hosted._key = key
    assert hosted.tokenize("a", special=False) == [3]


def test_closing_ends_the_server(path: Path) -> None:
    made = opened(path)
    before = len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 0
    made.close()
    time.sleep(0.05)
    if sys.platform == "linux":
        assert len(list(Path("/proc/self/task").iterdir())) < before
