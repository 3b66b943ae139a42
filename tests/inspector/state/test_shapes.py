"""The ready requests: their prompts, where their time goes, and thinking in both ways."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from engine.commands import Open
from engine.records.model import ModelFacts
from engine.records.thinking import ThinkingSettings
from engine.timing import PhaseKind
from inspector.cli.run import Progress
from inspector.state.answers import Answers
from inspector.state.shapes.carry_out import Spent
from inspector.state.shapes.requests import requests
from inspector.state.shapes.serial_parallel import both_ways
from tests.direct import DirectClient
from tests.ready_requests import thinking
from tests.thinkers import LETTERS, WORDS


def test_the_chat_of_turn_40_shares_all_but_its_last_message() -> None:
    cold, reused = requests(100, 8, 8)[1:3]
    shared = len(cold.prompt.rpartition("User:")[0])
    assert cold.prompt[:shared] == reused.prompt[:shared]
    assert cold.prompt != reused.prompt
    assert cold.prompt.count("User:") == 40


def test_the_document_is_about_as_long_as_asked_for() -> None:
    for words in (100, 600, 3000):
        assert len(requests(words, 8, 8)[0].prompt.split()) == pytest.approx(words, rel=0.4)


def test_the_thinking_request_begins_inside_and_takes_the_models_tags() -> None:
    own = ThinkingSettings("[T]", "[/T]", "tokenizer")
    found = requests(100, 8, 5, own)[3]
    assert found.prompt.rstrip().endswith("[T]")
    assert found.prompt.count("[T]") == found.prompt.count("[/T]") + 1
    assert found.thinking == replace(own, budget=5)


def test_the_parts_add_up_to_all_that_was_waited_for() -> None:
    """10 + 1 + 105 + 4 + 30 + 50 ms are 200; what no part has is 5 of reading and 2 of a step."""
    found = thinking(requests(100, 8, 5)[3])
    assert found.spent == {
        PhaseKind.TEMPLATE: 4.0,
        PhaseKind.TOKENIZE: 6.0,
        PhaseKind.LOOKUP: 1.0,
        PhaseKind.PREFILL: 80.0,
        PhaseKind.HEAD: 20.0,
        PhaseKind.SAMPLE: 2.0,
        Spent.THINKING: 30.0,
        Spent.DECODE: 50.0,
        Spent.OTHER: 7.0,
    }
    assert found.total_ms == 200.0


@pytest.mark.parametrize(
    ("patience", "thought"),
    # The tags are counted with the thinking: 6 + 2 tokens, and (3 + 2) twice. A model that closes
    # its thought by itself after 2 does so in every row.
    [(9, (8, 10)), (2, (4, 8))],
)
def test_rows_share_a_budget_each_and_the_series_has_theirs_together(
    patience: int, thought: tuple[int, int]
) -> None:
    """6 tokens of thinking in series, and twice 3 in rows that are alike; the answer is 42, end.

    Each pass gives every row a token, and the first token of all comes with the prompt.
    """
    client = DirectClient()
    answers = Answers(client, Progress(io.StringIO()))
    tokens = [*WORDS, *dict.fromkeys(LETTERS)]
    name = "patient_logits_of" if patience == 9 else "hasty_logits_of"
    model = {"function": f"tests.thinkers:{name}", "tokens": tokens}
    answers.ask(Open("scripted", model), ModelFacts)
    tags = ThinkingSettings("<think>", "</think>", "tokenizer", 3)
    serial, parallel = both_ways(answers, "?", tags, 2, 2, lambda *_: None)
    assert (serial.rows, serial.thought, serial.answered) == (1, thought[0], 2)
    assert (parallel.rows, parallel.thought, parallel.answered) == (2, thought[1], 4)
    assert serial.passes == thought[0] + 2 - 1
    assert parallel.passes == thought[1] // 2 + 2 - 1
    assert (serial.votes, parallel.votes) == ((("42", 1),), (("42", 2),))
