"""The pool of K/V blocks as the engine tells of it, as a file keeps it and as a run log has it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import server
from engine.backends.hf.pool import KVOptions
from engine.commands import Configure, DeleteBranch, Open, Run, Step, Submit
from engine.records.cache import BlockStatus, BranchState, GroupState, PoolState
from engine.records.events import Record, StateChanged
from engine.records.step import StepRecord
from inspector.state.view import RunLog
from sessions import SessionError, SessionWriter, open_session
from tests import tiny_models
from tests.direct import DirectClient

BLOCK = 4
PROMPT = "abcdefghij"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> DirectClient:
    kv = KVOptions(block_size=BLOCK)
    backend = tiny_models.backend("llama", kv=kv)
    monkeypatch.setattr(server, "open_backend", lambda *given: backend)
    made = DirectClient()
    for command in (Open(), Configure(max_tokens=64), Submit(PROMPT)):
        made.send(command)
    return made


def newest(records: list[Record]) -> PoolState:
    return [one for one in records if isinstance(one, PoolState)][-1]


def node_of(state: PoolState) -> int | None:
    assert state.current is not None
    return state.current.node


def test_a_command_that_moves_blocks_ends_with_a_pool(client: DirectClient) -> None:
    assert newest(client.take()).used_bytes == 0
    client.send(Step(0))
    records = client.take()
    # What is read is the prompt alone: the first token is drawn from it, and not read yet.
    assert (node_of(newest(records)), newest(records).current.length) == (0, len(PROMPT))
    client.send(Step(1))
    records = client.take()
    assert (node_of(newest(records)), newest(records).current.length) == (1, len(PROMPT) + 1)
    last = [type(one) for one in records][-2:]
    assert last == [PoolState, StateChanged]


def test_in_a_run_the_pool_is_told_now_and_then(
    client: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(server, "now_ms", lambda: clock[0])
    client.send(Step(0))
    client.take()
    client.send(Run(1, count=20))
    records = client.take()
    assert sum(isinstance(one, StepRecord) for one in records) == 20
    assert sum(isinstance(one, PoolState) for one in records) == 1, "no time has gone by"

    def later() -> float:
        clock[0] += 40.0
        return clock[0]

    monkeypatch.setattr(server, "now_ms", later)
    client.send(Run(21, count=12))
    records = client.take()
    # Looked at every 40 ms, it is told every third time, and at the end.
    assert sum(isinstance(one, PoolState) for one in records) in (4, 5)


def test_a_fork_shares_blocks_and_a_deleted_branch_gives_its_own_back(client: DirectClient) -> None:
    client.send(Step(0))
    client.send(Run(1, count=8))
    client.take()
    client.send(Step(5, force=(3,)))
    fork = next(one.node for one in client.take() if isinstance(one, StepRecord))
    client.send(Step(fork))
    state = newest(client.take())
    by_node = {one.node: one for one in state.branches}
    assert by_node.keys() == {8, fork}
    trunk, twin = by_node[8].tables[0].tolist(), by_node[fork].tables[0].tolist()
    # 10 + 5 positions are common: 3 full blocks shared, the fourth copied when it was written to.
    assert trunk[:3] == twin[:3]
    assert trunk[3] != twin[3]
    assert state.copied_blocks == 1
    refs = state.groups[0].refs
    assert [int(refs[block]) for block in (*trunk[:3], trunk[3], twin[3])] == [2, 2, 2, 1, 1]

    client.send(DeleteBranch(fork))
    after = newest(client.take())
    assert fork not in {one.node for one in after.branches}
    assert int(after.groups[0].refs[twin[3]]) == 1, "the copy holds what comes before the fork"
    assert after.used_bytes == state.used_bytes

    client.send(DeleteBranch(4))
    last = newest(client.take())
    assert {one.node for one in last.branches} == {3}
    assert last.filled_bytes == (len(PROMPT) + 3) * last.position_bytes


def test_each_step_says_what_it_copied(client: DirectClient) -> None:
    client.send(Step(0))
    client.send(Run(1, count=4))
    client.send(Step(2, force=(3,)))
    client.take()
    client.send(Step(6))
    (step,) = [one for one in client.take() if isinstance(one, StepRecord)]
    assert (step.kv.copied_blocks, step.kv.evicted_blocks, step.kv.block_size) == (0, 0, BLOCK)
    client.send(Step(3, force=(3,)))
    client.take()
    client.send(Step(8))
    (step,) = [one for one in client.take() if isinstance(one, StepRecord)]
    # 10 + 3 positions are shared: the fourth block has one of them, and the pass writes into it.
    assert step.kv.copied_blocks == 1


def test_a_file_keeps_the_newest_pool(client: DirectClient, tmp_path: Path) -> None:
    path = tmp_path / "run.llmi"
    with SessionWriter(path) as writer:
        for command in (Step(0), Run(1, count=9), Step(3, force=(2,)), Step(11)):
            client.send(command)
            for record in client.take():
                writer.add(record)
                if isinstance(record, PoolState):
                    told = record
    with closing(sqlite3.connect(path)) as database:
        count = database.execute("SELECT count(*) FROM event WHERE kind = 'PoolState'").fetchone()
    assert count == (1,)
    log = RunLog()
    with open_session(path) as session:
        for record in session.records():
            log.add(record)
    assert log.pool is not None
    for name in ("block_size", "branch", "used_bytes", "filled_bytes", "copied_blocks"):
        assert getattr(log.pool, name) == getattr(told, name)
    for ours, theirs in zip(log.pool.branches, told.branches, strict=True):
        assert (ours.number, ours.node, ours.length) == (theirs.number, theirs.node, theirs.length)
        assert np.array_equal(ours.tables[0], theirs.tables[0])


def state(**changed: Any) -> PoolState:
    arrays = {"filled": [4, 1], "refs": [1, 1], "status": [BlockStatus.CURRENT] * 2}
    group = {
        name: np.array(changed.pop(name, values), np.uint16) for name, values in arrays.items()
    }
    table = np.array(changed.pop("table", [0, 1]), np.int32)
    tables = (table,) * changed.pop("tables", 1)
    return PoolState(
        block_size=4,
        quantized=False,
        groups=(GroupState(None, (0,), 8, 64, **group),),
        branches=(BranchState(1, 5, True, tables),),
        branch=1,
        pieces=1,
        **dict.fromkeys(
            (
                *("reserved_bytes", "used_bytes", "filled_bytes", "branch_bytes", "wasted_bytes"),
                *("forks", "copied_blocks", "evicted_branches", "evicted_blocks"),
            ),
            0,
        ),
        full_context_bytes=None,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"refs": [1]},
        {"refs": [[1, 1]]},
        {"status": [9, 1]},
        {"table": [0, 2]},
        {"table": [-2]},
        {"table": [[0, 1]]},
        {"tables": 2},
    ],
)
def test_a_pool_that_contradicts_itself_is_refused(changed: dict[str, Any]) -> None:
    assert state().current is not None
    with pytest.raises(ValueError, match=r"block|table"):
        state(**changed)


def test_a_file_with_such_a_pool_is_refused_in_one_line(
    client: DirectClient, tmp_path: Path
) -> None:
    path = tmp_path / "run.llmi"
    with SessionWriter(path) as writer:
        client.send(Step(0))
        writer.add_all(client.take())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE event SET body = json_set(body, '$.groups[0].blocks', 1) WHERE kind = ?",
            ("PoolState",),
        )
    with pytest.raises(SessionError) as caught:
        open_session(path)
    assert "\n" not in str(caught.value)
