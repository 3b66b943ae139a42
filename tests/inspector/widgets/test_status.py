"""The status line at several widths: what gives way first, and that nothing is said by colour."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.records.events import (
    BranchNamed,
    EngineError,
    LoadProgress,
    Record,
    RunState,
    StateChanged,
)
from engine.records.model import KVStorage
from engine.records.step import Stop, StopKind
from inspector.widgets.status import SIGNS, status_line
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, settings, step, timing, view

RUN: list[Record] = [
    SMOLLM2,
    prompt(10),
    settings(),
    prefill(chunk(0, 10, 500.0)),
    *(step(n, timing(100.0), kv(9 + n)) for n in range(1, 5)),
    step(5, timing(100.0), kv(14), stop=Stop(StopKind.LENGTH, "token budget of 5 used up")),
]
STOPPED = StateChanged(RunState.STOPPED, "token budget of 5 used up")
PAUSED = StateChanged(RunState.PAUSED)


def line(width: int, *more: Record, busy_s: float | None = None, cursor: int | None = None) -> str:
    return status_line(view(*RUN, *more, cursor=cursor), width, busy_s).plain


def test_a_run_has_stopped_only_where_it_did() -> None:
    """F19."""
    assert line(180, STOPPED).startswith("■ stopped: token budget of 5 used up")
    assert line(180, STOPPED, cursor=4).startswith("‖ paused │")


def test_all_of_it_where_there_is_room() -> None:
    assert line(180, STOPPED) == (
        "■ stopped: token budget of 5 used up │ position 14/8,192 │ SmolLM2-135M-Instruct │ "
        "cpu float32: fastest here │ seed 0 │ guide: temperature=0.8 > top_k=40 > top_p=0.95"
    )


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (
            140,
            "‖ paused │ position 14/8,192 │ SmolLM2-135M-Instruct │ cpu float32: fastest here │ seed 0 │ guide: temperature=0.8 > top_k=40 > top_p=0.95",
        ),
        (
            100,
            "‖ paused │ position 14/8,192 │ SmolLM2-135M-Instruct │ cpu float32: fastest here │ seed 0 │ guide",
        ),
        (78, "‖ paused │ 14/8,192 │ SmolLM2-135M-Instruct │ cpu float32 │ seed 0 │ guide"),
        (70, "‖ paused │ 14/8,192 │ SmolLM2-135M-Instruct │ cpu float32 │ seed 0"),
        (60, "‖ paused │ 14/8,192 │ SmolLM2-135… │ cpu float32 │ seed 0"),
        (50, "‖ paused │ 14/8,192 │ SmolLM2-135… │ cpu float32"),
        (40, "‖ paused │ 14/8,192 │ SmolLM2-135…"),
        (20, "‖ paused │ 14/8,192"),
        (10, "‖ paused"),
        (4, "‖ p…"),
        (0, ""),
    ],
)
def test_what_matters_least_gives_way_first(width: int, text: str) -> None:
    assert line(width, PAUSED) == text


@pytest.mark.parametrize("width", range(0, 181, 3))
def test_it_is_never_wider_than_its_line(width: int) -> None:
    for more in (STOPPED, PAUSED, EngineError("x" * 50), LoadProgress("fetch", 0.5, "y" * 50)):
        shown = status_line(view(*RUN, more), width, 3.0)
        assert shown.cell_length <= width
        assert "\n" not in shown.plain


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (KVStorage(cached=False), "no cache"),
        (KVStorage(dtype="int8", block_size=16), "int8 KV"),
    ],
)
def test_what_is_unusual_about_the_cache_is_said(kept: KVStorage, words: str) -> None:
    facts = replace(SMOLLM2, kv_storage=kept)
    whole = line(180, PAUSED, facts)
    assert f" │ cpu float32: fastest here │ {words} │ seed 0 │ " in whole
    assert words in line(70, PAUSED, facts)
    assert words not in line(50, PAUSED, facts)
    usual = replace(SMOLLM2, kv_storage=KVStorage(dtype="float32", block_size=16))
    assert line(180, PAUSED, usual) == line(180, PAUSED)


def test_a_long_pass_says_for_how_long() -> None:
    running = StateChanged(RunState.RUNNING)
    assert line(60, running, busy_s=3.4).startswith("▶ running, this pass 3 s so far │ ")
    assert line(60, running, busy_s=1.9).startswith("▶ running │ ")
    assert line(24, running, busy_s=63.0) == "▶ running 63 s"


def test_the_cursor_behind_the_tip_is_told_from_the_tip() -> None:
    assert "│ position 11 of 14/8,192 │" in line(120, PAUSED, cursor=2)
    assert "│ position 9 of 14/8,192 │" in line(120, PAUSED, cursor=0)


def test_a_token_drawn_with_other_dice_shows_its_own_seed() -> None:
    other = step(6, timing(100.0), kv(15), seed=7)
    assert "│ seed 7 (run's 0) │" in line(120, other, PAUSED)


def test_loading_shows_its_phase() -> None:
    progress = LoadProgress("fetch", 0.42, "38 of 92 MB")
    shown = status_line(view(StateChanged(RunState.LOADING), progress), 78)
    assert shown.plain == "◌ loading: fetch 42% (38 of 92 MB)"
    assert status_line(view(), 78).plain == "◌ starting"


def test_a_long_load_says_its_phase_its_time_and_what_waits() -> None:
    seen = view(StateChanged(RunState.LOADING), LoadProgress("weights", 0.4))
    seen.log.queued = 2
    shown = status_line(seen, 100, 20.2).plain
    assert shown == "◌ loading: weights 40%, 20 s so far, 2 steps queued"
    assert status_line(seen, 40, 20.2).plain == "◌ loading, 20 s so far, 2 steps queued"


def test_the_figures_of_the_dtypes_reason_are_the_first_to_go() -> None:
    reason = "float32: fastest of 3 measured (55.5 ms against 1670.9 float16)"
    facts = replace(SMOLLM2, dtype_reason=reason)
    assert status_line(view(facts), 200).plain.endswith(
        "cpu float32: fastest of 3 measured (55.5 ms against 1670.9 float16)"
    )
    assert status_line(view(facts), 80).plain.endswith("cpu float32: fastest of 3 measured")
    assert status_line(view(facts), 60).plain.endswith("cpu float32")


def test_an_error_takes_the_line_with_a_word_and_a_colour() -> None:
    error = EngineError("out of memory: try a smaller model")
    shown = status_line(view(*RUN, PAUSED, error), 60)
    assert shown.plain == "! error: out of memory: try a smaller model" + " " * 9 + "‖ paused"
    assert any("$error" in str(span.style) for span in shown.spans)
    assert line(40, PAUSED, error) == "! error: out of memory: try a smaller m…"


def test_an_engine_that_is_gone_is_called_lost() -> None:
    dead = StateChanged(RunState.DEAD, "killed")
    lost = EngineError("killed by signal 9", fatal=True)
    assert line(60, dead, lost) == "! engine lost: killed by signal 9" + " " * 21 + "✗ dead"


def test_every_state_has_a_sign_of_its_own_kind() -> None:
    assert set(SIGNS) == set(RunState)
    assert all(sign for sign, _ in SIGNS.values())


def test_hostile_text_is_made_visible() -> None:
    error = EngineError("\x1b[2J [/b] \u202e")
    assert line(60, PAUSED, error).startswith("! error: ␛[2J [/b] <U+202E>")
    named = replace(SMOLLM2, name="a\x07[b]")
    assert "a␇[b]" in status_line(view(named), 60).plain


def test_which_branch_the_cursor_is_on_and_what_it_is_called() -> None:
    fork = step(6, timing(100.0), kv(12), parent=1)
    named = BranchNamed(6, "the\x1b other one")
    assert "│ branch 1 of 2 │" in line(140, fork, PAUSED, cursor=5)
    assert "│ branch 2 of 2: the␛ other one │" in line(140, fork, named, PAUSED)
    assert "│ the␛ other … 2/2 │" in line(78, fork, named, PAUSED)
    assert "│ branch 2/2 │" in line(78, fork, PAUSED)
    assert "branch: whole" in line(140, BranchNamed(1, "whole"), PAUSED)
    assert "branch" not in line(140, PAUSED)
