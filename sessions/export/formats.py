"""The forms a run can be exported in, and writing one of them to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from engine.acceptance import acceptance
from engine.plain_files import replacing
from engine.run.tree import ROOT
from engine.text import safe
from sessions.export.bill import bill_fields
from sessions.export.columns import columns_line, pass_line
from sessions.export.figures import csv_lines
from sessions.export.jsonl import dumps, end_line, end_reason, run_line, step_line, texts
from sessions.export.page import html_lines
from sessions.export.report import markdown_lines
from sessions.export.rounds import acceptance_fields, round_line
from sessions.export.source import Source
from sessions.file.format import SessionError


def jsonl_lines(source: Source) -> Iterator[str]:
    """The ``run`` contract: every step of every branch; the end line is of the one followed.

    It also says how much was deleted, which is left out.
    """
    if source.prompt is not None:
        yield dumps(run_line(source.facts, source.prompt, source.settings)) + "\n"
    if source.columns.columns:
        yield dumps(columns_line(source.columns)) + "\n"
    passes = {max(one.nodes, default=ROOT): one for one in source.passes}
    for step, text in texts(source.steps()):
        if step.node in source.rounds:
            yield dumps(round_line(source.rounds[step.node])) + "\n"
        yield dumps(step_line(step, text=text)) + "\n"
        if step.node in passes:
            yield dumps(pass_line(passes[step.node])) + "\n"
    last = source.tree.steps.get(source.tip)
    detail = last.stop.detail if last is not None and last.stop else ""
    count = len(source.branch())
    reason = end_reason(last)
    line = end_line(reason, detail, source.speed(), count, prefill=source.prefill)
    if source.branch_rounds():
        line["speculation"] = acceptance_fields(acceptance(source.branch_rounds()))
    line["bill"] = bill_fields(source.account())
    line |= {"deleted_branches": source.deleted, "deleted_tokens": len(source.tree.deleted)}
    yield dumps(line) + "\n"


FORMS: dict[str, Callable[[Source], Iterator[str]]] = {
    "html": html_lines,
    "md": markdown_lines,
    "jsonl": jsonl_lines,
    "csv": csv_lines,
}
"""File ending -> what writes that form, piece by piece."""


def pieces(source: Source, form: str) -> Iterator[str]:
    """The export of ``source`` piece by piece, with nothing in it that acts on a terminal."""
    return map(safe, FORMS[form](source))


def form_of(path: Path) -> str:
    """The form that a file's name asks for. Raises SessionError for one there is not."""
    form = path.suffix.removeprefix(".").lower()
    form = {"htm": "html", "markdown": "md", "json": "jsonl"}.get(form, form)
    if form not in FORMS:
        raise SessionError(f"{path}: exports end in {', '.join(f'.{one}' for one in FORMS)}")
    return form


def write(
    source: Source, path: str | Path, form: str | None = None, *, overwrite: bool = False
) -> None:
    """Write an export to ``path``, as ``write_pieces`` does. Raises SessionError."""
    path = Path(path)
    write_pieces(pieces(source, form or form_of(path)), path, overwrite=overwrite)


def write_pieces(lines: Iterable[str], path: Path, *, overwrite: bool = False) -> None:
    """Write ``lines`` to ``path``, whole or not at all. Raises SessionError.

    What is there and no plain file, such as /dev/stdout or a pipe, is written to as it stands.
    """
    # A device or a pipe must never be replaced.
    device = path.exists() and not path.is_file()
    if path.exists() and not (overwrite or device):
        raise SessionError(f"{path} is there already: choose another name")
    try:
        with path.open("w", encoding="utf-8", newline="") if device else replacing(path) as file:
            file.writelines(lines)
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror or error}") from None
