"""Steps that are read from a session file when somebody looks at them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import MISSING, fields
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from engine.records.step import Came, How, StageTrace, StepRecord, TopTable
from engine.records.step_table import FIGURES, PLACE_OF_CAME, Figures, StepTable
from engine.records.vocabulary import KINDS, Token
from sessions.file.format import ROWS_A_STEP, STAGES_A_STEP
from sessions.file.guard import Guarded
from sessions.rows import codec
from sessions.rows.columns import (
    CANDIDATE_COLUMNS,
    STAGE_COLUMNS,
    STEP_COLUMNS,
    ChainOfSteps,
    Row,
    StageOfChain,
)
from sessions.rows.levels import RowsError
from sessions.rows.unpack import StepRow, unpack_stages, unpack_top

BLOCK = 64
"""Steps whose rows are read together: neighbours are mostly looked at together."""
_BLOCKS_HELD = 256
_LADDERS_HELD = 1024

_FIELDS = tuple(field.name for field in fields(StepRecord))
_PLAIN = tuple(name for name in _FIELDS if name in STEP_COLUMNS and name not in ("token", "seed"))
_plain_values = itemgetter(*(STEP_COLUMNS.index(name) for name in _PLAIN))
_TOKEN, _CHAIN, _STOP, _EXTRA = (
    STEP_COLUMNS.index(name) for name in ("token", "chain", "stop_kind", "extra")
)
_SIZE = len(STEP_COLUMNS)
_FACTORIES = tuple(
    (field.name, field.default_factory)
    for field in fields(StepRecord)
    if field.default_factory is not MISSING
)
_MADE = {"draw": StepRow.draw, "timing": StepRow.timing, "kv": StepRow.kv}
_KIND = dict(enumerate(KINDS))


def _select(table: str, columns: Sequence[str], key: str) -> str:
    named = ", ".join(f"s.{column}" for column in columns)
    return (
        f"SELECT {named}, t.id, t.bytes, t.kind FROM {table} AS s JOIN token AS t "
        f"ON t.key = s.token WHERE s.{key} BETWEEN ? AND ? ORDER BY s.{key}"
    )


_STEPS = _select("step", STEP_COLUMNS, "node")
_LADDER = "SELECT {} FROM {} WHERE at BETWEEN ? AND ? ORDER BY at"
_CANDIDATES = _LADDER.format(", ".join(CANDIDATE_COLUMNS), "candidate")
_STAGES = _LADDER.format(", ".join(STAGE_COLUMNS), "stage_result")
_TOKEN_OF = "SELECT id, bytes, kind FROM token WHERE key = ?"
_FIGURES = (
    "SELECT s.node, s.parent, t.id, s.raw_logprob, s.entropy_raw, s.entropy_final, s.forward_ms, "
    "s.sample_ms, s.total_ms, s.kv_bytes, s.warmup, s.reused, s.reread, "
    f"s.how = '{How.FORCED}', s.extra, "
    "s.token, t.bytes, t.kind "
    "FROM step AS s JOIN token AS t ON t.key = s.token ORDER BY s.node"
)
_EXTRA_AT = len(FIGURES.names or ()) - 2
"""Place of ``extra`` in a row: what it tells are the last two figures."""


class StoredStep(StepRecord):
    """A StepRecord whose parts are made, and its candidates read, when they are first asked for.

    It cannot be told from the record that was saved. The candidates are held by the session, for
    the steps looked at last, so that a long run does not fill the memory.
    """

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not in the instance yet.
        found = self.__dict__
        row, reader = found.get("_row"), found.get("_reader")
        if row is None or reader is None:
            raise AttributeError(name)
        if name in ("stages", "top"):
            return reader.ladder(row)[name == "top"]
        if name not in _MADE:
            raise AttributeError(name)
        value = found[name] = reader.made(row, name)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        # What crosses a pipe is the plain record: a file cannot.
        return StepRecord, tuple(getattr(self, name) for name in _FIELDS)


class StepReader:
    """Reads steps out of one file: rows by the block, candidates by the step."""

    def __init__(self, file: Guarded) -> None:
        self._file = file
        self._tokens: dict[int, Token] = {}
        self._chains = _read_chains(file)
        self._ladders: OrderedDict[int, tuple[tuple[StageTrace, ...], TopTable]] = OrderedDict()

    def block(self, first: int, last: int) -> dict[int, StepRecord]:
        """The steps of the nodes from ``first`` to ``last``. Raises SessionError."""
        with self._file.reading() as database:
            rows = database.execute(_STEPS, (first, last)).fetchall()
            return {row[0]: self._step(row) for row in rows}

    def figures(self) -> tuple[Figures, list[Token]]:
        """The plain figures and the tokens of all steps, in the order of their nodes.

        Raises SessionError.
        """
        with self._file.reading() as database:
            rows = database.execute(_FIGURES).fetchall()
            tokens = [self.token(row[_EXTRA_AT + 1], row[2], *row[_EXTRA_AT + 2 :]) for row in rows]
            found = [(*row[:_EXTRA_AT], *_round_of(row[_EXTRA_AT])) for row in rows]
            return np.array(found, FIGURES), tokens

    def _step(self, row: Row) -> StepRecord:
        token = self.token(row[_TOKEN], *row[_SIZE:])
        kept = StepRow(row[:_SIZE], token, self._chains[row[_CHAIN]])
        step: StepRecord = object.__new__(StoredStep)
        found = step.__dict__
        found.update(zip(_PLAIN, _plain_values(row), strict=True))
        found["_row"], found["_reader"] = kept, self
        found["token"], found["chain_spec"], found["seed"] = token, kept.chain.spec, kept.seed()
        found["preset"] = kept.chain.preset
        found.update((name, make()) for name, make in _FACTORIES)
        # A field with a default is found on the class, so these cannot wait to be asked for.
        if row[_STOP] is not None:
            found["stop"] = kept.stop()
        if row[_EXTRA] is not None:
            found.update(kept.added(codec.hints_of(StepRecord)))
        return step

    def token(self, key: int, token_id: int, data: bytes, kind: int) -> Token:
        """The token of a row of the table ``token``; one object for each key."""
        token = self._tokens.get(key)
        if token is None:
            token = self._tokens[key] = Token(token_id, data, _KIND[kind])
        return token

    def made(self, row: StepRow, name: str) -> Any:
        """The part ``name`` of a step. Raises SessionError."""
        with self._file.reading():
            return _MADE[name](row)

    def ladder(self, row: StepRow) -> tuple[tuple[StageTrace, ...], TopTable]:
        """The traces and the table of a step. Raises SessionError."""
        node = row.row[0]
        found = self._ladders.get(node)
        if found is None:
            found = self._ladders[node] = self._read_ladder(node, row)
            if len(self._ladders) > _LADDERS_HELD:
                self._ladders.popitem(last=False)
        return found

    def _read_ladder(self, node: int, row: StepRow) -> tuple[tuple[StageTrace, ...], TopTable]:
        with self._file.reading() as database:
            stages = _of_node(database.execute, _STAGES, node, STAGES_A_STEP)
            rows = _of_node(database.execute, _CANDIDATES, node, ROWS_A_STEP)
            if not rows:
                raise RowsError(f"node {node} has no candidates")
            keys = [row[1] for row in rows]
            known = self._tokens
            for key in (one for one in keys if one not in known):
                found = database.execute(_TOKEN_OF, (key,)).fetchone()
                if found is None:
                    raise RowsError(f"a candidate of node {node} names a token that there is not")
                self.token(key, *found)
            tokens = tuple(map(known.__getitem__, keys))
            return unpack_stages(row, stages), unpack_top(row, stages, rows, tokens)


def _round_of(extra: str | None) -> tuple[int, int]:
    """The round that a step's column ``extra`` names, 0 for none, and how the token came in it."""
    if extra is None or '"round"' not in extra:
        return 0, 0
    added = codec.loads(dict[str, Any], extra).get("step")
    if not isinstance(added, dict):
        return 0, 0
    came = codec.from_plain(Came, added.get("came", Came.PLAIN))
    return codec.from_plain(int, added.get("round", 0)), PLACE_OF_CAME[came]


