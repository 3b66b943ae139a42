"""What every backend must do, whatever runs behind it.

A new backend adds one line to ``OPENERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.backends.base import Backend, BackendError, kv_state
from engine.backends.hf.pool import KVOptions
from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.records.vocabulary import KINDS, TokenKind
from tests import tiny_models
from tests.tiny_models import CHARACTERS, KNOWN, SPECIALS, VOCAB


def scripted() -> ScriptedBackend:
    """Logits that depend on every id and its place, over the tiny models' vocabulary."""

    def logits_of(ids: Sequence[int]) -> FloatArray:
        state = 7
        for token_id in ids:
            state = (state * 31 + token_id + 1) % 1_000_003
        return np.sin(np.arange(VOCAB, dtype=np.float32) * (state % 97 + 1))

    return ScriptedBackend(logits_of, [*SPECIALS, *CHARACTERS], vocab_size=VOCAB)


OPENERS: dict[str, Callable[[], Backend]] = {
    "scripted": scripted,
    "llama": lambda: tiny_models.backend("llama"),
    "gpt2": lambda: tiny_models.backend("gpt2"),
    "qwen3": lambda: tiny_models.backend("qwen3"),
    "gemma3": lambda: tiny_models.backend("gemma3"),
    "mistral": lambda: tiny_models.backend("mistral"),
    "mamba": lambda: tiny_models.backend("mamba"),
    "deepseek": lambda: tiny_models.backend("deepseek"),
    "llama without a cache": lambda: tiny_models.backend("llama", kv=KVOptions(cached=False)),
}

