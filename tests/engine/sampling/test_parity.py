"""Parity: with transformers' own classes, and with plain float64 references of other stacks.

transformers computes in float32 with its own order of summation, so a token whose figure meets
the border to within float32 rounding may fall either way; so may tokens that tie at the border,
because torch.sort is not stable. Everything else must be equal, and such cases must be rare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import tests.sampling_reference as reference
from engine.sampling.candidates import Candidates
from engine.sampling.chain import effective
from engine.sampling.stages import (
    Border,
    Epsilon,
    Eta,
    MinP,
    Mirostat,
    Scale,
    StageContext,
    Temperature,
    Ties,
    TopH,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)

CONTEXT = StageContext(seed=11)
KINDS = ("peaked", "flat", "tied", "cut", "huge", "tiny", "model")
SMALL = (4, 5, 9, 33, 257, 1000)
LARGE = (49_152, 151_936)


def vector(rng: np.random.Generator, size: int, kind: str) -> np.ndarray:
    """A logit vector of one of the KINDS, float32."""
    normal = rng.standard_normal(size)
    values = {
        "peaked": normal * 12,
        "flat": normal * 0.02,
        "tied": np.round(normal * 2) / 2,
        "cut": np.where(rng.random(size) < 0.4, -np.inf, normal * 3),
        "huge": normal * 1e30,
        "tiny": normal * 1e-30,
        "model": normal * 2.5 - 8 + 20 * (rng.random(size) < 20 / size),
    }[kind].astype(np.float32)
    if not np.isfinite(values).any():
        values[int(rng.integers(size))] = 0.0
    return values


def vectors(seed: int, rounds: int, large: int) -> Iterator[tuple[np.ndarray, np.random.Generator]]:
    """Every kind at every small size, ``rounds`` times, and ``large`` times at the large ones."""
    rng = np.random.default_rng(seed)
    for sizes, times in ((SMALL, rounds), (LARGE, large)):
        for _ in range(times):
            for size in sizes:
                for kind in KINDS:
                    yield vector(rng, size, kind), rng


def kept_by(stage, logits: np.ndarray) -> np.ndarray:
    return stage.apply(Candidates.from_logits(logits), CONTEXT).ids


def equals_swapped(logits: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two sets hold the same probabilities, and differ in which of equals they took."""
    probs = reference.softmax(logits).astype(np.float32)
    return np.array_equal(np.sort(probs[ours]), np.sort(probs[theirs]))


