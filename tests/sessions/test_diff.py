"""Two runs compared: by bytes where tokenizers differ, by distribution where they do not."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.scripted import ScriptedBackend
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from sessions import open_session
from sessions.compare.align import Segment, align, common_prefix
from sessions.compare.diff import Change, Diff, SettingsThere, Side, diff, side_of
from sessions.compare.tables import Bound, kl
from sessions.compare.text import bound_text, lines, to_json
from sessions.recording import record
from tests.sessions.test_store import forked_run, save

LETTERS = "abcd"


def run(
    vectors: Sequence[Sequence[float]],
    tokens: Sequence[str | bytes] = LETTERS,
    *,
    spec: str = "temperature=0",
    steps: int = 3,
    prompt: str = "a",
    full: bool = False,
) -> Side:
    """A run over given logits, as one side of a comparison."""
    backend = ScriptedBackend.from_vectors(vectors, tokens)
    stepper = Stepper(backend, effective("guide", {}, spec=spec), seed=1, max_tokens=steps)
    stepper.submit(prompt)
    taken = list(stepper.run())
    vector = {one.node: stepper.dense(one.node) for one in taken}
    dense = {"dense": vector.get} if full else {}
    return Side("run", taken, backend.facts, stepper.prompt, None, **dense)


def logs(*shares: float) -> list[float]:
    """Logits of a distribution with these shares."""
    return [math.log(one) for one in shares]


HALVES = logs(0.5, 0.25, 0.125, 0.125)
OTHERS = logs(0.25, 0.5, 0.125, 0.125)


def test_a_run_against_itself() -> None:
    side = run([HALVES])
    found = diff(side, side)
    assert found.same_output
    assert found.changes == ()
    assert found.segments == (Segment(b"aaa", b"aaa"),)
    assert [pair.kl_raw for pair in found.pairs] == [Bound(0.0, 0.0)] * 3
    assert all(pair.ranks == () and pair.logit_difference == 0.0 for pair in found.pairs)
    assert "output: the same to the last byte" in list(lines(found))
    assert to_json(found)["divergence"] is None


def test_runs_part_where_the_bytes_do() -> None:
    """a: aab, b: aba. Both read ``a`` after the prompt; then b's favourite is the second letter."""
    found = diff(run([HALVES, HALVES, OTHERS]), run([HALVES, OTHERS, HALVES]))
    assert found.parting is not None
    assert found.parting.offset == 1
    assert found.parting.a is not None
    assert found.parting.b is not None
    assert (found.parting.a.token.bytes, found.parting.b.token.bytes) == (b"a", b"b")
    assert (found.parting.a.node, found.parting.a.position) == (2, 2)
    assert [(pair.a, pair.b, pair.offset) for pair in found.pairs] == [(1, 1, 0), (2, 2, 1)]
    assert b"".join(one.a for one in found.segments) == b"aab"
    assert b"".join(one.b for one in found.segments) == b"aba"


def test_the_divergence_of_two_small_distributions() -> None:
    """0.5 ln(0.5/0.25) + 0.25 ln(0.25/0.5) = 0.25 ln 2."""
    (first, *_) = diff(run([HALVES], steps=1), run([OTHERS], steps=1)).pairs
    assert first.kl_raw is not None
    assert first.kl_raw.exact
    assert first.kl_raw.low == pytest.approx(0.25 * math.log(2), rel=1e-6)
    assert first.logit_difference == pytest.approx(math.log(2), rel=1e-6)
    assert [(one.token.bytes, one.a, one.b) for one in first.ranks] == [(b"a", 1, 2), (b"b", 2, 1)]
    # Greedy leaves each with one token, and they are not the same one.
    assert first.kl_final == Bound(math.inf, math.inf, "a candidate of a is impossible in b")


def test_a_tail_that_was_not_kept_makes_a_bound() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(0, 1, (2, 500)).astype(np.float32)
    tokens = [chr(0x4E00 + n) for n in range(500)]
    kept = diff(
        run([one.tolist()], tokens, steps=1, prompt=tokens[0], spec="top_k=3"),
        run([other.tolist()], tokens, steps=1, prompt=tokens[0], spec="top_k=500"),
    ).pairs[0]
    whole = diff(
        run([one.tolist()], tokens, steps=1, prompt=tokens[0], full=True),
        run([other.tolist()], tokens, steps=1, prompt=tokens[0], full=True),
    ).pairs[0]
    p, q = (np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum() for x in (one, other))
    assert whole.kl_raw is not None
    assert kept.kl_raw is not None
    assert whole.kl_raw.exact
    assert whole.kl_raw.low == pytest.approx(float((p * np.log(p / q)).sum()))
    assert kept.kl_raw.high is None
    assert 0.0 < kept.kl_raw.low < whole.kl_raw.low
    assert "of a's mass is on tokens that b did not keep" in kept.kl_raw.why


