"""Checks of a command before it is carried out; each raises StepperError."""

from __future__ import annotations

from collections.abc import Iterable

from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.run.tree import ROOT, Tree


class StepperError(RuntimeError):
    """A command that cannot be carried out; one line says why and what to do."""


def check_ids(ids: Iterable[int], facts: ModelFacts) -> None:
    """Check that all ids are in the vocabulary."""
    vocab = facts.vocab_size
    for token_id in ids:
        if not 0 <= token_id < vocab:
            raise StepperError(f"token id {token_id} is outside the vocabulary 0..{vocab - 1}")


def check_prompt(record: PromptRecord, facts: ModelFacts) -> None:
    """Check that a prompt has a token, and leaves room for one more."""
    count, context = len(record.tokens), facts.context_length
    if count == 0:
        raise StepperError("the prompt is empty: give it at least one token of text")
    if context is not None and count >= context:
        raise StepperError(
            f"the prompt is {count:,} tokens and the model's context holds {context:,} "
            "(one must stay free for the answer): shorten it"
        )


def check_room(length: int, facts: ModelFacts) -> None:
    """Check that the context has room for a token behind ``length`` of them."""
    limit = facts.context_length
    if limit is not None and length >= limit:
        raise StepperError(f"the context is full: the model reads at most {limit:,} tokens")


def check_node(node: int, tree: Tree, *, root: bool = True) -> None:
    """Check that there is such a node; without ``root`` the prompt is none."""
    if node not in tree or (node == ROOT and not root):
        raise StepperError(f"there is no node {node}" + ("" if root else " after the prompt"))
