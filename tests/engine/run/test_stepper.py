"""The stepper: tree, cursor, stops, forks, reading again. On a scripted backend, in one's head."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.backends.base import ForwardPass, Row
from engine.backends.scripted import ScriptedBackend
from engine.records.step import How, StopKind
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective

LETTERS = "abcdefghijklmnop"


def by_history(ids: Sequence[int]) -> Any:
    """Logits that depend on every id read so far, so that a wrong cache gives a wrong answer."""
    seed = int.from_bytes(hashlib.sha256(bytes(ids)).digest()[:4], "little")
    return np.random.default_rng(seed).standard_normal(len(LETTERS)) * 2


class Counting(ScriptedBackend):
    """Keeps a log of what was asked of it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.log: list[tuple[str, int]] = []
        super().__init__(*args, **more)

    def prefill(self, ids: Sequence[int], **how: bool) -> Any:
        self.log.append(("prefill", len(ids)))
        return super().prefill(ids, **how)

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        self.log.extend(("decode", token_id) for _, ids in rows for token_id in ids)
        return super().forward(rows, all_positions=all_positions)


def stepper(temperature: float = 1.0, **more: Any) -> Stepper:
    facts = more.pop("facts", None)
    backend = Counting(by_history, LETTERS, facts=facts)
    return Stepper(backend, effective("guide", {"temperature": temperature}), **more)


def started(prompt: str = "abcde", **more: Any) -> Stepper:
    one = stepper(**more)
    one.submit(prompt)
    return one


def log(one: Stepper) -> list[tuple[str, int]]:
    assert isinstance(one.backend, Counting)
    return one.backend.log


def test_a_step_reads_the_prompt_first_then_one_token_a_pass() -> None:
    run = started(chunk=2)
    first, second = run.step(), run.step()
    assert log(run) == [("prefill", 2), ("prefill", 2), ("prefill", 1), ("decode", first.token.id)]
    assert (first.parent, first.node, first.position) == (ROOT, 1, 5)
    assert (second.parent, second.node, second.position) == (1, 2, 6)
    assert (first.kv.seen, second.kv.seen) == (5, 6)
    assert (second.kv.cached, second.kv.computed) == (5, 1)


def test_prompt_is_cached_plus_computed_in_every_chunk() -> None:
    run = started(chunk=2)
    reads = list(run.prefill())
    assert [(one.cached, one.computed, one.done) for one in reads] == [
        (0, 2, False),
        (0, 4, False),
        (0, 5, True),
    ]
    assert [chunk.start for chunk in reads[-1].chunks] == [0, 2, 4]
    assert list(run.prefill()) == []


def test_a_paused_prefill_goes_on_where_it_was() -> None:
    run = started(chunk=2)
    next(run.prefill())
    rest = list(run.prefill())
    assert [one.computed for one in rest] == [4, 5]
    assert log(run) == [("prefill", 2), ("prefill", 2), ("prefill", 1)]


def test_back_computes_nothing_and_step_follows_what_is_there() -> None:
    run = started()
    nodes = [run.step().node for _ in range(6)]
    log(run).clear()
    for _ in range(5):
        run.back()
    assert run.cursor == nodes[0]
    assert [run.step().node for _ in range(5)] == nodes[1:]
    assert log(run) == []
    for _ in range(9):
        run.back()
    assert run.cursor == ROOT


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others() -> None:
    """Case 13: stepping back and again, or a second run, draws the same numbers."""

    def ids(seed: int) -> list[int]:
        run = started(seed=seed, max_tokens=40)
        return [one.token.id for one in run.run()]

    assert len(ids(42)) == 40
    assert ids(42) == ids(42)
    assert ids(42) != ids(43)


def test_a_node_drawn_again_draws_the_same_number() -> None:
    run = started(seed=42)
    for _ in range(10):
        run.step()
    before = run.path()
    again = run.extend(before[4].parent)
    assert again.draw.u == before[4].draw.u
    assert again.token.id == before[4].token.id


