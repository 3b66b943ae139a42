"""What every backend must do, whatever runs behind it: the small core.

A new backend adds one line to ``EVERY`` in ``tests/backends.py``; what it can do beyond the core is
held to ``tests/engine/backends/test_backend_abilities.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine.backends.base import Backend, BackendError, TokenSequence
from engine.records.partial import TopLogprobs
from engine.records.vocabulary import KINDS, TokenKind
from tests.backends import EVERY, PROMPT, assert_alike, fresh, read, spread
from tests.tiny_models import KNOWN, VOCAB

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=EVERY)
def opened(request: pytest.FixtureRequest) -> Backend:
    return EVERY[request.param]()


@pytest.fixture
def backend(opened: Backend) -> Backend:
    opened.seek(())
    return opened


def test_a_pass_gives_finite_float32_logits_of_the_whole_vocabulary(backend: Backend) -> None:
    for result in (read(backend, *PROMPT), read(backend, 4)):
        assert spread(result.known).dtype == np.float32
        assert spread(result.known).shape == (VOCAB,) == (backend.facts.vocab_size,)
        assert np.isfinite(spread(result.known)).all()
        assert result.ms > 0


def test_of_the_leading_log_probabilities_there_are_as_many_as_it_says(backend: Backend) -> None:
    """None of them twice, from the most likely down; or all logits there are."""
    found = read(backend, *PROMPT).known
    assert isinstance(found, TopLogprobs) == (backend.facts.top is not None)
    if isinstance(found, TopLogprobs):
        assert found.ids.shape == found.logprobs.shape == (backend.facts.top,)
        assert np.unique(found.ids).size == found.ids.size
        assert (np.diff(found.logprobs) <= 0.0).all()
        assert np.exp(found.logprobs).sum() <= 1.0 + 1e-5
        assert found.vocab_size == VOCAB


def test_length_counts_what_was_read(backend: Backend) -> None:
    assert backend.length == 0
    read(backend, *PROMPT[:5])
    assert backend.length == 5
    read(backend, 4)
    assert backend.length == 6
    read(backend, *PROMPT[5:])
    assert backend.length == 10


@pytest.mark.parametrize("sizes", [(3, 3, 3), (1, 8), (8, 1), (2, 1, 6)])
def test_reading_in_chunks_is_reading_at_once(backend: Backend, sizes: tuple[int, ...]) -> None:
    expected = fresh(backend, PROMPT)
    backend.seek(())
    start = 0
    for size in sizes:
        result = read(backend, *PROMPT[start : start + size])
        start += size
    assert_alike(spread(result.known), expected)


def test_decoding_a_token_is_reading_it(backend: Backend) -> None:
    expected = fresh(backend, PROMPT)
    fresh(backend, PROMPT[:-1])
    assert_alike(spread(read(backend, PROMPT[-1]).known), expected)


def test_decoding_from_nothing_is_reading_one_token(backend: Backend) -> None:
    expected = fresh(backend, PROMPT[:1])
    backend.seek(())
    assert_alike(spread(read(backend, PROMPT[0]).known), expected)


def test_decoding_far_on_stays_right(backend: Backend) -> None:
    fresh(backend, PROMPT[:2])
    ids = PROMPT[:2]
    for token_id in range(3, 23):
        logits = spread(read(backend, token_id).known)
        ids = [*ids, token_id]
    assert_alike(logits, fresh(backend, ids))


def test_seek_goes_to_the_longest_run_that_was_read(backend: Backend) -> None:
    wanted = [*PROMPT[:5], 11]
    expected = fresh(backend, wanted)
    fresh(backend, PROMPT)
    found = backend.seek(wanted)
    assert found == backend.length
    assert found == (5 if backend.facts.can_rewind else 0)
    assert_alike(spread(read(backend, *wanted[found:]).known), expected)


def test_seek_at_the_tip_stays_there_and_leaves_the_last_id(backend: Backend) -> None:
    fresh(backend, PROMPT)
    assert backend.seek([*PROMPT, 11]) == len(PROMPT)
    assert backend.seek(PROMPT) == (len(PROMPT) - 1 if backend.facts.can_rewind else 0)


def test_reading_nothing_is_refused(backend: Backend) -> None:
    with pytest.raises(BackendError, match="at least one token"):
        read(backend, *[])
    assert backend.length == 0


@pytest.mark.parametrize("bad", [-1, VOCAB, 10**9])
def test_an_id_that_is_none_is_refused_and_nothing_read(backend: Backend, bad: int) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    fresh(backend, PROMPT)
    with pytest.raises(BackendError, match=str(bad)):
        read(backend, bad)
    with pytest.raises(BackendError, match=str(bad)):
        read(backend, *[3, bad, 4])
    assert backend.length == len(PROMPT)
    assert_alike(spread(read(backend, 11).known), expected)


def test_the_same_again_is_the_same(backend: Backend) -> None:
    first = fresh(backend, PROMPT)
    assert (fresh(backend, PROMPT) == first).all()


def test_logits_once_given_do_not_change(backend: Backend) -> None:
    first = spread(read(backend, *PROMPT).known)
    second = spread(read(backend, 4).known)
    kept = first.copy(), second.copy()
    for token_id in range(5, 9):
        read(backend, token_id)
    assert (first == kept[0]).all()
    assert (second == kept[1]).all()


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
    if backend.facts.device == "server" and backend.facts.backend == "llamacpp":
        pytest.skip("it does not tell which of its ids have no text")
    assert backend.facts.tokenizer_size == KNOWN < VOCAB
    for token_id in range(KNOWN, VOCAB):
        assert backend.token(token_id).kind is TokenKind.UNUSED
        assert backend.token(token_id).bytes == b""
    read(backend, *PROMPT)
    assert np.isfinite(spread(read(backend, 62).known)).all()


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


def test_facts_are_filled_in(backend: Backend) -> None:
    facts = backend.facts
    assert facts.name
    assert facts.architecture
    assert facts.cache_kind
    if facts.device != "server":
        assert facts.dtype == "float32"
        assert facts.dtype_reason.startswith("float32: ")
    if facts.kv_bytes_per_token_expected is None:
        assert facts.kv_note


# --- several positions, several sequences -----------------------------------------------------


TEXTS = (PROMPT, [4, 11], [5, 9, 30, 12, 40, 41])
"""Of unlike lengths; the last one parts from the first behind four ids."""
NEXT = ([6], [7, 8, 9, 10], [13, 14])


def sequences(backend: Backend) -> list[TokenSequence]:
    """One sequence for each of ``TEXTS``, read to its end."""
    found = []
    for ids in TEXTS:
        fresh(backend, ids)
        found.append(backend.sequence)
    return found


def test_logits_of_all_positions_are_those_of_each_beginning(backend: Backend) -> None:
    expected = [fresh(backend, PROMPT[:end]) for end in range(1, len(PROMPT) + 1)]
    backend.seek(())
    first = spread(read(backend, *PROMPT[:4], all_positions=True).known)
    rest = spread(read(backend, *PROMPT[4:], all_positions=True).known)
    assert first.shape == (4, VOCAB)
    assert_alike(np.concatenate([first, rest]), np.stack(expected))
    assert spread(read(backend, 11, all_positions=True).known).shape == (1, VOCAB)


def test_rows_give_what_they_give_alone_each_at_its_own_position(backend: Backend) -> None:
    expected = [fresh(backend, [*ids, *more]) for ids, more in zip(TEXTS, NEXT, strict=True)]
    rows = list(zip(sequences(backend), NEXT, strict=True))
    found = backend.forward(rows)
    assert len(found.rows) == len(rows)
    for row, alone in zip(found.rows, expected, strict=True):
        assert_alike(spread(row.values), alone)
    assert [len(sequence) for sequence, _ in rows] == [10, 6, 8]
    assert backend.sequence is rows[-1][0]
    assert backend.length == 8
    # And they are gone on with, singly and together.
    then = [fresh(backend, [*ids, *more, 20]) for ids, more in zip(TEXTS, NEXT, strict=True)]
    again = backend.forward([(sequence, [20]) for sequence, _ in rows[:2]])
    assert_alike(spread(again.rows[0].values), then[0])
    assert_alike(spread(again.rows[1].values), then[1])
    assert_alike(spread(backend.forward([(rows[2][0], [20])]).known), then[2])


def test_rows_give_the_logits_of_all_their_positions(backend: Backend) -> None:
    expected = []
    for ids, more in zip(TEXTS, NEXT, strict=True):
        fresh(backend, ids)
        expected.append(spread(read(backend, *more, all_positions=True).known))
    rows = list(zip(sequences(backend), NEXT, strict=True))
    found = backend.forward(rows, all_positions=True)
    for row, alone in zip(found.rows, expected, strict=True):
        assert spread(row.values).shape == alone.shape
        assert_alike(spread(row.values), alone)


def test_a_sequence_in_two_rows_is_refused(backend: Backend) -> None:
    fresh(backend, PROMPT)
    with pytest.raises(BackendError, match="fork it first"):
        backend.forward([(backend.sequence, [3]), (backend.sequence, [4])])
    assert backend.length == len(PROMPT)


@pytest.mark.parametrize("bad", [[], [VOCAB], [3, -1]])
def test_a_row_that_cannot_be_read_leaves_every_sequence_as_it_was(
    backend: Backend, bad: list[int]
) -> None:
    expected = fresh(backend, [*PROMPT, 11])
    held = sequences(backend)
    with pytest.raises(BackendError):
        backend.forward([(held[0], [6]), (held[1], [7]), (held[2], bad)])
    assert [len(sequence) for sequence in held] == [len(ids) for ids in TEXTS]
    assert_alike(spread(backend.forward([(held[0], [11])]).known), expected)
