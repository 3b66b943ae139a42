"""Sampler values that were wrong or not shown, each by its letter and number."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.vocabulary import Token, TokenKind, Vocabulary
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.chain import SpecError, effective
from engine.sampling.explain import explain
from engine.sampling.ladder import Ladder
from engine.sampling.presets import PRESETS
from engine.sampling.stages import (
    Allowed,
    Dry,
    Grammar,
    MinP,
    Mirostat,
    StageContext,
    Typical,
    Xtc,
)
from engine.sampling.stages.dry import overlaps
from inspector.cli import main as cli
from inspector.state.rerun import rerun
from tests.fake_runs import run as made_run

WORDS = {100: b"a", 101: b" b", 103: b" c", 104: b" d", 105: b" e", 1116: b"\n\n"}


def token(token_id: int) -> Token:
    return Token(token_id, WORDS[token_id])


def at(ids: dict[int, float], size: int = 30_000) -> np.ndarray:
    """Logits of a few ids; all others are impossible."""
    logits = np.full(size, -np.inf, np.float32)
    logits[list(ids)] = list(ids.values())
    return logits


def run(preset: str, dials: dict[str, object], logits: np.ndarray, **known: object) -> Ladder:
    context = StageContext(**known)  # type: ignore[arg-type]
    return effective(preset, dials).chain.run(logits, context)


# --- A3: breakers ---------------------------------------------------------------------------------


def test_a_breaker_inside_a_longer_token_breaks() -> None:
    """A3: "\\n\\n" contains "\\n", so "a b \\n\\n" is no repeat and c is as likely as d."""
    ladder = run(
        "llamacpp",
        {"dry_multiplier": 0.8, "temperature": 1.0},
        at({103: 1.0, 104: 1.0}),
        prompt_ids=(100, 101, 1116, 103, 105, 100, 101, 1116),
        token=token,
    )
    assert ladder.probs(np.array([103, 104]))[-1].tolist() == [0.5, 0.5]


def test_without_the_breaker_that_is_a_repeat() -> None:
    """A3: the case can tell: a breaker that the token does not contain leaves 0.198 / 0.802."""
    ladder = run(
        "llamacpp",
        {"dry_multiplier": 0.8, "temperature": 1.0, "dry_breakers": "'*'", "min_p": 0.0,
         "top_p": 1.0},
        at({103: 1.0, 104: 1.0}),
        prompt_ids=(100, 101, 1116, 103, 105, 100, 101, 1116),
        token=token,
    )  # fmt: skip
    assert ladder.probs(np.array([103, 104]))[-1] == pytest.approx([0.198, 0.802], abs=1e-3)


def test_a_token_that_contains_a_breaker_is_exempt() -> None:
    """A3: c followed "a b" before; "\\n\\n" did too, and is not penalised."""
    ladder = run(
        "llamacpp",
        {"dry_multiplier": 5.0, "temperature": 1.0, "min_p": 0.0, "top_p": 1.0},
        at({104: 1.0, 1116: 1.0}),
        prompt_ids=(100, 101, 1116, 104, 100, 101),
        token=token,
    )
    assert ladder.probs(np.array([104, 1116]))[-1].tolist() == [0.5, 0.5]


def test_breakers_in_writing_need_the_tokens_text() -> None:
    """A3: nothing is guessed where the text of the tokens is not known."""
    with pytest.raises(SamplingError, match="needs the text of the tokens"):
        run("llamacpp", {"dry_multiplier": 1.0}, at({0: 1.0}), prompt_ids=(1, 2, 1, 2))


def letters(text: str) -> list[int]:
    return list(text.encode())


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"x\n\nHi:", [()]),
        (b"\n\nHi", [tuple(b":")]),
        (b"x\n", [tuple(b"\nHi:")]),
        (b"x\n\n", [tuple(b"Hi:"), tuple(b"\nHi:")]),
        (b"Hi:", []),
        (b"\nHi", []),
    ],
)
def test_a_breaker_may_begin_inside_a_token(data: bytes, found: list[tuple[int, ...]]) -> None:
    """A3: llama.cpp's get_overlapping_token_sequences: the rest in the tokenizer's own tokens."""
    assert overlaps(data, b"\n\nHi:", letters) == found


def test_a_breaker_across_tokens_breaks_where_its_rest_follows() -> None:
    """A3: "y." then " The" is the breaker ". The"; "y." then " An" is not."""
    words = {1: b"x", 2: b"y.", 3: b" The", 4: b" An", 5: b"z"}
    ids = {" The": [3], " An": [4]}

    def logit(last: int) -> float:
        context = StageContext(
            (1, 2, last, 5, 1, 2, last),
            token=lambda one: Token(one, words[one]),
            encode=lambda text: ids[text],
        )
        stage = Dry(1.0, 2.0, 1, dry_breakers="'. The'")
        return float(stage.apply(Candidates.from_logits(np.zeros(6)), context).logits[5])

    assert logit(4) == -4.0
    assert logit(3) == 0.0


@pytest.mark.parametrize("dense", [True, False])
def test_a_run_and_a_look_back_at_it_agree_on_breakers(dense: bool) -> None:
    """A3: the engine and the replaying process name the text's tokens, each for itself."""
    view = made_run(
        ["a", " b", " c", " d", "\n\n"],
        (0.3, 0.3, 0.2, 0.1, 0.1),
        spec="dry_multiplier=0.8 dry_breakers=\"'\\\\n'\" > temperature=1",
        prompt=(0, 1, 4, 2, 3, 0, 1, 4),
        dense=dense,
    )
    assert view.step is not None
    assert view.step.top.probs[-1].tolist() == pytest.approx([0.3, 0.3, 0.2, 0.1, 0.1])
    assert rerun(view).ladder.final.probs.tolist() == pytest.approx([0.3, 0.3, 0.2, 0.1, 0.1])


