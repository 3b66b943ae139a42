"""Speculative rounds: the ids of plain decoding, whatever drafts, and where a round ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from engine.backends.base import Backend
from engine.drafts.model import DraftModel
from engine.drafts.ngram import PromptLookup
from engine.records.round import Accept, DraftVerdict, RoundEnd, RoundRecord
from engine.records.step import Came, How, StopKind
from engine.run.stepper import Stepper
from tests import tiny_models
from tests.speculating import (
    PROMPT,
    SOURCES,
    Listed,
    Source,
    by_last,
    fixed,
    ids_of,
    stepper,
)

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENS = 24


@pytest.fixture(scope="module")
def llama() -> Backend:
    return tiny_models.backend("llama")


def greedy(backend: Backend, **more: Any) -> list[int]:
    return ids_of(stepper(backend, max_tokens=TOKENS, **more))


def same(backend: Backend) -> DraftModel:
    return DraftModel("same", tiny_models.backend("llama"), backend)


@pytest.mark.parametrize("tokens", range(1, 9))
@pytest.mark.parametrize("source", SOURCES)
def test_greedy_ids_are_those_of_greedy_without(llama: Backend, source: str, tokens: int) -> None:
    run = stepper(llama, SOURCES[source], tokens=tokens, max_tokens=TOKENS)
    assert ids_of(run) == greedy(llama)
    assert run.rounds


@pytest.mark.parametrize("name", ["gpt2", "gemma3", "mistral", "deepseek", "mamba"])
def test_other_caches_are_taken_back_too(name: str) -> None:
    backend = tiny_models.backend(name)
    run = stepper(backend, SOURCES["ngram"], max_tokens=TOKENS)
    assert ids_of(run) == greedy(backend)
    assert any(one.taken_back for one in run.rounds.values())


@pytest.mark.parametrize(
    "dials",
    [
        {"repetition_penalty": 1.8},
        {"no_repeat_ngram": 2},
        {"logit_bias": "5:+4"},
        {"repetition_penalty": 1.3, "frequency_penalty": 0.7},
    ],
    ids=str,
)
@pytest.mark.parametrize("accept", Accept)
def test_stages_see_the_history_of_each_position(
    llama: Backend, dials: dict[str, Any], accept: Accept
) -> None:
    dials = {"temperature": 0.0, **dials}
    for source in ("ngram", "same model"):
        run = stepper(llama, SOURCES[source], dials=dials, accept=accept, max_tokens=TOKENS)
        assert ids_of(run) == greedy(llama, dials=dials)


def test_mirostat_goes_on_from_what_was_accepted(llama: Backend) -> None:
    dials = {"mirostat_tau": 3.0}
    plain = stepper(llama, dials=dials, max_tokens=TOKENS, seed=3)
    # The target's own draw decides, with the dice of plain decoding: so the ids are the same.
    run = stepper(
        llama, SOURCES["same model"], dials=dials, accept=Accept.MATCH, max_tokens=TOKENS, seed=3
    )
    expected = list(plain.run())
    found = list(run.run())
    assert [one.token.id for one in found] == [one.token.id for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.state["mirostat"] == pytest.approx(other.state["mirostat"], abs=1e-3)


def test_match_gives_the_tokens_of_plain_decoding_with_the_same_seed(llama: Backend) -> None:
    dials = {"temperature": 0.9}
    for seed in range(4):
        plain = ids_of(stepper(llama, dials=dials, seed=seed, max_tokens=12))
        run = stepper(
            llama,
            SOURCES["same model"],
            dials=dials,
            seed=seed,
            accept=Accept.MATCH,
            max_tokens=12,
        )
        assert ids_of(run) == plain


# --- where a round ends ------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(2, 8))
@pytest.mark.parametrize("source", ["ngram", "same model"])
def test_case_31_a_stop_token_ends_the_run_wherever_it_lies_in_a_round(
    place: int, source: str
) -> None:
    """Case 31: target = draft, k = 5, one of the greedy tokens declared the end."""
    backend = tiny_models.backend("llama")
    ids = greedy(backend)
    stop = ids[place]
    first = ids.index(stop)
    object.__setattr__(backend.facts, "stop_ids", {stop: "test"})
    run = stepper(backend, SOURCES[source], tokens=5, max_tokens=TOKENS)
    assert ids_of(run) == ids[: first + 1]
    last = run.nodes[run.cursor]
    assert last.stop is not None
    assert last.stop.kind is StopKind.STOP_TOKEN
    if last.came is Came.ACCEPTED:
        found = run.rounds[last.round]
        assert found.end is RoundEnd.STOP
        behind = [one.verdict for one in found.drafted[found.accepted :]]
        assert set(behind) <= {DraftVerdict.AFTER_STOP}
        assert found.taken_back == len(behind)


@pytest.mark.parametrize("budget", range(1, 13))
@pytest.mark.parametrize("source", ["ngram", "same model"])
def test_case_32_the_budget_is_met_exactly(llama: Backend, budget: int, source: str) -> None:
    """Case 32: exactly max_tokens ids, and the last round drafts at most what is left less one."""
    run = stepper(llama, SOURCES[source], tokens=5, max_tokens=budget)
    assert ids_of(run) == greedy(llama)[:budget]
    for one in run.rounds.values():
        before = len(run.path(one.parent))
        assert len(one.drafted) <= budget - before - 1


@pytest.mark.parametrize("context", [12, 13, 16, 18])
def test_a_round_ends_with_the_context(context: int) -> None:
    backend = tiny_models.backend("llama")
    ids = greedy(backend)
    object.__setattr__(backend.facts, "context_length", context)
    run = stepper(backend, SOURCES["same model"], tokens=5, max_tokens=TOKENS)
    assert ids_of(run) == ids[: context - len(PROMPT)]
    last = run.nodes[run.cursor]
    assert last.stop is not None
    assert last.stop.kind is StopKind.CONTEXT


def test_case_48_a_model_without_a_stop_token_goes_on_to_the_budget() -> None:
    """Case 48: a base model declares no end; prompt lookup goes on to the length."""
    backend = tiny_models.backend("llama")
    object.__setattr__(backend.facts, "stop_ids", {})
    run = stepper(backend, SOURCES["ngram"], max_tokens=TOKENS)
    assert len(ids_of(run)) == TOKENS


def test_a_breakpoint_stops_inside_a_round(llama: Backend) -> None:
    run = stepper(llama, SOURCES["same model"], max_tokens=TOKENS)
    ids = greedy(llama)
    run.add_breakpoint("step == 3")
    assert [one.token.id for one in run.run()] == ids[:3]
    assert len(run.path()) == 3
    # What came in the round is there, and is gone on with.
    assert run.children[run.cursor]
    assert [one.token.id for one in run.run()] == ids[3:]


def test_conditions_on_rounds() -> None:
    target = by_last([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    source = Listed([2, 3, 1], [2, 3, 0])
    run = stepper(target, lambda _: source, prompt="a", tokens=3, max_tokens=9)
    run.add_breakpoint("rejected")
    found = list(run.run())
    assert [one.token.id for one in found] == [1, 2, 3, 0]
    assert run.evaluate("accepted") == 2
    assert run.evaluate("drafted") == 3
    assert run.evaluate("residual_mass") == pytest.approx(1.0)
    assert run.evaluate("came") == "corrected"


def test_a_condition_on_rounds_is_silent_where_no_round_ends() -> None:
    target = by_last([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    source = Listed([2, 3, 0], [2, 3, 1])
    run = stepper(target, lambda _: source, prompt="a", tokens=3, max_tokens=9)
    run.add_breakpoint("accepted < 3")
    run.add_breakpoint("residual_mass > 0.5")
    # All of the first round holds; of the second, 1 is rejected, and 0 is drawn.
    assert [one.token.id for one in run.run()] == [1, 2, 3, 0, 1, 2, 3, 0]
    assert not any(point.untold for point in run.breakpoints)


def test_without_drafts_a_condition_on_rounds_says_why_it_cannot_be_told() -> None:
    run = stepper(by_last([[0, 1], [1, 0]]), prompt="a", max_tokens=4)
    run.add_breakpoint("accepted < 3")
    assert len(list(run.run())) == 4
    (point,) = run.breakpoints
    assert point.untold == "step 2: the token did not come in a speculative round"


# --- what a round records ----------------------------------------------------------------------


def test_case_30_only_what_was_accepted_before_the_first_rejection_counts() -> None:
    """Case 30: masks [1,0,1] and [1,1,1]: 1 and 3 of 3 accepted, 6 tokens added in all."""
    target = by_last([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    source = Listed([2, 0, 0], [0, 1, 2])
    run = stepper(target, lambda _: source, prompt="a", tokens=3, max_tokens=7)
    assert ids_of(run) == [1, 2, 3, 0, 1, 2, 3]
    first, second = run.rounds.values()
    assert [one.verdict.value for one in first.drafted] == ["accepted", "rejected", "discarded"]
    assert (first.accepted, first.added, first.end) == (1, 2, RoundEnd.REJECTED)
    assert (second.accepted, second.added, second.end) == (3, 4, RoundEnd.BONUS)
    assert [run.nodes[node].came.value for node in second.nodes] == [
        "accepted",
        "accepted",
        "accepted",
        "bonus",
    ]
    assert [list(one.nodes) for one in (first, second)] == [[2, 3], [4, 5, 6, 7]]


def test_step_shows_the_round_token_by_token() -> None:
    target = by_last([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    source = Listed([2, 3, 0])
    run = stepper(target, lambda _: source, prompt="a", tokens=3)
    assert [run.step().token.id for _ in range(3)] == [1, 2, 3]
    assert (run.cursor, len(run.nodes)) == (3, 5)
    assert run.back() == 2
    assert [run.step().token.id for _ in range(3)] == [3, 0, 1]
    assert len(source.asked) == 1
    # Nothing is drafted any more: a plain step.
    assert run.step().came is Came.PLAIN
    assert len(source.asked) == 2


def test_a_fork_inside_a_round_goes_on_as_a_round_of_its_own(llama: Backend) -> None:
    run = stepper(llama, SOURCES["same model"], max_tokens=TOKENS)
    ids = ids_of(run)
    inside = next(iter(run.rounds.values())).nodes[1]
    forked = run.grow(inside)
    at = len(run.path(inside))
    assert [one.token.id for one in forked] == ids[at : at + len(forked)]
    assert forked[0].round == forked[0].node != run.nodes[inside].round


def test_rounds_are_the_same_again(llama: Backend) -> None:
    def records(seed: int) -> list[tuple[Any, ...]]:
        run = stepper(
            llama, SOURCES["other model"], dials={"temperature": 1.2}, seed=seed, max_tokens=TOKENS
        )
        list(run.run())
        return [
            (one.node, tuple((two.token.id, two.u, two.draft_u) for two in one.drafted), one.end)
            for one in run.rounds.values()
        ]

    assert records(1) == records(1) != records(2)


def test_the_times_of_a_burst_lie_on_its_first_token() -> None:
    target = by_last([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], delay_ms=20.0)
    run = stepper(target, lambda _: Listed([2, 3, 0]), prompt="a", tokens=3, max_tokens=5)
    steps = list(run.run())
    found = run.rounds[2]
    first, *others = steps[1:]
    assert first.timing.forward_ms == found.verify_ms >= 20.0
    assert all(one.timing.forward_ms == 0.0 for one in others)
    assert sum(one.timing.total_ms for one in steps[1:]) == pytest.approx(found.total_ms, rel=0.02)
    assert (found.written, found.taken_back) == (4, 0)


def test_the_record_of_an_exact_rejection() -> None:
    """Case 29: p = (.5, .3, .2), and a draft that is sure of c: kept with 0.2."""
    run = stepper(
        fixed([0.5, 0.3, 0.2]),
        lambda _: Listed(*[[2]] * 40),
        dials={"temperature": 1.0},
        prompt="a",
        tokens=1,
        max_tokens=60,
    )
    list(run.run())
    for one in run.rounds.values():
        draft, step = one.drafted[0], run.nodes[one.node]
        assert (draft.q, draft.draft_u) == (1.0, None)
        assert draft.p == pytest.approx(0.2)
        assert draft.expected == draft.chance == pytest.approx(0.2)
        assert draft.u is not None
        assert (draft.u < 0.2) == (draft.verdict is DraftVerdict.ACCEPTED)
        assert step.draw.how is How.SAMPLED
        assert step.draw.u is not None
        assert step.draw.low <= step.draw.u < step.draw.high
        if one.rejected:
            assert one.residual is not None
            assert one.residual.mass == pytest.approx(0.8)
            shares = {row.token.id: row.left for row in one.residual.rows}
            assert shares == {0: pytest.approx(5 / 8), 1: pytest.approx(3 / 8), 2: 0.0}
            assert step.token.id in shares
    verdicts = {one.drafted[0].verdict for one in run.rounds.values()}
    assert verdicts == {DraftVerdict.ACCEPTED, DraftVerdict.REJECTED}


def test_a_round_record_that_cannot_be_is_refused() -> None:
    run = stepper(fixed([0.5, 0.5]), lambda _: Listed([1]), prompt="a", tokens=1, max_tokens=3)
    list(run.run())
    (known,) = run.rounds.values()
    fields = {name: getattr(known, name) for name in RoundRecord.__dataclass_fields__}
    for wrong in (
        {"parent": known.node},
        {"drafted": ()},
        {"drafted": known.drafted * 65},
        {"added": known.added + 1},
        {"verify_ms": -1.0},
        {"verify_ms": float("nan")},
        {"written": -1},
    ):
        with pytest.raises(ValueError, match="round"):
            RoundRecord(**{**fields, **wrong})


# --- the output's distribution -----------------------------------------------------------------


P = [[0.4, 0.3, 0.2, 0.1, 0.0], [0.1, 0.2, 0.3, 0.2, 0.2], [0.2] * 5, [0, 0, 0.5, 0.5, 0]]
P += [[0.1, 0.1, 0.1, 0.2, 0.5]]
Q = [[0.1, 0.2, 0.3, 0.2, 0.2], [0.2] * 5, [0.5, 0.5, 0, 0, 0], [0.4, 0.3, 0.2, 0.1, 0.0]]
Q += [[0.2] * 5]


def draws(accept: Accept, source: Source, count: int = 900) -> list[list[int]]:
    """The two tokens after "b" of many seeds."""
    dials = {"temperature": 1.0}
    run = stepper(
        by_last(P), source, accept=accept, tokens=2, dials=dials, prompt="a", max_tokens=3
    )
    run.extend(0, force=1)
    return [[one.token.id for one in run.run(at=1, seed=seed)] for seed in range(count)]


def chi_square(found: list[list[int]]) -> float:
    """The p-value of the pairs of tokens, against the chain of P from row 1."""
    from scipy.stats import chisquare

    seen = np.zeros((5, 5))
    for first, second in found:
        seen[first, second] += 1
    expected = np.array(P[1])[:, None] * np.array(P) * len(found)
    assert not seen[expected == 0].any()
    assert expected[expected > 0].min() > 5
    return float(chisquare(seen[expected > 0], expected[expected > 0]).pvalue)


def drafting(rows: Any) -> Source:
    draft = by_last(rows)
    return lambda target: DraftModel("q", draft, target)


@pytest.mark.parametrize("accept", [Accept.EXACT, Accept.MATCH])
def test_the_output_is_distributed_as_the_targets(accept: Accept) -> None:
    assert chi_square(draws(accept, drafting(Q))) > 1e-4


def test_typical_acceptance_is_not_lossless() -> None:
    assert chi_square(draws(Accept.TYPICAL, drafting(Q))) < 1e-4


def test_a_sure_draft_leaves_the_distribution_as_it_is() -> None:
    assert chi_square(draws(Accept.EXACT, lambda _: Listed([4, 2]))) > 1e-4


def test_the_ngram_draft_copies_what_followed_first() -> None:
    drawer: Any = None
    lookup = PromptLookup(3)
    assert lookup.propose([1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3], 2, drawer).ids == (9, 1)
    assert lookup.propose([1, 2, 3, 4], 2, drawer).ids == ()
    assert lookup.propose([7, 7], 3, drawer).ids == (7,)
    assert lookup.propose([5, 3, 6, 3], 4, drawer).ids == (6, 3)
    assert lookup.propose([5], 4, drawer).ids == ()
    assert PromptLookup(1).propose([1, 2, 8, 2, 9, 1, 2], 1, drawer).ids == (8,)


def test_the_length_of_rounds_follows_what_was_accepted(llama: Backend) -> None:
    run = stepper(llama, SOURCES["same model"], tokens=0, max_tokens=60)
    ids = ids_of(run)
    assert [one.asked for one in run.rounds.values()][:2] == [5, 7]
    missing = stepper(llama, SOURCES["other model"], tokens=0, max_tokens=60)
    assert ids_of(missing) == ids
    found = list(missing.rounds.values())
    for before, after in pairwise(found[:-1]):
        more = before.accepted == len(before.drafted)
        assert after.asked == (before.asked + 2 if more else max(1, before.asked - 1))


def test_a_run_taken_over_goes_on_with_the_length_that_it_had(llama: Backend) -> None:
    run = stepper(llama, SOURCES["same model"], tokens=0, max_tokens=60)
    run.add_breakpoint("step == 8")
    list(run.run())
    whole = run.rounds[run.nodes[run.cursor].round]
    again = Stepper(llama, run.settings, max_tokens=60)
    assert run.prompt is not None
    again.restore(run.prompt, run.prefill_record, dict(run.nodes), whole.nodes[-1])
    again.speculation = run.speculation
    assert again.rounds == {}
    again.step()
    (found,) = again.rounds.values()
    assert found.asked == whole.asked + 2
