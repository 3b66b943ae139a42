"""Values that a session file stores once, however often they occur: tokens and chains."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from engine.records.vocabulary import KINDS, Token, Vocabulary
from sessions.rows import codec
from sessions.rows.columns import ChainOfSteps

_KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}


def insert_into(table: str, columns: tuple[str, ...], rows: int = 1) -> str:
    """The statement that inserts so many rows."""
    marks = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([marks] * rows)}"


_TOKEN = insert_into("token", ("key", "id", "bytes", "kind"))
_CHAIN = insert_into("chain", ("id", "spec", "preset"))
_STAGE = insert_into("chain_stage", ("chain", "stage", "name", "label", "params", "off", "divisor"))


class Interned:
    """Knows what is in a file already, and adds to it what is not.

    It belongs to one file from its first row on. ``database`` may be opened anew.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self._first: dict[int, Token] = {}
        """Id -> the token that came first with it, whose key it is."""
        self._others: dict[Token, int] = {}
        self._chains: dict[str, int] = {}

    def key(self, token: Token) -> int:
        """The key of ``token`` in the table of that name."""
        key = self._known(token)
        if key is None:
            key = self._new_key(token)
            self.database.execute(_TOKEN, (key, token.id, token.bytes, _KIND_INDEX[token.kind]))
        return key

    def _known(self, token: Token) -> int | None:
        first = self._first.get(token.id)
        return token.id if first is token or first == token else self._others.get(token)

    def vocabulary(self, vocabulary: Vocabulary) -> None:
        """Add every token that is not there yet."""
        self.database.executemany(_TOKEN, self._new_tokens(vocabulary))

    def chain(self, chain: ChainOfSteps) -> int:
        """The number of ``chain`` in the table of that name."""
        name = repr(chain)
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
        if self._first.setdefault(token.id, token) is token:
            return token.id
        return self._others.setdefault(token, -1 - len(self._others))

    def _new_tokens(self, vocabulary: Vocabulary) -> Iterator[tuple[int, int, bytes, int]]:
        for token_id in range(len(vocabulary)):
            token = vocabulary.token(token_id)
            if self._known(token) is None:
                key = self._new_key(token)
                yield key, token.id, token.bytes, _KIND_INDEX[token.kind]
