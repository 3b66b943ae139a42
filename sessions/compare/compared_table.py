"""A comparison as Markdown, as one HTML page with the columns side by side, CSV, JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator

from engine.text import safe
from sessions.compare import compared_json
from sessions.compare.column_figures import to_json
from sessions.compare.compared import Compared
from sessions.compare.compared_text import batch_lines, figure_table, parting_lines, told_alone
from sessions.export.jsonl import dumps, plain
from sessions.export.page import escape as html
from sessions.export.report import escape as markdown

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem;color-scheme:light dark}"
    "main{display:grid;grid-auto-flow:column;grid-auto-columns:minmax(16rem,1fr);gap:1rem;"
    "overflow-x:auto}"
    "article{border:1px solid #8886;border-radius:6px;padding:.5rem .75rem}"
    "h1{font-size:1.3rem}h2{font-size:1rem;margin:.25rem 0}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.6 ui-monospace,monospace}"
    "mark{background:#f5c4ae;color:#000}"
    "table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right;"
    "border-bottom:1px solid #8884}"
)


def markdown_lines(found: Compared) -> Iterator[str]:
    """Texts in one row of a table, figures in another. Model text cannot become markup."""
    yield f"# {markdown(found.title)}\n\n"
    yield f"{markdown(found.model)}, {markdown(found.dtype)}. Prompt: {markdown(found.prompt)}\n\n"
    titles = [markdown(f"{one.state.column}: {one.title}") for one in found.columns]
    yield f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"
    yield f"| {' | '.join(markdown(one.text) for one in found.columns)} |\n\n"
    heads, *rows = figure_table(found)
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    for row in rows:
        yield f"| {' | '.join(map(markdown, row))} |\n"
    yield "\n"
    for line in (*parting_lines(found), *told_alone(found), "", *batch_lines(found.batch)):
        yield f"{markdown(line)}  \n" if line else "\n"


def html_lines(found: Compared) -> Iterator[str]:
    """One page without script, which loads nothing. The token at which they part is marked."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield f"<title>{html(found.title)}</title><style>{_STYLE}</style></head><body>\n"
    yield f"<h1>{html(found.title)}</h1>\n<p>{html(found.model)}, {html(found.dtype)}</p>\n"
    yield f"<pre>{html(found.prompt)}</pre>\n<main>\n"
    at = found.divergence.index
    for one in found.columns:
        yield f"<article><h2>{one.state.column}: {html(one.title)}</h2>\n"
        yield f"<p>seed {one.state.seed}; {html(one.figures.ended_detail)}</p><pre>"
        before, there, after = _around(one.text, [step.token.bytes for step in one.steps], at)
        yield f"{html(before)}{f'<mark>{html(there)}</mark>' if there else ''}{html(after)}"
        yield "</pre></article>\n"
    heads, *rows = figure_table(found)
    yield "</main>\n<table><tr>"
    yield "".join(f"<th>{html(one)}</th>" for one in heads) + "</tr>\n"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{html(cell)}</td>' for cell in row)}</tr>\n"
    lines = (*parting_lines(found), *told_alone(found), *batch_lines(found.batch))
    yield f"</table>\n<pre>{chr(10).join(map(html, lines))}</pre>\n</body></html>\n"


def csv_lines(found: Compared) -> Iterator[str]:
    """A row of names, then a row a column, its text last. What has no number is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = list(to_json(found.columns[0].figures)) if found.columns else []
    rows: list[list[object]] = [["column", "title", "preset", "chain", "seed", *names, "text"]]
    for one in found.columns:
        state, figures = one.state, to_json(one.figures)
        settings = [_quoted(one.title), _quoted(state.preset), _quoted(state.chain_spec)]
        values = [_quoted(value) if isinstance(value, str) else value for value in figures.values()]
        rows.append([state.column, *settings, state.seed, *values, _quoted(one.text)])
    for row in rows:
        writer.writerow("" if cell is None else cell for cell in row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def jsonl_lines(found: Compared) -> Iterator[str]:
    """A line for the whole, one a column, one for the end."""
    return (dumps(line) + "\n" for line in compared_json.lines(found))


FORMS: dict[str, Callable[[Compared], Iterator[str]]] = {
    "md": markdown_lines,
    "html": html_lines,
    "csv": csv_lines,
    "jsonl": jsonl_lines,
}


def pieces(found: Compared, form: str) -> Iterator[str]:
    """The table piece by piece, with nothing in it that acts on a terminal."""
    return map(safe, FORMS[form](found))


def _around(text: str, tokens: list[bytes], at: int | None) -> tuple[str, str, str]:
    """A column's text before the token ``at``, that token, and what comes after it."""
    if at is None or at >= len(tokens):
        return text, "", ""
    before, there, after = (
        b"".join(part).decode("utf-8", "replace")
        for part in (tokens[:at], tokens[at : at + 1], tokens[at + 1 :])
    )
    return before, there, after


def _quoted(text: str) -> str:
    """A JSON string: it is one line, and its quote keeps a spreadsheet from running ``=1+1``."""
    return json.dumps(plain(text))
