"""Files that nobody vouches for: always one clear line or a read, never a change to the file."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.records.events import DenseLogits
from sessions import SessionError, SessionWriter, open_session
from sessions.file import readonly
from sessions.file.format import APPLICATION_ID, VERSION
from tests.sessions.test_store import assert_same, forked_run, save


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return sample_bytes(tmp_path_factory.mktemp("sample"))


def sample_bytes(folder: Path) -> bytes:
    """A small session that has something in every table."""
    path = folder / "run.llmi"
    vector = np.linspace(-1, 1, 270, dtype=np.float32)
    save(path, [*forked_run(), DenseLogits(3, vector)], full_logits=True)
    return path.read_bytes()


def read_all(path: Path) -> int:
    """Everything that can be read from a session; the number of its steps."""
    with open_session(path) as session:
        for _ in session.records():
            pass
        for step in session.steps.values():
            assert (step.top.probs >= 0.0).all()
            assert len(step.stages) + 1 == len(step.top.probs)
            assert step.timing.total_ms >= 0.0
            assert step.draw.token_id == step.token.id
            assert step.kv.seen is not None
            session.dense(step.node)
        session.path_nodes(session.tip)
        _ = session.vocabulary
        repr(session)
        return len(session)


def refused(path: Path) -> str:
    """The line that refuses ``path``, which must be as it was, with nothing beside it."""
    before = _folder(path)
    with pytest.raises(SessionError) as caught:
        read_all(path)
    assert _folder(path) == before
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    return line


def refusal_of(path: Path) -> str | None:
    """The line that refuses ``path``; None where all of it can be read."""
    try:
        read_all(path)
    except SessionError as error:
        return str(error)
    return None


def _folder(path: Path) -> dict[str, bytes | None]:
    return {one.name: one.read_bytes() if one.is_file() else None for one in path.parent.iterdir()}


# --- what is no session ---------------------------------------------------------------------------


def test_not_there(tmp_path: Path) -> None:
    assert "there is no file" in refused(tmp_path / "run.llmi")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "run.llmi").mkdir()
    assert "is a folder: give a session file in it" in refused(tmp_path / "run.llmi")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.llmi")
    assert "is not a plain file" in refused(tmp_path / "run.llmi")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    save(tmp_path / "run.llmi", []).chmod(0)
    with pytest.raises(SessionError, match="cannot be read: Permission denied"):
        open_session(tmp_path / "run.llmi")


class _RunsCode:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: nothing was saved in it"),
        (pickle.dumps(_RunsCode()), "is not a session: it is a Python pickle, which is never"),
        (b"PK\x03\x04archive/data.pkl", "a zip archive (torch.save writes those), which is never"),
        (b"\x1f\x8b\x08\x00", "a compressed file: decompress it first"),
        (json.dumps({"type": "run"}).encode(), "JSON, perhaps an export: open the .llmi file"),
        (b"SQLite format 2\x00", "is not a session: it is something else"),
        (b"SQLite format 3\x00" + b"\x10\x00", "is damaged (cut off after 18 bytes)"),
        pytest.param(
            os.urandom(1).replace(b"\x80", b"\x00") + b"noise" * 900,
            "is not a session",
            id="noise",  # the same in every worker
        ),
    ],
)
def test_something_else(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "run.llmi"
    path.write_bytes(content)
    assert message in refused(path)
    assert [one.name for one in tmp_path.iterdir()] == ["run.llmi"]


def test_another_program_s_database(tmp_path: Path) -> None:
    path = tmp_path / "run.llmi"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE step (node INTEGER PRIMARY KEY)")
    assert "is an SQLite database, but not a session of llm-inspect" in refused(path)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (999, f"newer llm-inspect (session schema 999; this one reads up to {VERSION}): upgrade"),
        (-5, "is damaged (schema -5): use a backup copy"),
        (0, "is damaged (its tables are not a session's"),
    ],
)
def test_another_schema_version(tmp_path: Path, sample: bytes, version: int, message: str) -> None:
    path = tmp_path / "run.llmi"
    path.write_bytes(sample)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    assert message in refused(path)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_cut_off(tmp_path: Path, sample: bytes, share: float) -> None:
    path = tmp_path / "run.llmi"
    path.write_bytes(sample[: int(len(sample) * share)])
    assert "is damaged (cut off" in refused(path)


def test_a_file_without_its_first_transaction(tmp_path: Path) -> None:
    from sessions.file.format import blank

    (tmp_path / "run.llmi").write_bytes(blank())
    assert "is empty: nothing was saved in it" in refused(tmp_path / "run.llmi")


# --- what is left as it was -----------------------------------------------------------------------


def test_a_good_file_is_left_as_it_was(tmp_path: Path, sample: bytes) -> None:
    path = tmp_path / "run ?#%20é.llmi"
    path.write_bytes(sample)
    path.chmod(0o400)
    assert read_all(path) == 9
    assert _folder(path) == {path.name: sample}


def test_a_crashed_file_is_read_to_its_last_step_and_left_as_it_was(tmp_path: Path) -> None:
    records = forked_run()
    writer = SessionWriter(tmp_path / "live.llmi")
    writer.add_all(records)
    for end in ("", "-wal"):
        shutil.copy(tmp_path / f"live.llmi{end}", tmp_path / f"crashed.llmi{end}")
    writer.close()
    before = _folder(tmp_path / "crashed.llmi")
    assert "crashed.llmi-wal" in before
    with open_session(tmp_path / "crashed.llmi") as session:
        assert session.closed is None
        assert_same(list(session.records()), records)
    assert _folder(tmp_path / "crashed.llmi") == before


def test_a_log_that_was_left_behind_is_not_missed_silently(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "live.llmi")
    writer.add_all(forked_run())
    shutil.copy(tmp_path / "live.llmi", tmp_path / "alone.llmi")
    writer.close()
    assert "is empty: nothing was saved in it" in refused(tmp_path / "alone.llmi")


def test_a_journal_beside_the_file_is_not_obeyed(tmp_path: Path, sample: bytes) -> None:
    """A rollback journal can name another file for SQLite to delete."""
    path, victim = tmp_path / "run.llmi", tmp_path / "victim"
    path.write_bytes(sample)
    victim.write_text("precious")
    name = str(victim).encode()
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + bytes(20)
    tail = b"\x00\x10\x00\x01" + name + len(name).to_bytes(4) + sum(name).to_bytes(4) + magic
    (tmp_path / "run.llmi-journal").write_bytes(header.ljust(512, b"\0") + tail)
    before = _folder(path)
    assert read_all(path) == 9
    assert _folder(path) == before


# --- what a file may not do -----------------------------------------------------------------------


def altered(path: Path, sample: bytes, *statements: str) -> Path:
    """The sample after SQL that the schema's conditions do not hold up."""
    path.write_bytes(sample)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            database.execute(statement)
    return path


