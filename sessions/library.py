"""The sessions in the user's data folder: list, search, rename, delete with undo, and recover.

A run is saved as it goes under ``autosave``; naming it moves it out of there. What is deleted lies
in ``trash`` until it is undone or thrown away. Every failure is one SessionError.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import platformdirs

from sessions.file.format import SUFFIX, SessionError, sidecars
from sessions.file.live import is_being_written
from sessions.file.paths import clean, copy, is_taken, move, reason, remove_sidecars
from sessions.file.recovery import leftovers, settled_copy
from sessions.preview import Preview, contains, preview

APP_NAME = "llm-inspect"
_AUTOSAVES_KEPT = 50
_LONGEST_NAME = 80
_DAY = 86_400.0


def data_folder() -> Path:
    """The folder of this user's sessions on this platform."""
    return platformdirs.user_data_path(APP_NAME) / "sessions"


@dataclass(frozen=True, slots=True)
class Deleted:
    """A session in the trash, and where it was."""

    path: Path
    was: Path


class Library:
    """One folder of sessions."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder()
        self.autosaves = self.folder / "autosave"
        self.trash = self.folder / "trash"

    # --- looking ----------------------------------------------------------------------------------

    def previews(self) -> list[Preview]:
        """All sessions, the newest first. One that cannot be read has an error and no facts."""
        return [self._look(path) for path in self._paths()]

    def newest(self, count: int) -> list[Preview]:
        """The newest sessions, so many of them."""
        return [self._look(path) for path in self._paths()[:count]]

    def search(self, words: str) -> list[Preview]:
        """The sessions whose name, model, prompt or output holds ``words``, the newest first."""
        return [self._look(path) for path in self._paths() if contains(path, words)]

    def _look(self, path: Path) -> Preview:
        """A preview that also tells a run that was interrupted from one that still goes on."""
        seen = preview(path)
        open_end = not (seen.error or seen.closed)
        return replace(seen, interrupted=True) if open_end and not is_being_written(path) else seen

    def _paths(self) -> list[Path]:
        found = [
            (_modified(path), path)
            for folder in (self.folder, self.autosaves)
            for path in _sessions_in(folder)
        ]
        return [path for _, path in sorted(found, reverse=True)]

    # --- names ------------------------------------------------------------------------------------

    def autosave_path(self, prompt: str, now: datetime | None = None) -> Path:
        """A new name for a run of ``prompt`` that is saved as it goes; makes the folder."""
        when = (now or datetime.now()).strftime("%Y-%m-%d-%H%M%S")
        _make(self.autosaves)
        return _free(self.autosaves / f"{when}-{words_of(prompt) or 'run'}{SUFFIX}")

    def named_path(self, name: str) -> Path:
        """The path of a session of that name; makes the folder."""
        _make(self.folder)
        return self.folder / f"{file_name(name)}{SUFFIX}"

    def rename(self, path: Path, name: str) -> Path:
        """Give a session another name in its own folder, or an autosaved one its first."""
        folder = self.folder if path.parent == self.autosaves else path.parent
        target = folder / f"{file_name(name)}{SUFFIX}"
        if target == path:
            return path
        if is_taken(target):
            raise SessionError(f"{target} is there already: choose another name")
        return _move(path, target)

    # --- deleting ---------------------------------------------------------------------------------

    def delete(self, path: Path) -> Deleted:
        _make(self.trash)
        return Deleted(_move(path, _free(self.trash / path.name)), path)

    def undo(self, deleted: Deleted) -> Path:
        """Put a deleted session back, under another name where its own has been taken."""
        _make(deleted.was.parent)
        return _move(deleted.path, _free(deleted.was))

    def tidy(self, *, days: float = 30.0) -> None:
        """Throw away what has been in the trash for so long, and put old autosaves there."""
        for folder in (self.folder, self.autosaves, self.trash):
            clean(folder)
        for path in _sessions_in(self.trash):
            if time.time() - path.stat().st_ctime > days * _DAY:
                path.unlink(missing_ok=True)
        autosaves = sorted(_sessions_in(self.autosaves), key=_modified, reverse=True)
        for path in autosaves[_AUTOSAVES_KEPT:]:
            if not is_being_written(path):
                self.delete(path)

    # --- after a crash ----------------------------------------------------------------------------

    def interrupted(self) -> list[Preview]:
        """Autosaved runs that were never closed and that nobody writes any more, newest first."""
        found = [self._look(path) for path in _sessions_in(self.autosaves)]
        left = [one for one in found if one.interrupted]
        return sorted(left, key=lambda one: one.modified, reverse=True)

    def to_offer(self) -> list[Preview]:
        """Those of ``interrupted`` that nobody has been asked about yet."""
        asked = self._asked()
        return [one for one in self.interrupted() if one.path.name not in asked]

    def offered(self, paths: Iterable[Path]) -> None:
        """The user has been asked about these: they are listed, but not offered again."""
        there = {path.name for path in _sessions_in(self.autosaves)}
        names = (self._asked() & there) | {path.name for path in paths}
        try:
            self._asked_file.write_text("".join(f"{name}\n" for name in sorted(names)), "utf-8")
        except OSError as error:
            raise SessionError(f"{self._asked_file} cannot be written: {error.strerror}") from None

    @property
    def _asked_file(self) -> Path:
        return self.autosaves / "offered.txt"

    def _asked(self) -> set[str]:
        try:
            return set(self._asked_file.read_text("utf-8", "replace").splitlines())
        except OSError:
            return set()


def words_of(text: str) -> str:
    """The first words of a text as part of a file's name, without spaces; "" if it has none."""
    words = re.sub(r"[^\w]+", "-", text[:200].lower()).strip("-_")
    return words[:40].strip("-_")


def file_name(name: str) -> str:
    """``name`` as a file's name: one part, nothing hidden or invisible. SessionError if empty."""
    name = unicodedata.normalize("NFC", name.removesuffix(SUFFIX))
    kept = "".join(one for one in name if unicodedata.category(one)[0] != "C")
    kept = re.sub(r"[/\\:*?\"<>|]+", "-", kept).strip(" .-")
    kept = kept.encode("utf-8", "ignore")[: 4 * _LONGEST_NAME].decode("utf-8", "ignore")
    if not kept:
        raise SessionError(f"{name!r} is no name: give letters or digits")
    return kept[:_LONGEST_NAME].strip()


def _sessions_in(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SessionError(f"{folder} cannot be made: {error.strerror}") from None


def _free(path: Path) -> Path:
    """``path``, or the first of ``name-2``, ``name-3``, ... that is not taken."""
    tried, number = path, 1
    while is_taken(tried):
        number += 1
        tried = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return tried


def _move(path: Path, target: Path) -> Path:
    """Move a session. What a crash left beside it is worked into the one that is there then."""
    if is_being_written(path):
        raise SessionError(f"{path} is being written: close it first")
    try:
        if not leftovers(path) or not _move_settled(path, target):
            # The log of a file that is no session, or a damaged one, stays beside it.
            for source, end in zip(sidecars(path), sidecars(target), strict=True):
                if source.is_file():
                    move(source, end)
            move(path, target)
    except OSError as error:
        raise SessionError(f"{path} cannot be moved to {target}: {reason(error)}") from None
    return target


def _move_settled(path: Path, target: Path) -> bool:
    """Move a session whose log holds something; whether that could be."""
    with tempfile.TemporaryDirectory(prefix="llm-inspect-") as folder:
        try:
            settled = settled_copy(path, Path(folder))
        except (sqlite3.Error, SessionError):
            return False
        copy(settled, target)
    path.unlink()
    remove_sidecars(path)
    return True