PROMPT = [5, 9, 30, 12, 7, 44, 3, 21, 8]
"""More positions than the tiny models' sliding windows hold."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that wait for each other over a few numbers only get in each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=OPENERS)
def opened(request: pytest.FixtureRequest) -> Backend:
    return OPENERS[request.param]()


@pytest.fixture
def backend(opened: Backend) -> Backend:
    opened.rollback(opened.length)
    return opened


def fresh(backend: Backend, ids: Sequence[int]) -> FloatArray:
    """Logits after ``ids``, read in one pass from nothing."""
    backend.rollback(backend.length)
    return backend.prefill(ids).logits


def assert_alike(found: FloatArray, expected: FloatArray) -> None:
    # Other shapes of the same sums differ in the last bits of float32; a wrong cache differs more.
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.std()))


def rewind(backend: Backend, count: int) -> bool:
    """Take ``count`` positions back; False where the backend may, and does, refuse."""
    length, refusal = backend.length, ""
    try:
        backend.rollback(count)
    except BackendError as error:
        refusal = str(error)
    if refusal:
        assert not backend.facts.can_rewind
        assert "read again" in refusal
    assert backend.length == (length if refusal else length - count)
    return not refusal


def test_a_pass_gives_finite_float32_logits_of_the_whole_vocabulary(backend: Backend) -> None:
    for result in (backend.prefill(PROMPT), backend.decode(4)):
        assert result.logits.dtype == np.float32
        assert result.logits.shape == (VOCAB,) == (backend.facts.vocab_size,)
        assert np.isfinite(result.logits).all()
        assert result.ms > 0


def test_length_counts_what_was_read(backend: Backend) -> None:
    assert backend.length == 0
    backend.prefill(PROMPT[:5])
    assert backend.length == 5
    backend.decode(4)
    assert backend.length == 6
    backend.prefill(PROMPT[5:])
    assert backend.length == 10


@pytest.mark.parametrize("sizes", [(3, 3, 3), (1, 8), (8, 1), (2, 1, 6)])
def test_reading_in_chunks_is_reading_at_once(backend: Backend, sizes: tuple[int, ...]) -> None:
    expected = fresh(backend, PROMPT)
    backend.rollback(backend.length)
    start = 0
    for size in sizes:
        result = backend.prefill(PROMPT[start : start + size])
        start += size
    assert_alike(result.logits, expected)


def test_decoding_a_token_is_reading_it(backend: Backend) -> None:
    expected = fresh(backend, PROMPT)
    fresh(backend, PROMPT[:-1])
    assert_alike(backend.decode(PROMPT[-1]).logits, expected)


def test_decoding_from_nothing_is_reading_one_token(backend: Backend) -> None:
    expected = fresh(backend, PROMPT[:1])
    backend.rollback(1)
    assert_alike(backend.decode(PROMPT[0]).logits, expected)


def test_decoding_far_on_stays_right(backend: Backend) -> None:
    fresh(backend, PROMPT[:2])
    ids = PROMPT[:2]
    for token_id in range(3, 23):
        logits = backend.decode(token_id).logits
        ids = [*ids, token_id]
    assert_alike(logits, fresh(backend, ids))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_what_follows_a_rollback_is_as_if_it_had_never_been_read(
    backend: Backend, count: int
) -> None:
    expected = fresh(backend, [*PROMPT[:-count], 11, 12])
    fresh(backend, PROMPT)
    if rewind(backend, count):
        backend.decode(11)
        assert_alike(backend.decode(12).logits, expected)


def test_a_rollback_within_the_window_is_possible_for_attention(backend: Backend) -> None:
    if "recurrent" in backend.facts.cache_kind:
        pytest.skip("a recurrent state cannot be taken back")
    expected = fresh(backend, [5, 6])
    fresh(backend, [5, 9, 30])
    backend.rollback(2)
    assert_alike(backend.decode(6).logits, expected)


def test_a_refused_rollback_changes_nothing(backend: Backend) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    if not rewind(backend, 3):
        assert_alike(backend.decode(11).logits, expected)


def test_rolling_back_twice(backend: Backend) -> None:
    expected = fresh(backend, [*PROMPT[:5], 11])
    fresh(backend, PROMPT)
    if rewind(backend, 1) and rewind(backend, 3):
        assert_alike(backend.decode(11).logits, expected)


def test_rolling_back_nothing_does_nothing(backend: Backend) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    backend.rollback(0)
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, expected)


def test_rolling_back_everything_is_always_possible(backend: Backend) -> None:
    expected = fresh(backend, [6, 7])
    fresh(backend, PROMPT)
    backend.decode(4)
    backend.rollback(len(PROMPT) + 1)
    assert backend.length == 0
    assert_alike(backend.prefill([6, 7]).logits, expected)


@pytest.mark.parametrize("count", [-1, len(PROMPT) + 1, 10_000])
def test_rolling_back_what_is_not_there_is_refused(backend: Backend, count: int) -> None:
    backend.prefill(PROMPT)
    with pytest.raises(BackendError, match=str(count)):
        backend.rollback(count)
    assert backend.length == len(PROMPT)


def test_seek_goes_to_the_longest_run_that_was_read(backend: Backend) -> None:
    wanted = [*PROMPT[:5], 11]
    expected = fresh(backend, wanted)
    fresh(backend, PROMPT)
    found = backend.seek(wanted)
    assert found == backend.length
    assert found == (5 if backend.facts.can_rewind else 0)
    assert_alike(backend.prefill(wanted[found:]).logits, expected)


def test_seek_at_the_tip_stays_there_and_leaves_the_last_id(backend: Backend) -> None:
    fresh(backend, PROMPT)
    assert backend.seek([*PROMPT, 11]) == len(PROMPT)
    assert backend.seek(PROMPT) == (len(PROMPT) - 1 if backend.facts.can_rewind else 0)


def test_a_new_prompt_is_what_is_there_and_what_is_computed(backend: Backend) -> None:
    fresh(backend, PROMPT)
    wanted = [*PROMPT[:6], 11, 12]
    report = backend.start(wanted)
    assert report.cached == backend.length <= 6
    assert report.cached + report.computed == report.prompt == len(wanted)
    assert (report.common, report.differs_at) == (6, 6)
    assert (report.ours, report.theirs) == (11, PROMPT[6])
    logits = backend.prefill(wanted[report.cached :]).logits
    assert_alike(logits, fresh(backend, wanted))


def test_a_fresh_read_is_that_of_an_empty_backend_and_disturbs_nothing(backend: Backend) -> None:
    expected, further = fresh(backend, PROMPT[:7]), fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    held, kept = backend.kv(), backend.length
    assert_alike(backend.fresh(PROMPT[:7]), expected)
    assert_alike(backend.fresh(PROMPT[:7], rows=3), expected)
    assert (backend.length, backend.kv()) == (kept, held)
    assert_alike(backend.decode(11).logits, further)


def test_a_fresh_read_in_the_same_dtype_is_the_fresh_read(backend: Backend) -> None:
    assert (backend.fresh(PROMPT, dtype=backend.facts.dtype) == backend.fresh(PROMPT)).all()


@pytest.mark.parametrize("ids", [[], [3, VOCAB, 4], [-1]])
def test_what_cannot_be_read_cannot_be_read_freshly(backend: Backend, ids: list[int]) -> None:
    further = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    for rows in (1, 2):
        with pytest.raises(BackendError):
            backend.fresh(ids, rows=rows)
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, further)


@pytest.mark.parametrize("cached", [True, False])
def test_what_is_read_aside_is_not_there_afterwards(backend: Backend, cached: bool) -> None:
    expected, further = fresh(backend, [6, 7, 8]), fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    held = backend.kv()
    with backend.aside(cached=cached, positions=3):
        assert backend.length == 0
        backend.prefill([6, 7])
        with backend.aside(cached=not cached, positions=3):
            assert_alike(backend.prefill([6, 7, 8]).logits, expected)
        assert backend.length == 2
        assert_alike(backend.decode(8).logits, expected)
    assert (backend.length, backend.kv()) == (len(PROMPT), held)
    assert_alike(backend.decode(11).logits, further)


def test_a_pass_that_fails_aside_leaves_the_run_as_it_was(backend: Backend) -> None:
    further = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    with pytest.raises(BackendError), backend.aside(cached=True, positions=3):
        backend.prefill([6, -1])
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, further)


def test_reading_nothing_is_refused(backend: Backend) -> None:
    with pytest.raises(BackendError, match="at least one token"):
        backend.prefill([])
    assert backend.length == 0


@pytest.mark.parametrize("bad", [-1, VOCAB, 10**9])
def test_an_id_that_is_none_is_refused_and_nothing_read(backend: Backend, bad: int) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    with pytest.raises(BackendError, match=str(bad)):
        backend.decode(bad)
    with pytest.raises(BackendError, match=str(bad)):
        backend.prefill([3, bad, 4])
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, expected)


def test_the_same_again_is_the_same(backend: Backend) -> None:
    first = fresh(backend, PROMPT)
    assert (fresh(backend, PROMPT) == first).all()


def test_logits_once_given_do_not_change(backend: Backend) -> None:
    first = backend.prefill(PROMPT).logits
    second = backend.decode(4).logits
    kept = first.copy(), second.copy()
    for token_id in range(5, 9):
        backend.decode(token_id)
    assert (first == kept[0]).all()
    assert (second == kept[1]).all()


def test_profiling_changes_no_logits(backend: Backend) -> None:
    plain = backend.prefill(PROMPT, profile=False)
    backend.rollback(backend.length)
    profiled = backend.prefill(PROMPT, profile=True)
    assert (profiled.logits == plain.logits).all()
    assert plain.layers == ()
    assert profiled.layers or profiled.layers_note


def test_the_vocabulary_is_every_token(backend: Backend) -> None:
    vocabulary = backend.vocabulary()
    assert len(vocabulary) == VOCAB
    for token_id in range(VOCAB):
        assert vocabulary.token(token_id) == backend.token(token_id)
        assert backend.token(token_id).id == token_id
        assert backend.token(token_id).kind in KINDS
    for outside in (-1, VOCAB):
        with pytest.raises(IndexError):
            backend.token(outside)


def test_ids_beyond_the_tokenizer_are_unused_rows_like_any_other(backend: Backend) -> None:
    assert backend.facts.tokenizer_size == KNOWN < VOCAB
    for token_id in range(KNOWN, VOCAB):
        assert backend.token(token_id).kind is TokenKind.UNUSED
        assert backend.token(token_id).bytes == b""
    backend.prefill(PROMPT)
    assert np.isfinite(backend.decode(62).logits).all()


def test_the_bytes_of_a_prompt_are_its_text(backend: Backend) -> None:
    text = "hello [/b], it is 20:45!\n"
    encoded = backend.tokenize(text, chat=False, system=None)
    assert len(encoded.ids) == len(encoded.origins)
    assert b"".join(backend.token(i).bytes for i in encoded.ids) == text.encode()


def test_a_model_without_a_chat_template_reads_the_prompt_as_it_is(backend: Backend) -> None:
    raw = backend.tokenize("hi", chat=False, system=None)
    encoded = backend.tokenize("hi", chat=True, system=None)
    assert not backend.facts.has_chat_template
    assert encoded.ids == raw.ids
    assert any("no chat template" in note for note in encoded.notes)
    assert raw.notes == ()


def test_the_cache_grows_with_what_is_read_and_shrinks_again(backend: Backend) -> None:
    assert backend.kv()[0] == 0
    backend.prefill([5, 9])
    stored, size = backend.kv()
    assert stored == 2 or size is None
    backend.decode(30)
    more, larger = backend.kv()
    if size is None:
        assert larger is None
    else:
        assert larger is not None
        assert more == 3
        assert larger * 2 == size * 3
        backend.rollback(1)
        assert backend.kv() == (stored, size)
    state = kv_state(backend, computed=1, cached=2)
    assert state.seen == backend.length
    assert state.stored <= state.seen


def test_facts_are_filled_in(backend: Backend) -> None:
    facts = backend.facts
    assert facts.name
    assert facts.architecture
    assert facts.cache_kind
    assert facts.dtype == "float32"
    assert facts.dtype_reason.startswith("float32: ")
    if facts.kv_bytes_per_token_expected is None:
        assert facts.kv_note


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=7)),
        st.tuples(st.just("decode"), st.integers(0, VOCAB - 1)),
        st.tuples(st.just("back"), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(operations=OPERATIONS)
def test_any_mix_of_reading_and_rewinding_ends_where_a_fresh_read_does(
    backend: Backend, operations: list[tuple[str, int | list[int]]]
) -> None:
    backend.rollback(backend.length)
    ids: list[int] = []
    for name, value in operations:
        if isinstance(value, list):
            backend.prefill(value)
            ids += value
        elif name == "decode":
            backend.decode(value)
            ids.append(value)
        else:
            count = min(value, len(ids))
            if rewind(backend, count):
                ids = ids[: len(ids) - count]
        assert backend.length == len(ids)
    last = backend.decode(11).logits
    assert_alike(last, fresh(backend, [*ids, 11]))
