"""Reading text with a backend: the prompt in chunks, one token behind it, a branch once more.

What comes out is the distribution after a node of the run's tree, and what it cost. Which branch of
the backend's pool of K/V blocks belongs to which node is known here too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from engine.backends.abilities import Pooled, Profiled, Widening, kv_state, missing, take_back
from engine.backends.base import Backend, ForwardPass, Row, RowLogits, TokenSequence, whole
from engine.kv.branch import Branch
from engine.kv.prefix import explain
from engine.records.arrays import FloatArray, HalfArray
from engine.records.cache import BLOCK_SIZE, KVState, PoolState, PrefixReport
from engine.records.columns import MOST_COLUMNS
from engine.records.engine import EngineTimes
from engine.records.partial import TopLogprobs
from engine.records.prompt import PrefillChunk, PrefillRecord
from engine.run.distribution import Ahead, Distribution
from engine.run.logit_store import LogitStore
from engine.run.tree import ROOT
from engine.timing import now_ms

PREFILL_CHUNK = 256
FIRST_READ = "prompt"


class Reading:
    """The text read for one run. ``chunk`` is how many positions of a prompt go in a pass."""

    def __init__(self, backend: Backend, *, chunk: int, logit_budget: int) -> None:
        self.backend = backend
        self.chunk = chunk
        self.record: PrefillRecord | None = None
        """Progress of reading the prompt."""
        self._logits = LogitStore(logit_budget)
        # The pool's branch -> the node that its last position belongs to.
        self._branches: dict[int, int] = {}
        # Node -> the branch in which a row of a pass has come to it, of the newest rows.
        self._ends: dict[int, Branch] = {}
        # A node and the distribution after it that was looked at before any step needed it.
        self._looked: tuple[int, Distribution] | None = None
        # Of the pass that ``settle`` has not been told the outcome of.
        self._rows: list[FloatArray | HalfArray | None] = []
        # Asked once: isinstance with a protocol looks every method up.
        self._pooled = backend if isinstance(backend, Pooled) else None
        self._profiled = backend if isinstance(backend, Profiled) else None
        self._widening = backend if isinstance(backend, Widening) else None
        # What an earlier run has left there is not this run's.
        if self._pooled is not None and self._pooled.branch is not None:
            self._pooled.forget(self._pooled.branch, 0)
        backend.seek(())

    def begin(self, record: PrefillRecord | None = None) -> None:
        """A new prompt, of which nothing is known but how it was read before, if it was."""
        self.record = record
        self._logits.clear()
        self._branches.clear()
        self._ends.clear()
        self._looked = None

    def prompt(self, ids: list[int]) -> Iterator[PrefillRecord]:
        """Read the prompt, or what is left of it, chunk by chunk; see ``Stepper.prefill``."""
        if self.record is not None and self.record.done:
            return
        chunks = self.record.chunks if self.record else ()
        yield from self._read(ids, chunks, reason=FIRST_READ, node=ROOT)

    def after(self, node: int, ids: list[int], *, first: bool) -> Distribution:
        """The distribution after ``node``, to which ``ids`` lead from the start of the prompt.

        It is known, or one pass away, or the branch is read again. ``first``: it is the prompt's,
        and nothing was drawn from it before.
        """
        if self._looked is not None and self._looked[0] == node:
            found, self._looked = self._looked[1], None
            return found
        return self.with_wider(node, ids, self._after(node, ids, first=first))

    def look(self, node: int, ids: list[int], *, first: bool) -> Distribution:
        """The same before any step needs it; the one that does is told what it cost here."""
        if self._looked is None or self._looked[0] != node:
            found = self.after(node, ids, first=first)
            early = found.shifted_ms + found.forward_ms
            self._looked = node, replace(found, shifted_ms=early)
        return self._looked[1]

    def with_wider(self, node: int, ids: list[int], found: Distribution) -> Distribution:
        """``found``, the one after ``node``, with ``wider`` where more can be asked for."""
        known = found.logits
        if self._widening is None or not isinstance(known, TopLogprobs):
            return found
        more = known.ids.size < known.vocab_size
        return replace(found, wider=partial(self._wider, node, ids, found) if more else None)

    def _wider(self, node: int, ids: list[int], found: Distribution, count: int) -> Distribution:
        assert self._widening is not None, "it was asked for"
        result = self._widening.widened(ids, count)
        self._logits.put(node, result.known)
        asked, again = found.engine, result.engine
        wider = replace(
            found,
            logits=result.known,
            forward_ms=found.forward_ms + result.ms,
            engine=again if asked is None or again is None else asked + again,
        )
        return self.with_wider(node, ids, wider)

    def _after(self, node: int, ids: list[int], *, first: bool) -> Distribution:
        known = self.known(node, first=first)
        if known is not None:
            return known
        if node != ROOT and self.backend.seek(ids) == len(ids) - 1:
            result = self.backend.forward(((self.backend.sequence, ids[-1:]),))
            self._keep(node, result)
            computed = _evaluated(result.engine, 1, len(ids))
            kv = kv_state(
                self.backend,
                self._pooled,
                computed=computed,
                cached=len(ids) - computed,
                copied=result.copied_blocks,
                evicted=result.evicted_blocks,
            )
            return Distribution(
                result.known,
                result.ms,
                kv,
                warmup=result.warmup,
                engine=result.engine,
                shifted_ms=result.shifted_ms,
            )
        read = self._again(node, ids)
        logits = self._logits.get(node)
        assert logits is not None, "the newest vector is never forgotten"
        return Distribution(logits, read.total_ms, read.kv, reread=True)

    def known(self, node: int, *, first: bool) -> Distribution | None:
        """The distribution after ``node`` where it is held; ``first`` as for ``after``."""
        logits = self._logits.get(node)
        if logits is None:
            return None
        kv = self.record.kv if self.record and first else self._unread()
        return Distribution(logits, 0.0, kv, reused=not first)

    def is_next(self, parent: int, ids: list[int]) -> bool:
        """True if the last of ``ids``, behind ``parent``, is all that is to be read of them."""
        if self._pooled is None or self._pooled.branch is None:
            # One text is held at a time: what is read before the last id again is the backend's.
            return True
        return self._end(parent, ids) is not None or self.backend.seek(ids) == len(ids) - 1

    def row(self, parent: int, ids: list[int], others: Sequence[TokenSequence]) -> Row:
        """A pass's row that reads the last of ``ids``, behind ``parent``; see ``is_next``.

        Its sequence is none of ``others``, those of the pass's other rows.
        """
        if self._pooled is None or self._pooled.branch is None:
            return list(ids[:-1]), ids[-1:]
        sequence: TokenSequence | None = self._end(parent, ids)
        if sequence is None:
            self.backend.seek(ids)
            sequence = self.backend.sequence
        if any(sequence is one for one in others):
            sequence = self._pooled.fork(sequence, pinned=False)
        return sequence, ids[-1:]

    def _end(self, parent: int, ids: list[int]) -> Branch | None:
        """The branch that a row has left at ``parent``, where it still holds all of ``ids[:-1]``.

        So a column is gone on with without a search for its text.
        """
        branch = self._ends.get(parent)
        return branch if branch is not None and branch.ids == ids[:-1] else None

    def keep_row(self, nodes: Sequence[int], row: RowLogits, sequence: TokenSequence) -> KVState:
        """Keep what a row gave, which is after each of ``nodes``; the cache of its text then."""
        for node in nodes:
            self._logits.put(node, row.values if row.half is None else row.half)
        if isinstance(sequence, Branch):
            self._branches[sequence.number] = nodes[0]
            self._ends.update(dict.fromkeys(nodes, sequence))
            while len(self._ends) > 2 * MOST_COLUMNS:
                del self._ends[next(iter(self._ends))]
        seen = len(sequence)
        if self._pooled is None:
            stored, nbytes = seen, self.backend.facts.kv_bytes(seen)
        else:
            stored, nbytes = self._pooled.kv(sequence)
        size = BLOCK_SIZE if self._pooled is None else self._pooled.block_size
        computed = _evaluated(row.engine, 1, seen)
        return KVState(
            seen, stored, nbytes, computed=computed, cached=seen - computed, block_size=size
        )

    def ahead(self, node: int, ids: list[int], drafted: Sequence[int]) -> Ahead:
        """Read ``drafted`` (at least one) behind ``node``, to which ``ids`` lead; see ``Ahead``.

        ``settle`` is to follow. Raises BackendError; then nothing of it was read.
        """
        known, reread = self._whole(node), False
        at = self.backend.seek(ids if known is None else [*ids, drafted[0]])
        if at < len(ids) - (known is None):
            # Not the next token of what the cache holds: the branch is read again, in chunks.
            self._again(node, ids)
            known, reread, at = self._whole(node), True, self.backend.length
        feed = [*ids[at:], *drafted]
        result = self.backend.forward(((self.backend.sequence, feed),), all_positions=True)
        values, half = result.logits, result.half
        # Copied, or one row would keep all of them in memory.
        self._rows = [row.copy() for row in (values if half is None else half)]
        logits = list(values)
        if known is not None:
            logits.insert(0, known)
            self._rows.insert(0, None)
        return Ahead(
            logits,
            result.ms,
            written=len(feed),
            cached=at,
            warmup=result.warmup,
            reread=reread,
            copied=result.copied_blocks,
            evicted=result.evicted_blocks,
        )

    def settle(self, ids: list[int], nodes: Sequence[int]) -> tuple[int, KVState]:
        """Take back what ``ahead`` read beyond ``ids``; (positions taken back, the cache then).

        ``nodes`` are the node that it read behind and those of the drafts that were accepted: the
        distributions after them are kept. ``ids`` lead to the last of them.
        """
        for node, row in zip(nodes, self._rows, strict=False):
            if row is not None:
                self._logits.put(node, row)
        self._rows = []
        back = take_back(self.backend, ids)
        self._place(nodes[-1])
        return back, kv_state(self.backend, self._pooled, computed=1, cached=len(ids) - 1)

    def _whole(self, node: int) -> FloatArray | None:
        """The logits after ``node``, where they are held. BackendError for a part of them."""
        known = self._logits.get(node)
        return None if known is None else whole(known)

    def _again(self, node: int, ids: list[int]) -> PrefillRecord:
        """Read a branch again, up to ``node``, whose logits are known then."""
        *_, read = self._read(ids, (), reason=f"node {node} again", node=node)
        return read

    def forget(self, gone: Collection[int], parent: int, keep: int) -> None:
        """The nodes ``gone`` were deleted below ``parent``, to which ``keep`` positions lead."""
        for node in gone:
            self._logits.drop(node)
        for branch, node in list(self._branches.items()):
            if node in gone and self._pooled is not None:
                self._pooled.forget(branch, keep)
                self._branches[branch] = parent

    def pool_state(self) -> PoolState | None:
        """The pool with each branch's node; None where the backend has none."""
        state = None if self._pooled is None else self._pooled.pool_state()
        if state is None:
            return None
        alive = {branch.number for branch in state.branches}
        self._branches = {one: node for one, node in self._branches.items() if one in alive}
        return state.at_nodes(self._branches)

    def _unread(self) -> KVState:
        return kv_state(self.backend, self._pooled, computed=0, cached=0)

    def _keep(self, node: int, result: ForwardPass) -> None:
        self._logits.put(node, result.known if result.half is None else result.half)
        self._place(node)

    def _place(self, node: int) -> None:
        branch = None if self._pooled is None else self._pooled.branch
        if branch is not None:
            self._branches[branch] = node

    def _begin_prompt(self, ids: list[int]) -> PrefixReport:
        """Go to what is there of a new prompt; how much that is, and why not more."""
        if self._pooled is not None:
            return self._pooled.begin_prompt(ids)
        report = explain(
            ids, None, cached=self.backend.seek(ids), hit_blocks=0, evicted_blocks=0, size=1
        )
        return replace(report, common=report.cached, reason=missing(self.backend.facts, Pooled))

    def _prefill(self, piece: list[int]) -> ForwardPass:
        """Read a piece of the prompt, layer by layer where layers are timed."""
        if self._profiled is not None:
            return self._profiled.prefill(piece)
        result = self.backend.forward(((self.backend.sequence, piece),))
        return replace(result, layers_note=missing(self.backend.facts, Profiled))

    def _read(
        self, ids: list[int], chunks: tuple[PrefillChunk, ...], *, reason: str, node: int
    ) -> Iterator[PrefillRecord]:
        """Bring the cache to hold exactly ``ids``; the logits after the last are ``node``'s."""
        done_before = sum(chunk.count for chunk in chunks)
        prefix = self.record.prefix if chunks and self.record else None
        lookup = self.record.lookup_ms if chunks and self.record else None
        copied, evicted = 0, 0
        if reason == FIRST_READ and not chunks:
            started = now_ms()
            prefix = self._begin_prompt(ids)
            lookup = now_ms() - started
        elif self.backend.seek(ids) < done_before:
            # What was read before a pause had to go in the meantime.
            chunks, done_before = (), 0
        elif chunks and self.record is not None:
            copied, evicted = self.record.kv.copied_blocks, self.record.kv.evicted_blocks
        size = self.chunk
        if not self.backend.facts.keeps_cache:
            # Nothing carries over to another pass: in pieces, most of it would be read twice.
            self.backend.seek(())
            size = len(ids)
        cached = self.backend.length - done_before
        while self.backend.length < len(ids):
            start = self.backend.length
            piece = ids[start : start + size]
            result = self._prefill(piece)
            chunk = PrefillChunk(
                start,
                len(piece),
                result.ms,
                result.layers,
                result.warmup,
                result.layers_note,
                result.engine,
                result.head_ms,
            )
            chunks = (*chunks, chunk)
            computed = sum(one.count for one in chunks)
            copied, evicted = copied + result.copied_blocks, evicted + result.evicted_blocks
            done = self.backend.length == len(ids)
            if done:
                self._keep(node, result)
            elif node == ROOT:
                self._place(node)
            record = PrefillRecord(
                chunks=chunks,
                cached=cached,
                computed=computed,
                total_ms=sum(one.ms for one in chunks),
                kv=kv_state(
                    self.backend,
                    self._pooled,
                    computed=computed,
                    cached=cached,
                    copied=copied,
                    evicted=evicted,
                ),
                done=done,
                reason=reason,
                prefix=prefix,
                lookup_ms=lookup,
            )
            if reason == FIRST_READ:
                self.record = record
            yield record


def _evaluated(engine: EngineTimes | None, count: int, length: int) -> int:
    """Positions that a pass over ``count`` of ``length`` ids computed: by the engine, if it says.

    Its cache may have lost what we believe to be there, as when somebody else asked it meanwhile.
    """
    if engine is None or engine.evaluated is None or engine.requests != 1:
        return count
    return min(max(1, engine.evaluated), length)