def _of_node(execute: Any, query: str, node: int, factor: int) -> list[Row]:
    """The rows of one step in a table whose key is ``node * factor + row``; none may be missing."""
    first = node * factor
    rows: list[Row] = execute(query, (first, first + factor - 1)).fetchall()
    if [row[0] for row in rows] != list(range(first, first + len(rows))):
        raise RowsError(f"rows are missing at node {node}")
    return rows


def _read_chains(file: Guarded) -> dict[int, ChainOfSteps]:
    with file.reading() as database:
        stages: dict[int, list[StageOfChain]] = {}
        query = (
            "SELECT chain, stage, name, label, params, off, divisor FROM chain_stage "
            "ORDER BY chain, stage"
        )
        for chain, stage, name, label, params, off, divisor in database.execute(query):
            before = stages.setdefault(chain, [])
            if stage != len(before):
                raise RowsError(f"chain {chain} has no stage {len(before)}")
            values = codec.loads(dict[str, Any], params)
            before.append(StageOfChain(name, label, values, bool(off), divisor))
        chains = database.execute("SELECT id, spec, preset FROM chain")
        return {
            one: ChainOfSteps(spec, preset, tuple(stages.get(one, ())))
            for one, spec, preset in chains
        }


class StepMap(MutableMapping[int, StepRecord]):
    """All steps of a file by node, each read when asked for; the blocks used last are held.

    Steps set later (a run that goes on) live in memory, in front of the file's.
    """

    def __init__(self, reader: StepReader, nodes: Sequence[int]) -> None:
        self._reader = reader
        self._nodes = nodes
        self._known = frozenset(nodes)
        self._added: dict[int, StepRecord] = {}
        self._blocks: OrderedDict[int, dict[int, StepRecord]] = OrderedDict()

    def __getitem__(self, node: int) -> StepRecord:
        added = self._added.get(node)
        if added is not None:
            return added
        if node not in self._known:
            raise KeyError(node)
        return self._block(node // BLOCK)[node]

    def __contains__(self, node: object) -> bool:
        return node in self._known or node in self._added

    def __setitem__(self, node: int, step: StepRecord) -> None:
        self._added[node] = step

    def __delitem__(self, node: int) -> None:
        raise TypeError("what is in a session file stays there")

    def __iter__(self) -> Iterator[int]:
        yield from self._nodes
        yield from (node for node in self._added if node not in self._known)

    def __len__(self) -> int:
        return len(self._known | self._added.keys())

    def table(self) -> StepTable:
        """The figures of all steps, read from the file in one go. Raises SessionError."""
        table = StepTable.of(*self._figures)
        for step in self._added.values():
            table.add_row(step)
        return table

    @cached_property
    def _figures(self) -> tuple[Figures, list[Token]]:
        return self._reader.figures()

    def _block(self, number: int) -> dict[int, StepRecord]:
        block = self._blocks.get(number)
        if block is None:
            block = self._reader.block(number * BLOCK, number * BLOCK + BLOCK - 1)
            self._blocks[number] = block
            if len(self._blocks) > _BLOCKS_HELD:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block