def test_a_long_breaker_cannot_be_judged_without_the_tokenizer() -> None:
    """A3: llama.cpp looks for the rest in tokens; the screen says that it has no tokenizer."""
    view = made_run(
        ["a", " b", " c", " d", "\n"],
        (0.3, 0.3, 0.2, 0.1, 0.1),
        spec="dry_multiplier=0.8 dry_breakers=\"'\\\\n c'\" > temperature=1",
        prompt=(0, 1, 4, 2, 3, 0, 1, 4),
        dense=True,
    )
    with pytest.raises(SamplingError, match="needs a tokenizer"):
        rerun(view)


# --- A4: words with a space -----------------------------------------------------------------------

IDS = {"London": [21253], " London": [4528], " Paris": [7], "Paris": [8], "New York": [1, 2],
       " New York": [3, 2], "York": [1, 2], " York": [4]}  # fmt: skip


def words(text: str) -> Sequence[int]:
    return IDS[text]


def test_vllm_forbids_a_word_with_a_space_too() -> None:
    """A4: logits 4 5 3 of "London", " London" and " describe": the last alone is left."""
    found = effective("vllm", {"bad_words": "'London'"}, resolve=words)
    ladder = found.chain.run(at({21253: 4.0, 4528: 5.0, 5125: 3.0}), StageContext())
    assert ladder.final.ids.tolist() == [5125]


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ("'London'", "21253, 4528"),
        ("' London'", "21253, 4528"),
        ("'New York'", "1 2, 3 2"),
        ("'York'", "1 2"),
        ("5, 'Paris'", "5, 8, 7"),
    ],
)
def test_vllm_takes_the_spaced_word_where_it_is_as_long(written: str, ids: str) -> None:
    """A4: SamplingParams.update_from_tokenizer: another first token, and as many tokens."""
    found = effective("vllm", {"bad_words": written}, resolve=words)
    assert found.chain.stages[0].params["bad_words"] == ids


@pytest.mark.parametrize("preset", ["guide", "hf"])
def test_other_stacks_say_which_twin_is_possible(preset: str) -> None:
    """A4: a note names the token that was not forbidden; none where both are."""
    note = "bad_words='London' is taken as written: ' London' (4528) is still possible."
    assert note in effective(preset, {"bad_words": "'London'"}, resolve=words).notes
    both = effective(preset, {"bad_words": "'London', ' London'"}, resolve=words)
    assert not any(one.startswith("bad_words") for one in both.notes)


# --- A6, A7, A8: what is shown --------------------------------------------------------------------


def derived(preset: str, dials: dict[str, object], logits: Sequence[float]) -> dict[str, float]:
    ladder = run(preset, dials, np.array(logits, np.float32), prompt_ids=(0,))
    found: dict[str, float] = {}
    for one in ladder.traces:
        found |= one.derived
    return found


