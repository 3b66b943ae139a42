"""A file of an older schema is brought up to date on a copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.records.step import StepRecord
from sessions import SessionError, open_session
from sessions.file.format import blank
from tests.sessions.test_store import assert_same, forked_run, save

TABLES = (
    *("session", "token", "prompt", "prompt_token", "chain", "chain_stage", "step"),
    *("stage_result", "candidate", "logits", "event"),
)


def downgrade(new: Path, old: Path) -> None:
    """Write the content of a version 1 file as a version 0 file: times in seconds."""
    old.write_bytes(blank(0))
    with closing(sqlite3.connect(new)) as source, closing(sqlite3.connect(old)) as target:
        for table in TABLES:
            columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
            values = [
                f"{name[:-2]}_ms / 1000.0" if name.endswith("_s") else name for name in columns
            ]
            rows = source.execute(f"SELECT {', '.join(values)} FROM {table}")
            marks = ", ".join("?" * len(columns))
            target.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        target.commit()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    records = forked_run()
    # Milliseconds that survive the way through seconds to the last bit.
    exact = [
        replace(one, timing=replace(one.timing, forward_ms=8.0, sample_ms=0.25, total_ms=16.0))
        if isinstance(one, StepRecord)
        else one
        for one in records
    ]
    save(tmp_path / "new.llmi", exact)
    downgrade(tmp_path / "new.llmi", tmp_path / "old.llmi")
    return tmp_path / "old.llmi"


def test_an_old_file_reads_like_a_new_one_and_stays_as_it_was(old: Path) -> None:
    before = old.read_bytes()
    assert before[60:64] == (0).to_bytes(4)
    with open_session(old) as session, open_session(old.with_name("new.llmi")) as new:
        assert session.version == 0
        assert new.version == 1
        assert session.path == old
        for node, step in new.steps.items():
            found = session.steps[node]
            assert found.timing.total_ms == step.timing.total_ms == 16.0
            rest = replace(found, timing=step.timing)
            assert_same(rest.top, step.top)
            assert_same(rest.stages, step.stages)
            assert rest.draw == step.draw
        assert session.prompt
        assert new.prompt
        assert session.prompt.tokens == new.prompt.tokens
        assert session.prompt.notes == ()
        assert session.prompt.tokenize_ms == pytest.approx(new.prompt.tokenize_ms)
        assert session.facts
        assert new.facts
        assert_same(session.facts.name, new.facts.name)
    assert old.read_bytes() == before
    assert sorted(path.name for path in old.parent.iterdir()) == ["new.llmi", "old.llmi"]


def test_an_old_file_is_no_more_trusted_than_a_new_one(old: Path) -> None:
    with closing(sqlite3.connect(old)) as database:
        database.execute("DROP TABLE event")
        database.execute("CREATE VIEW event AS SELECT 1 AS id")
    before = old.read_bytes()
    with pytest.raises(SessionError, match=r"old\.llmi is damaged \(its tables are not a session"):
        open_session(old)
    assert old.read_bytes() == before


def test_an_old_file_whose_values_do_not_fit_the_new_schema(old: Path) -> None:
    with closing(sqlite3.connect(old)) as database:
        database.execute("UPDATE step SET parent = 9 WHERE node = 4")
        database.commit()
    with pytest.raises(SessionError, match="is damaged") as caught:
        open_session(old)
    assert str(old) in str(caught.value)
