"""What docs/sessions.md says is true: its queries answer, its example runs."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.records.step import StepRecord
from sessions import SessionWriter, open_session
from sessions.file.format import APPLICATION_ID, VERSION, objects
from tests.folders import ROOT
from tests.sessions.test_store import forked_run, save

TEXT = (ROOT / "docs" / "sessions.md").read_text("utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("docs") / "run.llmi", forked_run())


def ask(path: Path, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(query)]


def test_there_are_ten() -> None:
    assert len(QUERIES) == 10


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_has_an_answer(path: Path, query: str) -> None:
    assert ask(path, query)


def test_the_answers_are_right(path: Path) -> None:
    steps = {one.node: one for one in forked_run() if isinstance(one, StepRecord)}
    text, surprising, _, ladder, stages, others, races, speed, forks, ran = (
        ask(path, query) for query in QUERIES
    )
    with open_session(path) as session:
        output = b"".join(step.token.bytes for step in session.branch()).decode()
    assert list(text[0].values()) == [output]
    assert surprising[0]["surprisal"] == round(max(one.surprisal for one in steps.values()), 2)
    assert [row["chosen"] for row in ladder].count(1) == 1
    assert [row["rank"] for row in ladder] == sorted(row["rank"] for row in ladder)
    assert {row["cut_by"] for row in ladder} <= {None, "top_k", "top_p"}
    counts = {row["label"]: row["steps"] for row in stages}
    assert counts == {"temperature=1.5": 6, "temperature=0": 3, "top_k=40": 9, "top_p=0.95": 9}
    assert {row["node"] for row in others} == {n for n, one in steps.items() if one.rank > 1}
    assert all(row["margin"] >= 0 for row in races)
    steady = [one for n, one in steps.items() if n > 1 and one.timing.steady]
    assert speed[0]["steps"] == len(steady)
    assert [(row["parent"], row["children"]) for row in forks] == [(2, 3)]
    assert [row["model"] for row in ran] == ["scripted", None, None]


def test_the_views_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", TEXT, re.MULTILINE)
    documented = {name: re.sub(r"\([^)]*\)", "", columns).split(",") for name, columns in rows}
    views = {name for kind, name, _, _ in objects() if kind == "view"}
    assert set(documented) == views
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript((ROOT / "sessions" / "file" / "schema.sql").read_text("utf-8"))
        for view in views:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({view})")]
            assert [one.strip() for one in documented[view]] == columns


def test_the_marks_are_those_of_the_page() -> None:
    assert f"`{APPLICATION_ID:#x}`" in TEXT
    assert f"## Schema version {VERSION}" in TEXT
    assert f"`PRAGMA user_version` is {VERSION}" in TEXT


def test_the_example_runs_and_never_imports_torch(path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    example += "\nimport sys\nassert not {'torch', 'transformers', 'textual'} & set(sys.modules)\n"
    (path.parent / "example.py").write_text(example, "utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"],
        capture_output=True,
        text=True,
        cwd=path.parent,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scripted the cat 9\n")


def test_the_candidates_view_is_exact(path: Path) -> None:
    with open_session(path) as session:
        for node, step in session.steps.items():
            rows = ask(path, f"SELECT * FROM candidates WHERE node = {node} ORDER BY rank")
            order = step.top.ranks.argsort()
            assert [row["token_id"] for row in rows] == step.top.ids[order].tolist()
            assert [row["raw_logit"] for row in rows] == step.top.raw_logits[order].tolist()
            assert [row["raw_logprob"] for row in rows] == step.top.raw_logprobs[order].tolist()
            assert [row["final_prob"] for row in rows] == step.top.probs[-1, order].tolist()


@dataclasses.dataclass(frozen=True)
class RoundRecord:
    drafted: int
    accepted: int


def test_a_round_is_found_under_its_name(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "run.llmi") as writer:
        writer.add_all(forked_run())
        writer.add(RoundRecord(4, 3))  # type: ignore[arg-type]
    assert ask(tmp_path / "run.llmi", "SELECT * FROM rounds") == [
        {"round": 6, "after_node": 9, "body": '{"drafted":4,"accepted":3}'}
    ]
    with open_session(tmp_path / "run.llmi") as session:
        assert len(list(session.events)) == 5, "a record of a later version is passed over"