def within_rounding(stage, logits: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether every token on which two sets differ lies at the border, to float32 rounding.

    A typical token's distance is the difference of two float32 numbers near 10, a few of whose
    last places (1e-6 each) torch takes otherwise with another number of threads.
    """
    before = Candidates.from_logits(logits)
    figures = [stage.figure(before, CONTEXT, int(token)) for token in np.setxor1d(ours, theirs)]
    return all(math.isclose(f.value, f.limit, rel_tol=4e-6, abs_tol=4e-6) for f in figures)


class Tally:
    """Counts what differs and why; anything else than equals and rounding fails at once."""

    def __init__(self) -> None:
        self.total = self.swapped = self.rounding = 0

    def add(self, stage, logits: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> None:
        self.total += 1
        if np.array_equal(ours, theirs):
            return
        if equals_swapped(logits, ours, theirs):
            self.swapped += 1
            return
        self.rounding += 1
        assert within_rounding(stage, logits, ours, theirs), (stage, logits.size, ours, theirs)

    def check(self, at_least: int) -> None:
        assert self.total >= at_least
        assert self.rounding <= 0.01 * self.total, f"{self.rounding} of {self.total}"


TRANSFORMERS = {
    "top_k": (TopK, "TopKLogitsWarper", lambda rng: int(rng.integers(1, 60))),
    "top_p": (TopP, "TopPLogitsWarper", lambda rng: float(rng.uniform(0, 1))),
    "min_p": (MinP, "MinPLogitsWarper", lambda rng: float(rng.choice([0.01, 0.05, 0.3, 1.0]))),
    "typical": (Typical, "TypicalLogitsWarper", lambda rng: float(rng.uniform(0.05, 0.99))),
    "epsilon": (Epsilon, "EpsilonLogitsWarper", lambda rng: float(10 ** rng.uniform(-5, -0.5))),
    "eta": (Eta, "EtaLogitsWarper", lambda rng: float(10 ** rng.uniform(-5, -0.5))),
    "top_h": (TopH, "TopHLogitsWarper", lambda rng: float(rng.uniform(0.05, 1.0))),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_kept_sets_equal_transformers(name):
    torch = pytest.importorskip("torch")
    warpers = pytest.importorskip("transformers.generation.logits_process")
    ours, theirs, dial = TRANSFORMERS[name]
    tally = Tally()
    for logits, rng in vectors(seed=len(name), rounds=24, large=1):
        value = dial(rng)
        scores = getattr(warpers, theirs)(value)(None, torch.from_numpy(logits.copy())[None])[0]
        expected = np.flatnonzero(scores.numpy() > -np.inf)
        tally.add(ours(value), logits, kept_by(ours(value), logits), expected)
    tally.check(at_least=1000)


def test_temperature_equals_transformers_bit_for_bit():
    torch = pytest.importorskip("torch")
    warpers = pytest.importorskip("transformers.generation.logits_process")
    for logits, rng in vectors(seed=3, rounds=6, large=1):
        value = float(rng.choice([0.1, 0.3, 0.7, 0.8, 1.3, 2.0, 17.0]))
        expected = warpers.TemperatureLogitsWarper(value)(None, torch.from_numpy(logits)[None])[0]
        found = Temperature(value).apply(Candidates.from_logits(logits), CONTEXT)
        if not np.isfinite(expected.numpy()[found.ids]).all():
            continue  # past float32: transformers has infinities there
        assert found.logits.tobytes() == expected.numpy()[found.ids].tobytes()


REFERENCES = {
    "top_k, ties kept": (
        lambda v: TopK(v),
        reference.top_k_with_ties,
        lambda rng: int(rng.integers(1, 60)),
    ),
    "top_k, exact": (
        lambda v: TopK(v, Ties.EXACT),
        reference.top_k_exact,
        lambda rng: int(rng.integers(1, 60)),
    ),
    "top_p, from below": (
        lambda v: TopP(v),
        reference.top_p_from_below,
        lambda rng: float(rng.uniform(0, 1)),
    ),
    "top_p, reach": (
        lambda v: TopP(v, Border.REACH),
        reference.top_p_reach,
        lambda rng: float(rng.uniform(0, 1)),
    ),
    "top_p, exceed": (
        lambda v: TopP(v, Border.EXCEED),
        lambda logits, p: reference.top_k_top_p_joint(logits, 10**9, p),
        lambda rng: float(rng.uniform(0, 1)),
    ),
    "min_p, probability": (
        lambda v: MinP(v),
        reference.min_p_probability,
        lambda rng: float(rng.choice([0.01, 0.05, 0.3, 1.0])),
    ),
    "min_p, logit": (
        lambda v: MinP(v, Scale.LOGIT),
        reference.min_p_logit,
        lambda rng: float(rng.choice([0.01, 0.05, 0.3, 1.0])),
    ),
    "typical, exact": (
        lambda v: Typical(v, Ties.EXACT),
        reference.typical_exact,
        lambda rng: float(rng.uniform(0.05, 0.99)),
    ),
    "top_n_sigma": (
        lambda v: TopNSigma(v),
        reference.top_n_sigma,
        lambda rng: float(rng.uniform(0.1, 4)),
    ),
    "xtc": (
        lambda v: Xtc(1.0, v),
        reference.xtc,
        lambda rng: float(rng.choice([0.001, 0.05, 0.1, 0.3, 0.6])),
    ),
    "mirostat": (
        lambda v: Mirostat(v / 2),
        reference.mirostat_v2,
        lambda rng: float(rng.uniform(0.5, 20)),
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_kept_sets_equal_the_plain_reference(name):
    make, plain, dial = REFERENCES[name]
    tally = Tally()
    for logits, rng in vectors(seed=len(name), rounds=10, large=0):
        stage = make(value := dial(rng))
        tally.add(stage, logits, kept_by(stage, logits), np.array(plain(logits, value)))
    tally.check(at_least=400)
    assert tally.swapped == 0 or "typical" in name


@pytest.mark.parametrize(
    "name", ["top_k, ties kept", "top_p, reach", "min_p, logit", "top_n_sigma"]
)
def test_kept_sets_equal_the_plain_reference_at_full_size(name):
    make, plain, dial = REFERENCES[name]
    rng = np.random.default_rng(5)
    tally = Tally()
    for size in LARGE:
        for kind in ("peaked", "tied", "model"):
            logits = vector(rng, size, kind)
            stage = make(value := dial(rng))
            tally.add(stage, logits, kept_by(stage, logits), np.array(plain(logits, value)))
    tally.check(at_least=6)


class TestExactBorders:
    """Equal logits at power-of-two counts have probabilities that every dtype holds exactly."""

    LOGITS = np.zeros(8, dtype=np.float32)

    @pytest.mark.parametrize("eighths", range(1, 9))
    def test_top_p(self, eighths):
        p = eighths / 8
        torch = pytest.importorskip("torch")
        warpers = pytest.importorskip("transformers.generation.logits_process")
        scores = warpers.TopPLogitsWarper(p)(None, torch.zeros(1, 8))[0]
        assert len(kept_by(TopP(p), self.LOGITS)) == int(torch.isfinite(scores).sum())
        for rule, plain in (
            (Border.TAIL, reference.top_p_from_below),
            (Border.REACH, reference.top_p_reach),
            (Border.EXCEED, lambda logits, value: reference.top_k_top_p_joint(logits, 99, value)),
        ):
            if p < 1:
                assert kept_by(TopP(p, rule), self.LOGITS).tolist() == plain(self.LOGITS, p)

    def test_sglang_keeps_one_more_where_the_mass_before_equals_p(self):
        assert len(kept_by(TopP(0.5, Border.REACH), self.LOGITS)) == 4
        assert len(kept_by(TopP(0.5, Border.TAIL), self.LOGITS)) == 4
        assert len(kept_by(TopP(0.5, Border.EXCEED), self.LOGITS)) == 5

    @pytest.mark.parametrize(
        ("border", "expected"),
        [(Border.TAIL, [0, 1]), (Border.REACH, [0, 1]), (Border.EXCEED, [0, 1, 2])],
    )
    def test_decimal_borders_are_judged_as_float32_judges_them(self, border, expected):
        logits = np.log([0.5, 0.3, 0.2]).astype(np.float32)
        assert kept_by(TopP(0.8, border), logits).tolist() == expected

    def test_min_p_keeps_what_meets_the_border(self):
        logits = np.log([0.5, 0.25, 0.25]).astype(np.float32)
        assert kept_by(MinP(0.5), logits).tolist() == [0, 1, 2]
        assert kept_by(MinP(1.0), np.zeros(5, dtype=np.float32)).tolist() == [0, 1, 2, 3, 4]

    def test_typical_stops_at_or_past_the_mass(self):
        assert kept_by(Typical(0.5), self.LOGITS).tolist() == list(range(8))  # all tie
        assert len(kept_by(Typical(0.5, Ties.EXACT), self.LOGITS)) == 5


class TestStacks:
    """Whole presets against references that chain the plain functions in the stack's order."""

    @staticmethod
    def cut(logits: np.ndarray, kept: list[int]) -> np.ndarray:
        out = np.full(logits.size, -np.inf)
        out[kept] = logits[kept]
        return out

    def check(self, preset: str, dials: dict, plain) -> None:
        chain = effective(preset, dials).chain
        differing = [
            logits
            for logits, _ in vectors(seed=21, rounds=6, large=0)
            if chain.run(logits, CONTEXT).final.ids.tolist() != plain(logits.astype(np.float64))
        ]
        assert differing == []

    def test_llamacpp(self):
        def plain(x):
            x = self.cut(x, reference.top_k_exact(x, 40))
            x = self.cut(x, reference.top_p_reach(x, 0.95))
            return reference.min_p_logit(x, 0.05)

        self.check("llamacpp", {}, plain)

    def test_vllm(self):
        def plain(x):
            x = np.float64(np.float32(x) / np.float32(0.7))
            x = self.cut(x, reference.min_p_probability(x, 0.02))
            x = self.cut(x, reference.top_k_with_ties(x, 30))
            return reference.top_p_from_below(x, 0.9)

        self.check("vllm", {"temperature": 0.7, "min_p": 0.02, "top_k": 30, "top_p": 0.9}, plain)

    def test_sglang_takes_top_k_and_top_p_together(self):
        def plain(x):
            x = np.float64(np.float32(x) / np.float32(0.7))
            return reference.top_k_top_p_joint(x, 30, 0.9)

        self.check("sglang", {"temperature": 0.7, "top_k": 30, "top_p": 0.9}, plain)

    def test_sglang_with_min_p_runs_in_a_row(self):
        def plain(x):
            x = self.cut(x, reference.top_k_exact(x, 30))
            x = self.cut(x, reference.top_k_top_p_joint(x, 10**9, 0.91))
            return reference.min_p_probability(x, 0.1)

        self.check("sglang", {"temperature": 1.0, "top_k": 30, "top_p": 0.91, "min_p": 0.1}, plain)

    def test_joint_and_sequential_part(self):
        """[0.4, 0.3, 0.2, 0.1], k = 2, p = 0.5: together two stay, in a row one."""
        logits = np.log([0.4, 0.3, 0.2, 0.1]).astype(np.float32)
        dials = {"top_k": 2, "top_p": 0.5, "temperature": 1.0}
        ids = {
            name: effective(name, dials).chain.run(logits, CONTEXT).final.ids.tolist()
            for name in ("sglang", "hf", "llamacpp")
        }
        assert ids == {"sglang": [0, 1], "hf": [0], "llamacpp": [0]}

    def test_mlx(self):
        def plain(x):
            x = self.cut(x, reference.top_p_from_below(x, 0.9))
            x = self.cut(x, reference.min_p_logit(x, 0.01))
            return reference.top_k_exact(x, 20)

        self.check("mlx", {"temperature": 0.5, "top_p": 0.9, "min_p": 0.01, "top_k": 20}, plain)
