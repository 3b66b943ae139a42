"""``llm-inspect shapes`` without a screen: a whole run on a script, as JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.commands import Open
from inspector.cli.main import COMMANDS
from inspector.cli.open import Opener
from inspector.cli.own_prices import own_prices
from inspector.cli.shapes import add_shapes_options, shapes
from inspector.cli.shapes_report import report
from inspector.state.shapes.carry_out import Carried
from sessions.reader import open_session
from tests.direct import DirectClient
from tests.ready_requests import all_carried


def test_the_report_has_every_figure() -> None:
    found = report(all_carried())
    plain = found["requests"][0]
    assert (plain["ttft_ms"], plain["itl_ms"], plain["total_ms"]) == (500.0, 100.0, 900.0)
    assert [one.get("warmup") for one in found["requests"]] == [False, False, True, False, None]
    assert plain["spent_ms"] == {"prefill": 500.0, "decode": 400.0}
    assert plain["bill"]["total"]["tokens"] == 15
    assert found["requests"][4]["error"] == "the context holds 5 tokens"
    assert found["serial_parallel"][1]["votes"] == [{"answer": "7", "rows": 3}]


def test_a_whole_run_on_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    """Every prompt is read, the budget ends the thinking, and the tokens add up."""
    parser = argparse.ArgumentParser()
    add_shapes_options(parser)
    args = parser.parse_args(
        ["--format", "json", "--words", "50", "--output", "3", "--budget", "2", "--best-of", "2"]
    )
    command = Open("scripted", {"text": "the cat sat on the mat and saw the dog"})
    assert shapes(command, args, connect=DirectClient) == 0  # type: ignore[arg-type]
    captured = capsys.readouterr()
    found = json.loads(captured.out, parse_constant=pytest.fail)
    names = [one["name"] for one in found["requests"]]
    assert names[0] == "long document"
    assert len(names) == 5
    kinds = [
        {line["kind"]: line["tokens"] for line in one["bill"]["lines"]} for one in found["requests"]
    ]
    # The history of the chat was in the cache the second time.
    assert "cached" not in kinds[1] or kinds[1]["cached"] < 5
    assert kinds[2]["cached"] > kinds[2]["prompt"]
    # Two tokens of thinking, then the closing tag's bytes are forced, one token each.
    assert found["requests"][3]["bill"]["thinking"]["forced"] > 0
    for one in found["requests"]:
        parts = one["spent_ms"]
        assert sum(parts.values()) == pytest.approx(one["total_ms"])
        first = sum(parts.get(name, 0.0) for name in ("template", "tokenize", "lookup", "prefill"))
        first += parts.get("head", 0.0) + parts["sample"]
        assert first == pytest.approx(one["ttft_ms"])
    assert "shapes" in captured.err
    assert [one["name"] for one in found["serial_parallel"]] == ["serial", "parallel"]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (all_carried(), 0),
        (replace(all_carried(), done=(), error="no such model: x\x1b[2J"), 3),
        (replace(all_carried(), done=(), now="warm-up"), 130),
        (None, 130),
    ],
)
def test_on_a_terminal_there_is_a_screen_and_the_table_behind_it(
    found: Carried | None,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inspector.cli.shapes.is_terminal", lambda: True)
    monkeypatch.setattr("inspector.cli.shapes.run_in_terminal", lambda app: found)
    parser = argparse.ArgumentParser()
    add_shapes_options(parser)
    assert shapes(Open("scripted"), parser.parse_args([]), connect=DirectClient) == code  # type: ignore[arg-type]
    captured = capsys.readouterr()
    assert ("Where the time goes" in captured.out) is (code == 0)
    assert ("no such model: x␛[2J" in captured.err) is (code == 3)


def test_a_run_that_is_chosen_is_kept_and_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = all_carried()
    chosen = replace(chosen, opened=chosen.answered[0])
    opened: list[int] = []

    def look(opener: Opener, path: Path) -> int:
        with open_session(path) as session:
            opened.append(len(session.steps))
        return 7

    monkeypatch.setattr("inspector.cli.shapes.is_terminal", lambda: True)
    monkeypatch.setattr("inspector.cli.shapes.run_in_terminal", lambda app: chosen)
    monkeypatch.setattr("inspector.cli.open.Opener.open", look)
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path)
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    add_shapes_options(parser)
    assert shapes(Open("scripted"), parser.parse_args([]), connect=DirectClient) == 7  # type: ignore[arg-type]
    assert opened == [5]


def test_the_command_is_there() -> None:
    assert "shapes" in COMMANDS
    assert own_prices().per_million
