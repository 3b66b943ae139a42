"""Four ready requests, one of them twice."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.thinking import ThinkingSettings

COLD, REUSED = "chat turn 40, cold", "chat turn 40, reused"
"""Names of the request that comes twice: nothing of it is cached, and nearly all of it."""
WARM_UP = (
    "It rained all morning, and nobody came to the shop. The owner counted his coins, put the "
    "kettle on and looked out at the empty street, where a dog was crossing from one door to the "
    "next as if it had letters to deliver."
)
"""A prompt of which nothing can be reused for another."""
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
            COLD,
            "the whole history is read again",
            f"{history}User: And what do they sell at the harbour?\nAssistant:",
            output,
        ),
        Shape(
            REUSED,
            "the same history, its K and V kept",
            f"{history}User: And when is the bell of the school heard?\nAssistant:",
            output,
        ),
        Shape(
            "thinking, budget",
            f"{budget} tokens of thinking at most, then an answer",
            _example(tags)
            + f"Question: A boat has 12 nets and loses 5. How many are left?\n{tags.opens}\n",
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


def _example(tags: ThinkingSettings) -> str:
    """A question that was answered: a model without tags of its own learns here what they mean."""
    return (
        f"Question: Ann has 3 apples and buys 4 more. How many does she have?\n{tags.opens}\n"
        f"3 apples and 4 more are 7 apples.\n{tags.closes}\nAnswer: 7\n\n"
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
