"""Mutated session files through every command: what ``bench/hostile_sessions.py`` counts.

Bytes are changed (``test_sessions_fuzz``), and so are values: any column of any row to an odd one,
any part of the JSON of an event. Each command must end with what it should say or one clear line,
print nothing that a terminal would act on, be quick, and leave the folder as it was.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import WaitForScreenTimeout

from engine.commands import Configure, Open, Submit
from inspector.cli import main as cli
from inspector.replaying import replaying
from inspector.state.request import Request
from sessions import Session, SessionError, open_session
from tests import memory
from tests.sessions.test_fuzz import MUTATIONS

SECONDS = 5.0
MEMORY = 1 << 30
FORMS = ("html", "md", "jsonl", "csv")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("show", "FILE"),
    ("show", "FILE", "--format", "json"),
    ("check", "FILE"),
    ("diff", "FILE", "GOOD"),
    ("diff", "GOOD", "FILE", "--format", "json"),
    *(("export", "FILE", "--format", form) for form in FORMS),
    ("list",),
    ("list", "--search", "xyzzy", "--format", "json"),
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_INTERNAL = re.compile(r"^llm-inspect: \w+(Error|Exception|Interrupt): ", re.MULTILINE)
_TABLES = (
    *("session", "token", "prompt", "prompt_token", "chain", "chain_stage", "step"),
    *("stage_result", "candidate", "logits", "event", "event", "event", "event"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(
        None,
        "",
        "two",
        "\x1b]52;c;aGk=\x07",
        "\udc80".encode("utf-8", "surrogatepass"),
        b"",
        b"\xff",
    ),
    *(-1, 0, 1, 2, 3, 7, 255, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, -(1 << 63)),
    *(-1.0, 0.5, 1e-310, 1e300, float("inf"), -float("inf")),
    *("[]", "{}", "null", "[" * 5000, '{"$array":"AAAA","dtype":"<f8","shape":[1]}', "x" * 70_000),
)
ODD_JSON: tuple[Any, ...] = (
    *(None, True, "", "\x1b[2J\x07", "\u202e", "\ud800", "x" * 20_000, [], {}, [[]], [None] * 3),
    *(-1, 0, 1, 2, 1 << 31, 1 << 62, 10**40, -0.5, 1e300, {"$float": "nan"}, {"$float": "-inf"}),
    *({"$bytes": "1b5b"}, {"$array": "AAAA", "dtype": "<u2", "shape": [1]}, {"$pairs": [[1, 2]]}),
)


class Found(Exception):
    """Forbidden effects of a command."""


def sql_mutation(rng: random.Random, path: Path) -> None:
    """Change one to three values, or whole rows, in the file at ``path``."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            try:
                _change(rng, database)
            except (sqlite3.Error, ValueError, TypeError):
                # The schema forbids it, or it is broken already: then this one stays as it is.
                continue


def _change(rng: random.Random, database: sqlite3.Connection) -> None:
    table = rng.choice(_TABLES)
    rows = database.execute(f"SELECT * FROM {table}")
    names = [one[0] for one in rows.description]
    key = "chain" if table == "chain_stage" else "rowid"
    count = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    if not count:
        return
    picked = database.execute(
        f"SELECT {key} FROM {table} LIMIT 1 OFFSET ?", (rng.randrange(count),)
    ).fetchone()[0]
    column = rng.choice(names)
    where = f"WHERE {key} = ?"
    match rng.randrange(10):
        case 0:
            database.execute(f"DELETE FROM {table} {where}", (picked,))
        case 1:
            database.execute(f"UPDATE {table} SET {column} = ?", (rng.choice(ODD_VALUES),))
        case 2 | 3 | 4 | 5 if table == "event" or column in ("extra", "params", "notes"):
            name = "body" if table == "event" else column
            (text,) = database.execute(f"SELECT {name} FROM {table} {where}", (picked,)).fetchone()
            try:
                value = _odd_json(rng, json.loads(text or "{}"))
            except RecursionError:  # an earlier change has nested it past all reason
                value = "[]"
            plain = json.dumps(value)
            database.execute(f"UPDATE {table} SET {name} = ? {where}", (plain, picked))
        case _:
            values = (rng.choice(ODD_VALUES), picked)
            database.execute(f"UPDATE {table} SET {column} = ? {where}", values)


