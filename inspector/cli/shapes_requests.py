"""Four ready requests, one of them twice, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bill.account import Account
from engine.records.thinking import ThinkingSettings
from engine.timing import Speed

TURNS = 39
"""Turns of the chat that lie before the one that is asked for."""
_OWN_TAGS = ThinkingSettings("<think>", "</think>", "shapes")
_WORDS_A_SECTION = 48
_TOPICS = (
    "the harbour, where nets dry on the wall and boats come home before the storm",
    "the market, where apples are weighed by hand and nobody asks for the price twice",
    "the school on the hill, whose bell is heard in every street of the town",
    "the old mill, which has ground no corn since the river changed its bed",
    "the bakery, where the oven is lit at three and the first loaves are sold at five",
)


@dataclass(frozen=True)
class Shape:
    """A request: its prompt, how many tokens of output, and the thinking in it, if any."""

    name: str
    what: str
    prompt: str
    output: int
    thinking: ThinkingSettings | None = None


@dataclass(frozen=True, eq=False)
class Answered:
    """A request that was carried out; ``account`` is None where ``error`` says why it was not."""

    shape: Shape
    account: Account | None = None
    speed: Speed | None = None
    total_ms: float = 0.0
    """Tokenizing, reading and all steps."""
    text: str = ""
    error: str = ""


def requests(
    words: int, output: int, budget: int, own: ThinkingSettings | None = None
) -> tuple[Shape, ...]:
    """All requests; ``words`` of the long document, ``own``: the model's tags, where it has any.

    The chat comes twice in a row: nothing of it has been read the first time, and all but its last
    message the second time.
    """
    tags = own if own is not None and own.known else _OWN_TAGS
    thinks = ThinkingSettings(tags.opens, tags.closes, tags.source, budget)
    history = _chat()
    return (
        Shape(
            "long document",
            "much to read, little to write",
            f"{_document(words)}\n\nIn one sentence, this report is about",
            output,
        ),
        Shape(
            "chat turn 40, cold",
            "the whole history is read again",
            f"{history}User: And what do they sell at the harbour?\nAssistant:",
            output,
        ),
        Shape(
            "chat turn 40, reused",
            "the same history, its K and V kept",
            f"{history}User: And when is the bell of the school heard?\nAssistant:",
            output,
        ),
        Shape(
            "thinking, budget",
            f"{budget} tokens of thinking at most, then an answer",
            f"Question: A boat has 12 nets and loses 5. How many are left?\n{tags.opens}\n",
            budget + output,
            thinks,
        ),
        Shape(
            "short question",
            "little to read, little to write",
            "Question: What is the capital of France?\nAnswer:",
            output,
        ),
    )


def _document(words: int) -> str:
    """A report in numbered sections, about so many words long."""
    sections = []
    for number in range(1, max(1, words // _WORDS_A_SECTION) + 1):
        first, second = _TOPICS[number % len(_TOPICS)], _TOPICS[(number * 3 + 1) % len(_TOPICS)]
        sections.append(
            f"Section {number}. This part of the report is about {first}. Those who were asked in "
            f"week {number} also spoke of {second}, and said that it matters more each year."
        )
    return "\n".join(sections)


def _chat() -> str:
    """The turns before the one that is asked for."""
    turns = []
    for number in range(1, TURNS + 1):
        topic = _TOPICS[number % len(_TOPICS)]
        turns.append(f"User: Tell me more, part {number}.\nAssistant: It is about {topic}.\n")
    return "".join(turns)