def test_a_fork_takes_known_logits_and_runs_no_pass() -> None:
    run = started()
    path = [run.step() for _ in range(4)]
    log(run).clear()
    other = next(i for i in range(len(LETTERS)) if i != path[2].token.id)
    fork = run.extend(path[1].node, force=other)
    assert log(run) == []
    assert (fork.draw.how, fork.draw.u, fork.token.id) == (How.FORCED, None, other)
    assert fork.timing.reused
    assert not fork.timing.steady
    assert fork.raw_logprob == pytest.approx(
        float(path[2].top.raw_logprobs[list(path[2].top.ids).index(other)])
    )
    assert run.children[path[1].node] == [path[2].node, fork.node]


def test_after_a_fork_logits_are_those_of_a_fresh_read() -> None:
    run = started()
    path = [run.step() for _ in range(5)]
    other = next(i for i in range(len(LETTERS)) if i != path[2].token.id)
    fork = run.extend(path[1].node, force=other)
    after = run.extend(fork.node)
    ids = [*run.path_ids(fork.node)]
    assert run.dense(after.node) == pytest.approx(by_history(ids).astype(np.float32))
    assert not after.timing.reread, "all but its own token was in the cache"
    # and back on the first branch
    tip = run.extend(path[4].node)
    assert run.dense(tip.node) == pytest.approx(by_history(run.path_ids(path[4].node)), abs=1e-6)


def test_a_reread_keeps_the_longest_common_run() -> None:
    run = started("abcde")
    path = [run.step() for _ in range(4)]
    other = next(i for i in range(len(LETTERS)) if i != path[2].token.id)
    fork = run.extend(path[1].node, force=other)
    log(run).clear()
    step = run.extend(fork.node)
    # prompt 5 + two tokens are shared and read; the forced token is the one to compute
    assert [one for one, _ in log(run)] == ["decode"]
    assert (step.kv.cached, step.kv.computed) == (7, 1)


def test_a_second_prompt_is_not_read_again_where_it_is_the_same() -> None:
    run = started("abcde")
    run.step()
    run.submit("abcxx".replace("x", "p"))
    *_, read = run.prefill()
    assert (read.cached, read.computed) == (3, 2)
    run.submit("abcpp")
    *_, read = run.prefill()
    assert (read.cached, read.computed) == (4, 1), "a full hit still computes the last token"


def test_a_backend_that_cannot_rewind_is_read_from_the_start() -> None:
    run = started(facts={"can_rewind": False})
    path = [run.step() for _ in range(4)]
    fork = run.extend(path[1].node, force=(path[2].token.id + 1) % len(LETTERS))
    log(run).clear()
    after = run.extend(fork.node)
    assert log(run) == [("prefill", 8)]
    assert run.dense(after.node) == pytest.approx(by_history(run.path_ids(fork.node)), abs=1e-6)


def test_run_stops_at_the_budget_and_step_goes_past_it() -> None:
    run = started(max_tokens=3)
    records = list(run.run())
    assert [one.stop is not None for one in records] == [False, False, True]
    assert records[-1].stop is not None
    assert records[-1].stop.kind is StopKind.LENGTH
    assert list(run.run()) == []
    assert run.step().node == 4


def test_a_stop_token_ends_the_run_and_says_who_declared_it() -> None:
    backend = ScriptedBackend.from_text("the cat")
    run = Stepper(backend, effective("guide", {"temperature": 0.0}))
    run.submit("the")
    *_, last = run.run()
    assert last.token.bytes == b"<end>"
    assert last.stop is not None
    assert last.stop.kind is StopKind.STOP_TOKEN
    assert "<end>" in last.stop.detail
    assert "script" in last.stop.detail


def test_the_context_ends_the_run_and_cannot_be_passed() -> None:
    run = started("abcde", facts={"context_length": 7})
    records = list(run.run())
    assert len(records) == 2
    assert records[-1].stop is not None
    assert records[-1].stop.kind is StopKind.CONTEXT
    with pytest.raises(StepperError, match="context is full: the model reads at most 7"):
        run.step()