@given(st.lists(st.floats(-8, 8), min_size=70, max_size=70), st.integers(0, 1 << 30))
def test_a_bound_is_never_above_the_truth(logits: list[float], seed: int) -> None:
    other = np.random.default_rng(seed).normal(0, 3, 70).tolist()
    tokens = [chr(0x4E00 + n) for n in range(70)]
    a, b = (run([x], tokens, steps=1, prompt=tokens[0], full=True) for x in (logits, other))
    truth = diff(a, b).pairs[0].kl_raw
    bound = diff(replace(a, dense=lambda node: None), b).pairs[0].kl_raw
    assert truth is not None
    assert bound is not None
    assert bound.low <= truth.low + 1e-9


def test_final_distributions_are_exact_when_their_survivors_were_kept() -> None:
    a = run([logs(0.4, 0.3, 0.2, 0.1)], steps=1, spec="temperature=1 top_k=2 top_p=1")
    b = run([logs(0.4, 0.2, 0.3, 0.1)], steps=1, spec="temperature=1 top_k=3 top_p=1")
    found = kl(a.steps[0].top, b.steps[0].top, -1)
    expected = 4 / 7 * math.log(4 / 7 / (4 / 9)) + 3 / 7 * math.log(3 / 7 / (2 / 9))
    assert found.exact
    assert found.low == pytest.approx(expected, rel=1e-6)


def test_two_tokenizers_are_compared_by_bytes() -> None:
    """``abab`` in single letters against ``abad`` in pairs of letters."""
    letters = run([HALVES, OTHERS, HALVES, OTHERS], "abcd", steps=4)
    favour = [[0.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 0.0]]
    pairs = run(favour, ["a", "ab", "ad", "x"], steps=2)
    assert letters.output == b"abab"
    assert pairs.output == b"abad"
    found = diff(letters, pairs)
    assert found.note == "the same ids stand for different tokens"
    assert found.parting is not None
    assert found.parting.offset == 3
    assert found.parting.a is not None
    assert found.parting.b is not None
    assert (found.parting.a.token.bytes, found.parting.b.token.bytes) == (b"b", b"ad")
    assert [(pair.offset, pair.a, pair.b) for pair in found.pairs] == [(0, 1, 1), (2, 3, 2)]
    assert all(pair.kl_raw is None and pair.ranks == () for pair in found.pairs)
    assert "distributions: — (the same ids stand for different tokens)" in list(lines(found))


def test_other_vocabulary_sizes_and_other_prompts() -> None:
    found = diff(run([HALVES]), run([[*HALVES, -9.0]], "abcde"))
    assert found.note == "vocabularies of 4 and 5 tokens"
    found = diff(run([HALVES]), run([HALVES], prompt="b"))
    assert found.note.startswith("the prompts differ")
    assert found.pairs == ()
    assert [(one.name, one.a, one.b) for one in found.changes] == [("prompt", "a", "b")]


def test_one_run_that_goes_on_where_the_other_ends() -> None:
    found = diff(run([HALVES], steps=2), run([HALVES], steps=4))
    assert found.parting is not None
    assert (found.parting.offset, found.parting.a) == (2, None)
    assert found.parting.b is not None
    assert found.parting.b.node == 3
    assert "  a ends" in list(lines(found))


def test_branches_and_sessions(tmp_path: Path) -> None:
    with open_session(save(tmp_path / "run.llmi", forked_run())) as session:
        branches = diff(side_of(session, 4), side_of(session, 9))
        assert branches.a == "run.llmi to node 4"
        assert [(pair.a, pair.b) for pair in branches.pairs] == [(1, 1), (2, 2), (3, 6)]
        assert branches.pairs[0].kl_raw == Bound(0.0, 0.0)
        names = {change.name for change in branches.changes}
        assert names == {"chain", "seed", "tokens"}
        again = Stepper(
            ScriptedBackend.from_text("a b c"), effective("guide", {"temperature": 0.5}), seed=4
        )
        record(again, tmp_path / "other.llmi", "a", steps=3)
        with open_session(tmp_path / "other.llmi") as other:
            sessions = diff(side_of(session), side_of(other, label="other"))
    changed = {one.name: (one.a, one.b) for one in sessions.changes}
    assert changed["temperature"] == (0.0, 0.5)
    assert changed["prompt"] == ("the cat", "a")
    assert sessions.b == "other"


