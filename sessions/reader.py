"""A saved session, open for reading: the run's records, each read from the file when asked for."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from engine.records.arrays import IntArray
from engine.records.events import (
    BranchDeleted,
    BreakpointsSet,
    DenseLogits,
    EngineError,
    Record,
    SettingsChanged,
)
from engine.records.model import ModelFacts
from engine.records.prompt import Origin, PrefillRecord, PromptRecord
from engine.records.step import How, StepRecord, StopKind
from engine.records.vocabulary import Token, Vocabulary
from engine.run.tree import ROOT, Tree, deleted_heads, walk
from sessions.file.format import SessionError
from sessions.file.guard import Guarded, open_guarded
from sessions.lazy_rounds import KIND, RoundMap
from sessions.lazy_steps import StepMap, StepReader
from sessions.rows import codec
from sessions.rows.levels import RowsError

_KINDS: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(Record)}
_WIDTHS = {2: "<f2", 4: "<f4"}
_MOST_EVENTS = 100_000
_MOST_EVENT_BYTES = 16 << 20
"""Limits of memory and time for opening a file; a run's events take some kB."""

Kept = TypeVar("Kept")


def open_session(path: str | Path) -> Session:
    """Open a session file for reading, treating it as untrusted; the file stays as it is.

    Raises SessionError: one line that says what is wrong with the file and what to do.
    """
    guarded = open_guarded(Path(path))
    try:
        return Session(guarded)
    except BaseException:
        guarded.close()
        raise