def test_pause_is_asked_between_passes() -> None:
    run = started(max_tokens=100)
    answers = iter([False, False, False, True])
    assert len(list(run.run(lambda: next(answers)))) == 3


@pytest.mark.parametrize(
    ("prompt", "facts", "message"),
    [
        ("", None, "the prompt is empty"),
        ("abcdefgh", {"context_length": 8}, "8 tokens and the model's context holds 8"),
    ],
)
def test_prompts_that_cannot_be_read(prompt: str, facts: Any, message: str) -> None:
    run = stepper(facts=facts)
    with pytest.raises(StepperError, match=message):
        run.submit(prompt)


def test_commands_that_make_no_sense_say_so() -> None:
    run = stepper()
    with pytest.raises(StepperError, match="no prompt yet"):
        run.step()
    run.submit("abc")
    with pytest.raises(StepperError, match="no node 7"):
        run.extend(7)
    with pytest.raises(StepperError, match=r"token id 99 is outside the vocabulary 0\.\.15"):
        run.step(force=99)
    with pytest.raises(StepperError, match="token id -1 is outside"):
        run.submit_ids([0, -1])


def test_forgotten_logits_are_read_again_exactly() -> None:
    run = started(logit_budget=3 * 4 * len(LETTERS))
    for _ in range(8):
        run.step()
    expected = by_history(run.path_ids(1))
    log(run).clear()
    assert run.dense(2) == pytest.approx(expected, abs=1e-6)
    assert log(run), "they had been forgotten"
    # and the run goes on as if nothing had happened
    assert run.dense(run.step().node) == pytest.approx(by_history(run.path_ids(8)), abs=1e-6)


def test_restore_goes_on_with_the_same_next_token() -> None:
    run = started(seed=5)
    for _ in range(4):
        run.step()
    assert run.prompt is not None
    other = started("p", seed=5)
    other.restore(run.prompt, run.prefill_record, run.nodes, cursor=4)
    step = other.step()
    assert step.token.id == run.step().token.id
    assert other.cursor == 5
    assert step.timing.reread
    assert other.prefill_record is run.prefill_record, "what is read again is not the run's TTFT"


def test_candidates_are_each_step_s_own_and_hold_the_chosen_token() -> None:
    """Case 71: every token showed the first token's alternatives."""
    run = started(seed=1)
    records = [run.step() for _ in range(5)]
    for one in records:
        assert one.token.id in one.top.ids
        assert one.final_prob > 0
    firsts = {tuple(one.top.raw_logits.tolist()) for one in records}
    assert len(firsts) == 5


def test_raw_and_final_are_different_figures() -> None:
    """Case 12: raw log-probability is the model's own; the final probability is after the chain."""
    backend = ScriptedBackend.from_vectors([[np.log(8), np.log(4), np.log(3), 0.0]])
    settings = effective("guide", {"temperature": 1.0, "top_k": 2, "top_p": 1.0})
    run = Stepper(backend, settings)
    run.submit("a")
    record = run.step(force=1)
    assert np.exp(record.raw_logprob) == pytest.approx(4 / 16)
    assert record.final_prob == pytest.approx(4 / 12)
    assert record.rank == 2
    assert record.entropy_final == pytest.approx(-(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)))
    cut = run.extend(ROOT, force=3)
    assert cut.final_prob == 0.0
    assert cut.top.cut_by[list(cut.top.ids).index(3)] == 1


def test_what_a_stage_carries_belongs_to_the_node() -> None:
    """Mirostat's mu goes on from the parent, so that a fork and a replayed step are exact."""
    backend = ScriptedBackend(by_history, LETTERS)
    settings = effective("llamacpp", {}, spec="mirostat_tau=2 mirostat_eta=0.3 >")
    run = Stepper(backend, settings, seed=3)
    run.submit("abc")
    path = [run.step() for _ in range(4)]
    mus = [one.state["mirostat"] for one in path]
    assert len(set(mus)) == 4
    again = run.extend(path[1].node)
    assert again.token.id == path[2].token.id
    assert again.state == path[2].state
