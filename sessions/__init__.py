"""Saved runs: one SQLite file each, its reader, exports and comparisons. Never imports torch."""

from sessions.file.format import SessionError
from sessions.reader import Session, open_session
from sessions.writer import SessionWriter

__all__ = ["Session", "SessionError", "SessionWriter", "open_session"]
