"""The examples can be recorded with any backend, and those that are shipped can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.backends.scripted import ScriptedBackend
from engine.run.stepper import Stepper
from sessions import open_session
from sessions.examples import EXAMPLES, FOLDER, example, record_example


@pytest.mark.parametrize("name", EXAMPLES)
def test_recording_an_example(tmp_path: Path, name: str) -> None:
    letters = [bytes([byte]) for byte in range(256)]
    stepper = Stepper(ScriptedBackend.uniform(letters, template=("<", ">")))
    record_example(name, stepper, tmp_path / "run.llmi")
    record_example(name, stepper, tmp_path / "run.llmi")
    with open_session(tmp_path / "run.llmi") as session:
        assert session.prompt
        assert session.prompt.text == EXAMPLES[name].prompt
        assert session.prompt.chat is EXAMPLES[name].chat
        assert session.title == EXAMPLES[name].title
        branches = max(1, len(EXAMPLES[name].columns))
        branches += bool(EXAMPLES[name].fork_at) + bool(EXAMPLES[name].greedy_steps)
        assert len(session.tips) == branches
        assert len(session.branch(session.tips[0])) == EXAMPLES[name].steps


def test_an_example_that_there_is_not() -> None:
    with pytest.raises(KeyError, match="there are capital, chat, rounds, tour, bytes, compare"):
        example("x")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.llmi")), ids=lambda path: path.stem)
def test_a_shipped_example_reads_to_its_end(path: Path) -> None:
    assert path.stat().st_size < (500_000 if path.stem == "tour" else 200_000)
    with open_session(path) as session:
        assert session.version == 1
        assert session.closed
        for step in session.steps.values():
            assert len(step.top.tokens) >= 1
