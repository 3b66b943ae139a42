"""``llm-inspect compare`` without a screen: columns of one prompt, decoded together."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.commands import Column, MeasureAlone, StepMany
from engine.records.alone import AloneMeasured
from engine.records.columns import PassRecord
from engine.records.events import RunState
from engine.records.prompt import PrefillRecord
from engine.run.tree import ROOT
from engine.text import plural, visible
from inspector.cli.engine_log import connect
from inspector.cli.options import UsageError
from inspector.cli.run import Progress, show_reading
from inspector.cli.run_saver import RunSaver
from inspector.cli.sessions import find
from inspector.exit_codes import EXIT_CHECK, EXIT_ENGINE, EXIT_OK, EXIT_UNSAVED
from inspector.signals import Signalled
from inspector.state.answers import Answers, EngineFailedError
from inspector.state.ranking import Checks, ranked
from inspector.state.ranking import lines as ranking_lines
from inspector.state.ranking import to_json as ranking_json
from inspector.state.request import Request
from sessions.compare import compared_json, compared_table, compared_text
from sessions.compare.alone import drawn_column
from sessions.compare.compared import Compared, compared
from sessions.export.jsonl import dumps
from sessions.export.source import Source
from sessions.file.format import SessionError
from sessions.reader import open_session


@dataclass(frozen=True)
class Asked:
    """Form of the answer, and how columns are ranked, if they are."""

    form: str
    ranks: bool = False
    checks: Checks = field(default_factory=Checks)
    alone: bool = False
    """True if each column is held against its text read alone."""


def compare(asked: Request, wanted: Asked) -> int:
    """Decode the columns to their ends and print what they came to. Returns the exit code."""
    saver = RunSaver(asked.save)
    client, progress = connect(), Progress(sys.stderr)
    answers = Answers(client, progress, lambda record: saver.keep(record, client))
    columns = tuple(
        Column(number, ROOT, one.settings, one.seed, title=one.title)
        for number, one in enumerate(asked.columns, 1)
    )
    for command in (asked.open, asked.configure, asked.breakpoints, asked.submit):
        answers.tell(command)
    try:
        error = _decode(answers, columns, progress)
        if wanted.alone and not error:
            error = _read_alone(answers)
        saver.finish(client)
    except (KeyboardInterrupt, Signalled):
        client.kill()
        raise
    finally:
        client.close()
        saver.close()
    log = answers.log
    code = EXIT_ENGINE
    if log.passes:
        code = _print(compared(Source.of_log(log, ROOT)), wanted)
    if error:
        print(f"llm-inspect: {visible(error)}", file=sys.stderr)
        return EXIT_ENGINE
    return EXIT_UNSAVED if code == EXIT_OK and saver.error else code


def from_session(name: str, wanted: Asked) -> int:
    """Print a comparison that was saved, without a model. Raises UsageError."""
    try:
        path = find(name)
        with open_session(path) as session:
            found = compared(Source.of_session(session))
            if not found.columns:
                raise UsageError(
                    f"{path} holds no comparison: llm-inspect compare --save makes one"
                )
            return _print(found, wanted)
    except SessionError as error:
        raise UsageError(str(error)) from None


def _decode(answers: Answers, columns: tuple[Column, ...], progress: Progress) -> str:
    """Have the columns decoded to their ends; the error that ended them, if one did."""
    log = answers.log
    try:
        for record in answers.carried_out(StepMany(columns, None)):
            match record:
                case PrefillRecord():
                    show_reading(progress, log, record)
                case PassRecord():
                    going = plural(len(record.columns), "column")
                    progress.show("decoding", None, f"{going}, token {len(log.passes):,}")
    except EngineFailedError as failed:
        return str(failed)
    if log.state.reason and log.state.state is RunState.PAUSED:
        print(f"llm-inspect: {visible(log.state.reason)}", file=sys.stderr)
    return ""


def _read_alone(answers: Answers) -> str:
    """Have each column held against its text read alone; the error that ended it, if one did."""
    columns = compared(Source.of_log(answers.log, ROOT)).columns
    drawn = (drawn_column(one.state.column, one.steps) for one in columns if one.steps)
    try:
        answers.ask(MeasureAlone(tuple(drawn)), AloneMeasured)
    except EngineFailedError as failed:
        return str(failed)
    return ""


def _print(found: Compared, wanted: Asked) -> int:
    """Print a comparison; the exit code tells of checks that no column has passed, and of faults.

    A fault is a token that the shared passes gave and that rounding does not explain.
    """
    out, ranking = sys.stdout, ranked(found, wanted.checks) if wanted.ranks else None
    extra: dict[str, Any] = {} if ranking is None else {"best_of": ranking_json(ranking)}
    if wanted.form == "json":
        pieces: Iterable[str] = [dumps(compared_json.to_json(found) | extra) + "\n"]
    elif wanted.form == "jsonl":
        lines = list(compared_json.lines(found))
        lines[-1] |= extra
        pieces = [dumps(line) + "\n" for line in lines]
    elif wanted.form == "text":
        said = list(compared_text.lines(found))
        if ranking is not None:
            said += ["", *ranking_lines(ranking, columns=len(found.columns))]
        pieces = [f"{line}\n" for line in said]
    else:
        pieces = compared_table.pieces(found, wanted.form)
    for piece in pieces:
        out.write(piece)
    out.flush()
    failed = ranking is not None and wanted.checks and not any(one.passed for one in ranking.order)
    if not any(one.steps for one in found.columns):
        return EXIT_ENGINE
    fault = any(one.alone is not None and one.alone.fault for one in found.columns)
    return EXIT_CHECK if failed or fault else EXIT_OK