def _schema(name: str, old: str, new: str) -> str:
    return f"UPDATE sqlite_schema SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TRIGGER t AFTER INSERT ON step BEGIN SELECT 1; END"], "tables are not a"),
        (["CREATE INDEX i ON step (parent)"], "tables are not a session's: i"),
        (["CREATE TABLE more (x)"], "tables are not a session's: more"),
        (["DROP VIEW tokens"], "tables are not a session's: tokens"),
        (
            [
                "DROP TABLE event",
                "CREATE VIEW event AS WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c) SELECT id, 0 AS after_node, 'x' AS kind, '' AS body FROM c",
            ],
            "tables are not a session's: event",
        ),
        ([_schema("step", "CHECK (node > 0)", "")], "tables are not a session's: step"),
        ([_schema("step", "u REAL", "u TEXT")], "tables are not a session's: step"),
        (["UPDATE step SET parent = 9 WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET parent = 4 WHERE node = 4"], "a value in step is out of range"),
        (["DELETE FROM step WHERE node = 2"], "node 3 has no parent 2"),
        (["UPDATE step SET token = 9999 WHERE node = 4"], "names a token or a chain that there"),
        (["UPDATE step SET chain = 9999 WHERE node = 4"], "names a token or a chain that there"),
        (["UPDATE step SET how = 'dreamt' WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET stop_kind = 'tired' WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET total_ms = 9e999 WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET total_ms = -1 WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET weight_sum = 1e-9 WHERE node = 4"], "a probability is not between"),
        (["UPDATE step SET weight_sum = NULL WHERE node = 4"], "neither a sum of weights nor"),
        (["UPDATE step SET raw_probs = x'00' WHERE node = 4"], "values expected, not 1 bytes"),
        (["UPDATE step SET raw_logprobs = x'00'"], "as many log-probabilities expected"),
        (["UPDATE step SET seed = 'lucky' WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET seed = zeroblob(9) WHERE node = 4"], "a value in step is out of range"),
        (["UPDATE step SET extra = '[' WHERE node = 4"], "not the JSON of a"),
        (["UPDATE step SET extra = '[]' WHERE node = 4"], "an object expected"),
        (["UPDATE step SET extra = '{\"timing\":[]}' WHERE node = 4"], "an object expected"),
        (["UPDATE step SET extra = '{\"stages\":7}' WHERE node = 4"], "is damaged"),
        (["DELETE FROM stage_result WHERE at / 128 = 4"], "3 stages expected, 0 found"),
        (["DELETE FROM stage_result WHERE at = 4 * 128"], "rows are missing at node 4"),
        (["DELETE FROM candidate WHERE at / 4096 = 4"], "node 4 has no candidates"),
        (["DELETE FROM candidate WHERE at = 4 * 4096 + 1"], "rows are missing at node 4"),
        (["UPDATE candidate SET cut_by = 7"], "cut by a stage that there is not"),
        (["UPDATE candidate SET cut_by = -9"], "cut by a stage that there is not"),
        (["UPDATE candidate SET raw_logit = NULL"], "a candidate has no logit"),
        (["UPDATE candidate SET raw_logit = 1e300"], "a value in candidate is out of"),
        (["UPDATE candidate SET final_prob = 7"], "a value in candidate is out of"),
        (["UPDATE candidate SET rank = 99999999999"], "is damaged"),
        (["UPDATE candidate SET token = 9999"], "names a token that there is not"),
        (["UPDATE token SET kind = 7"], "is damaged"),
        (["UPDATE token SET id = 99999999999"], "is damaged"),
        (["DELETE FROM prompt_token WHERE position = 0"], "the prompt has no token at 0"),
        (["UPDATE prompt_token SET origin = 'heaven'"], "a value in prompt_token is out of range"),
        (["UPDATE prompt_token SET token = 9999"], "is damaged"),
        (["UPDATE prompt SET text = x'ff'"], "invalid start byte"),
        (["UPDATE prompt SET notes = '{}'"], "a list expected"),
        (["UPDATE chain_stage SET stage = stage + 1 WHERE stage = 2"], "has no stage 2"),
        (["UPDATE chain_stage SET params = '7'"], "an object expected"),
        (["UPDATE logits SET width = 3"], "a value in logits is out of range"),
        (["UPDATE logits SET vector = x'00'"], "is damaged"),
        (["UPDATE logits SET vector = zeroblob(64)"], "logits at node 3"),
        (["UPDATE event SET body = '{}' WHERE kind = 'ModelFacts'"], "name is missing"),
        (["UPDATE event SET body = replace(hex(zeroblob(99999)), '00', '[')"], "is damaged"),
        (["UPDATE event SET body = '\"' || zeroblob(9) || '\"'"], "is damaged"),
        (["UPDATE event SET body = CAST(x'22ff22' AS TEXT)"], "is damaged"),
        (["UPDATE event SET kind = 'object'"], ""),
        (["UPDATE event SET kind = 'system', after_node = -3"], ""),
        (["DELETE FROM event"], ""),
        (["DELETE FROM session"], "is empty"),
    ],
)
def test_hostile_content(
    tmp_path: Path, sample: bytes, statements: list[str], message: str
) -> None:
    path = altered(tmp_path / "run.llmi", sample, *statements)
    if message:
        assert message in refused(path)
    else:
        assert read_all(path) == 9


