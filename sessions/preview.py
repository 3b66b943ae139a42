"""A glance at a session: enough for a list, without reading it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.records.events import BranchDeleted
from engine.run.tree import below, deleted_heads
from sessions.file.format import SessionError
from sessions.file.guard import Guarded, open_guarded
from sessions.rows import codec

_PROMPT_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Preview:
    """One line of a list of sessions; ``error`` says why a file cannot be read."""

    path: Path
    size: int
    modified: float
    title: str = ""
    created: str = ""
    closed: str | None = None
    model: str = ""
    prompt: str = ""
    """The first few hundred characters."""
    steps: int = 0
    """Tokens of all branches that are there."""
    deleted: int = 0
    """Tokens of deleted branches."""
    interrupted: bool = False
    """Never closed, and nobody writes it any more."""
    error: str = ""

    @property
    def state(self) -> str:
        """The state in which the run was left, in a few words; empty where it was closed."""
        if self.closed or self.error:
            return ""
        return "interrupted" if self.interrupted else "being written"

    @property
    def name(self) -> str:
        return self.path.stem


def preview(path: Path) -> Preview:
    """Look at a session. Never raises for what is in the file."""
    try:
        found = path.stat()
        size, modified = found.st_size, found.st_mtime
    except OSError as error:
        return Preview(path, 0, 0.0, error=f"{path} cannot be read: {error.strerror}")
    try:
        file = open_guarded(path, thorough=False)
    except SessionError as refusal:
        return Preview(path, size, modified, error=str(refusal))
    try:
        return Preview(path, size, modified, **_facts(file))
    except SessionError as refusal:
        return Preview(path, size, modified, error=str(refusal))
    finally:
        file.close()


def _facts(file: Guarded) -> dict[str, Any]:
    with file.reading() as database:
        row = database.execute("SELECT title, created, closed FROM session").fetchone()
        if row is None:
            raise SessionError(f"{file.path} is empty: nothing was saved in it")
        title, created, closed = row
        prompt = database.execute("SELECT text FROM prompt").fetchone()
        model = database.execute(
            "SELECT body FROM event WHERE kind = 'ModelFacts' ORDER BY id DESC LIMIT 1"
        ).fetchone()
        (steps,) = database.execute("SELECT count(*) FROM step").fetchone()
        deleted = len(_hidden(database))
        name = codec.loads(dict[str, Any], model[0]).get("name") if model else ""
        return {
            "title": str(title),
            "created": str(created),
            "closed": None if closed is None else str(closed),
            "model": str(name or ""),
            "prompt": _text(prompt[0])[:_PROMPT_SHOWN] if prompt else "",
            "steps": int(steps) - deleted,
            "deleted": deleted,
        }


def _hidden(database: sqlite3.Connection) -> frozenset[int]:
    """The nodes of deleted branches."""
    query = "SELECT body FROM event WHERE kind = ? ORDER BY id"
    bodies = database.execute(query, (BranchDeleted.__name__,)).fetchall()
    if not bodies:
        return frozenset()
    heads = deleted_heads(codec.loads(BranchDeleted, body) for (body,) in bodies)
    return below(heads, dict(database.execute("SELECT node, parent FROM step")))


def contains(path: Path, words: str) -> bool:
    """True if a session's name, model, prompt or output holds ``words``, whatever their case."""
    wanted = words.casefold()
    seen = preview(path)
    if any(wanted in one.casefold() for one in (seen.name, seen.title, seen.model, seen.prompt)):
        return True
    return not seen.error and wanted in _texts(path).casefold()


def _texts(path: Path) -> str:
    """The whole prompt and every output token that is there, in the order they were made."""
    try:
        file = open_guarded(path, thorough=False)
    except SessionError:
        return ""
    try:
        with file.reading() as database:
            prompt = database.execute("SELECT text FROM prompt").fetchone()
            rows = database.execute(
                "SELECT s.node, t.bytes FROM step AS s "
                "JOIN token AS t ON t.key = s.token ORDER BY s.node"
            )
            hidden = _hidden(database)
            output = b"".join(data for node, data in rows if node not in hidden)
    except SessionError:
        return ""
    finally:
        file.close()
    return f"{_text(prompt[0]) if prompt else ''}\n{output.decode('utf-8', 'replace')}"


def _text(kept: str | bytes) -> str:
    return kept.decode("utf-8", "replace") if isinstance(kept, bytes) else str(kept)
