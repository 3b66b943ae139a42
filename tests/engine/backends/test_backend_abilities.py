"""What a backend must do that is Pooled, Measurable or Profiled, and can take positions back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.backends import BACKENDS
from engine.backends.abilities import (
    ABILITIES,
    Measurable,
    Pooled,
    Profiled,
    kv_state,
    measurable,
)
from engine.backends.base import BackendError
from tests.backends import ABLE, PROMPT, Able, assert_alike, fresh
from tests.tiny_models import VOCAB
from tests.toy_backend import ToyBackend

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=ABLE)
def opened(request: pytest.FixtureRequest) -> Able:
    return ABLE[request.param]()


@pytest.fixture
def backend(opened: Able) -> Able:
    opened.rollback(opened.length)
    return opened


def rewind(backend: Able, count: int) -> bool:
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


@pytest.mark.parametrize(("name", "known"), [("hf", "llama"), ("scripted", "scripted")])
def test_the_registry_says_what_a_backend_can_do(name: str, known: str) -> None:
    found = ABLE[known]()
    assert found.facts.backend == name
    able = tuple(one for one in ABILITIES if isinstance(found, one))
    assert BACKENDS[name].abilities == able


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_what_follows_a_rollback_is_as_if_it_had_never_been_read(backend: Able, count: int) -> None:
    expected = fresh(backend, [*PROMPT[:-count], 11, 12])
    fresh(backend, PROMPT)
    if rewind(backend, count):
        backend.decode(11)
        assert_alike(backend.decode(12).logits, expected)


def test_a_rollback_within_the_window_is_possible_for_attention(backend: Able) -> None:
    if "recurrent" in backend.facts.cache_kind:
        pytest.skip("a recurrent state cannot be taken back")
    expected = fresh(backend, [5, 6])
    fresh(backend, [5, 9, 30])
    backend.rollback(2)
    assert_alike(backend.decode(6).logits, expected)


def test_a_refused_rollback_changes_nothing(backend: Able) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    if not rewind(backend, 3):
        assert_alike(backend.decode(11).logits, expected)


def test_rolling_back_twice(backend: Able) -> None:
    expected = fresh(backend, [*PROMPT[:5], 11])
    fresh(backend, PROMPT)
    if rewind(backend, 1) and rewind(backend, 3):
        assert_alike(backend.decode(11).logits, expected)


def test_rolling_back_nothing_does_nothing(backend: Able) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    backend.rollback(0)
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, expected)


def test_rolling_back_everything_is_always_possible(backend: Able) -> None:
    expected = fresh(backend, [6, 7])
    fresh(backend, PROMPT)
    backend.decode(4)
    backend.rollback(len(PROMPT) + 1)
    assert backend.length == 0
    assert_alike(backend.prefill([6, 7]).logits, expected)


@pytest.mark.parametrize("count", [-1, len(PROMPT) + 1, 10_000])
def test_rolling_back_what_is_not_there_is_refused(backend: Able, count: int) -> None:
    backend.prefill(PROMPT)
    with pytest.raises(BackendError, match=str(count)):
        backend.rollback(count)
    assert backend.length == len(PROMPT)


def test_a_new_prompt_is_what_is_there_and_what_is_computed(backend: Able) -> None:
    fresh(backend, PROMPT)
    wanted = [*PROMPT[:6], 11, 12]
    report = backend.begin_prompt(wanted)
    assert report.cached == backend.length <= 6
    assert report.cached + report.computed == report.prompt == len(wanted)
    assert (report.common, report.differs_at) == (6, 6)
    assert (report.ours, report.theirs) == (11, PROMPT[6])
    logits = backend.prefill(wanted[report.cached :]).logits
    assert_alike(logits, fresh(backend, wanted))


def test_a_fresh_read_is_that_of_an_empty_backend_and_disturbs_nothing(backend: Able) -> None:
    expected, further = fresh(backend, PROMPT[:7]), fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    held, kept = backend.kv(), backend.length
    assert_alike(backend.reference_logits(PROMPT[:7]), expected)
    assert_alike(backend.reference_logits(PROMPT[:7], rows=3), expected)
    assert (backend.length, backend.kv()) == (kept, held)
    assert_alike(backend.decode(11).logits, further)


def test_a_fresh_read_in_the_same_dtype_is_the_fresh_read(backend: Able) -> None:
    assert (
        backend.reference_logits(PROMPT, dtype=backend.facts.dtype)
        == backend.reference_logits(PROMPT)
    ).all()


@pytest.mark.parametrize("ids", [[], [3, VOCAB, 4], [-1]])
def test_what_cannot_be_read_cannot_be_read_freshly(backend: Able, ids: list[int]) -> None:
    further = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    for rows in (1, 2):
        with pytest.raises(BackendError):
            backend.reference_logits(ids, rows=rows)
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, further)


@pytest.mark.parametrize("cached", [True, False])
def test_what_is_read_aside_is_not_there_afterwards(backend: Able, cached: bool) -> None:
    expected, further = fresh(backend, [6, 7, 8]), fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    held = backend.kv()
    with backend.side_sequence(cached=cached, positions=3):
        assert backend.length == 0
        backend.prefill([6, 7])
        with backend.side_sequence(cached=not cached, positions=3):
            assert_alike(backend.prefill([6, 7, 8]).logits, expected)
        assert backend.length == 2
        assert_alike(backend.decode(8).logits, expected)
    assert (backend.length, backend.kv()) == (len(PROMPT), held)
    assert_alike(backend.decode(11).logits, further)


def test_a_pass_that_fails_aside_leaves_the_run_as_it_was(backend: Able) -> None:
    further = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    with pytest.raises(BackendError), backend.side_sequence(cached=True, positions=3):
        backend.prefill([6, -1])
    assert backend.length == len(PROMPT)
    assert_alike(backend.decode(11).logits, further)


def test_profiling_changes_no_logits(backend: Able) -> None:
    plain = backend.prefill(PROMPT, profile=False)
    backend.rollback(backend.length)
    profiled = backend.prefill(PROMPT, profile=True)
    assert (profiled.logits == plain.logits).all()
    assert plain.layers == ()
    assert profiled.layers or profiled.layers_note


def test_the_cache_grows_with_what_is_read_and_shrinks_again(backend: Able) -> None:
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
    state = kv_state(backend, backend, computed=1, cached=2)
    assert state.seen == backend.length
    assert state.stored <= state.seen


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
    backend: Able, operations: list[tuple[str, int | list[int]]]
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


def test_a_backend_of_the_core_alone_has_no_ability() -> None:
    toy = ToyBackend()
    assert not isinstance(toy, Pooled | Measurable | Profiled)
    with pytest.raises(BackendError, match="n/a: backend toy cannot read a text beside the run"):
        measurable(toy)


def test_a_backend_with_the_abilities_is_known_by_isinstance(backend: Able) -> None:
    for ability in (Pooled, Measurable, Profiled):
        assert isinstance(backend, ability)


def test_a_fork_goes_its_own_way_and_leaves_the_other_as_it_was(backend: Able) -> None:
    ours, theirs = fresh(backend, [*PROMPT, 11]), fresh(backend, [*PROMPT, 12])
    fresh(backend, PROMPT)
    first = backend.sequence
    second = backend.fork(first)
    found = backend.forward([(first, [11]), (second, [12])])
    assert_alike(found.rows[0].values, ours)
    assert_alike(found.rows[1].values, theirs)