def hostile() -> Diff:
    tokens = [b"\x1b[2J", b"\xf0\x9f", b"\xe2\x80\xae", b"[/b]\n"]
    return diff(
        run([HALVES], tokens, prompt="\x1b[2J"),
        run([OTHERS], tokens, prompt="\x1b[2J"),
    )


def test_lines_hold_nothing_that_a_terminal_acts_on() -> None:
    shown = "\n".join(lines(hostile()))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "␛[2J" in shown


def test_json_has_no_infinity_and_keeps_the_bytes() -> None:
    found = json.loads(json.dumps(to_json(hostile()), allow_nan=False))
    assert found["positions"][0]["kl_final"] == {
        "low": None,
        "high": None,
        "exact": True,
        "reason": "a candidate of a is impossible in b",
    }
    assert found["divergence"]["a"]["token_bytes"] == b"\x1b[2J".hex()
    assert found["segments"][0]["same"] is False


def test_a_bound_in_words() -> None:
    assert bound_text(None) == "—"
    assert bound_text(Bound(0.012344, 0.012344)) == "0.01234"
    assert bound_text(Bound(0.5, None)) == "≥ 0.5"
    assert bound_text(Bound(math.inf, math.inf)) == "∞"


# --- texts ----------------------------------------------------------------------------------------


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_the_common_prefix_is_what_both_begin_with(a: bytes, b: bytes) -> None:
    length = common_prefix(a, b)
    assert a[:length] == b[:length]
    assert length in (len(a), len(b)) or a[length] != b[length]


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_segments_join_to_both_texts_and_cut_no_character(head: str, a: str, b: str) -> None:
    first, second = f"{head}{a}".encode(), f"{head}{b}".encode()
    segments = list(align(first, second))
    assert b"".join(one.a for one in segments) == first
    assert b"".join(one.b for one in segments) == second
    for one in segments:
        assert one.a or one.b
        one.a.decode()
        one.b.decode()


def test_what_comes_again_after_a_difference_is_found() -> None:
    segments = list(align(b"the cat sat on the mat", b"the dog sat on the mat"))
    assert segments == [
        Segment(b"the ", b"the "),
        Segment(b"cat", b"dog"),
        Segment(b" sat on the mat", b" sat on the mat"),
    ]


def test_very_long_texts_are_not_compared_word_by_word() -> None:
    a, b = b"x " + b"a " * 5000, b"x " + b"b " * 5000
    assert list(align(a, b)) == [Segment(b"x ", b"x "), Segment(a[2:], b[2:])]


def test_f6_settings_are_compared_where_two_branches_part() -> None:
    """Not what the whole branches were drawn with: what else changed on the way is no cause."""
    narrow, wide = (effective("guide", {"top_k": k}) for k in (40, 60))
    backend = ScriptedBackend.from_vectors([HALVES], LETTERS)
    one = Stepper(backend, narrow, seed=7, max_tokens=9)
    one.submit("a")
    first = one.extend(0)
    left = one.extend(first.node, force=0)
    left_end = one.extend(left.node, settings=wide, seed=3)
    right = one.extend(first.node, force=1, settings=wide)
    right_end = one.extend(right.node, settings=narrow)
    log = object()
    a, b = (
        Side(name, one.path(tip.node), backend.facts, one.prompt, run=log)
        for name, tip in (("a", left_end), ("b", right_end))
    )
    found = diff(a, b)
    assert found.settings_there == SettingsThere(2, (Change("top_k", 40, 60),))
    shown = list(lines(found))
    at = shown.index("settings where they part, position 2:")
    assert shown[at + 1] == "  top_k  a 40  b 60"
    assert to_json(found)["settings_at_divergence"] == {
        "position": 2,
        "changes": [{"name": "top_k", "a": 40, "b": 60}],
    }


def test_f6_branches_that_part_by_the_dice_alone_say_so() -> None:
    backend = ScriptedBackend.from_vectors([HALVES], LETTERS)
    one = Stepper(backend, effective("guide", {}), seed=7, max_tokens=9)
    one.submit("a")
    tips = [one.extend(0), one.extend(0, seed=8)]
    log = object()
    a, b = (Side("run", one.path(tip.node), backend.facts, one.prompt, run=log) for tip in tips)
    assert diff(a, b).settings_there == SettingsThere(1, (Change("seed", 7, 8),))
    assert diff(a, a).settings_there is None