def test_the_temperature_that_was_used() -> None:
    """A6: temperature 1, range 0.5, logits 2 1 0: T 1.2577, p .60408 .27276 .12316."""
    dials = {"temperature": 1.0, "dynatemp_range": 0.5, "top_k": 0, "top_p": 1.0}
    assert derived("guide", dials, [2, 1, 0]) == {"temperature": pytest.approx(1.2577, abs=1e-4)}
    final = run("guide", dials, np.array([2, 1, 0], np.float32)).final
    assert final.probs == pytest.approx([0.60408, 0.27276, 0.12316], abs=1e-5)


def test_a_temperature_that_a_stack_raises_is_shown() -> None:
    """A6: vLLM takes no temperature between 0 and 0.01."""
    assert derived("vllm", {"temperature": 0.001}, [2, 1, 0]) == {"temperature": 0.01}
    assert derived("vllm", {"temperature": 0.5}, [2, 1, 0]) == {}


def test_every_parameter_that_is_worked_out_is_recorded() -> None:
    """A6: mu, thresholds and borders, by hand on probabilities 0.5 0.25 0.25."""
    logits = np.log([0.5, 0.25, 0.25]).tolist()
    alone = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    entropy = 1.5 * math.log(2)
    sigma = math.log(2) * math.sqrt(2) / 3
    assert derived("guide", {**alone, "min_p": 0.2}, logits) == {"threshold": pytest.approx(0.1)}
    assert derived("guide", {**alone, "eta_cutoff": 0.01}, logits) == {
        "threshold": pytest.approx(min(0.01, 0.1 * math.exp(-entropy)))
    }
    assert derived("guide", {**alone, "top_n_sigma": 2.0}, logits) == {
        "border": pytest.approx(math.log(0.5) - 2 * sigma, abs=1e-6)
    }
    assert derived("guide", {**alone, "top_h": 0.4}, logits) == {
        "entropy limit": pytest.approx(0.4 * entropy, abs=1e-6)
    }
    assert derived("guide", {**alone, "mirostat_tau": 3.0}, logits) == {"mu": 6.0}
    assert derived("guide", {**alone, "typical_p": 0.4}, logits) == {
        "distance": pytest.approx(0.5 * math.log(2), abs=1e-6)
    }


def test_the_draw_of_xtc_is_recorded() -> None:
    """A11: XTC's own random number is in the record, and says whether it acted."""
    for seed in range(12):
        stage = Xtc(0.5, 0.1)
        context = StageContext((0, 1), seed=seed)
        before = Candidates.from_logits(np.log([0.6, 0.3, 0.1]))
        after = stage.apply(before, context)
        assert (stage.derived(before, after, context)["u"] < 0.5) == (len(after) < 3)


def test_equal_tokens_at_the_border_of_top_k_are_counted() -> None:
    """A8: 40 and 2 equal to the last of them."""
    logits = np.concatenate((np.arange(50, 11, -1), [11, 11, 11], np.arange(10, 0, -1)))
    ladder = run("hf", {"top_k": 40}, logits.astype(np.float32))
    (trace,) = [one for one in ladder.traces if one.name == "top_k"]
    assert (trace.survivors, trace.derived) == (42, {"equal": 2})


def sample(capsys: pytest.CaptureFixture[str], path: Path, logits: object, *words: str) -> str:
    np.save(path / "logits.npy", np.asarray(logits, np.float32))
    assert cli.main(["sample", str(path / "logits.npy"), *words]) == 0
    return capsys.readouterr().out


def test_sample_shows_what_was_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A6: 1.2577 in the text, in the ladder's column (shorter) and in the JSON."""
    dials = ("--temperature", "1", "--dynatemp-range", "0.5", "--top-k", "0", "--top-p", "1")
    text = sample(capsys, tmp_path, [2, 1, 0], *dials)
    assert "used      dynatemp_range=0.5: T 1.2577" in text
    above, figures = text.split("tokens left")
    assert "T 1.2577" in above.split("logprob")[1]
    assert "worked out T 1.2577" in " ".join(figures.split())
    found = json.loads(sample(capsys, tmp_path, [2, 1, 0], *dials, "--format", "json"))
    (stage,) = [one for one in found["stages"] if one["name"] == "temperature"]
    assert stage["derived"] == {"temperature": pytest.approx(1.2577, abs=1e-4)}


