"""Best of several columns: checks of the user's own, a vote over their answers, and the order."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.text import quote, visible
from sessions.compare.compared import Compared, ComparedColumn
from sessions.export.jsonl import plain


@dataclass(frozen=True, slots=True)
class Checks:
    """Checks that a text must pass, as the command line gave them; a file can give none."""

    regex: re.Pattern[str] | None = None
    command: tuple[str, ...] = ()
    timeout_s: float = 10.0
    answer: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return self.regex is not None or bool(self.command)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A column with what its checks said (None: there was none) and the answer found in it."""

    column: int
    mean_logprob: float | None
    passed: bool | None
    why: str
    answer: str | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Columns from the best to the worst; ``votes`` are (answer, columns that gave it)."""

    order: tuple[Ranked, ...]
    votes: tuple[tuple[str, int], ...]

    @property
    def best(self) -> Ranked | None:
        return self.order[0] if self.order else None


def words_of(command: str) -> tuple[str, ...]:
    """A check command as a program and its arguments. Raises ValueError."""
    words = tuple(shlex.split(command))
    if not words:
        raise ValueError("the check command is empty")
    return words


def ranked(found: Compared, checks: Checks) -> Ranking:
    """Rank the columns: those that pass first, then by vote, then by mean log-probability.

    The mean is over the model's own log-probabilities of the tokens. A column that failed is last.
    """
    looked = [_looked_at(one, checks) for one in found.columns]
    votes = Counter(one.answer for one in looked if one.answer is not None)
    order = sorted(
        looked,
        key=lambda one: (
            one.passed is False,
            one.mean_logprob is None,
            -votes.get(one.answer or "", 0),
            -(one.mean_logprob or 0.0),
        ),
    )
    return Ranking(tuple(order), tuple(votes.most_common()))


def _looked_at(column: ComparedColumn, checks: Checks) -> Ranked:
    surprisal, number, text = column.figures.surprisal, column.state.column, column.text
    passed, why = None, ""
    if checks.regex is not None:
        passed = checks.regex.search(text) is not None
        why = "" if passed else "--check-regex does not match"
    if checks.command and passed is not False:
        passed, why = run_check(checks.command, text, checks.timeout_s)
    answer = None
    if checks.answer is not None:
        found = list(checks.answer.finditer(text))
        answer = found[-1][min(1, checks.answer.groups)] if found else None
    return Ranked(number, None if surprisal is None else -surprisal, passed, why, answer)


def run_check(command: Sequence[str], text: str, timeout_s: float) -> tuple[bool, str]:
    """Give ``text`` to a command on its standard input; (its vote, why it is no vote for it).

    No shell is asked, and what the command writes is not shown. It ends, with all that it began,
    after ``timeout_s``.
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return False, f"{quote(command[0])} cannot be run: {error.strerror or error}"
    try:
        with contextlib.suppress(BrokenPipeError):
            process.communicate(text.encode("utf-8", "replace"), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return False, f"no answer within {timeout_s:g} s"
    finally:
        _end(process)
    code = process.returncode
    return code == 0, "" if code == 0 else f"exit code {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and whatever it has begun."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def lines(found: Ranking, *, columns: int) -> Iterator[str]:
    """The ranking in words, safe for a terminal."""
    yield f"best of {columns}, by {'checks, then ' if _checked(found) else ''}mean log-probability:"
    for place, one in enumerate(found.order, 1):
        mean = "—" if one.mean_logprob is None else f"{one.mean_logprob:.3f}"
        words = [f"{place}. column {one.column}", f"mean log-probability {mean} nats ƒ"]
        if one.passed is not None:
            words.append("passes" if one.passed else f"fails: {visible(one.why)}")
        if one.answer is not None:
            words.append(f"answer {quote(one.answer)}")
        yield f"  {', '.join(words)}"
    for answer, count in found.votes:
        yield f"  {count} of {columns} columns say {quote(answer)}"


def _checked(found: Ranking) -> bool:
    return any(one.passed is not None for one in found.order)


def to_json(found: Ranking) -> dict[str, Any]:
    """The ranking as plain values."""
    return {
        "order": [
            {
                "column": one.column,
                "mean_logprob": plain(one.mean_logprob),
                "passed": one.passed,
                "why": plain(one.why) or None,
                "answer": plain(one.answer),
            }
            for one in found.order
        ],
        "votes": [{"answer": plain(answer), "columns": count} for answer, count in found.votes],
    }
