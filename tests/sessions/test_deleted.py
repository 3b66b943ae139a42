"""Deleted branches are neither counted nor exported as if they were there; the file has them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from engine.records.events import BranchDeleted
from inspector.cli import sessions_print
from inspector.cli.main import main
from inspector.screens.sessions import glance
from inspector.state.view import RunLog
from sessions import open_session
from sessions.export.formats import FORMS
from sessions.export.source import Source
from sessions.preview import contains, preview
from tests.sessions.test_store import forked_run, save

# 1 - 2 - 3 - 4
#      \- 5
#      \- 6 - 7 - 8 - 9
PARENTS = {1: 0, 2: 1, 3: 2, 4: 3, 5: 2, 6: 2, 7: 6, 8: 7, 9: 8}


def saved(folder: Path, *deletions: BranchDeleted) -> Path:
    return save(folder / "run.llmi", [*forked_run(), *deletions])


def live(*deletions: BranchDeleted) -> RunLog:
    log = RunLog()
    for one in (*forked_run(), *deletions):
        log.add(one)
    return log


GONE = BranchDeleted(7)
BACK = BranchDeleted(7, undone=True)
CASES: dict[str, tuple[tuple[BranchDeleted, ...], list[int], list[int], int]] = {
    # deletions: the tips that are left, the deleted ones, the newest tip
    "nothing": ((), [4, 5, 9], [], 9),
    "the end of the newest branch": ((GONE,), [4, 5, 6], [9], 6),
    "a whole branch": ((BranchDeleted(6),), [4, 5], [9], 5),
    "all but the first two tokens": (
        (BranchDeleted(5), BranchDeleted(3), BranchDeleted(6)),
        [2],
        [4, 5, 9],
        2,
    ),
    "one in another": ((BranchDeleted(8), BranchDeleted(6)), [4, 5], [9], 5),
    "deleted and brought back": ((GONE, BACK), [4, 5, 9], [], 9),
    "the inner one brought back alone": (
        (BranchDeleted(8), BranchDeleted(6), BranchDeleted(6, undone=True)),
        [4, 5, 7],
        [9],
        7,
    ),
    "deleted again": ((GONE, BACK, GONE), [4, 5, 6], [9], 6),
    "everything": ((BranchDeleted(1),), [], [4, 5, 9], 0),
    "a node that there is not": (
        (BranchDeleted(77), BranchDeleted(5, undone=True)),
        [4, 5, 9],
        [],
        9,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_counts_as_a_branch(tmp_path: Path, case: str) -> None:
    deletions, there, gone, newest = CASES[case]
    with open_session(saved(tmp_path, *deletions)) as session:
        assert session.tree.parents == PARENTS
        assert (session.tips, session.tree.deleted_tips, session.tip) == (there, gone, newest)
        assert len(session) == 9, "the file has them all"
        assert ("deleted", len(gone)) in list(session.__rich_repr__()) or not gone
        sources = Source.of_session(session), Source.of_log(live(*deletions), newest)
        for source in sources:
            assert source.tree.tips == there
            assert source.deleted == len(gone)
            assert source.tree.deleted == session.tree.deleted
            assert [one.node for one in source.steps()] == [
                node for node in PARENTS if node not in session.tree.deleted
            ]


def test_a_log_that_took_the_tree_over_exports_the_same(tmp_path: Path) -> None:
    with open_session(saved(tmp_path, GONE)) as session:
        log = RunLog()
        for one in session.records(steps=False):
            log.add(one)
        log.take_over(session.steps, session.tree)
        assert session.tips == [4, 5, 6]
        for form, lines in FORMS.items():
            ours = "".join(lines(Source.of_log(log, 6, "run")))
            assert ours == "".join(lines(Source.of_session(session))), form


@pytest.mark.parametrize("form", FORMS)
def test_no_export_has_what_was_deleted(tmp_path: Path, form: str) -> None:
    """Nodes 7 to 9 are the only ones drawn greedily: their chain is named nowhere else."""
    whole, less = [], []
    for name, deletions, lines in (("a", (), whole), ("b", (BranchDeleted(6),), less)):
        (tmp_path / name).mkdir()
        with open_session(saved(tmp_path / name, *deletions)) as session:
            lines += FORMS[form](Source.of_session(session))
    text = "".join(less)
    match form:
        case "jsonl":
            rows = [json.loads(line) for line in text.splitlines()]
            assert [row["node"] for row in rows if row["type"] == "step"] == [1, 2, 3, 4, 5]
            assert (rows[-1]["deleted_branches"], rows[-1]["deleted_tokens"]) == (1, 4)
            end = json.loads(whole[-1])
            assert (end["deleted_branches"], end["deleted_tokens"]) == (0, 0)
        case "csv":
            assert [row["node"] for row in csv.DictReader(text.splitlines())] == list("12345")
        case "md":
            assert "| deleted | 1 branch (4 tokens), left out here |" in text
            assert "deleted" not in "".join(whole)
        case "html":
            assert "1 branch (4 tokens), left out here" in text
            assert 'data-node="5"' in text
            assert 'data-node="9"' not in text
            assert 'data-node="9"' in "".join(whole)


def test_list_show_browser_and_check_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, BranchDeleted(6))
    seen = preview(path)
    assert (seen.steps, seen.deleted) == (5, 4)
    assert "5 tokens (4 deleted)" in next(iter(glance(seen)))
    assert sessions_print._preview_line(seen).endswith("(4 deleted)")

    def told(*words: str) -> dict[str, Any]:
        assert main([*words, "--format", "json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    shown = told("sessions", "show", str(path))
    assert (shown["steps"], shown["deleted_steps"]) == (5, 4)
    assert [one["tip"] for one in shown["branches"]] == [5, 4]
    assert shown["facts"]["branches"] == "2"
    assert shown["facts"]["deleted"] == "1 branch (4 tokens), left out here"
    checked = told("sessions", "check", str(path))
    assert (checked["steps"], checked["deleted_steps"], checked["branches"]) == (9, 4, 2)


def test_a_run_of_which_everything_was_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, BranchDeleted(1))
    assert main(["sessions", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "3 branches (9 tokens), left out here" in shown
    assert "branch to node" not in shown
    for form in FORMS:
        assert main(["sessions", "export", str(path), "--format", form]) == 0


def test_a_deleted_node_cannot_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, GONE)
    for words in (["export", "--format", "csv", "--tip", "9"], ["diff", str(path), "--tip-a", "9"]):
        assert main(["sessions", words[0], str(path), *words[1:]]) == 2
        said = capsys.readouterr().err
        assert f"{path}: node 9 was deleted; its branches end at 4, 5, 6" in said


def test_a_search_does_not_find_what_was_deleted(tmp_path: Path) -> None:
    def text(*nodes: int) -> str:
        return b"".join(log.nodes[node].token.bytes for node in nodes).decode()

    log = live()
    words = text(7, 8, 9)
    assert words not in text(1, 2, 3, 4, 5, 6)
    assert contains(saved(tmp_path, GONE, BACK), words)
    (tmp_path / "b").mkdir()
    assert not contains(saved(tmp_path / "b", GONE), words)