class Session:
    """One saved run. Use ``open_session``; close it when done.

    Opening reads the shape of the tree. A step's row is read when it is first looked at, with its
    neighbours', and its candidates when *they* are. Where a file's rows contradict each other,
    looking at a step raises SessionError.
    """

    node_ids: IntArray
    """All nodes but the root, in the order they were made, shape ``(n,)``."""
    token_ids: IntArray
    """The token id of each of ``node_ids``."""
    tree: Tree
    """The tree of the nodes, and its deleted branches."""
    events: tuple[tuple[int, Record], ...]
    """Records besides prompt, steps and rounds, in order, each with the newest node at the time."""
    rounds: RoundMap
    """Speculative rounds by the node of their first token."""

    def __init__(self, file: Guarded) -> None:
        self._file = file
        self._reader = StepReader(file)
        self.path = file.path
        self.version = file.version
        self.told = file.told
        """A note on what was recovered when it was opened; empty where nothing had to be."""
        self.title, self.created, self.closed, self.writer, full = self._header()
        self.full_logits = bool(full)
        self.node_ids, parents, self.token_ids = self._shape()
        self.steps = StepMap(self._reader, self.node_ids.tolist())
        self.rounds = RoundMap(file, self.node_ids)
        self.events = self._read_events()
        self.facts = self._last(ModelFacts)
        self.settings = self._last(SettingsChanged)
        self.prefill = self._last(PrefillRecord)
        self.breakpoints = self._last(BreakpointsSet)
        deletions = (one for _, one in self.events if isinstance(one, BranchDeleted))
        self.tree = Tree(
            dict(zip(self.node_ids.tolist(), parents.tolist(), strict=True)),
            deleted_heads(deletions),
        )
        self.prompt = self._prompt()

    # --- the tree ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.node_ids)

    def step(self, node: int) -> StepRecord:
        """The step of ``node``, as it was recorded. KeyError where there is no such node."""
        return self.steps[node]

    @property
    def tips(self) -> list[int]:
        return self.tree.tips

    @property
    def tip(self) -> int:
        """The last node of the branch that was extended last, of those that are there.

        The root where there is none.
        """
        return self.tree.newest

    def path_nodes(self, node: int) -> list[int]:
        """The nodes from the root's child to ``node``. KeyError where there is no such node."""
        return walk(self.tree.parents, node)

    def branch(self, node: int | None = None) -> list[StepRecord]:
        """The steps from the first token to ``node`` (default: ``tip``)."""
        return [self.steps[one] for one in self.path_nodes(self.tip if node is None else node)]

    # --- what is read when asked for --------------------------------------------------------------

    def dense(self, node: int) -> DenseLogits | None:
        """The whole logit vector that ``node`` was drawn from, where the file holds it."""
        with self._file.reading() as database:
            query = "SELECT width, vector FROM logits WHERE node = ?"
            row = database.execute(query, (node,)).fetchone()
            if row is None:
                return None
            logits = np.frombuffer(row[1], _WIDTHS[row[0]]).astype(np.float32)
            if self.facts is not None and logits.size != self.facts.vocab_size:
                raise RowsError(f"{logits.size} logits at node {node}")
            if np.isnan(logits).any():
                raise RowsError(f"a logit at node {node} is no number")
            return DenseLogits(node, logits)

    @property
    def dense_nodes(self) -> list[int]:
        """The nodes whose whole logit vectors the file holds."""
        with self._file.reading() as database:
            return [row[0] for row in database.execute("SELECT node FROM logits ORDER BY node")]

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Every token of the model, where the file holds them all (as with full logits)."""
        if self.facts is None:
            return None
        with self._file.reading() as database:
            size = self.facts.vocab_size
            query = "SELECT id, bytes, kind FROM token WHERE key >= 0 AND key < ? ORDER BY key"
            if database.execute(f"SELECT count(*) FROM ({query})", (size,)).fetchone()[0] < size:
                return None
            rows = database.execute(query, (size,))
            return Vocabulary.pack(self._reader.token(row[0], *row) for row in rows)

    def records(self, *, steps: bool = True) -> Iterator[Record]:
        """Every record in an order in which a live run sends them.

        Without ``steps``, and the rounds that these came in, which is quick however long the run
        is: what a log needs besides ``steps``, ``rounds`` and ``tree``.
        """
        events = self.events
        early = [record for after, record in events if after == ROOT]
        yield from (one for one in early if isinstance(one, ModelFacts | SettingsChanged))
        if self.prompt is not None:
            yield self.prompt
        yield from (one for one in early if not isinstance(one, ModelFacts | SettingsChanged))
        late = [(after, record) for after, record in events if after != ROOT]
        at = 0
        for node in self.node_ids.tolist() if steps else ():
            while at < len(late) and late[at][0] < node:
                yield late[at][1]
                at += 1
            if node in self.rounds:
                yield self.rounds[node]
            yield self.steps[node]
        yield from (record for _, record in late[at:])

    @property
    def errors(self) -> list[EngineError]:
        """Errors that occurred while it ran."""
        return [record for _, record in self.events if isinstance(record, EngineError)]

    # --- opening and closing ----------------------------------------------------------------------

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Session({named})"

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        yield "path", str(self.path)
        yield "model", self.facts.name if self.facts else None
        yield "prompt", self.prompt.text if self.prompt else None
        yield "steps", len(self)
        yield "branches", len(self.tips)
        if self.tree.deleted:
            yield "deleted", len(self.tree.deleted_tips)
        yield "closed", self.closed

    def _header(self) -> tuple[str, str, str | None, str, int]:
        with self._file.reading() as database:
            query = "SELECT title, created, closed, writer, full_logits FROM session"
            row: tuple[str, str, str | None, str, int] | None = database.execute(query).fetchone()
        if row is None:
            # The file is made blank, and named in the next moment.
            raise SessionError(f"{self.path} is empty: nothing was saved in it")
        return row

    def _shape(self) -> tuple[IntArray, IntArray, IntArray]:
        with self._file.reading() as database:
            rows = database.execute(
                "SELECT s.node, s.parent, t.id, s.how, s.stop_kind FROM step AS s "
                "JOIN token AS t ON t.key = s.token JOIN chain AS c ON c.id = s.chain "
                "ORDER BY s.node"
            ).fetchall()
            (count,) = database.execute("SELECT count(*) FROM step").fetchone()
            if count != len(rows):
                raise RowsError("a step names a token or a chain that there is not")
            known = {ROOT}
            for node, parent, _, _, _ in rows:
                if parent not in known:
                    raise RowsError(f"node {node} has no parent {parent}")
                known.add(node)
            for how, stop in {row[3:] for row in rows}:
                How(how), stop is None or StopKind(stop)
            columns = np.array([row[:3] for row in rows], np.int32).reshape(-1, 3)
        return columns[:, 0], columns[:, 1], columns[:, 2]

    def _read_events(self) -> tuple[tuple[int, Record], ...]:
        with self._file.reading() as database:
            query = "SELECT count(*), coalesce(sum(length(body)), 0) FROM event WHERE kind <> ?"
            count, size = database.execute(query, (KIND,)).fetchone()
            if count > _MOST_EVENTS or size > _MOST_EVENT_BYTES:
                raise SessionError(
                    f"{self.path} holds more events than any run ({count:,} of {size:,} bytes; "
                    f"at most {_MOST_EVENTS:,} of {_MOST_EVENT_BYTES:,} are read)"
                )
            query = "SELECT after_node, kind, body FROM event WHERE kind <> ? ORDER BY id"
            return tuple(
                (after, codec.loads(_KINDS[kind], body))
                for after, kind, body in database.execute(query, (KIND,))
                if kind in _KINDS
            )

    def _last(self, cls: type[Kept]) -> Kept | None:
        found = (one for _, one in reversed(self.events) if isinstance(one, cls))
        return next(found, None)

    def _prompt(self) -> PromptRecord | None:
        with self._file.reading() as database:
            query = "SELECT text, chat, tokenize_ms, notes, extra FROM prompt"
            row = database.execute(query).fetchone()
            if row is None:
                return None
            text, chat, tokenize_ms, notes, extra = row
            tokens, origins = self._prompt_tokens(
                database.execute(
                    "SELECT p.position, p.origin, p.token, t.id, t.bytes, t.kind "
                    "FROM prompt_token AS p LEFT JOIN token AS t ON t.key = p.token "
                    "ORDER BY p.position"
                )
            )
            return codec.build(
                PromptRecord,
                codec.loads(dict[str, Any], extra) if extra else {},
                text=text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text,
                tokens=tokens,
                origins=origins,
                chat=bool(chat),
                tokenize_ms=tokenize_ms,
                notes=codec.loads(tuple[str, ...], notes),
            )

    def _prompt_tokens(
        self, rows: Iterator[Sequence[Any]]
    ) -> tuple[tuple[Token, ...], tuple[Origin, ...]]:
        tokens, origins = [], []
        for expected, (position, origin, *token) in enumerate(rows):
            if position != expected:
                raise RowsError(f"the prompt has no token at {expected}")
            tokens.append(self._reader.token(*token))
            origins.append(Origin(origin))
        return tuple(tokens), tuple(origins)
