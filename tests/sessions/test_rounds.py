"""Speculative rounds in a session: kept, read when looked at, exported, and never trusted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.records.events import Record
from engine.records.round import RoundRecord
from engine.records.step import Came
from inspector.state.view import RunLog
from sessions.export.formats import pieces
from sessions.export.source import Source
from sessions.file.format import SessionError
from sessions.reader import open_session
from sessions.recording import first_records, record
from sessions.verify import verify
from sessions.writer import SessionWriter
from tests.speculating import SOURCES, stepper, tiny

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENS = 14


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, RoundRecord]]:
    path = tmp_path_factory.mktemp("rounds") / "run.llmi"
    run = stepper(tiny("llama"), SOURCES["other model"], tokens=3, max_tokens=TOKENS)
    record(run, path, "abcabcabcab")
    return path, run.rounds


def test_rounds_come_back_as_they_were(saved: tuple[Path, dict[int, RoundRecord]]) -> None:
    path, rounds = saved
    with open_session(path) as session:
        assert dict(session.rounds) == rounds
        assert len(session) == TOKENS
        steps = [session.step(node) for node in session.node_ids.tolist()]
        for one in rounds.values():
            assert [steps[node - 1].round for node in one.nodes] == [one.node] * one.added
        assert steps[0].came is Came.PLAIN
        assert session.steps.table().column("round", [1])[0] == steps[1].round


def test_a_round_comes_before_its_tokens(saved: tuple[Path, dict[int, RoundRecord]]) -> None:
    with open_session(saved[0]) as session:
        log = RunLog()
        for one in session.records():
            if isinstance(one, RoundRecord):
                assert one.node not in log.nodes
                assert one.parent in (0, *log.nodes)
            log.add(one)
        assert log.rounds == saved[1]
        assert not any(isinstance(one, RoundRecord) for one in session.records(steps=False))


def lines_of(path: Path, form: str) -> list[str]:
    with open_session(path) as session:
        return "".join(pieces(Source.of_session(session), form)).splitlines()


def test_jsonl_has_a_line_a_round(saved: tuple[Path, dict[int, RoundRecord]]) -> None:
    path, rounds = saved
    found = [json.loads(line) for line in lines_of(path, "jsonl")]
    told = [one for one in found if one["type"] == "round"]
    assert [one["round"] for one in told] == list(rounds)
    for line, one in zip(told, rounds.values(), strict=True):
        assert line["nodes"] == list(one.nodes)
        assert [draft["verdict"] for draft in line["drafted"]] == [
            draft.verdict.value for draft in one.drafted
        ]
        at = found.index(line)
        steps = found[at + 1 : at + 1 + one.added]
        assert {step["round"] for step in steps} == {one.node}
    end = found[-1]["speculation"]
    drafted = sum(len(one.drafted) for one in rounds.values())
    accepted = sum(one.accepted for one in rounds.values())
    assert (end["drafted"], end["accepted"]) == (drafted, accepted)
    assert end["acceptance"] == pytest.approx(accepted / drafted)


def test_a_run_without_drafts_has_none_of_it(tmp_path: Path) -> None:
    record(stepper(tiny("llama"), max_tokens=3), tmp_path / "plain.llmi", "abc")
    lines = [json.loads(line) for line in lines_of(tmp_path / "plain.llmi", "jsonl")]
    assert [line["type"] for line in lines] == ["run", "step", "step", "step", "end"]
    assert not any("round" in line or "speculation" in line for line in lines)


def test_a_report_says_how_each_token_came(saved: tuple[Path, dict[int, RoundRecord]]) -> None:
    report = "\n".join(lines_of(saved[0], "md"))
    assert "speculative decoding | other: " in report
    assert "| ms | came |" in report
    assert "| corrected |" in report
    assert "the draft was rejected" not in "\n".join(lines_of(saved[0], "html")), "greedy"


def test_a_run_with_rounds_is_done_again_to_the_last_draft(tmp_path: Path) -> None:
    path = tmp_path / "run.llmi"
    dials = {"temperature": 1.5}
    run = stepper(tiny("llama"), SOURCES["other model"], tokens=0, dials=dials, max_tokens=TOKENS)
    record(run, path, "abcabcabcab")
    with open_session(path) as session:
        again = stepper(tiny("llama"), max_tokens=TOKENS)
        found = verify(session, again, drafts=lambda name: SOURCES["other model"](tiny("llama")))
        assert found.reproduced
        assert not any(one.forced for one in found.checks)
        with pytest.raises(SessionError, match="drafted from 'other': it cannot be checked"):
            verify(session, stepper(tiny("llama")))
        # Another source: the tokens differ, and what is left of a round is only read.
        other = verify(session, again, drafts=lambda name: SOURCES["ngram"](tiny("llama")))
        assert len(other.checks) == len(session)
        assert sum(one.forced for one in other.checks) > 0


# --- what is in a file is not trusted ------------------------------------------------------------


def changed(path: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a session whose rounds' bodies ``change`` has edited."""
    target.write_bytes(path.read_bytes())
    database = sqlite3.connect(target)
    rows = database.execute("SELECT id, body FROM event WHERE kind = 'RoundRecord'").fetchall()
    for key, body in rows:
        fields = json.loads(body)
        change(fields)
        database.execute("UPDATE event SET body = ? WHERE id = ?", (json.dumps(fields), key))
    database.commit()
    database.close()
    return target


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.update(node=one["node"] + 1),
        lambda one: one.update(verify_ms={"$float": "nan"}),
        lambda one: one.update(verify_ms=-1.0),
        lambda one: one.update(added=10**30),
        lambda one: one.update(accept="always"),
        lambda one: one.update(drafted=[]),
        lambda one: one.update(drafted=one["drafted"] * 80),
        lambda one: one["drafted"][0].update(p={"$float": "inf"}),
        lambda one: one["drafted"][0].update(q="much"),
        lambda one: one["drafted"][0].update(token=None),
        lambda one: one.update(residual={"mass": -2.0, "rows": []}),
        lambda one: one.update(written=2**70),
    ],
)
def test_a_round_that_cannot_be_is_damage(
    saved: tuple[Path, dict[int, RoundRecord]],
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
) -> None:
    path = changed(saved[0], tmp_path / "changed.llmi", change)
    with open_session(path) as session, pytest.raises(SessionError, match="damaged"):
        dict(session.rounds)


def test_no_more_rounds_are_read_than_there_are_tokens(
    saved: tuple[Path, dict[int, RoundRecord]], tmp_path: Path
) -> None:
    path = tmp_path / "many.llmi"
    path.write_bytes(saved[0].read_bytes())
    database = sqlite3.connect(path)
    database.executemany(
        "INSERT INTO event (after_node, kind, body) VALUES (?, 'RoundRecord', ?)",
        [(1, "{}")] * (TOKENS + 1),
    )
    database.commit()
    database.close()
    with pytest.raises(SessionError, match="rounds than any run"):
        open_session(path)


def test_a_round_whose_tokens_were_not_written_is_left_out(tmp_path: Path) -> None:
    """A kill between the two leaves a round without its tokens."""
    run = stepper(tiny("llama"), SOURCES["same model"], max_tokens=TOKENS)
    path = tmp_path / "cut.llmi"
    with SessionWriter(path) as writer:
        writer.add_all(first_records(run, "abcabcabcab"))
        first, second = run.grow(0)[0], run.grow(1)
        kept: list[Record] = [first, run.rounds[second[0].node]]
        writer.add_all(kept)
    with open_session(path) as session:
        assert len(session) == 1
        assert dict(session.rounds) == {}
        assert not any(isinstance(one, RoundRecord) for one in session.records())
