"""Writes a run into a session file as it goes: one transaction a step.

A kill at any moment loses at most the step in flight. Whatever goes wrong is one SessionError; the
run itself can go on without being saved.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from engine.records.cache import PoolState
from engine.records.events import DenseLogits, LoadProgress, Record, StateChanged, Tokenized
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.vocabulary import Vocabulary
from sessions.file.format import SessionError
from sessions.file.live import Writing, log_of
from sessions.file.paths import create, is_taken, move, reason, remove_sidecars
from sessions.rows import codec
from sessions.rows.columns import CANDIDATE_COLUMNS, STAGE_COLUMNS, STEP_COLUMNS
from sessions.rows.dictionary import Interned, insert_into
from sessions.rows.levels import RowsError
from sessions.rows.pack import chain_of, extra_fields, pack_step

_CHECKPOINT_PAGES = 1000


_STEP = insert_into("step", STEP_COLUMNS)
_STAGE = insert_into("stage_result", STAGE_COLUMNS)


@functools.cache
def _candidates(count: int) -> str:
    """The statement that inserts all candidates of a step.

    Each call to SQLite lets other threads have the interpreter, and while they are busy gets it
    back milliseconds later: a call for each row would leave a quick run waiting for its file.
    """
    return insert_into("candidate", CANDIDATE_COLUMNS, count)


class SessionWriter:
    """One session file being written. Use from one thread at a time, and ``close`` it.

    ``full_logits`` also keeps the whole vectors of DenseLogits records and the Vocabulary; without
    it both are passed over. ``overwrite`` replaces a file that is there already. Raises
    SessionError where the file cannot be made.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        title: str = "",
        full_logits: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        self.steps = 0
        self.failed: SessionError | None = None
        self._full = full_logits
        self._prompted = False
        self._prefill: PrefillRecord | None = None
        self._last_node = 0
        self._closed = False
        self._writing: Writing | None = None
        create(self.path, overwrite=overwrite)
        self._database = self._open()
        self._interned = Interned(self._database)
        header = (1, title, _now(), _writer(), int(full_logits))
        with self._transaction():
            self._database.execute(
                "INSERT INTO session (id, title, created, writer, full_logits) "
                "VALUES (?, ?, ?, ?, ?)",
                header,
            )

    def add(self, record: Record) -> None:
        """Keep ``record``; when this returns, a kill does not lose it.

        A prefill that is not done is kept with the record after it. After a failure every call
        raises the same SessionError. A session holds one prompt: a second one raises SessionError
        and leaves the session as it is.
        """
        self.add_all((record,))

    def add_all(self, records: Iterable[Record]) -> None:
        """Keep many records at once, all or none, as ``add`` would."""
        self._require_open()
        listed = list(records)
        prompts = sum(isinstance(record, PromptRecord) for record in listed)
        if prompts + self._prompted > 1:
            raise SessionError(
                f"{self.path} holds one prompt already: begin another session for the next"
            )
        with self._transaction():
            for record in listed:
                self._take(record)

    def _require_open(self) -> None:
        if self.failed is not None:
            raise self.failed
        if self._closed:
            raise SessionError(f"{self.path} is closed: begin another session")

    def _take(self, record: Record) -> None:
        match record:
            case LoadProgress() | StateChanged() | Tokenized():
                # They tell of the moment; why a run stopped is in its last step.
                return
            case DenseLogits() | Vocabulary() if not self._full:
                return
            case PrefillRecord() if not record.done:
                self._prefill = record
                return
        self._flush_prefill(record)
        self._keep(record)

    def close(self) -> None:
        """Make it one plain file and let go of it. Safe to call twice, and after a failure."""
        if self._closed:
            return
        self._closed = True
        if self.failed is None:
            with self._transaction():
                self._flush_prefill(None)
                self._database.execute("UPDATE session SET closed = ?", (_now(),))
            # A reader that has it open keeps it in WAL mode; it is whole all the same. What is
            # changed here is two bytes, which need no journal that a kill could leave behind.
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("PRAGMA journal_mode = MEMORY")
        self._release()

    def move(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Go on writing under another name, to which what is written so far moves.

        Raises SessionError where that cannot be; then nothing has changed.
        """
        self._require_open()
        target = Path(path)
        if not overwrite and is_taken(target):
            taken = f"{target} is there already: choose another name"
            raise SessionError(f"{self.path} cannot become {target}: {taken}")
        self._release()
        try:
            if log_of(self.path).exists():
                raise SessionError(f"{self.path} is open in another program: close that one")
            if overwrite:
                remove_sidecars(target)
            move(self.path, target, overwrite=overwrite)
            self.path = target
        except (OSError, SessionError) as error:
            why = error if isinstance(error, SessionError) else reason(error)
            raise SessionError(f"{self.path} cannot become {target}: {why}") from None
        finally:
            self._database = self._interned.database = self._open()

    def __enter__(self) -> SessionWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # What was being done matters more than a disk that fills up at the very end of it.
        with contextlib.suppress(SessionError) if error else contextlib.nullcontext():
            self.close()

    # --- records --------------------------------------------------------------------------------

    def _keep(self, record: Record) -> None:
        match record:
            case StepRecord():
                self._keep_step(record)
            case PromptRecord():
                self._keep_prompt(record)
            case DenseLogits():
                self._keep_logits(record)
            case Vocabulary():
                self._interned.vocabulary(record)
            case _:
                self._keep_event(record)

    def _keep_step(self, step: StepRecord) -> None:
        rows = pack_step(step, self._interned.chain(chain_of(step)), self._interned.key)
        self._database.execute(_STEP, rows.step)
        self._database.executemany(_STAGE, rows.stages)
        if rows.candidates:
            values = [*itertools.chain.from_iterable(rows.candidates)]
            self._database.execute(_candidates(len(rows.candidates)), values)
        self._last_node = max(self._last_node, step.node)
        self.steps += 1

    def _keep_prompt(self, prompt: PromptRecord) -> None:
        extra = extra_fields(prompt)
        notes = codec.dumps(prompt.notes)
        row = (1, _text(prompt.text), prompt.chat, prompt.tokenize_ms, notes)
        self._database.execute(
            insert_into("prompt", ("id", "text", "chat", "tokenize_ms", "notes", "extra")),
            (*row, codec.dumps(extra) if extra else None),
        )
        self._database.executemany(
            insert_into("prompt_token", ("position", "token", "origin")),
            [
                (position, self._interned.key(token), origin.value)
                for position, (token, origin) in enumerate(
                    zip(prompt.tokens, prompt.origins, strict=True)
                )
            ],
        )
        self._prompted = True

    def _keep_logits(self, dense: DenseLogits) -> None:
        half = dense.logits.astype(np.float16)
        # Half the room where nothing is lost by it: every model that runs in float16.
        exact = np.array_equal(half.astype(np.float32), dense.logits)
        vector = half.astype("<f2") if exact else dense.logits.astype("<f4")
        self._database.execute(
            "INSERT OR REPLACE INTO logits (node, width, vector) VALUES (?, ?, ?)",
            (dense.node, vector.itemsize, vector.tobytes()),
        )

    def _keep_event(self, record: Record) -> None:
        if isinstance(record, PoolState):
            # What the pool looked like before says nothing that the steps do not.
            self._database.execute("DELETE FROM event WHERE kind = ?", (PoolState.__name__,))
        self._database.execute(
            insert_into("event", ("after_node", "kind", "body")),
            (self._last_node, type(record).__name__, codec.dumps(record)),
        )

    def _flush_prefill(self, before: Record | None) -> None:
        """Keep a prefill that was left unfinished, unless ``before`` tells all that it does."""
        pending, self._prefill = self._prefill, None
        told = isinstance(before, PrefillRecord) and pending and before.reason == pending.reason
        if pending is not None and not told:
            self._keep_event(pending)

    # --- the file ---------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            # Never a new file in the place of one that is gone.
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            database = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
            )
            database.execute("PRAGMA journal_mode = WAL")
            # No wait for the disk at every step: a kill loses nothing, a power cut the last ones.
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            # A first read makes the log, whose lock tells that the session is being written.
            database.execute("SELECT 1 FROM session").fetchone()
            self._writing = Writing(self.path)
        except (sqlite3.Error, OSError) as error:
            raise self._fail(error) from None
        return database

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except (sqlite3.Error, RowsError, OSError, TypeError, OverflowError) as error:
            failure = self._fail(error)
            self._release()
            raise failure from None
        except BaseException as error:
            # What was rolled back is still in our books, so this file cannot go on.
            self._fail(error)
            self._release()
            raise

    def _fail(self, error: BaseException) -> SessionError:
        self.failed = SessionError(f"{self.path}: {reason(error)}; what follows is not saved")
        return self.failed

    def _release(self) -> None:
        # Closing rolls back what was not committed.
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        if self._writing is not None:
            self._writing.end()
            self._writing = None


def _text(text: str) -> str | bytes:
    """``text`` for a column of any type: bytes where it holds what UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _writer() -> str:
    # Only here: it takes longer to import than a file to begin.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"llm-inspect {version('llm-inspect-tui')}"
    except PackageNotFoundError:
        return "llm-inspect"


__all__ = ["SessionError", "SessionWriter"]