def test_sample_says_what_mirostat_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A7: in the text too, as the JSON does."""
    text = sample(capsys, tmp_path, [2, 1, 0], "--mirostat-tau", "3", "--top-k", "2")
    assert "not used" in text
    assert "top_k=2 (flag, mirostat replaces it)" in " ".join(text.split())


def test_sample_says_how_many_were_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A8: "2 + 1 equal", where top_k=2 leaves three."""
    text = sample(capsys, tmp_path, [3, 2, 2, 1], "--preset", "hf", "--top-k", "2")
    assert "top_k=2: 2 + 1 equal" in " ".join(text.split())


# --- A11: off, and what is odd --------------------------------------------------------------------


@pytest.mark.parametrize("preset", list(PRESETS))
def test_minus_one_is_off(preset: str) -> None:
    """A11: top_k=-1 as vLLM and SGLang write it; under transformers a note says whose that is."""
    found = effective(preset, {"top_k": -1, "temperature": 1.0, "top_p": 1.0})
    assert found.dials["top_k"].value == 0
    assert len(found.chain.run(np.zeros(100, np.float32), StageContext()).final) == 100
    assert any(one.startswith("top_k=-1") for one in found.notes) == (preset == "hf")
    with pytest.raises(SpecError, match="-1, or 0 or more"):
        effective(preset, {"top_k": -2})


def test_minus_one_is_off_for_top_n_sigma() -> None:
    """A11, its kind: llama.cpp's own default of top_n_sigma is -1."""
    assert effective("llamacpp", {"top_n_sigma": -1}).dials["top_n_sigma"].value == 0.0


def test_xtc_with_threshold_0_warns() -> None:
    """A11: it cuts all but the least likely token, and says so before."""
    dials = {"xtc_probability": 1.0, "xtc_threshold": 0.0}
    assert any(one.startswith("xtc_threshold=0 ") for one in effective("guide", dials).notes)
    assert not effective("mlx", {"xtc_probability": 1.0}).notes[0].startswith("xtc")
    spelled_out = effective("guide", {}, spec="xtc_probability=1 xtc_threshold=0 > top_k=3")
    assert spelled_out.notes


# --- D6: the end of a grammar ---------------------------------------------------------------------


@pytest.mark.parametrize("output", [(0, 5), (0, 1, 5), (0, 5, 5), (0, 1, 5, 5)])
def test_a_stop_token_fits_the_end_of_a_grammar(output: tuple[int, ...]) -> None:
    """D6: after the stop token that the grammar allowed, stop tokens are what fits."""
    pytest.importorskip("llguidance")
    tokens = [Token(one, bytes([97 + one])) for one in range(5)]
    vocabulary = Vocabulary.pack([*tokens, Token(5, b"<eos>", TokenKind.SPECIAL)])
    context = StageContext(output_ids=output, stop_ids=frozenset({5}), vocabulary=vocabulary)
    left = Grammar(regex="ab?").apply(Candidates.from_logits(np.zeros(6)), context)
    assert left.ids.tolist() == [5]


@pytest.mark.parametrize("output", [(5,), (1,), (0, 5, 0), (0, 1, 5, 1)])
def test_what_does_not_fit_is_still_said(output: tuple[int, ...]) -> None:
    """D6: a stop token before the end, and any other token after it."""
    pytest.importorskip("llguidance")
    tokens = [Token(one, bytes([97 + one])) for one in range(5)]
    vocabulary = Vocabulary.pack([*tokens, Token(5, b"<eos>", TokenKind.SPECIAL)])
    context = StageContext(output_ids=output, stop_ids=frozenset({5}), vocabulary=vocabulary)
    with pytest.raises(SamplingError, match="does not fit the grammar"):
        Grammar(regex="ab?").apply(Candidates.from_logits(np.zeros(6)), context)


# --- E6: dials of the engines ---------------------------------------------------------------------


def test_allowed_token_ids() -> None:
    """E6: vLLM keeps the listed ids alone, before everything else."""
    ladder = run("vllm", {"allowed_token_ids": "1, 3"}, np.arange(5.0))
    assert ladder.final.ids.tolist() == [1, 3]
    assert ladder.traces[0].name == "allowed"
    with pytest.raises(SamplingError, match="token id 9"):
        Allowed("9").apply(Candidates.from_logits(np.zeros(3)), StageContext())
    with pytest.raises(SpecError):
        effective("llamacpp", {"allowed_token_ids": "1"})


