"""The path to a node and on from it: found without reading steps, and as a plain walk finds it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from textual.geometry import Size

from engine.records.events import BranchDeleted, BranchNamed
from engine.records.step import StepRecord
from engine.records.step_table import StepPath, figures_of, steady, table_of
from engine.run.step_tree import StepTree
from engine.run.tree import ROOT
from engine.timing import decode_ms, percentile, speed
from inspector.state.branches import place
from inspector.state.view import RunLog, View
from tests import fakes

Visited = Mapping[int, int]


class Counted(dict[int, StepRecord]):
    """Steps by node that count how many are looked at."""

    reads = 0

    def __getitem__(self, node: int) -> StepRecord:
        self.reads += 1
        return super().__getitem__(node)

    def get(self, node: int, default: Any = None) -> Any:
        self.reads += 1
        return super().get(node, default)

    def values(self) -> Any:
        self.reads += len(self)
        return super().values()


def odd_timing(at: int, rng: random.Random) -> dict[str, bool]:
    names = ("warmup", "reused", "reread")
    return {name: rng.random() < 0.2 for name in names} if at > 1 else {}


def odd_steps(count: int, seed: int = 0) -> list[StepRecord]:
    """A run without forks whose steps all differ."""
    rng = random.Random(seed)
    return [
        fakes.step(
            node,
            fakes.timing(rng.random() * 40, rng.random(), rng.random(), **odd_timing(node, rng)),
            fakes.kv(9 + node),
            entropy_raw=rng.random(),
            entropy_final=rng.random(),
            raw_logprob=-rng.random(),
        )
        for node in range(1, count + 1)
    ]


# --- as a walk finds it -----------------------------------------------------------------------


def walk(log: RunLog, node: int) -> list[int]:
    found = []
    while node != ROOT:
        found.append(node)
        node = log.nodes[node].parent
    return found[::-1]


def walk_on(log: RunLog, node: int, visited: Visited) -> list[int]:
    found = []
    while (child := log.tree.following(node, visited)) is not None:
        found.append(child)
        node = child
    return found


def fork_on(log: RunLog, way: Sequence[int]) -> int | None:
    return next((one for one in reversed(way) if siblings(log, one) > 1), None)


def siblings(log: RunLog, node: int) -> int:
    return len(log.tree.children[log.nodes[node].parent])


def name_on(log: RunLog, way: Sequence[int]) -> str:
    return next((log.names[one] for one in reversed(way) if log.names.get(one)), "")


@pytest.mark.parametrize("seed", range(30))
def test_the_path_is_what_a_walk_finds_whatever_happened_before(seed: int) -> None:
    rng = random.Random(seed)
    log, visited = RunLog(), dict[int, int]()
    log.add(fakes.prompt(3))
    node, deleted = 0, list[int]()
    for _ in range(400):
        there = [one for one in log.nodes if one not in log.tree.deleted] or [ROOT]
        match rng.choices(
            ["grow", "fork", "visit", "delete", "undo", "name"], [6, 2, 3, 0.3, 0.3, 1]
        )[0]:
            case "grow" | "fork" as what:
                parent = there[-1] if what == "grow" else rng.choice([*there, ROOT])
                node += 1
                cost = fakes.timing(1.0)
                log.add(fakes.step(node, cost, fakes.kv(9), parent=parent))
                deleted.clear()
            case "visit":
                way = walk(log, rng.choice(there))
                visited.update(zip([ROOT, *way], way, strict=False))
            case "delete" if log.nodes and len(there) > 3:
                deleted.append(rng.choice(there[1:]))
                log.add(BranchDeleted(deleted[-1]))
            case "undo" if deleted:
                log.add(BranchDeleted(deleted.pop(), undone=True))
            case "name" if log.nodes:
                log.add(BranchNamed(rng.choice(there), rng.choice(["", "a", "b"])))
        cursor = rng.choice([one for one in (*log.nodes, ROOT) if one not in log.tree.deleted])
        way, on = walk(log, cursor), walk_on(log, cursor, visited)
        view = View(log, cursor, None, dict(visited))
        assert view.path.nodes == way
        assert view.branch.nodes == way + on
        assert view.ahead.nodes == on
        assert [step.node for step in view.path] == way
        assert log.tip(cursor, visited) == [cursor, *on][-1]
        fork = fork_on(log, way)
        assert log.branch(cursor) == (fork if fork is not None else way[0] if way else None)
        found = place(view)
        assert found.name == name_on(log, way)
        assert found.of == max(1, len(log.tree.tips)), "F5: branches are counted by their ends"
    assert len(log.nodes) > 100


def test_a_path_stays_as_it_is_when_the_run_goes_elsewhere() -> None:
    log = RunLog()
    for step in odd_steps(200):
        log.add(step)
    path, half = log.path(200), log.path(100)
    fork = fakes.step(201, fakes.timing(1.0), fakes.kv(9), parent=50)
    log.add(fork)
    assert log.path(201).nodes == [*range(1, 51), 201]
    assert path.nodes == list(range(1, 201))
    assert half.nodes == list(range(1, 101))
    assert path[150].node == 151
    assert path[-20:][1:].nodes == list(range(182, 201))
    assert [step.node for step in reversed(half[:3])] == [3, 2, 1]


# --- figures ----------------------------------------------------------------------------------


def test_columns_are_the_figures_of_the_steps() -> None:
    steps = odd_steps(150)
    log = RunLog()
    for step in steps:
        log.add(step)
    path = log.path(150)
    assert isinstance(path, StepPath)
    assert np.array_equal(path.figures, figures_of(steps))
    assert path.figures["total_ms"].tolist() == [step.timing.total_ms for step in steps]
    assert steady(path.figures).tolist() == [step.timing.steady for step in steps]
    assert 20 < steady(path.figures).sum() < 130
    unknown = fakes.step(1, fakes.timing(1.0), fakes.kv(9))
    assert np.isnan(
        figures_of([replace(unknown, kv=replace(unknown.kv, nbytes=None))])["kv_bytes"][0]
    )


def test_speed_is_the_same_from_columns_as_from_steps() -> None:
    steps = odd_steps(300, seed=4)
    steps = [replace(one, timing=replace(one.timing, reused=False, reread=False)) for one in steps]
    prompt, prefill = fakes.prompt(10, tokenize_ms=2.0), fakes.prefill(fakes.chunk(0, 10, 500.0))
    log = RunLog()
    for one in (prompt, prefill, *steps):
        log.add(one)
    found = speed(prompt, prefill, log.path(300))
    later = [step.timing for step in steps[1:]]
    gaps = [t.total_ms for t in later if not t.warmup]
    assert found.ttft_ms == pytest.approx(2.0 + 500.0 + steps[0].timing.sample_ms)
    assert found.itl_ms == pytest.approx(sum(gaps) / len(gaps), rel=1e-12)
    assert found.tps == pytest.approx(1000 * len(gaps) / sum(gaps), rel=1e-12)
    whole = found.ttft_ms + sum(t.total_ms for t in later) if found.ttft_ms else 0.0
    assert found.end_to_end_tps == pytest.approx(300_000 / whole, rel=1e-12)
    assert found.warmup_steps == len(later) - len(gaps) > 20
    assert speed(prompt, prefill, steps) == found
    assert decode_ms(log.path(300)) == gaps
    assert percentile(gaps, 0.95) == sorted(gaps)[int(np.ceil(0.95 * len(gaps))) - 1]


def test_a_table_of_many_steps_grows_with_them() -> None:
    steps = odd_steps(1000)
    table = table_of({step.node: step for step in steps[:10]})
    for step in steps:
        table.add_row(step)
    assert len(table) == 1000
    rows = np.array([table.row(step.node) for step in steps])
    assert np.array_equal(table.figures(rows), figures_of(steps))


# --- what a live run costs --------------------------------------------------------------------


@pytest.mark.parametrize("cursor", [ROOT, 1000, 2000])
def test_a_paint_of_a_long_run_looks_at_few_of_its_steps(cursor: int) -> None:
    from inspector.panes.gauges.pane import draw
    from inspector.panes.tokens import token_rows
    from inspector.panes.transcript.pane import transcript
    from inspector.widgets.status import status_line

    steps = Counted()
    log = RunLog(tree=StepTree(steps))
    log.add(fakes.SMOLLM2)
    log.prompt = fakes.prompt(3)
    for step in odd_steps(2000):
        log.add(step)
    assert steps.reads == 0
    view = View(log, cursor)
    draw(view, Size(80, 40))
    status_line(view, 160)
    text, rows = transcript(view, 80), token_rows(view, 80)
    assert text is not None
    assert rows is not None
    assert len(rows) == 2003
    _ = text[text.cursor_line], rows[max(0, cursor)], place(view)
    assert 1 <= steps.reads <= 60
