"""The presets against what the real engines kept of real distributions (``bench/record_*.py``)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.models.resolve import resolve
from engine.models.tokenizer_file import FILE, Names
from engine.sampling.chain import Candidates, effective
from engine.sampling.stages import StageContext
from tests.recordings import Case, cases

PRINTED = 2e-4
"""Most that a probability may differ: sums over the unlikely tokens, which are kept as float16."""

NEAR_TIES = {
    ("llamacpp", "top_p=0.9 top_k=0 min_p=0.0 after (504, 2644, 2643)"): {1549},
    ("llamacpp", "top_n_sigma=3.0 top_k=0 top_p=1.0 min_p=0.0 after (65, 42, 6244)"): {8990},
}
"""Tokens so near a border that the recording's own rounding decides over them."""


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(Path(resolve(None, offline=True).path) / FILE, 49_152)


def kept(preset: str, case: Case, names: Names) -> Candidates:
    """What our preset leaves; where it is greedy as vLLM reports it, before the choice."""
    chain = effective(preset, case.dials, resolve=names.ids).chain
    context = StageContext(
        case.prompt_ids,
        case.output_ids,
        stop_ids=frozenset({2}),
        token=names.token,
        encode=names.ids,
    )
    ladder = chain.run(case.logits, context)
    if preset == "vllm" and chain.greedy:
        return ladder.before([one.name for one in chain.stages].index("temperature"))
    return ladder.final


def difference(ours: Candidates, case: Case) -> float:
    """The largest difference of a probability, among the tokens that are recorded."""
    probs = ours.probs_of(case.ids)
    return float(np.abs(probs / probs.sum() - case.probs / case.probs.sum()).max())


@pytest.mark.model
@pytest.mark.parametrize(("preset", "settings"), [("llamacpp", 44), ("vllm", 28)])
def test_a_preset_keeps_what_the_real_engine_kept(preset: str, settings: int, names: Names) -> None:
    """A3, A4, E6: every setting on five prompts; near ties by name."""
    wrong, seen = [], Counter[str]()
    for case in cases(f"{preset}.npz"):
        seen[str(case.dials)] += 1
        ours = kept(preset, case, names)
        missing = set(case.ids.tolist()) - set(ours.ids.tolist())
        more = set(ours.ids.tolist()) - set(case.ids.tolist()) if case.whole else set()
        off = difference(ours, case)
        if (missing | more) - NEAR_TIES.get((preset, case.name), set()) or off > PRINTED:
            wrong.append((case.name, sorted(missing)[:5], sorted(more)[:5], off))
    assert not wrong
    assert len(seen) == settings
    assert set(seen.values()) == {5}


@pytest.mark.model
def test_llamacpp_differs_by_dry_and_by_mirostat_1_where_the_engine_does(names: Names) -> None:
    """A3: the recording would notice: without DRY, or with version 2, the kept sets are others."""
    found = {}
    for case in cases("llamacpp.npz"):
        for dial, other in (("dry_multiplier", 0.0), ("mirostat_version", 2), ("min_keep", 0)):
            if dial in case.dials and case.dials[dial] != other:
                changed = Case(**{**vars(case), "dials": {**case.dials, dial: other}})
                ours = kept("llamacpp", changed, names)
                same = np.array_equal(np.sort(case.ids), ours.ids)
                close = same and difference(ours, case) < PRINTED
                found[dial] = found.get(dial, False) or not close
    assert found == {"dry_multiplier": True, "mirostat_version": True, "min_keep": True}
