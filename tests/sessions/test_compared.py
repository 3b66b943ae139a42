"""A whole comparison out of its records: as words, as JSON, as tables, and never as markup."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from engine.commands import Column, MeasureAlone, Settings, StepMany
from engine.records.alone import AloneMeasured
from engine.records.events import Record
from engine.run.tree import ROOT
from inspector.state.view import RunLog
from sessions.compare import compared_json, compared_table, compared_text
from sessions.compare.alone import drawn_column
from sessions.compare.compared import Compared, compared
from sessions.export.source import Source
from tests.direct import DirectClient, script
from tests.hostile import acting, marked

COLUMNS = (
    Column(1, 0, Settings(dials={"temperature": 0.0}), title="cold"),
    Column(2, 0, Settings(dials={"temperature": 1.5}), seed=4, title="hot"),
    Column(3, 0, Settings(dials={"top_k": "many"}), title="wrong"),
)


def run(columns: tuple[Column, ...] = COLUMNS, count: int | None = 6) -> list[Record]:
    client = DirectClient()
    for command in (*script("abc"), StepMany(columns, count)):
        client.send(command)
    records = client.take()
    found = of(records).columns
    client.send(MeasureAlone(tuple(drawn_column(one.state.column, one.steps) for one in found)))
    return records + client.take()


def of(records: list[Record]) -> Compared:
    log = RunLog()
    for one in records:
        log.add(one)
    return compared(Source.of_log(log, ROOT, "a title"))


@pytest.fixture(scope="module")
def found() -> Compared:
    return of(run())


def test_columns_have_their_tokens_and_settings(found: Compared) -> None:
    cold, hot, wrong = found.columns
    assert [len(one.steps) for one in found.columns] == [6, 6, 0]
    # Equal logits: the lowest id, always.
    assert cold.text == "aaaaaa"
    assert cold.figures.repetition == 5
    assert hot.state.seed == 4
    assert hot.dials["temperature"].value == 1.5
    assert wrong.figures.ended_by == "error"
    assert "top_k" in wrong.figures.ended_detail
    assert found.why is not None
    a, b, why = found.why
    assert (a, b) == (1, 2)
    assert why.a.id == 0
    assert found.divergence.index is not None


def test_the_bill_adds_up(found: Compared) -> None:
    assert found.batch.tokens == 12
    # A script's rows share no pass: one each, but for the first token, which is the prompt's.
    assert found.batch.passes == found.batch.rows == 10
    assert [one.rows for one in found.batch.by_rows] == [2]
    assert found.batch.alone_ms is None


def test_a_near_tie_is_marked(found: Compared) -> None:
    cold = found.columns[0]
    # All letters are alike to it: any rounding takes another one.
    assert cold.figures.closest == 0.0
    assert cold.near_tie
    said = "\n".join(compared_text.lines(found))
    assert "1 the same 6 tokens read alone; largest drift 0 logits: 6 near-ties" in said
    assert "the first at position 3" in said
    hot = found.columns[1]
    assert hot.near_tie is False
    assert "2 the same 6 tokens read alone; largest drift 0 logits\n" in said
    line = compared_json.column_fields(hot)
    assert line["near_tie"] is False
    assert line["alone"]["tokens"] == 6


def test_what_was_not_read_alone_is_not_said_to_be_the_same() -> None:
    records = [one for one in run() if not isinstance(one, AloneMeasured)]
    found = of(records)
    assert found.columns[0].near_tie is None
    assert compared_json.column_fields(found.columns[0])["alone"] is None
    assert "read alone" not in "\n".join(compared_text.lines(found))
    # A column that has gone on since is not the one that was read.
    grown = [
        replace(one, columns=tuple(replace(two, node=1) for two in one.columns))
        if isinstance(one, AloneMeasured)
        else one
        for one in run()
    ]
    assert [one.alone for one in of(grown).columns[:2]] == [None, None]


def test_as_json(found: Compared) -> None:
    line = json.loads(json.dumps(compared_json.to_json(found), allow_nan=False))
    assert [one["column"] for one in line["columns"]] == [1, 2, 3]
    first = line["columns"][0]
    assert first["token_ids"] == [0] * 6
    assert first["settings"]["temperature"] == {"value": 0.0, "source": "flag"}
    assert (first["title"], first["text"], first["seed"]) == ("cold", "aaaaaa", 7)
    assert first["figures"]["tokens"] == 6
    assert line["columns"][2]["error"]
    assert line["divergence"]["index"] == found.divergence.index
    assert line["why_part"]["a"] == 1
    kinds = [one["type"] for one in compared_json.lines(found)]
    assert kinds == ["comparison", "column", "column", "column", "end"]


def test_as_csv(found: Compared) -> None:
    text = "".join(compared_table.pieces(found, "csv"))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["title"] for row in rows] == ['"cold"', '"hot"', '"wrong"']
    assert rows[0]["repetition"] == "5"
    assert rows[2]["tps"] == ""


def test_a_page_has_the_columns_side_by_side_and_marks_where_they_part(found: Compared) -> None:
    text = "".join(compared_table.pieces(found, "html"))
    assert text.count("<article>") == 3
    assert text.count("<mark>") == 2
    assert "<script" not in text


def test_columns_that_are_the_same_do_not_part() -> None:
    same = (COLUMNS[0], replace(COLUMNS[0], number=2))
    found = of(run(same))
    assert found.why is None
    assert "the columns do not part" in "\n".join(compared_text.lines(found))
    assert compared_json.to_json(found)["why_part"] is None


def test_a_run_without_columns_compares_nothing() -> None:
    assert of([]).columns == ()
    assert of([]).batch.tokens == 0


@pytest.mark.parametrize("form", ["text", *compared_table.FORMS])
def test_b1_nothing_in_it_acts(form: str) -> None:
    """Every word of every record that a file could hold."""
    records: list[Any] = [marked(one) for one in run()]
    found = of(records)
    assert len(found.columns) == 3
    if form == "text":
        shown = "\n".join(compared_text.lines(found))
    else:
        shown = "".join(compared_table.pieces(found, form))
    assert acting(shown) == ""
    assert "evil" in shown


def test_markup_of_a_model_stays_text() -> None:
    titled = (replace(COLUMNS[0], title="<b>|*x*"), COLUMNS[1])
    found = of(run(titled))
    assert "<b>" not in "".join(compared_table.pieces(found, "html"))
    assert "|*x*" not in "".join(compared_table.pieces(found, "md"))
