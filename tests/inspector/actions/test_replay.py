"""A saved session on the screen: without a model, at its own tempo, and with a model attached."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot

from engine.commands import Configure, Open, Pause, Restore, Submit
from engine.records.events import DenseLogits, RunState, StateChanged
from engine.records.step import StepRecord
from inspector.actions.comparing import NO_FORK
from inspector.actions.player import Playing
from inspector.app import Inspector
from inspector.cli.config import Config
from inspector.cli.open import Opener, recorder
from inspector.replaying import replaying
from inspector.screens.debugger import DebuggerScreen
from inspector.screens.text import TextScreen
from inspector.state.breakpoints import Watched
from inspector.state.replay_client import NOT_STORED, REFUSAL, ReplayClient, Tempo, obstacle
from inspector.state.request import Request, Save
from inspector.state.view import RunLog, View
from sessions import Session, open_session
from sessions.examples import example
from sessions.library import Library
from tests import fakes
from tests.direct import DirectClient, script
from tests.inspector.actions.test_saving import notes, settle
from tests.inspector.test_app import app as live_app
from tests.inspector.test_app import pane_text, press, screen_text
from tests.settling import until

WIDE = (160, 48)


def replayed(session: Session, opening: Open | None = None, **options: Any) -> Inspector:
    asked = Request(opening or script()[0], Configure(), Submit(""))
    return replaying(session, asked, **options)


@pytest.fixture
def letters(tmp_path: Path) -> Session:
    """Five steps of the scripted model, with a fork after the third, whole logits kept."""
    from engine.backends import open_backend
    from engine.run.stepper import Stepper
    from engine.sampling.chain import effective
    from sessions.recording import record

    opening, _, submit = script()
    stepper = Stepper(open_backend(opening.backend, dict(opening.options)))
    stepper.settings, stepper.seed = effective("guide", {"temperature": 1.0}), 7
    path = tmp_path / "letters.llmi"
    record(stepper, path, submit.text, steps=5, full_logits=True)
    return open_session(path)


async def test_the_example_is_stepped_without_a_model() -> None:
    one = replayed(open_session(example("capital")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert "a recording" in screen_text(one).splitlines()[0]
        tip = one.controller.cursor.node
        assert tip == 31
        await press(pilot, "b", "b")
        assert one.controller.cursor.node == 29
        await press(pilot, "g", "n", "n")
        assert one.controller.cursor.node == 2
        assert '","' in pane_text(one, "ladder")
        await press(pilot, "G")
        assert one.controller.cursor.node == tip
        await press(pilot, "n")
        assert notes(one) == [REFUSAL]
        assert not one.controller.busy
        assert one.controller.cursor.node == tip
        await press(pilot, "r", "K", "w", "b")
        assert one.controller.cursor.node == 30
        assert notes(one)[-1].endswith("capital.llmi")


@pytest.mark.parametrize("composed", [False, True])
async def test_what_is_shown_before_the_screen_is_mounted_is_on_it(
    monkeypatch: pytest.MonkeyPatch, composed: bool
) -> None:
    class Early(DebuggerScreen):
        def compose(self) -> ComposeResult:
            if composed:
                yield from super().compose()
            log = RunLog(state=StateChanged(RunState.PAUSED, "early"))
            self.show(View(log), None, Watched())
            if not composed:
                yield from super().compose()

    # A recording is painted as soon as the app is there, and nothing more comes of itself.
    monkeypatch.setattr(Inspector, "_draw", lambda app: None)
    monkeypatch.setattr(Inspector, "get_default_screen", lambda app: Early())
    one = replayed(open_session(example("capital")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert "paused: early" in screen_text(one).splitlines()[0]


async def test_what_is_not_stored_is_said_and_not_waited_for() -> None:
    one = replayed(open_session(example("capital")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "end", "p")
        await press(pilot, "p", "2", "end")
        text = pane_text(one, "ladder")
        assert NOT_STORED in text
        assert "raw mass" in text
        assert "loading" not in text


async def test_whole_logits_that_are_stored_are_shown(letters: Session) -> None:
    one = replayed(letters)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "2", "end")
        assert "all 26 ids" in pane_text(one, "ladder") or "26" in pane_text(one, "ladder")
        one.controller.need_dense(one.controller.cursor.node)
        await press(pilot)
        dense = one.controller.log.dense
        assert isinstance(dense, DenseLogits)
        assert dense.logits.shape == (26,)
        assert len(one.controller.log.vocabulary or ()) == 26


async def test_what_if_on_a_recording_is_what_if_live(letters: Session) -> None:
    """26 letters, all alike: with top_k=3 the same dice draw among three."""
    live = live_app()
    one = replayed(letters)
    shown = []
    for inspector in (live, one):
        async with inspector.run_test(size=WIDE) as pilot:
            await press(pilot, "n", "n", "n") if inspector is live else await press(pilot, "b", "b")
            assert inspector.controller.cursor.node == 3
            await press(pilot, "s")
            await type_top_k(pilot)
            assert inspector.controller.cursor.what_if is not None
            shown.append(pane_text(inspector, "ladder"))
    assert shown[0] == shown[1]


async def type_top_k(pilot: Pilot[None]) -> None:
    """Turn the second dial, top_k, to 3."""
    await press(pilot, "down", "3", "enter")


async def test_a_recording_says_which_keys_need_a_model() -> None:
    one = replayed(open_session(example("chat")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "P")
        assert notes(one) == [REFUSAL]
        await press(pilot, "s", "down", "3", "enter", "a")
        assert notes(one) == [REFUSAL] * 2
        greyed = {
            active.binding.id
            for active in one.screen.active_bindings.values()
            if not active.enabled
        }
        assert {"fork", "redraw", "prompt", "restart", "apply", "drift"} <= greyed
        assert not {"step", "back", "dials", "branch-before", "save", "sessions", "quit"} & greyed
        await press(pilot, "f", "D", "M", "C", "d", "K")
        assert notes(one) == [REFUSAL] * 8
        assert len(one.screen_stack) == 1


async def test_the_palette_says_what_needs_a_model() -> None:
    one = replayed(open_session(example("chat")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "ctrl+p", *"fork")
        assert "not now: What to do differently here" in screen_text(one)


async def test_a_hidden_branch_stays_hidden(tmp_path: Path) -> None:
    live = live_app()
    library = Library(tmp_path)
    live.keeping.recorder = recorder(Save(), library)
    async with live.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "r", "n")
        live.controller.delete(live.controller.cursor.node)
        await press(pilot)
        live.controller.undo()
        live.controller.delete(2)
        await press(pilot)
        hidden, children = live.controller.log.tree.deleted, live.controller.log.tree.children
    (seen,) = library.previews()
    one = replayed(open_session(seen.path))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert one.controller.log.tree.deleted == hidden == {2}
        assert one.controller.log.tree.children == children
        assert one.controller.cursor.node == 4


async def test_f18_a_replay_opens_on_the_branch_that_the_run_was_left_on(tmp_path: Path) -> None:
    """Not on the newest one: here the run went on with the first."""
    live = live_app()
    library = Library(tmp_path)
    live.keeping.recorder = recorder(Save(), library)
    async with live.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "r", "h", "n")
        live.controller.name_branch(2, "the first")
        await press(pilot)
    (seen,) = library.previews()
    one = replayed(open_session(seen.path))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert [step.node for step in one.controller.view.path] == [1, 2, 4]
        assert "the first" in screen_text(one).splitlines()[0]


async def test_f18_a_replay_begins_at_the_prompt_and_n_tells_the_branch_it_was_left_on() -> None:
    """F18: unless it is asked for its end, which G goes to."""
    opener = Opener(Request(Open(), Configure(), Submit("")), Config(), None)
    one = opener.replay(open_session(example("capital")))
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot)
        assert one.controller.cursor.node == 0
        await press(pilot, *"nnn")
        assert one.controller.cursor.node == 25, "1 and 2, and then the branch that ends with 31"
        await press(pilot, "G")
        assert one.controller.cursor.node == 31
    one = opener.replay(open_session(example("capital")), at_end=True)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot)
        assert one.controller.cursor.node == 31


async def test_two_branches_are_compared() -> None:
    one = replayed(open_session(example("capital")))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "V", "V")
        assert isinstance(one.screen, TextScreen)
        lines = one.screen._lines
        assert lines[:2] == [
            'a: the branch that begins with " and"',
            'b: the branch that begins with " France"',
        ]
        assert "output: the same for 8 bytes, then" in lines
        await press(pilot, "q", "q", "g", "n", "V")
        assert notes(one)[-1].startswith("there is no fork above")
    one = replayed(open_session(example("chat")))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "V")
        assert notes(one) == [NO_FORK]


# --- tempo ------------------------------------------------------------------------------------


def test_tokens_come_when_they_came() -> None:
    """Case 36: TTFT 500 ms, then one token every 100 ms."""
    _, prompt, prefill, *later = fakes.case_36()
    steps = [step for step in later if isinstance(step, StepRecord)]
    session: Any = type("S", (), {"prompt": prompt, "prefill": prefill})()
    whole = Tempo(session, [(steps, 0)], 1.0, streaming=True)
    assert whole.wait_s(0.0) == pytest.approx(0.5)
    assert whole.arrived(0.49) == []
    assert whole.arrived(0.71) == [1, 2, 3]
    assert whole.arrived(0.91) == [4, 5]
    assert not whole
    at_once = Tempo(session, [(steps, 0)], 1.0, streaming=False)
    assert at_once.wait_s(0.0) == pytest.approx(0.9), "the last token comes at the same moment"
    assert at_once.arrived(0.91) == [5]
    twice = Tempo(session, [(steps, 3)], 2.0, streaming=True)
    assert twice.wait_s(0.0) == pytest.approx(0.05)
    assert twice.arrived(0.11) == [4, 5]
    assert not Tempo(session, [(steps, 5)], 1.0, streaming=False)


def test_streaming_is_switched_on_the_way() -> None:
    """Off after two tokens, on again before the last: that one comes at 900 ms in any case."""
    _, prompt, prefill, *later = fakes.case_36()
    steps = [step for step in later if isinstance(step, StepRecord)]
    session: Any = type("S", (), {"prompt": prompt, "prefill": prefill})()
    tempo = Tempo(session, [(steps, 0)], 1.0, streaming=True)
    assert tempo.arrived(0.61) == [1, 2]
    tempo.streaming = False
    assert tempo.wait_s(0.65) == pytest.approx(0.25)
    assert tempo.left_s(0.65) == pytest.approx(0.25)
    assert tempo.arrived(0.75) == []
    tempo.streaming = True
    assert tempo.wait_s(0.75) == 0.0, "one has come meanwhile"
    assert tempo.arrived(0.75) == [3]
    assert tempo.left_s(0.75) == pytest.approx(0.15)
    tempo.streaming = False
    assert tempo.arrived(0.89) == []
    assert tempo.arrived(0.91) == [5]
    assert not tempo
    assert tempo.left_s(0.91) == 0.0


async def test_a_key_switches_streaming_while_it_plays() -> None:
    one = replayed(open_session(example("chat")), playing=Playing(speed=0.001))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "c")
        # However long the next token takes.
        one._painter._pass_began -= 60.0
        one._tick()
        assert "replayed 0.001x, streaming" in screen_text(one).splitlines()[0]
        tempo = one.replay.player.tempo
        assert tempo is not None
        ends = tempo._due[-1]
        await press(pilot, "S")
        assert one.replay.player.tempo is tempo, "the clock goes on"
        assert "replayed 0.001x, not streaming" in screen_text(one).splitlines()[0]
        assert notes(one)[-1].startswith("not streaming: the whole text, when its last token came")
        assert tempo._due[-1] == ends
        # As if all but the last had come: nothing is shown, and then all of it.
        one.replay.player._began -= ends - 60
        one.replay.player._wait()
        await pilot.pause()
        assert one.controller.cursor.node == 1
        one.replay.player._began -= 60
        one.replay.player._wait()
        await until(lambda: one.controller.cursor.node == 24)
        assert one.controller.log.state.state is RunState.PAUSED
        await press(pilot, "S", "g", "c")
        assert "replayed 0.001x, streaming" in screen_text(one).splitlines()[0]
        await press(pilot, "e")
        assert "stream" not in {
            binding.binding.id for binding in one.screen.active_bindings.values()
        }


async def test_tokens_that_are_all_due_do_not_stop_the_clock() -> None:
    """A timer of no length at all never rings."""
    one = replayed(open_session(example("chat")), playing=Playing(speed=1e6))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "c")
        one.replay.player._began -= 1e6
        one.replay.player._wait()
        await until(lambda: one.controller.cursor.node == 24)
        assert one.controller.log.state.state is RunState.PAUSED


async def test_without_a_tempo_there_is_nothing_to_stream() -> None:
    one = replayed(open_session(example("chat")))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "S")
        assert notes(one) == ["this recording is not played: --speed 1 plays it at its own tempo"]
        # In the palette too, by name.
        await press(pilot, "ctrl+p", *"streaming on")
        from textual.command import CommandList

        (found,) = list(one.screen.query_one(CommandList).options)[:1]
        assert "Streaming on/off  (S)" in str(found.prompt)


async def test_c_plays_and_space_holds() -> None:
    one = replayed(open_session(example("chat")), playing=Playing(speed=1000.0))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        assert one.controller.cursor.node == 0
        await press(pilot, "c")
        await until(lambda: one.controller.cursor.node == 24)
        assert one.controller.log.state.state is RunState.PAUSED
    one = replayed(open_session(example("chat")), playing=Playing(speed=0.001))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "c")
        assert one.controller.log.state.state is RunState.RUNNING
        assert "replayed 0.001x" in screen_text(one).splitlines()[0]
        await press(pilot, "space")
        assert one.controller.log.state.state is RunState.PAUSED
        assert one.controller.cursor.node == 1


# --- with a model -----------------------------------------------------------------------------


async def test_a_model_goes_on_from_any_node(letters: Session, tmp_path: Path) -> None:
    library, clients = Library(tmp_path / "data"), list[DirectClient]()

    def attach() -> DirectClient:
        clients.append(DirectClient())
        return clients[-1]

    kept = recorder(Save(), library, goes_on=letters.path, prompt="abc")
    before = letters.path.read_bytes()
    one = replayed(letters, attach=attach, recorder=kept, library=library)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "b", "b")
        assert [type(sent) for sent in clients[0].sent].count(Restore) == 1
        await press(pilot, "r")
        assert one.controller.cursor.node == 6
        assert one.controller.view.step is not None
        assert one.controller.view.step.parent == 2
        await press(pilot, "n", "h", "G", "n")
        assert one.controller.cursor.node == 8
        assert one.controller.view.step.parent == 5
        await settle(one, pilot)
    assert letters.path.read_bytes() == before
    (seen,) = library.previews()
    with open_session(seen.path) as session:
        assert len(session) == 8
        assert session.prompt is not None
        assert session.prompt.text == "abc"


async def test_a_model_that_goes_on_draws_what_the_run_would_have(letters: Session) -> None:
    live = live_app()
    async with live.run_test(size=WIDE) as pilot:
        await press(pilot, "N")
        wanted = [step.token.id for step in live.controller.log.path(8)]
    one = replayed(letters, attach=DirectClient)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "n")
        assert [step.token.id for step in one.controller.log.path(8)] == wanted
        assert "the same model as when it was recorded" in notes(one)


async def test_another_model_is_named_or_refused(letters: Session) -> None:
    one = replayed(letters, attach=DirectClient, opening=script(tokens=list("abc"))[0])
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n")
        assert any("a vocabulary of 26 tokens" in line for line in notes(one))
        assert notes(one)[-1] == REFUSAL
        assert one.controller.log.facts is not None
        assert one.controller.log.facts.vocab_size == 26
        assert obstacle(letters, letters.facts) == ""  # type: ignore[arg-type]


def test_a_client_answers_what_it_holds(letters: Session) -> None:
    said: list[str] = []
    client = ReplayClient(letters, said.append)
    assert len(client.take()) == 1
    client.send(Submit("x"))
    assert said == [REFUSAL]


_WITHOUT_TORCH = """
import asyncio, json, sys
from engine.commands import Configure, Open, Submit
from inspector.cli.options import Request
from inspector.replaying import replaying
from sessions import open_session
from sessions.examples import example

async def main():
    session = open_session(example("capital"))
    app = replaying(session, Request(Open(), Configure(), Submit("")))
    async with app.run_test(size=(160, 48)) as pilot:
        for key in ("b", "s", "down", "3", "enter", "p", "x", "n", "g", "c", "N"):
            await pilot.press(key)
            await pilot.pause()

asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""


def test_a_replay_never_imports_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_TORCH], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "inspector.actions.replay" in loaded
    assert not loaded.intersection(("torch", "transformers", "tokenizers", "accelerate"))


async def test_space_pauses_a_model_that_goes_on_from_a_recording(letters: Session) -> None:
    client = DirectClient()
    one = replayed(letters, attach=lambda: client)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot)
        one.controller.take([StateChanged(RunState.RUNNING)])
        await press(pilot, "space")
        assert client.sent[-1] == Pause()
