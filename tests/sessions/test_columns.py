"""Columns and their passes in a session: kept, read back, and exported as lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.commands import Column, Settings, StepMany
from engine.records.alone import AloneMeasured, AloneParting, ColumnAlone
from engine.records.columns import ColumnsSet, Part, PassColumn, PassRecord
from engine.records.events import Record
from engine.records.vocabulary import Token
from inspector.state.recorder import records_of
from inspector.state.view import RunLog
from sessions.export.formats import pieces
from sessions.export.source import Source
from sessions.reader import open_session
from sessions.rows import codec
from sessions.writer import SessionWriter
from tests.direct import DirectClient, script

COLUMNS = (
    Column(1, 0, Settings(dials={"temperature": 0.0}), title="cold"),
    Column(2, 0, Settings(dials={"temperature": 1.5}), seed=4),
    Column(3, 0, Settings(dials={"top_k": "many"})),
)


def run() -> list[Record]:
    client = DirectClient()
    for command in (*script(), StepMany(COLUMNS, 5)):
        client.send(command)
    return [*client.take(), TOLD]


def kept(records: list[Record]) -> list[Record]:
    return [one for one in records if isinstance(one, ColumnsSet | PassRecord | AloneMeasured)]


TOLD = AloneMeasured(
    "float32",
    (
        ColumnAlone(
            column=1,
            node=9,
            tokens=5,
            drift=0.5,
            near_ties=1,
            near_position=4,
            parting=AloneParting(4, Token(1, b"b"), Token(2, b"c"), 0.01, False, 0.25, 0.125),
        ),
        ColumnAlone(2, 10, 0, obstacle="no engine"),
    ),
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    path = tmp_path_factory.mktemp("columns") / "run.llmi"
    records = run()
    with SessionWriter(path) as writer:
        for one in records:
            writer.add(one)
    return path, records


def test_columns_and_passes_come_back_as_they_were(saved: tuple[Path, list[Record]]) -> None:
    path, records = saved
    with open_session(path) as session:
        assert kept(list(session.records())) == kept(records)
        log = RunLog()
        for one in session.records(steps=False):
            log.add(one)
    assert [log.columns, *log.passes, TOLD] == kept(records)
    assert list(log.alone.values()) == [*TOLD.columns]
    assert TOLD in records_of(log)


def test_a_pass_comes_behind_its_steps(saved: tuple[Path, list[Record]]) -> None:
    with open_session(saved[0]) as session:
        log = RunLog()
        for one in session.records():
            if isinstance(one, PassRecord):
                assert set(one.nodes) <= set(log.nodes)
            log.add(one)


def test_a_run_that_is_saved_late_has_them_too(saved: tuple[Path, list[Record]]) -> None:
    log = RunLog()
    for one in saved[1]:
        log.add(one)
    assert kept(list(records_of(log))) == kept(saved[1])


def test_jsonl_has_a_line_for_the_columns_and_one_a_pass(saved: tuple[Path, list[Record]]) -> None:
    with open_session(saved[0]) as session:
        found = [
            json.loads(one)
            for one in "".join(pieces(Source.of_session(session), "jsonl")).splitlines()
        ]
    kinds = [one["type"] for one in found]
    assert kinds == ["run", "columns", *["step", "step", "pass"] * 5, "end"]
    assert [one["title"] for one in found[1]["columns"]] == ["cold", "", ""]
    assert found[1]["columns"][2]["error"]
    first, second = [one for one in found if one["type"] == "pass"][:2]
    assert [one["part"] for one in first["columns"]] == ["known", "known", "failed"]
    assert first["tokens_per_pass"] is None
    assert first["tokens_per_pass_reason"] == "no pass was shared"
    assert [one["nodes"] for one in second["columns"]] == [[3], [4]]
    assert second["passes"] == second["rows"] == 2


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 3}, {"rows": -1}, {"weight_bytes": -5}, {"passes": 1 << 70}, {"kv_bytes": -1}],
)
def test_a_pass_of_a_file_that_cannot_be_is_damage(wrong: dict[str, int]) -> None:
    columns = (PassColumn(1, 0, Part.ROW, (1,)), PassColumn(2, 0, Part.ROW, (2,)))
    good = PassRecord(columns, rows=2, passes=1, forward_ms=1.0, total_ms=2.0)
    body = json.loads(codec.dumps(good))
    assert codec.loads(PassRecord, json.dumps(body)) == good
    with pytest.raises((codec.CodecError, ValueError)):
        codec.loads(PassRecord, json.dumps(body | wrong))
