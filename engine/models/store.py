"""Prepared models on disk: where they lie, and how one gets there whole or not at all.

A model is built in a temporary folder beside its place and moved there in one rename,
so whatever is at its place is whole. A build that is killed leaves only the temporary
folder, which the next one removes. A lock makes a second process wait for the first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.machine_file import cache_dir
from engine.models.checks import ModelError
from engine.plain_files import read_json, replacing
from engine.progress import Progress

PROVENANCE = "llm-inspect.json"
"""The file that says where a prepared folder came from, and what belongs in it."""


_LARGEST_RECORD = 1 << 20
_SCHEMA = 1  # raise it when what is prepared changes, and everybody's is prepared anew


def prepared(name: str) -> Path | None:
    """The folder of a prepared model, None unless it is there and whole."""
    folder = cache_dir() / "models" / name
    return folder if _whole(folder) else None


def prepare(
    name: str, build: Callable[[Path, Path], dict[str, Any]], progress: Progress, *, needs: int
) -> Path:
    """The folder of a prepared model, built first if it is not there or not whole.

    `build(work, model)` fills the empty folder `model` and returns what to record about
    where it came from; `work` is another one, for what it needs meanwhile. `needs`:
    bytes of disk at the most. Raises ModelError.
    """
    if found := prepared(name):
        return found
    models = cache_dir() / "models"
    try:
        models.mkdir(parents=True, exist_ok=True)
        with _lock(models / f".{name}.lock", progress) as ours:
            if found := prepared(name):  # built by another process while we waited
                return found
            if ours:
                for stale in models.glob(f".{name}.part-*"):
                    shutil.rmtree(stale, ignore_errors=True)
            check_space(models, needs, "preparing the model")
            _build(models / name, build)
    except OSError as error:
        raise _disk_error(error, models) from error
    return models / name


def _build(target: Path, build: Callable[[Path, Path], dict[str, Any]]) -> None:
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.part-", dir=target.parent))
    try:
        work, model = part / "work", part / "model"
        work.mkdir()
        model.mkdir()
        facts = build(work, model)
        sizes = {file.name: file.stat().st_size for file in sorted(model.iterdir())}
        record = {"schema": _SCHEMA, **facts, "files": sizes}
        (model / PROVENANCE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        _sync(model)
        if target.exists():  # there, but not whole
            target.rename(part / "damaged")
        try:
            model.rename(target)
        except OSError:
            if not _whole(target):  # else another process was first, and ours is not needed
                raise
        _sync(target.parent, files=False)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def provenance(folder: Path) -> dict[str, Any] | None:
    """The recorded source of a folder, None if nothing is recorded."""
    try:
        record = read_json(folder / PROVENANCE, _LARGEST_RECORD)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _whole(folder: Path) -> bool:
    record = provenance(folder) or {}
    files = record.get("files")
    if record.get("schema") != _SCHEMA or not isinstance(files, dict) or not files:
        return False
    try:
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except OSError:
        return False


def _sync(folder: Path, *, files: bool = True) -> None:
    """Make sure that what a rename will publish is on the disk before the rename is."""
    for path in [*(folder.iterdir() if files else ()), folder]:
        handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_space(folder: Path, needs: int, what: str) -> None:
    """Raise ModelError if the disk of `folder` has less than `needs` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needs:
        raise ModelError(
            f"not enough disk space in {folder}: {what} needs {gigabytes(needs)}, "
            f"{gigabytes(free)} is free; free some, or set LLM_INSPECT_CACHE to another disk"
        )


def _disk_error(error: OSError, folder: Path) -> ModelError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(f"the disk of {folder} is full: free some space and try again")
    return ModelError(
        f"cannot write to the cache folder {folder} ({error.strerror or error}): "
        "set LLM_INSPECT_CACHE to a folder that can be written"
    )


def tree_bytes(folder: Path) -> int:
    """The bytes of all files under a folder that others are writing to; links count 0."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                path = os.path.join(place, name)
                total += 0 if os.path.islink(path) else os.path.getsize(path)
            except OSError:
                continue  # renamed or removed since it was listed
    return total


def gigabytes(count: int) -> str:
    """Bytes as "0.75 GB" (10^9)."""
    return f"{count / 1e9:.2f} GB"


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[bool]:
    """Hold the lock file at `path`; the system lets go of it when a process dies.

    False where the file system knows no locks: then whoever finishes first wins.
    """
    with path.open("a+b") as file:
        while (state := _try_lock(file.fileno())) is None:
            progress("wait", None, "another llm-inspect is preparing this model")
            time.sleep(0.2)
        yield state


def _try_lock(handle: int) -> bool | None:
    """True: locked. None: somebody else has it. False: there are no locks here."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else False
    return True


def sha256(path: Path, progress: Progress) -> str:
    """The SHA-256 of a file, in hex."""
    digest, done = hashlib.sha256(), 0
    size = max(path.stat().st_size, 1)
    with path.open("rb") as file:
        while chunk := file.read(8 << 20):
            digest.update(chunk)
            done += len(chunk)
            progress("check", done / size, path.name)
    return digest.hexdigest()


def known_sha256(path: Path, progress: Progress) -> str:
    """The SHA-256 of a file, remembered while its size and time of change stay the same.

    A large .gguf file takes seconds to read; opening it a second time should not.
    """
    stat = path.stat()
    stamp = [stat.st_size, stat.st_mtime_ns]
    store = cache_dir() / "hashes.json"
    try:
        known = read_json(store, 16 * _LARGEST_RECORD)
        if known[str(path)][:2] == stamp:
            return str(known[str(path)][2])
    except (OSError, ValueError, LookupError, TypeError):
        known = {}
    found = sha256(path, progress)
    record = {**(known if isinstance(known, dict) else {}), str(path): [*stamp, found]}
    with contextlib.suppress(OSError):  # it is only a short cut
        store.parent.mkdir(parents=True, exist_ok=True)
        with replacing(store) as file:
            json.dump(record, file)
    return found
