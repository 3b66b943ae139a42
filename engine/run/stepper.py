"""The debugger's core: one run as a tree of nodes, extended one forward pass at a time.

The Stepper is synchronous and knows no process, no screen and no file. The root node (0) is the
prompt; every other node is one token. Extending a node costs one pass, unless the distribution
after it is known already (a fork), when it costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.backends.base import Backend
from engine.backends.tokens import id_of
from engine.conditions.breakpoints import Breakpoint, Breakpoints, Verdict
from engine.conditions.condition import Condition, Unavailable
from engine.conditions.figures import Value
from engine.conditions.moment import Moment, Moments
from engine.records.arrays import FloatArray
from engine.records.cache import PoolState
from engine.records.events import NAME_LENGTH, BranchDeleted, BranchNamed
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.round import RoundRecord
from engine.records.step import StepRecord, brief
from engine.run.checks import StepperError, check_ids, check_node, check_prompt, check_room
from engine.run.distribution import Distribution
from engine.run.drawing import Drawing, Wanted
from engine.run.logit_store import DEFAULT_BUDGET
from engine.run.prompt import prompt_of_ids, prompt_of_text
from engine.run.reading import PREFILL_CHUNK, Reading
from engine.run.speculation import Speculation, Speculator
from engine.run.step_tree import LiveTree
from engine.run.thinking import Thinking
from engine.run.tree import ROOT
from engine.sampling.chain import Effective, effective
from engine.sampling.stages import StageContext
from engine.timing import now_ms


class Stepper:
    """Steps one run of one model. Not thread-safe; one pass at a time is the point."""

    def __init__(
        self,
        backend: Backend,
        settings: Effective | None = None,
        *,
        seed: int = 0,
        max_tokens: int = 256,
        chunk: int = PREFILL_CHUNK,
        logit_budget: int = DEFAULT_BUDGET,
        held: int | None = None,
    ) -> None:
        """``held``: how many of its newest records it keeps, where somebody else has them all."""
        self.backend = backend
        self.settings = settings or effective("guide", {})
        self.seed = seed
        self.max_tokens = max_tokens
        self.prompt: PromptRecord | None = None
        self.tree = LiveTree(held=held)
        self.reading = Reading(backend, chunk=chunk, logit_budget=logit_budget)
        self.breakpoints = Breakpoints()
        self.verdict = Verdict()
        """Verdict of the breakpoints on the last step of a run."""
        self.watched: tuple[int, ...] = ()
        """Ids that every step records, however unlikely they are; ``watch`` adds to them."""
        self.speculation: Speculation | None = None
        """Drafting of tokens that one pass then verifies; None: a pass a token."""
        self.thinking = Thinking(backend)
        """Tags of thinking spans, and the budget after which their end is forced."""
        self._moments: Moments | None = None
        self.drawing = Drawing(backend)
        self._speculator = Speculator(self.reading, self.drawing)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        yield "model", self.backend.facts.name
        yield "dtype", self.backend.facts.dtype
        yield "prompt", None if self.prompt is None else self.prompt.text
        yield "text", self.text
        yield "cursor", self.cursor
        yield "nodes", len(self.nodes)
        yield "chain", self.settings.spec
        yield "seed", self.seed

    def __repr__(self) -> str:
        return brief(self)

    # --- the prompt -------------------------------------------------------------------------

    def submit(self, text: str, *, chat: bool = False, system: str | None = None) -> PromptRecord:
        """Tokenize ``text`` and make it the root of a new, empty tree. Reads nothing yet.

        Raises StepperError when there is no token or more than the model's context holds.
        """
        return self._accept(prompt_of_text(self.backend, text, chat=chat, system=system))

    def submit_ids(self, ids: Sequence[int], text: str = "") -> PromptRecord:
        """Make the given token ids the prompt, as they are."""
        check_ids(ids, self.backend.facts)
        return self._accept(prompt_of_ids(self.backend, ids, text))

    def _accept(self, record: PromptRecord) -> PromptRecord:
        check_prompt(record, self.backend.facts)
        self.prompt = record
        self.tree = LiveTree(record.ids, held=self.tree.held)
        self._moments = Moments(record, self.backend.facts.vocab_size, self.rounds)
        self.reading.begin()
        self.thinking.forget()
        return record

    def prefill(self) -> Iterator[PrefillRecord]:
        """Read the prompt chunk by chunk; one record a chunk, each holding the ones before it.

        Stop iterating to pause; calling again goes on. Ends at once when all is read.
        """
        yield from self.reading.prompt(list(self._prompt.ids))

    # --- stepping ---------------------------------------------------------------------------

    def step(
        self,
        at: int | None = None,
        *,
        force: int | None = None,
        seed: int | None = None,
        settings: Effective | None = None,
    ) -> StepRecord:
        """One step at a node (default: the cursor): follow the recorded child, or make a new one.

        With any of ``force``, ``seed`` and ``settings`` it is a new one, as ``grow`` makes it; with
        ``force`` as ``extend`` does.
        """
        node = self.cursor if at is None else at
        following = self.children.get(node)
        if following and force is None and seed is None and settings is None:
            if following[-1] not in self.nodes:
                raise StepperError(f"the record of node {following[-1]} is no longer held here")
            self.cursor = following[-1]
            return self.nodes[self.cursor]
        if force is not None:
            return self.extend(node, force=force, seed=seed, settings=settings)
        first = self.grow(node, seed=seed, settings=settings)[0]
        self.cursor = first.node
        return first

    def grow(
        self, parent: int, *, seed: int | None = None, settings: Effective | None = None
    ) -> Sequence[StepRecord]:
        """New tokens after ``parent``: those of one speculative round, or a single one.

        Right behind the prompt, whose reading yields a token anyhow, and where nothing is drafted
        it is one, as ``extend`` draws it. The cursor is at the last one then.
        """
        limit = self.thinking.at(self.prompt, self.tree, parent)
        if self.speculation is None or parent == ROOT or limit.plain:
            return (self.extend(parent, force=limit.force, seed=seed, settings=settings),)
        self.check_extend(parent, None)
        wanted, context = self.plan(parent, None, seed, settings)
        found = self._speculator.round(self.speculation, wanted, self.path_ids(parent), context)
        if found is None:
            return (self.extend(parent, seed=seed, settings=settings),)
        self.tree.add_round(found.record, found.steps)
        return found.steps

    def back(self) -> int:
        """Move the cursor to its parent; nothing is computed and nothing lost. Returns the node."""
        if self.cursor != ROOT:
            self.cursor = self.tree.parents[self.cursor]
        return self.cursor

    def extend(
        self,
        parent: int,
        *,
        force: int | None = None,
        seed: int | None = None,
        settings: Effective | None = None,
    ) -> StepRecord:
        """A new child of ``parent``: draw (or force) the token that follows it.

        ``seed`` and ``settings``, where given, are used instead of the run's. Raises StepperError
        for an unknown node, an id outside the vocabulary, or a full context.
        """
        self.check_extend(parent, force)
        # The prompt's own time is in its PrefillRecord, not in the first step's.
        for _ in self.prefill():
            pass
        started = now_ms()
        wanted, context = self.plan(parent, force, seed, settings)
        record = self.drawing.step(wanted, self._distribution(parent), context, started)
        self.tree.add_step(record)
        return record

    def run(
        self,
        pause: Callable[[], bool] = lambda: False,
        *,
        until: str = "",
        at: int | None = None,
        seed: int | None = None,
        settings: Effective | None = None,
    ) -> Iterator[StepRecord]:
        """Step from a node (default: the cursor) until the run stops or ``pause()`` is true.

        That is asked between passes. A breakpoint stops it too, and so does a step at which the
        condition ``until`` holds. With ``seed`` or ``settings`` every step is a new one, drawn
        with these. Yields nothing where the run has stopped already; a ``step`` goes past a stop.
        Raises ConditionError and BackendError.
        """
        condition = Condition(until) if until else None
        self.watch(*(condition.tokens if condition is not None else ()))
        self.verdict = Verdict()
        node, ready = self.cursor if at is None else at, list[StepRecord]()
        while not (node in self.tree.stops and not self.children.get(node)) and not pause():
            if not ready:
                known = self.children.get(node) and seed is None and settings is None
                more = self.grow(node, seed=seed, settings=settings) if not known else ()
                ready = list(more) or [self.step(node)]
            record = ready.pop(0)
            self.cursor = node = record.node
            arrived = self.check(node).stops or (
                condition is not None and condition.surely(self.moment(node))
            )
            yield record
            if arrived:
                return

    def watch(self, *tokens: str) -> None:
        """Record the figures of these tokens at every step from now on, however unlikely they are.

        Raises BackendError for a text that is not one token.
        """
        for text in tokens:
            token_id = id_of(self.backend, text)
            if token_id not in self.watched:
                self.watched += (token_id,)

    def add_breakpoint(self, condition: str) -> Breakpoint:
        """Stop every run where ``condition`` holds. Raises ConditionError and BackendError."""
        point = self.breakpoints.add(condition)
        self.watch(*self.breakpoints.tokens)
        return point

    def check(self, node: int) -> Verdict:
        """Look at a step: count the breakpoints it hits. The result is ``verdict``."""
        self.verdict = self.breakpoints.check(self.moment(node)) if self.breakpoints else Verdict()
        return self.verdict

    def check_extend(self, parent: int, force: int | None) -> None:
        """Raises StepperError where no token can come behind ``parent``, or not ``force``."""
        check_node(parent, self.tree)
        check_ids(() if force is None else (force,), self.backend.facts)
        check_room(len(self.path_ids(parent)), self.backend.facts)

    def plan(
        self, parent: int, force: int | None, seed: int | None, settings: Effective | None
    ) -> tuple[Wanted, StageContext]:
        """A new child of ``parent``, and what its stages are told."""
        settings, prompt_ids = settings or self.settings, self._prompt.ids
        ids, state = self.path_ids(parent), self.tree.states.get(parent, {})
        wanted = Wanted(self.tree.next_node, parent, settings, self.max_tokens, force, self.watched)
        self.drawing.foresee(wanted, len(ids) - len(prompt_ids))
        seed = self.seed if seed is None else seed
        return wanted, self.drawing.context(settings, prompt_ids, ids, seed, state)

    def _distribution(self, node: int) -> Distribution:
        first = node == ROOT and not self.children[ROOT]
        return self.reading.after(node, self.path_ids(node), first=first)

    # --- the tree ---------------------------------------------------------------------------

    def delete(self, node: int) -> BranchDeleted:
        """Forget ``node`` and all that comes after it; ``undelete`` until the next token undoes it.

        Blocks of the KV cache that only it needed are free then.

        Raises StepperError where there is no such node.
        """
        check_node(node, self.tree, root=False)
        parent = self.tree.parents[node]
        keep = len(self.path_ids(parent))
        self.reading.forget(self.tree.delete(node), parent, keep)
        return BranchDeleted(node)

    def undelete(self) -> BranchDeleted:
        """Bring back what was deleted last; its branch is read again when it is gone on with."""
        if not self.tree.undoable:
            raise StepperError("nothing was deleted since the last token: there is nothing to undo")
        node = self.tree.undoable[-1]
        self.tree.undelete(node)
        return BranchDeleted(node, undone=True)

    def name(self, node: int, name: str) -> BranchNamed:
        """Call the branch that begins with ``node`` so. Raises StepperError for no such node."""
        check_node(node, self.tree, root=False)
        return BranchNamed(node, " ".join(name.split())[:NAME_LENGTH])

    # --- looking ----------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[int, StepRecord]:
        """Every node but the root; the newest, where only some are ``held``."""
        return self.tree.steps

    @property
    def children(self) -> Mapping[int, list[int]]:
        """Node -> its children, oldest first."""
        return self.tree.children

    @property
    def rounds(self) -> Mapping[int, RoundRecord]:
        """Speculative rounds by the node of their first token, the newest where some are held."""
        return self.tree.rounds

    @property
    def cursor(self) -> int:
        """The node that ``step`` goes on from."""
        return self.tree.cursor

    @cursor.setter
    def cursor(self, node: int) -> None:
        self.tree.cursor = node

    @property
    def prefill_record(self) -> PrefillRecord | None:
        """Progress and cost of reading the prompt."""
        return self.reading.record

    @property
    def _prompt(self) -> PromptRecord:
        if self.prompt is None:
            raise StepperError("there is no prompt yet: submit one first")
        return self.prompt

    def path(self, node: int | None = None) -> list[StepRecord]:
        """The records from the root's first child to ``node`` (default: the cursor).

        Raises KeyError for one that there is not, or that is not held.
        """
        tree, to = self.tree, self.cursor if node is None else node
        if to not in tree:
            raise KeyError(to)
        return list(tree.along(tree.path(to)))

    @property
    def text(self) -> str:
        """The text generated up to the cursor, less a character that is still open."""
        return self.moment().text if self.cursor != ROOT else ""

    def evaluate(self, expression: str) -> Value:
        """The value of an expression at the cursor, such as ``prob(" Paris")``.

        Raises ConditionError, and Unavailable where it cannot be told.
        """
        return Condition(expression).value(self.moment())

    def moment(self, node: int | None = None) -> Moment:
        """The step of ``node`` (default: the cursor) and what led to it. Raises Unavailable."""
        node = self.cursor if node is None else node
        if self._moments is None or node == ROOT:
            raise Unavailable("the cursor is at the prompt: no token was drawn there")
        return self._moments.at(self.tree.along(self.tree.path(node)))

    def path_ids(self, node: int) -> list[int]:
        """Token ids from the start of the prompt to ``node``, both included. Do not change it."""
        return self.tree.path_ids(node)

    def pool_state(self) -> PoolState | None:
        """The pool of K/V blocks, each branch with its node; None where the backend has none."""
        return self.reading.pool_state()

    def dense(self, node: int) -> FloatArray:
        """The whole raw logit vector that ``node``'s token was drawn from, shape (vocab_size,).

        Reads the branch again when it is no longer held. Log-probabilities of a backend that knows
        no logits; raises BackendError where it knows no whole vectors.
        """
        if node == ROOT or node not in self.tree:
            raise StepperError(f"node {node} was not drawn from a distribution")
        return self._distribution(self.tree.parents[node]).dense()

    def restore(
        self,
        prompt: PromptRecord,
        prefill: PrefillRecord | None,
        records: Mapping[int, StepRecord],
        cursor: int = ROOT,
        next_node: int = 1,
    ) -> None:
        """Take over a recorded tree, so that the run goes on in a new engine. Reads nothing yet.

        A finished ``prefill`` stays the run's own: what is read again later is not its TTFT.
        New nodes get numbers from ``next_node`` on, or after the highest of ``records``.
        """
        self._accept(prompt)
        if prefill is not None and prefill.done:
            self.reading.begin(prefill)
        for node in sorted(records):
            self.tree.add_step(records[node])
        self.tree.next_node = max(self.tree.next_node, next_node)
        self.cursor = cursor
