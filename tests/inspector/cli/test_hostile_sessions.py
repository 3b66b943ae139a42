"""Sessions from anywhere, through every command and on the screen; and programs killed at will.

``bench/hostile_sessions.py`` does the long forms: 10,000 files and 300 kills.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace as replaced
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from engine.commands import Configure, Open, SetBreakpoints, Submit
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from inspector.cli import main as cli
from inspector.cli import run
from inspector.exit_codes import EXIT_UNSAVED, EXIT_USAGE
from inspector.replaying import replaying
from inspector.state.recorder import Recorder
from inspector.state.request import Request, Save
from sessions import SessionWriter, open_session, reader
from sessions.library import Library
from tests.direct import DirectClient, script
from tests.hostile_sessions import campaign, press, replay
from tests.sessions.test_crash import ROOT
from tests.sessions.test_guard import altered, refused, sample_bytes
from tests.sessions.test_store import forked_run, save

FILES = int(os.environ.get("HOSTILE_FILES", "60"))
KILLS = int(os.environ.get("HOSTILE_KILLS", "9"))


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path / "data")
    found = Library()
    found.folder.mkdir()
    return found


@pytest.fixture
def sample(tmp_path: Path) -> bytes:
    (tmp_path / "sample").mkdir()
    return sample_bytes(tmp_path / "sample")


@pytest.mark.slow
def test_mutated_files_through_every_command(library: Library, sample: bytes) -> None:
    """C1, C8, B8: one clear line or what was asked for, and nothing changed."""
    seen = campaign(library.folder, sample, FILES, 1, replay=replay, every=FILES)
    assert seen["refused"] > FILES / 4
    assert seen["whole"] > FILES / 10, "mutations that break everything prove little"


@pytest.mark.slow
def test_kills_of_run_save_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    """C3, C10: what was said to be saved is there, and the next command leaves no litter."""
    words = [sys.executable, "-m", "tests.saving_kills", str(KILLS), "3", str(tmp_path / "data")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["journals"] == 0


# --- one value each -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE step SET u = NULL WHERE how = 'sampled'", "a value in step is out of range"),
        ("UPDATE step SET low = 2", "a value in step is out of range, where node is"),
        ("UPDATE step SET raw_logprob = 1e4", "a value in step is out of range"),
        ("UPDATE step SET entropy_raw = 1e4", "a value in step is out of range"),
        ("UPDATE candidate SET raw_logit = raw_logit + 1e4", "a log-probability is above 0"),
        ("UPDATE step SET position = 1 << 40", "a value in step is out of range"),
        ("UPDATE prompt SET text = -1", "a value in prompt is out of range"),
        ("UPDATE prompt SET text = 0.5", "a value in prompt is out of range"),
        ("UPDATE token SET kind = 9", "a value in token is out of range, where key is"),
        ("UPDATE token SET id = 3 WHERE key = 4", "is there twice"),
        ("UPDATE candidate SET rank = -1", "a value in candidate is out of range"),
        ("UPDATE event SET body = replace(body, '\"total_ms\":', '\"total_ms\":-')", "is no time"),
        (
            """UPDATE event SET body = replace(body, '"load_ms":', '"load_ms":{"$float":"-inf"},"x":')
            WHERE kind = 'ModelFacts'""",
            "load_ms: -inf is no time",
        ),
        (
            """INSERT INTO event (after_node, kind, body)
            VALUES (0, 'PoolState', replace(hex(zeroblob(9000)), '0', '['))""",
            "not the JSON of a PoolState",
        ),
        ("UPDATE logits SET width = 4, vector = x'0000c07f'", "logits at node"),
        ("UPDATE logits SET vector = zeroblob(length(vector) / 2)", "logits at node"),
    ],
)
def test_what_other_commands_fail_on_check_calls_damaged(
    tmp_path: Path, sample: bytes, capsys: pytest.CaptureFixture[str], statement: str, words: str
) -> None:
    """C8: check reads every value that any command reads, and says where it is."""
    path = altered(tmp_path / "run.llmi", sample, statement)
    assert cli.main(["sessions", "check", str(path)]) == 1
    line = capsys.readouterr().out
    assert "is damaged" in line
    assert words in line
    assert refused(path)


def test_more_events_than_any_run_has(tmp_path: Path, sample: bytes) -> None:
    """C2: a limit, with a clear line, where a file asks for more than can be shown."""
    assert reader._MOST_EVENT_BYTES < 20_000_000
    path = altered(
        tmp_path / "run.llmi",
        sample,
        "INSERT INTO event (after_node, kind, body) "
        "VALUES (0, 'BreakpointsSet', '[' || replace(hex(zeroblob(9000000)), '00', '0,') || '0]')",
    )
    assert "holds more events than any run" in refused(path)


def comb(path: Path, teeth: int) -> None:
    """A session of ``teeth`` branches: one more token at every token of a trunk."""
    records = forked_run()
    head = [one for one in records if not isinstance(one, StepRecord)][:4]
    step = next(one for one in records if isinstance(one, StepRecord))
    at = 0
    with SessionWriter(path) as writer:
        writer.add_all(head)
        for node in range(1, 2 * teeth, 2):
            writer.add_all(
                [replaced(step, node=node, parent=at), replaced(step, node=node + 1, parent=node)]
            )
            at = node


def test_only_so_many_branches_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C9, C2: the first branches, and how many more there are."""
    comb(tmp_path / "comb.llmi", 300)
    assert cli.main(["sessions", "show", str(tmp_path / "comb.llmi")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("branch to node") == 20
    assert "280 more branches" in shown
    assert cli.main(["sessions", "show", str(tmp_path / "comb.llmi"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["branches"]), found["branches_left_out"]) == (20, 280)
    words = ["sessions", "export", str(tmp_path / "comb.llmi"), "--format", "html"]
    assert cli.main(words) == 0
    page = capsys.readouterr().out
    assert "left out here" in page
    assert page.count("data-node=") <= 5000
    assert cli.main([*words, "--tip", "9999"]) == 2
    assert "and 280 more" in capsys.readouterr().err


# --- on the screen --------------------------------------------------------------------------------


async def test_a_damaged_step_ends_the_app_with_one_line(tmp_path: Path, sample: bytes) -> None:
    """B8: what only shows when a step is looked at is one line, no raw error of a library."""
    path = altered(tmp_path / "run.llmi", sample, "DELETE FROM candidate WHERE at / 4096 = 2")
    session = open_session(path)
    app = replaying(session, Request(Open(), Configure(), Submit("")))
    async with app.run_test(size=(120, 36)):
        for _ in range(9):
            if not app.damage:
                await press(app, "b")
    assert app.return_code == EXIT_USAGE
    assert "node 2 has no candidates" in app.damage
    assert "\n" not in app.damage


async def test_a_replay_says_what_was_recovered(tmp_path: Path) -> None:
    """B2: whoever opens what a crash left is told so, on the screen too."""
    from tests.inspector.actions.test_saving import notes
    from tests.sessions.test_foreign import left_by_a_crash

    session = open_session(left_by_a_crash(tmp_path / "run.llmi"))
    app = replaying(session, Request(Open(), Configure(), Submit("")))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert any("from the log that an interrupted program left" in one for one in notes(app))


# --- keeping a run --------------------------------------------------------------------------------


def test_autosaves_in_one_instant_all_get_a_name(library: Library) -> None:
    """C7: where another program was faster, the next name is taken."""
    when = datetime(2026, 3, 4)
    first = library.autosave_path("same", when)
    offered = iter([first, first, library.autosaves / "late 2.llmi"])
    other = SessionWriter(first)
    one = Recorder(lambda text: next(offered))
    records = forked_run()
    one.record(records)
    assert one.flush(60.0)
    one.close()
    other.close()
    assert not one.error
    with open_session(library.autosaves / "late 2.llmi") as session:
        assert len(session) == 9
    assert any("another program took the name: saved as" in line for line in one.take_news())


def test_a_file_that_was_named_is_not_saved_elsewhere_in_silence(tmp_path: Path) -> None:
    """C7: without autosave a name that is taken is an error, which says so."""
    path = save(tmp_path / "run.llmi", [])
    before = path.read_bytes()
    names = [path]

    def place(text: str) -> Path:
        from sessions import SessionError

        if not names:
            raise SessionError("no other name")
        return names.pop()

    one = Recorder(place)
    one.record(forked_run())
    one.close()
    assert one.error == f"{path} is there already: choose another name"
    assert path.read_bytes() == before


@pytest.mark.parametrize(("blocked", "code"), [(True, EXIT_UNSAVED), (False, 0)])
def test_a_run_that_could_not_be_saved_has_a_code_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    blocked: bool,
    code: int,
) -> None:
    """C7: the text of the run all the same, one line, and exit code 4."""
    monkeypatch.setattr(run, "connect", lambda: DirectClient())
    folder: Any = tmp_path / "folder"
    folder.write_text("") if blocked else folder.mkdir()
    opening, configure, submit = script()
    asked = Request(opening, configure, submit, SetBreakpoints(), Save(folder / "run.llmi"))
    assert run.run(asked, "text") == code
    shown = capsys.readouterr()
    assert len(shown.out.strip()) == 20
    assert ("not saved: " in shown.err) is blocked
    assert EXIT_UNSAVED == 4


def test_the_prompt_is_there_where_no_step_is(tmp_path: Path) -> None:
    """C3: a program that is killed before its first token leaves a session that says so."""
    records = [one for one in forked_run() if not isinstance(one, StepRecord)]
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        assert isinstance(session.prompt, PromptRecord)
        assert session.tips == []
