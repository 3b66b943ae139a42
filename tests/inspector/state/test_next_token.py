"""F20: what the next token will be drawn from is asked for while the run stands still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.commands import Command, Pause, Run, ShowNext, Step
from engine.records.events import EngineError, RunState, StateChanged
from engine.run.tree import ROOT
from inspector.state.whatif import recorded_chain
from tests.direct import script
from tests.inspector.state.test_controller import Hands


def at_prompt(*waiting: Command, chunk: int = 256) -> Hands:
    """A run whose prompt is not read; ``waiting`` commands come once its reading has begun."""
    hands = Hands()
    hands.client.send(replace(script()[1], chunk=chunk))
    hands.take()
    hands.client._inbox.waiting.extend(waiting)
    return hands


def test_f20_the_prompt_is_read_and_nothing_is_drawn() -> None:
    hands = at_prompt()
    hands.controller.need_next(ROOT)
    hands.take()
    log = hands.controller.log
    assert log.prefill is not None
    assert log.prefill.done
    assert log.state.state is RunState.READY
    assert len(log.nodes) == 0
    shown = hands.controller.view.upcoming()
    assert shown is not None
    hands.controller.need_next(ROOT)
    assert hands.sent(ShowNext) == [ShowNext(ROOT)], "asked once"
    hands.controller.step()
    hands.take()
    step = log.nodes[1]
    assert shown.entropy_final == step.entropy_final
    assert not step.timing.reused
    assert hands.controller.view.upcoming() is None, "it was of the token before"


def test_f20_other_settings_are_asked_for_anew_and_tried_ones_apart() -> None:
    hands = at_prompt()
    controller = hands.controller
    controller.need_next(ROOT)
    hands.take()
    hands.client.send(replace(script()[1], dials={"top_p": 0.5}))
    hands.take()
    assert controller.view.upcoming() is None, "not those of other settings"
    controller.need_next(ROOT)
    hands.take()
    own = controller.view.upcoming()
    assert own is not None
    assert own.stages[-1].survivors == 13, "of 26 that are all alike"
    chain = recorded_chain(controller.view)
    assert chain is not None
    controller.cursor.what_if = chain
    controller.need_next(ROOT)
    hands.take()
    assert controller.view.upcoming(chain) is not None
    assert controller.view.upcoming() is own
    assert controller.log.settings is not None
    assert "top_p=0.5" in controller.log.settings.chain_spec, "tried, and not set"


def test_f20_settings_that_leave_no_token_are_no_error_before_it_is_drawn() -> None:
    hands = at_prompt()
    everything = ", ".join(map(str, range(26)))
    hands.client.send(replace(script()[1], dials={"suppress": everything}))
    hands.take()
    hands.controller.need_next(ROOT)
    records = hands.client.take()
    assert not [one for one in records if isinstance(one, EngineError)]
    hands.controller.take(records)
    assert hands.controller.view.upcoming() is None
    assert hands.controller.log.state.state is RunState.READY


@pytest.mark.parametrize("command", [Pause(), Step(ROOT)])
def test_f20_any_command_ends_the_reading_between_two_chunks(command: Command) -> None:
    hands = at_prompt(command, chunk=1)
    hands.controller.need_next(ROOT)
    hands.take()
    log = hands.controller.log
    assert log.state == StateChanged(RunState.PAUSED, "reading the prompt", unasked=True)
    assert log.prefill is not None
    assert not log.prefill.done
    hands.controller.need_next(ROOT)
    assert len(hands.sent(ShowNext)) == 1, "who paused it is not read to again"


def test_f20_what_is_asked_for_while_the_prompt_is_read_comes_after_it() -> None:
    for key, nodes in (("step", 1), ("run", 20)):
        hands = at_prompt()
        hands.controller.need_next(ROOT)
        reading, *rest = hands.client.take()
        hands.controller.take([reading])
        assert hands.controller.log.state.state is RunState.PREFILL
        getattr(hands.controller, key)()
        assert not hands.sent(Step)
        assert not hands.sent(Run)
        hands.controller.take(rest)
        hands.take()
        assert len(hands.controller.log.nodes) == nodes


def test_f20_a_token_is_forced_where_none_was_drawn_yet() -> None:
    hands = at_prompt()
    assert not hands.controller.force(3), "nothing is shown that could be chosen"
    hands.controller.need_next(ROOT)
    hands.take()
    assert hands.controller.force(3)
    hands.take()
    hands.controller.need_next(1)
    hands.take()
    assert hands.controller.force(5, after=True)
    hands.take()
    tree = hands.controller.log
    assert [(tree.nodes[node].token.id, tree.nodes[node].parent) for node in (1, 2)] == [
        (3, 0),
        (5, 1),
    ]
    assert hands.controller.cursor.node == 2


def test_f20_a_cursor_that_has_gone_on_asks_for_nothing() -> None:
    """At a tip it may cost a pass: only for what is looked at."""
    hands = at_prompt()
    hands.controller.step()
    hands.take()
    hands.controller.need_next(ROOT)
    assert not hands.sent(ShowNext)
