"""What a comparison says of distributions of which only the heads are recorded."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.records.events import Record
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.state.comparing import other_tips, sides
from inspector.state.view import RunLog, View
from sessions import SessionWriter, open_session
from sessions.compare.diff import Diff, Pair, Side, diff, side_of
from sessions.compare.identical import Identical, identical
from sessions.compare.tables import Bound
from sessions.compare.text import bound_text, lines, to_json
from sessions.recording import first_records
from tests.sessions.test_store import save

WIDTH = 300
TOKENS = [chr(0x4E00 + number) for number in range(WIDTH)]
ZERO = Bound(0.0, 0.0)


def model(seed: int = 3) -> ScriptedBackend:
    """A vocabulary of which a record holds less than a quarter."""
    vectors = np.random.default_rng(seed).normal(0, 1, (20, WIDTH)).astype(np.float32)
    return ScriptedBackend(lambda ids: vectors[len(ids) - 1], TOKENS)


def run(spec: str = "temperature=1 >", *, fork: bool = True, seed: int = 1) -> list[Record]:
    """Three tokens, and two other ones beside the third: another draw, and other settings."""
    one = Stepper(model(), effective("guide", {}, spec=spec), seed=seed)
    records: list[Record] = list(first_records(one, TOKENS[0]))
    records += [one.extend(one.cursor) for _ in range(3)]
    if fork:
        records.append(one.extend(2, seed=77))
        one.settings = effective("guide", {}, spec="temperature=0.5 > top_k=20")
        records.append(one.extend(2, seed=78))
    return records


def step_of(records: list[Record], node: int) -> StepRecord:
    return next(one for one in records if isinstance(one, StepRecord) and one.node == node)


def shown(found: Diff) -> list[tuple[str, str]]:
    return [(bound_text(pair.kl_raw), bound_text(pair.kl_final)) for pair in found.pairs]


def test_two_branches_of_one_file(tmp_path: Path) -> None:
    """Nodes 1 and 2 are shared; 4 and 5 took the logits that 3 was drawn from."""
    path = save(tmp_path / "run.llmi", run())
    with open_session(path) as session, open_session(path) as again:
        assert session.tips == [3, 4, 5]
        same_chain = diff(side_of(session, 3), side_of(again, 4))
        other_chain = diff(side_of(session, 3), side_of(again, 5))
    assert [(pair.a, pair.b) for pair in same_chain.pairs] == [(1, 1), (2, 2), (3, 4)]
    assert shown(same_chain) == [("0", "0")] * 3
    assert [one.kl_raw for one in other_chain.pairs] == [ZERO] * 3
    last: Pair = other_chain.pairs[2]
    assert last.kl_final is not None
    assert last.kl_final.low > 0.0, "other settings leave another distribution"
    assert all(pair.ranks == () and pair.logit_difference == 0.0 for pair in same_chain.pairs)
    text = "\n".join(lines(same_chain))
    assert "≥" not in text
    assert {one["kl_raw"]["exact"] for one in to_json(same_chain)["positions"]} == {True}


def test_two_branches_on_the_screen() -> None:
    log = RunLog()
    for one in run():
        log.add(one)
    view = View(log, 3)
    assert other_tips(view) == [4, 5]
    assert shown(diff(*sides(log, 3, 4))) == [("0", "0")] * 3


def test_a_copy_of_a_file(tmp_path: Path) -> None:
    """As --live makes one: what was copied is the same, what each went on with is not."""
    original = save(tmp_path / "run.llmi", run(fork=False))
    shutil.copy(original, tmp_path / "copy.llmi")
    with SessionWriter(tmp_path / "longer.llmi") as writer:
        with open_session(original) as before:
            writer.add_all(before.records())
        one = Stepper(model(), effective("guide", {}, spec="temperature=1 >"), seed=9)
        list(first_records(one, TOKENS[0]))
        for node in (1, 2, 3):
            one.extend(one.cursor, force=step_of(run(fork=False), node).token.id)
        writer.add(one.extend(one.cursor))
    with (
        open_session(original) as a,
        open_session(tmp_path / "copy.llmi") as b,
        open_session(tmp_path / "longer.llmi") as c,
    ):
        assert shown(diff(side_of(a), side_of(b))) == [("0", "0")] * 3
        assert shown(diff(side_of(b), side_of(c))) == [("0", "0")] * 3


def test_the_same_run_twice_is_only_bounded(tmp_path: Path) -> None:
    """Equal heads of two runs: the tails were not kept, so nothing proves that they are equal."""
    a = save(tmp_path / "a.llmi", run(fork=False))
    b = save(tmp_path / "b.llmi", run(fork=False))
    with open_session(a) as one, open_session(b) as other:
        found = diff(side_of(one), side_of(other))
    assert found.same_output
    assert shown(found) == [("≥ 0", "≥ 0")] * 3
    assert found.pairs[0].kl_raw is not None
    assert "of a's mass is on tokens that b did not keep" in found.pairs[0].kl_raw.why


def test_the_same_run_twice_with_whole_logits_is_exact() -> None:
    dense = np.random.default_rng(1).normal(0, 1, WIDTH).astype(np.float32)
    one, other = (
        Side(name, [step_of(run(fork=False), 1)], dense=lambda node: dense) for name in "ab"
    )
    assert diff(one, other).pairs[0].kl_raw == ZERO


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Identical(True, True)),
        ({"node": 9}, Identical()),
        ({"log_z_raw": 1.0}, Identical()),
    ],
)
def test_a_copy_is_told_by_the_time_it_took(changes: dict[str, float], expected: Identical) -> None:
    one = step_of(run(), 2)
    assert identical(one, replace(one, **changes), one_run=False) == expected  # type: ignore[arg-type]
    slower = replace(one.timing, forward_ms=one.timing.forward_ms + 1e-6)
    assert identical(one, replace(one, timing=slower), one_run=False) == Identical()


def test_siblings_that_were_read_apart_are_not_the_same() -> None:
    records = run()
    one, other = step_of(records, 3), step_of(records, 4)
    assert other.timing.reused
    assert identical(one, other, one_run=True) == Identical(model=True, final=True)
    assert identical(one, other, one_run=False) == Identical()
    fresh = replace(other, timing=replace(other.timing, reused=False))
    assert identical(one, fresh, one_run=True) == Identical()
    assert identical(one, step_of(records, 5), one_run=True) == Identical(model=True)