def _odd_json(rng: random.Random, value: Any) -> Any:
    """``value`` with one odd part, at any depth."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: one for name, one in value.items() if name != key}
        return value | {key: _odd_json(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], _odd_json(rng, value[at]), *value[at + 1 :]]
    return rng.choice(ODD_JSON)


def mutated(path: Path, sample: bytes, rng: random.Random) -> None:
    """Put a mutation of ``sample`` at ``path``."""
    if rng.random() < 0.35:
        data = bytearray(sample)
        rng.choice(MUTATIONS)(rng, data)
        path.write_bytes(data)
    else:
        path.write_bytes(sample)
        sql_mutation(rng, path)


def run(words: tuple[str, ...]) -> tuple[int, str]:
    """One command in this process: its exit code and all that it printed."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    # A machine that others use may stop us for a while: the processor's time is what counts.
    before, begun = time.process_time(), time.perf_counter()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(["sessions", *words])
        out.flush()
        err.flush()
    seconds, waited = time.process_time() - before, time.perf_counter() - begun
    shown, errors = (one.buffer.getvalue().decode("utf-8") for one in (out, err))
    if seconds > SECONDS or waited > 60 * SECONDS:
        raise Found(f"{words} took {seconds:.1f} s")
    if control := _CONTROLS.search(shown + errors):
        raise Found(f"{words} printed {control[0]!r}")
    if code == 3 or _INTERNAL.search(errors) or errors.count("\n") > 1:
        raise Found(f"{words} ended with {code}: {errors[-600:]}")
    return code, errors


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below ``folder``: its bytes, and when it was changed."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(one): (one.read_bytes(), one.stat().st_mtime_ns) for one in files}


Replay = Callable[[Path], None]


def campaign(
    folder: Path,
    sample: bytes,
    count: int,
    seed: int,
    *,
    replay: Replay | None = None,
    every: int = 50,
    on_fault: Callable[[int, str], None] | None = None,
) -> Counter[str]:
    """``count`` mutated files through every command; raises Found for what must not be.

    ``folder`` is the library's. Every so many files ``replay`` opens one on the screen too.
    """
    path, good = folder / "run.llmi", folder / "good.llmi"
    good.write_bytes(sample)
    held = memory.begin()
    seen: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        mutated(path, sample, rng)
        for fault in _faults(path, good, folder, seen, replay if number % every == 0 else None):
            if on_fault is None:
                raise Found(f"file {number} of seed {seed}: {fault}")
            on_fault(number, fault)
        seen["files"] += 1
    taken = memory.peak() - held
    seen["peak_mb"] = taken >> 20
    if taken > MEMORY:
        raise Found(f"{taken:,} bytes of memory")
    return seen


def _faults(
    path: Path, good: Path, folder: Path, seen: Counter[str], replay: Replay | None
) -> Iterator[str]:
    before = state(folder)
    refused: dict[str, str] = {}
    for words in COMMANDS:
        named = tuple({"FILE": str(path), "GOOD": str(good)}.get(word, word) for word in words)
        try:
            code, errors = run(named)
        except Found as fault:
            yield str(fault)
            continue
        seen["commands"] += 1
        if code:
            refused[words[0]] = errors
    if replay is not None:
        begun = time.perf_counter()
        try:
            replay(path)
        except Exception as fault:
            yield f"replay: {type(fault).__name__}: {fault}"
        if time.perf_counter() - begun > 20 * SECONDS:
            yield f"replay took {time.perf_counter() - begun:.1f} s"
        seen["replays"] += 1
    whole = "check" not in refused
    seen["whole" if whole else "refused"] += 1
    if whole and refused:
        yield f"check calls it whole, and {refused}"
    if state(folder) != before:
        yield "a file was changed"


KEYS = (
    *("b", "b", "g", "n", "n", "G", "R", "1", "2", "z", "z", "3", "4", "down", "enter", "5"),
    *("6", "7", "8", "9", "down", "s", "plus", "escape", "V", "q", "f", "escape", "question_mark"),
)


def replay(path: Path) -> None:
    """Open a session on the screen and walk through its panes. Raises Found."""
    try:
        session = open_session(path)
    except SessionError:
        return
    asyncio.run(_replay(session))


async def _replay(session: Session) -> None:
    asked = Request(Open(), Configure(), Submit(""))
    try:
        app = replaying(session, asked)
    except SessionError:
        return
    try:
        async with app.run_test(size=(120, 36)):
            for key in KEYS:
                await press(app, key)
                if app.damage or not app.is_running:
                    return
                shown = "\n".join(
                    "".join(segment.text for segment in strip)
                    for strip in app.screen._compositor.render_strips()
                )
                if control := _CONTROLS.search(shown):
                    raise Found(f"{key} showed {control[0]!r}")
    except WaitForScreenTimeout:
        # A widget met the damage while the app began, and it is at its end.
        if not app.damage:
            raise


async def press(app: App[Any], key: str) -> None:
    """Press a key as a pilot does, but for its last wait: a widget that met damage answers no more."""
    await app._press_keys([key])
