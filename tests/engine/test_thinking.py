"""Thinking spans of an output, and the budget that forces their end."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engine.backends.prompt import template_text
from engine.backends.scripted import ScriptedBackend
from engine.drafts.ngram import PromptLookup
from engine.records.prompt import Origin, PromptRecord
from engine.records.step import How
from engine.records.thinking import ThinkingSettings
from engine.records.vocabulary import Token
from engine.run.checks import StepperError
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.run.thinking import own_tags
from engine.sampling.chain import effective
from engine.thinking import span_count, thinking_mask
from tests.thinkers import ANSWER, ASK, CLOSE, END, HM, THINK, thinker

TAGS = ThinkingSettings("<think>", "</think>", "tokenizer")
GREEDY = effective("guide", {"temperature": 0.0})


def mask(*pieces: str, prompt: str = "") -> str:
    """The mask over tokens of these texts, a letter each: t for thinking."""
    tokens = [Token(0, one.encode()) for one in pieces]
    record = None
    if prompt:
        record = PromptRecord(prompt, (Token(0, prompt.encode()),), (Origin.USER,), False, 0.0)
    return "".join("t" if one else "." for one in thinking_mask(record, tokens, TAGS))


# --- spans ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["<think>", "a", "b", "</think>", "c"], "tttt."),
        (["x", "<think>", "a"], ".tt"),
        (["<", "thi", "nk", ">", "a", "</", "think", ">", "c"], "tttttttt."),
        (["x<think>y", "a", "z</think>\n", "c"], "ttt."),
        (["<think>", "</think>", "<think>", "a", "</think>", "c"], "ttttt."),
        (["a", "b"], ".."),
        (["</think>", "a"], ".."),
        (["<think", "a"], ".."),
        ([], ""),
    ],
)
def test_tokens_of_a_span_tags_included(pieces: list[str], expected: str) -> None:
    assert mask(*pieces) == expected


def test_a_prompt_that_ends_in_the_opening_tag_begins_inside() -> None:
    assert mask("a", "</think>", "b", prompt="Q <think>\n") == "tt."
    # One that only speaks of the tag does not.
    assert mask("a", "b", prompt="what does <think> mean?") == ".."


def test_without_tags_nothing_is_thinking() -> None:
    tokens = [Token(0, b"<think>")]
    assert not thinking_mask(None, tokens, ThinkingSettings()).any()


def test_spans_are_counted() -> None:
    assert span_count(np.array([True, True, False, True], np.bool_)) == 2
    assert span_count(np.zeros(0, np.bool_)) == 0


def test_the_models_own_tags_are_those_that_are_tokens() -> None:
    assert own_tags(thinker()) == TAGS
    assert own_tags(thinker(tags=False)) == ThinkingSettings()
    assert own_tags(ScriptedBackend.uniform("abc")) == ThinkingSettings()


@pytest.mark.parametrize(
    ("template", "found"),
    [
        (("user: ", "\nassistant: <think>\n{# until </think> #}"), ("<think>", "</think>")),
        (("[THINK]", "[/THINK]"), ("[THINK]", "[/THINK]")),
        (("user: ", "<think>"), ("", "")),
        (None, ("", "")),
    ],
)
def test_tags_of_several_tokens_are_the_models_own_where_its_template_names_both(
    template: tuple[str, str] | None, found: tuple[str, str]
) -> None:
    own = own_tags(ScriptedBackend.uniform("abc", template=template))
    assert (own.opens, own.closes) == found
    assert own.source == ("chat template" if own.known else "")


def test_of_several_templates_by_name_all_are_looked_through() -> None:
    named = SimpleNamespace(chat_template={"default": "<think>", "tool_use": "</think>"})
    assert template_text(named) == "<think>\n</think>"
    assert template_text(SimpleNamespace(chat_template=None)) == template_text(object()) == ""


def test_a_pair_of_tokens_goes_before_one_that_the_template_names() -> None:
    backend = thinker()
    backend.chat_template = "[THINK] [/THINK]"
    assert own_tags(backend) == TAGS


# --- the budget -----------------------------------------------------------------------------


def run(
    patience: int, settings: ThinkingSettings | None, *, tags: bool = True, draft: bool = False
) -> Stepper:
    stepper = Stepper(thinker(patience, tags=tags), GREEDY, max_tokens=60)
    stepper.thinking.use(settings)
    if draft:
        stepper.speculation = Speculation(PromptLookup(2), 4)
    stepper.submit_ids([ASK])
    for _ in stepper.run():
        pass
    return stepper


def ids(stepper: Stepper) -> list[int]:
    return [one.token.id for one in stepper.path()]


def test_without_a_budget_it_thinks_as_long_as_it_likes() -> None:
    assert ids(run(5, None)) == [THINK, *[HM] * 5, CLOSE, ANSWER, END]


@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("budget", [0, 1, 3, 4])
def test_the_end_tag_is_forced_at_the_budget(budget: int, draft: bool) -> None:
    """Of 5 tokens of thinking the budget leaves so many; the answer follows."""
    stepper = run(5, ThinkingSettings(budget=budget), draft=draft)
    assert ids(stepper) == [THINK, *[HM] * budget, CLOSE, ANSWER, END]
    forced = [one.token.id for one in stepper.path() if one.draw.how is How.FORCED]
    assert forced == [CLOSE]


@pytest.mark.parametrize("budget", [5, 6, 100])
def test_a_budget_that_is_not_used_up_forces_nothing(budget: int) -> None:
    stepper = run(5, ThinkingSettings(budget=budget))
    assert ids(stepper) == [THINK, *[HM] * 5, CLOSE, ANSWER, END]
    # At 5 of 5 the model closes by itself, and so does the budget: the same token.
    forced = [one for one in stepper.path() if one.draw.how is How.FORCED]
    assert len(forced) == (1 if budget == 5 else 0)


def test_a_tag_of_several_tokens_is_forced_one_after_another() -> None:
    """The user's tags, on a model whose tokenizer has none: id 0 stands for the opening one."""
    stepper = run(50, ThinkingSettings("§a", "</think>", "--think-tags", 2), tags=False)
    texts = [one.token.bytes.decode() for one in stepper.path()]
    assert texts == ["§a", " hm", " hm", "<", "/", *"think", ">", " 42", "<end>"]
    assert [one.draw.how is How.FORCED for one in stepper.path()].count(True) == 8


def test_every_branch_has_a_budget_of_its_own() -> None:
    """A fork in the middle of the span goes on counting from there."""
    stepper = run(9, ThinkingSettings(budget=4))
    assert ids(stepper) == [THINK, *[HM] * 4, CLOSE, ANSWER, END]
    second = stepper.path()[1]
    forked = stepper.extend(second.node, force=HM)
    for _ in stepper.run(at=forked.node):
        pass
    assert ids(stepper) == [THINK, *[HM] * 4, CLOSE, ANSWER, END]


def test_a_budget_without_tags_is_refused() -> None:
    stepper = Stepper(thinker(tags=False), GREEDY)
    with pytest.raises(StepperError, match="needs tags"):
        stepper.thinking.use(ThinkingSettings(budget=4))
    stepper.thinking.use(None)
    assert stepper.thinking.settings == ThinkingSettings()