@given(
    st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=30, unique=True),
    st.integers(0, 35),
    st.floats(0, 1),
    st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_min_keep_is_the_least_that_is_left(
    logits: list[float], least: int, top_p: float, min_p: float
) -> None:
    """E6: of top-p, min-p and both, never fewer than min_keep, and the likeliest."""
    dials = {"top_k": 0, "top_p": top_p, "min_p": min_p, "temperature": 1.0}
    without = run("llamacpp", dials, np.array(logits, np.float32)).final
    ladder = run("llamacpp", {**dials, "min_keep": least}, np.array(logits, np.float32))
    count = min(len(logits), max(least, len(without)))
    assert len(ladder.final) == count
    assert set(ladder.final.ids.tolist()) == set(np.argsort(logits)[::-1][:count].tolist())


def test_one_min_keep_goes_for_every_stage_of_a_chain() -> None:
    """E6: turned in top_p it holds in min_p, typical and XTC, however the chain is made."""
    spec = "top_p=0.5 min_keep=3 > min_p=0.9 > typical_p=0.1 > xtc_probability=1"
    found = effective("llamacpp", {}, spec=spec)
    assert [one.min_keep for one in found.chain.stages] == [3, 3, 3, 3]
    assert effective("llamacpp", {}, spec=found.spec).chain == found.chain
    logits = np.log([0.5, 0.3, 0.1, 0.06, 0.04])
    assert len(found.chain.run(logits, StageContext()).final) == 3


def test_min_keep_by_stage() -> None:
    """E6: llama.cpp's typical keeps at least so many; its XTC does nothing that leaves fewer."""
    probs = Candidates.from_logits(np.log([0.4, 0.3, 0.2, 0.1]))
    assert len(Typical(0.01, min_keep=3).apply(probs, StageContext())) == 3
    assert len(MinP(1.0, min_keep=2).apply(probs, StageContext())) == 2
    assert len(Xtc(1.0, 0.15).apply(probs, StageContext())) == 2
    assert len(Xtc(1.0, 0.15, min_keep=2).apply(probs, StageContext())) == 2
    assert len(Xtc(1.0, 0.15, min_keep=3).apply(probs, StageContext())) == 4


def test_mirostat_1_keeps_k_of_a_zipf_distribution() -> None:
    """E6: on p ~ 1 / rank ** 1.5 the exponent is found exactly, and k follows by the formula."""
    size, s, tau = 1000, 1.5, 3.0
    logits = -s * np.log(np.arange(1, size + 1))
    stage = Mirostat(tau, 0.1, 1)
    k = ((s - 1) * 2 ** (2 * tau) / (1 - size ** (1 - s))) ** (1 / s)
    before = Candidates.from_logits(logits)
    after = stage.apply(before, StageContext())
    assert len(after) == int(k) == 10
    assert stage.derived(before, after, StageContext()) == {"mu": 6.0, "k": 10}
    surprisal = -math.log2(float(after.probs[0]))
    assert stage.advance(after, StageContext(), 0) == pytest.approx(6.0 - 0.1 * (surprisal - tau))


@pytest.mark.parametrize(
    "logits", [[0.0], [0.0, 0.0, 0.0], [0.0, -500.0], [5.0, 5.0 - math.log(2)]]
)
def test_mirostat_1_keeps_something_of_anything(logits: list[float]) -> None:
    """E6: one token, equal tokens, a sure one, an exponent of exactly 1."""
    before = Candidates.from_logits(np.array(logits))
    assert 1 <= len(Mirostat(3.0, 0.1, 1).apply(before, StageContext())) <= len(logits)


# --- F17: ties ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "kept", "cut"), [("hf", 9, 7), ("vllm", 9, 7), ("llamacpp", 7, 9)]
)
def test_a_tie_at_the_border_says_who_stays(preset: str, kept: int, cut: int) -> None:
    """F17: ids 7, 8 and 9 tie at 1.27%; one of them is in the nucleus."""
    probs = np.full(12, 0.949 / 7)
    probs[7:10] = 0.0127
    probs[10:] = (1 - 0.949 - 3 * 0.0127) / 2
    dials = {"top_p": 0.955, "top_k": 0, "min_p": 0.0, "temperature": 1.0}
    context = StageContext()
    chain = effective(preset, dials).chain
    ladder = chain.run(np.log(probs), context)
    assert kept in ladder.final.ids
    order = "highest" if preset != "llamacpp" else "lowest"
    said = explain(chain, ladder, context, cut).text
    assert said == (
        "cut by top_p=0.955: tied with 1 that it keeps, at 1.27%; "
        f"of equals this stack keeps the {order} ids"
    )
    assert "tied" not in explain(chain, ladder, context, 11).text
