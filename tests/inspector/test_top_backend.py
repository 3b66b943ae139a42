"""An engine that knows the 20 likeliest tokens: on the screen, on the command line, in a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import engine.backends
from engine.backends import Engine
from engine.commands import Configure, Open, SendLogits, Submit
from engine.records.partial import ends
from inspector.app import Inspector
from inspector.cli.run import run
from inspector.state.request import Request, Save
from sessions import open_session
from tests.direct import DirectClient
from tests.inspector.test_app import pane_text, press, screen_text
from tests.top_backend import TOP, WIDTH

CLOSING = "temperature=0.7 > top_k=10 > top_p=0.9"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.backends.BACKENDS, "top", Engine("tests.top_backend", "20 of 300"))


def asked(spec: str, **more: Any) -> Request:
    settings = Configure(spec=spec, seed=3, max_tokens=4)
    return Request(Open("top"), settings, Submit(" w1 w2"), **more)


def app(spec: str) -> tuple[Inspector, DirectClient]:
    client = DirectClient()
    client.send(Open("top"))
    return Inspector(asked(spec), client, DirectClient), client  # type: ignore[arg-type]


async def test_the_ladder_has_intervals_where_the_others_matter_and_numbers_elsewhere() -> None:
    one, client = app(CLOSING)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "2", *["down"] * (TOP + 2))
        ladder = pane_text(one, "ladder").splitlines()
        (left,) = [line.split() for line in ladder if "tokens left" in line]
        assert left[2:6] == [f"{WIDTH}", f"{WIDTH}", "10", "7"]
        (removed,) = [line.split() for line in ladder if "mass removed" in line]
        assert removed[2:] == ["0", "−22–33%", "−7.72%"]
        (entropy,) = [line.split() for line in ladder if "entropy, nats" in line]
        assert entropy[2:] == ["3.5–4.3", "2.5–3.5", "1.75", "1.51"]
        assert "280 more tokens: 33.0% raw mass, 0% final mass · top gives" in "\n".join(ladder)
        # What cannot be had is not asked for, however often a pane would like it.
        assert not any(isinstance(command, SendLogits) for command in client.sent)


async def test_a_what_if_is_run_over_what_is_known() -> None:
    one, client = app(CLOSING)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "s", "down", "minus")
        assert "would draw" in screen_text(one)
        assert not any(isinstance(command, SendLogits) for command in client.sent)


async def test_a_refused_draw_says_why_and_the_run_goes_on_with_a_forced_token() -> None:
    one, _ = app("typical_p=0.5 > temperature=1")
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n")
        assert one.controller.log.nodes == {}
        assert "mass lies with tokens that are not known" in screen_text(one)


def lines_of(spec: str, capsys: pytest.CaptureFixture[str], **more: Any) -> list[dict[str, Any]]:
    run(asked(spec, **more), "jsonl")
    out = capsys.readouterr().out
    return [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]


def test_jsonl_of_a_run_and_of_its_session_have_both_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspector.cli.run.connect", DirectClient)
    path = tmp_path / "run.llmi"
    first, *steps, last = lines_of(CLOSING, capsys, save=Save(path))
    assert (first["backend"], last["reason"]) == ("top", "length")
    assert len(steps) == 4
    for step in steps:
        low, high = step["entropy_raw"]
        assert 0.0 < low < high
        assert isinstance(step["entropy_final"], float)
        assert isinstance(step["final_prob"], float)
    with open_session(path) as session:
        for step in steps:
            assert list(ends(session.step(step["node"]).entropy_raw)) == step["entropy_raw"]


def test_a_run_whose_draw_is_refused_ends_as_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspector.cli.run.connect", DirectClient)
    assert run(asked("typical_p=0.5 > temperature=1"), "text") == 3
    assert "of the mass lies with tokens that are not known" in capsys.readouterr().err