def test_a_value_larger_than_any_record_s(tmp_path: Path, sample: bytes) -> None:
    path = altered(tmp_path / "run.llmi", sample, "UPDATE prompt SET text = zeroblob(70000000)")
    assert "is damaged" in refused(path)


def test_a_read_that_does_not_end_is_given_up(
    tmp_path: Path, sample: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.llmi"
    path.write_bytes(sample)
    monkeypatch.setattr(readonly, "CHECK_SECONDS", 0.2)
    with open_session(path) as session:
        endless = (
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT sum(i) FROM c"
        )
        with (
            pytest.raises(SessionError, match=r"is damaged \(interrupted\)"),
            session._file.reading() as database,
        ):
            database.execute(endless).fetchone()


def test_a_sparse_file_of_any_size_is_refused_at_once(tmp_path: Path, sample: bytes) -> None:
    path = tmp_path / "run.llmi"
    path.write_bytes(sample)
    os.truncate(path, 1 << 40)
    with pytest.raises(SessionError, match="is larger than any session"):
        open_session(path)


def test_nothing_of_the_file_is_ever_unpickled_or_evaluated() -> None:
    for source in (Path(readonly.__file__).parent).rglob("*.py"):
        text = source.read_text("utf-8")
        assert "import pickle" not in text, source
        assert "eval(" not in text.replace(".eval(", ""), source


def test_the_marks_are_what_the_documentation_says(sample: bytes) -> None:
    assert sample[68:72] == b"LLMI" == APPLICATION_ID.to_bytes(4)
    assert int.from_bytes(sample[60:64]) == VERSION == 1
