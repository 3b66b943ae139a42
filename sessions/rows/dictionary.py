"""Values that a session file stores once, however often they occur: tokens and chains."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from engine.records.vocabulary import KINDS, Token, Vocabulary
from sessions.rows import codec
from sessions.rows.columns import ChainOfSteps

_KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}


def insert_into(table: str, columns: tuple[str, ...]) -> str:
    """The statement that inserts one row."""
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


_TOKEN = insert_into("token", ("key", "id", "bytes", "kind"))
_CHAIN = insert_into("chain", ("id", "spec", "preset"))
_STAGE = insert_into("chain_stage", ("chain", "stage", "name", "label", "params", "off", "divisor"))


class Interned:
    """Knows what is in a file already, and adds to it what is not.

    It belongs to one file from its first row on. ``database`` may be opened anew.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self._keys: dict[Token, int] = {}
        self._ids: set[int] = set()
        self._chains: dict[str, int] = {}

    def key(self, token: Token) -> int:
        """The key of ``token`` in the table of that name."""
        key = self._keys.get(token)
        if key is None:
            key = self._new_key(token)
            self.database.execute(_TOKEN, (key, token.id, token.bytes, _KIND_INDEX[token.kind]))
        return key

    def vocabulary(self, vocabulary: Vocabulary) -> None:
        """Add every token that is not there yet."""
        self.database.executemany(_TOKEN, self._new_tokens(vocabulary))

    def chain(self, chain: ChainOfSteps) -> int:
        """The number of ``chain`` in the table of that name."""
        name = codec.dumps(chain)
        known = self._chains.get(name)
        if known is not None:
            return known
        number = self._chains[name] = len(self._chains) + 1
        self.database.execute(_CHAIN, (number, chain.spec, chain.preset))
        self.database.executemany(
            _STAGE,
            [
                (number, stage, one.name, one.label, codec.dumps(one.params), one.off, one.divisor)
                for stage, one in enumerate(chain.stages)
            ],
        )
        return number

    def _new_key(self, token: Token) -> int:
        # The id itself, but for an id that stands for other bytes here than where it came first.
        key = -1 - len(self._keys) if token.id in self._ids else token.id
        self._ids.add(token.id)
        self._keys[token] = key
        return key

    def _new_tokens(self, vocabulary: Vocabulary) -> Iterator[tuple[int, int, bytes, int]]:
        for token_id in range(len(vocabulary)):
            token = vocabulary.token(token_id)
            if token not in self._keys:
                key = self._new_key(token)
                yield key, token.id, token.bytes, _KIND_INDEX[token.kind]
