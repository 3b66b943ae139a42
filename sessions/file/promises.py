"""Constraints on every value of a session, as SQL conditions checked before it is read.

SQLite itself forgets a table's CHECK conditions where a file is opened for reading only, and says
less than a reader relies on: which words a column may hold, which figures can be.
"""

from __future__ import annotations

import functools
import re
from contextlib import closing

from engine.records.prompt import Origin
from engine.records.step import How, StopKind
from engine.records.vocabulary import KINDS
from sessions.file.format import VERSION, blank_database, objects

_LARGEST_COUNT = 1 << 31
_LARGEST_SIZE = 1 << 53
_TYPES = {"INTEGER": "integer", "REAL": "real", "TEXT": "text", "BLOB": "blob"}


def _words(kinds: type[How] | type[Origin] | type[StopKind]) -> str:
    return ", ".join(f"'{one.value}'" for one in kinds)


def _between(low: int, high: int, *columns: str) -> str:
    return " AND ".join(f"{column} BETWEEN {low} AND {high}" for column in columns)


_MEANINGS: dict[str, tuple[str, ...]] = {
    "session": ("id = 1", "full_logits IN (0, 1)"),
    "token": (_between(0, _LARGEST_COUNT - 1, "id"), _between(0, len(KINDS) - 1, "kind")),
    "prompt": (
        "typeof(text) IN ('text', 'blob')",
        "chat IN (0, 1)",
        "tokenize_ms BETWEEN 0 AND 1e12",
    ),
    "prompt_token": (f"origin IN ({_words(Origin)})", _between(0, _LARGEST_COUNT - 1, "position")),
    "chain_stage": ("off IN (0, 1)", "divisor IS NULL OR divisor BETWEEN 1e-300 AND 1e300"),
    "step": (
        _between(1, _LARGEST_COUNT - 1, "node"),
        _between(0, _LARGEST_COUNT - 1, "position", "rank", "kv_computed", "kv_cached"),
        _between(0, _LARGEST_COUNT - 1, "kv_seen", "kv_stored"),
        _between(1, _LARGEST_COUNT - 1, "kv_block_size"),
        f"kv_bytes IS NULL OR kv_bytes BETWEEN 0 AND {_LARGEST_SIZE}",
        f"how IN ({_words(How)})",
        f"stop_kind IS NULL OR stop_kind IN ({_words(StopKind)})",
        "(how = 'sampled') = (u IS NOT NULL)",
        "u IS NULL OR u BETWEEN 0 AND 1",
        "low >= -0.001 AND low <= high AND high <= 1.001",
        "final_prob BETWEEN 0 AND 1.001",
        "min(entropy_raw, entropy_final, varentropy_raw) >= -0.001",
        "raw_logprob <= 0.001 AND max(entropy_raw, entropy_final) <= 64",
        "max(forward_ms, sample_ms, detokenize_ms, other_ms, total_ms) <= 1e12",
        "warmup IN (0, 1) AND reused IN (0, 1) AND reread IN (0, 1)",
        "typeof(seed) IN ('integer', 'text')",
        "typeof(seed) = 'text' OR seed >= 0",
        "typeof(seed) = 'integer' OR length(seed) BETWEEN 1 AND 40 AND NOT seed GLOB '*[^0-9]*'",
    ),
    "stage_result": (
        f"survivors BETWEEN 0 AND {_LARGEST_COUNT}",
        "mass_removed BETWEEN -0.001 AND 1.001",
        "min(entropy, coalesce(entropy_before, 0)) >= -0.001",
    ),
    "candidate": (f"rank IS NULL OR rank BETWEEN 1 AND {_LARGEST_COUNT - 1}",),
    "logits": ("width IN (2, 4) AND length(vector) % width = 0",),
}
"""Table -> what its columns mean, beyond the schema's own CHECK conditions."""


@functools.cache
def promises(version: int = VERSION) -> dict[str, str]:
    """Table -> one condition that every row of it meets: its types, its CHECKs, its meaning."""
    found = {}
    with closing(blank_database(version)) as database:
        for kind, name, _, sql in sorted(objects(version), key=str):
            if kind == "table":
                columns = database.execute(f"PRAGMA table_info({name})").fetchall()
                types = [
                    _type(column, declared, bool(needed))
                    for _, column, declared, needed, *_ in columns
                ]
                meanings = _MEANINGS.get(name, ()) if version == VERSION else ()
                # A CHECK that cannot be told, such as one of a NULL, is met.
                parts = [f"coalesce({part}, TRUE)" for part in (*_checks(sql or ""), *meanings)]
                found[name] = " AND ".join([*filter(None, types), *parts])
    return found


def _type(column: str, declared: str, needed: bool) -> str:
    """The condition that a column holds what it is declared to hold; empty where that is all."""
    if declared not in _TYPES:
        return f"{column} IS NOT NULL" if needed else ""
    fits = f"typeof({column}) = '{_TYPES[declared]}'"
    # A long session has millions of values: most of those that may be NULL are.
    return fits if needed else f"({column} IS NULL OR {fits})"


def _checks(sql: str) -> list[str]:
    """The parenthesised expression after each CHECK of a table's definition."""
    sql = re.sub(r"--[^\n]*", "", sql)
    checks = []
    for match in re.finditer(r"\bCHECK \(", sql):
        end, depth = match.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        checks.append(sql[match.end() - 1 : end])
    return checks
