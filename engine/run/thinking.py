"""Thinking as a run goes on: the model's own tags, and a budget after which the end is forced.

Budget forcing as in "s1: Simple test-time scaling" (arXiv:2501.19393): when a span has had its
tokens, the closing tag's ids are taken instead of drawn, and the model goes on with its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.backends.abilities import Templated
from engine.backends.base import Backend, BackendError
from engine.backends.tokens import ids_of, tokenized
from engine.records.prompt import PromptRecord
from engine.records.round import MOST_DRAFTED
from engine.records.thinking import ThinkingSettings
from engine.run.checks import StepperError
from engine.run.step_tree import LiveTree
from engine.run.tree import ROOT
from engine.thinking import prompt_opens

KNOWN_TAGS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<thought>", "</thought>"),
)
"""Tags of published models."""
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Limit:
    """The budget's say at a node: the id to force, or None; ``plain``: nothing is drafted now."""

    force: int | None = None
    plain: bool = False


_FREE = Limit()


@dataclass(frozen=True, slots=True)
class _State:
    """State after a token: inside a span, tokens since its tag, closing ids forced, last bytes."""

    inside: bool
    count: int = 0
    forced: int = 0
    tail: bytes = b""


class Thinking:
    """The tags of one model's runs, and the budget. Without a budget it costs a step nothing."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._own: ThinkingSettings | None = None
        self.settings = ThinkingSettings()
        self._closing: tuple[int, ...] = ()
        self._states: dict[int, _State] = {}

    def use(self, wanted: ThinkingSettings | None) -> None:
        """Use these tags, or the model's own where it names none; None: the model's own.

        Raises StepperError for a budget without tags.
        """
        if self._own is None:
            self._own = own_tags(self._backend)
        wanted = wanted or ThinkingSettings()
        found = wanted if wanted.known else replace(self._own, budget=wanted.budget)
        if found.budget is not None and not found.known:
            raise StepperError(
                "a thinking budget needs tags, and this model has none of its own: "
                'say --think-tags "<think>,</think>"'
            )
        self.settings = found
        self.forget()
        self._closing = ()
        if found.budget is not None:
            told = tokenized(self._backend, found.closes)
            if not told.tokens:
                raise StepperError(f"the closing tag has no tokens here: {told.problem}")
            self._closing = tuple(token.id for token in told.tokens)

    def forget(self) -> None:
        """Forget the tree before: a new prompt begins another."""
        self._states.clear()

    def at(self, prompt: PromptRecord | None, tree: LiveTree, node: int) -> Limit:
        """The budget's say on the token after ``node``."""
        budget = self.settings.budget
        if budget is None:
            return _FREE
        state = self._state(prompt, tree, node)
        if not state.inside:
            return _FREE
        if state.count >= budget:
            there = state.forced < len(self._closing)
            return Limit(self._closing[state.forced] if there else None, plain=True)
        return Limit(plain=state.count + MOST_DRAFTED >= budget)

    def _state(self, prompt: PromptRecord | None, tree: LiveTree, node: int) -> _State:
        """The state after ``node``, from the nearest node above whose state is known."""
        missing = []
        while node != ROOT and node not in self._states:
            missing.append(node)
            node = tree.parents[node]
        state = self._states.get(node) or _State(prompt_opens(prompt, self.settings))
        if missing and len(self._states) > _REMEMBERED:
            self._states.clear()
        for one, token_id in zip(reversed(missing), _ids(tree, missing), strict=True):
            state = self._states[one] = self._after(state, token_id)
        return state

    def _after(self, state: _State, token_id: int) -> _State:
        opens, closes = self.settings.open_bytes, self.settings.close_bytes
        inside, turned = state.inside, False
        tail = state.tail + self._backend.token(token_id).bytes
        while (at := tail.find(closes if inside else opens)) >= 0:
            tail = tail[at + len(closes if inside else opens) :]
            inside, turned = not inside, True
        # A tag that is found is taken off: what is left can only be the beginning of one.
        tail = tail[-max(len(opens), len(closes)) :]
        if turned:
            return _State(inside, tail=tail)
        forced, budget = state.forced, self.settings.budget
        if inside and budget is not None and state.count >= budget:
            goes_on = forced < len(self._closing) and token_id == self._closing[forced]
            forced = forced + 1 if goes_on else 0
        return _State(inside, state.count + inside, forced, tail)


def _ids(tree: LiveTree, nodes: Sequence[int]) -> list[int]:
    """The token ids of nodes that follow each other, the last first; theirs in the path's order."""
    if not nodes:
        return []
    return tree.path_ids(nodes[0])[-len(nodes) :]


def own_tags(backend: Backend) -> ThinkingSettings:
    """The first known pair that the tokenizer has both of as tokens, or the chat template names.

    A template that writes one, or takes it off old turns, is for a model that thinks between them.
    Nothing else of a model's files tells: no field of its configuration does. No tags without.
    """
    template = backend.chat_template if isinstance(backend, Templated) else ""
    told: dict[str, Callable[[str], bool]] = {
        "tokenizer": lambda tag: _is_token(backend, tag),
        "chat template": lambda tag: tag in template,
    }
    for source, tells in told.items():
        for tags in KNOWN_TAGS:
            if all(map(tells, tags)):
                return ThinkingSettings(*tags, source)
    return ThinkingSettings()


def _is_token(backend: Backend, text: str) -> bool:
    try:
        ids = ids_of(backend, text)
    except BackendError:
        return False
    return len(ids) == 1 and backend.token(ids[0]).bytes == text.encode()
