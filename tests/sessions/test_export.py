"""A run in other forms: everything is there, and nothing in it can act."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.records.events import BranchNamed, DenseLogits
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.timing import speed
from inspector.state.view import RunLog
from sessions import SessionError, open_session
from sessions.export.figures import COLUMNS, csv_lines
from sessions.export.formats import FORMS, form_of, jsonl_lines, write
from sessions.export.jsonl import dumps, end_line, run_line, step_line, texts
from sessions.export.page import html_lines
from sessions.export.report import escape, markdown_lines
from sessions.export.source import Source
from sessions.recording import first_records, record
from tests import fakes
from tests.sessions.test_store import forked_run, save

HOSTILE = (
    *(b"<script>alert(1)</script>", b"</script>", b"{{steps}}", b"=1+1", b"|`*_[x](http://a.b)"),
    *(b"\x1b[2J", b"\x00", b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xf0\x9f", b"\x98\x8a", b'"', b"'"),
    *(b"<img src=x onerror=alert(1)>", b"```\n# x", b"&amp;", b"\r\n", b"a,b\n"),
)


def hostile_run(path: Path) -> Path:
    """A run whose prompt and output are all that anybody ever put into a page."""
    prompt = b"".join(HOSTILE[:9]).decode()
    rows = np.full((len(HOSTILE) + 2, len(HOSTILE)), -20.0)
    for row in range(len(rows)):
        rows[row, row % len(HOSTILE)] = 0.0
    count = len(HOSTILE)
    backend = ScriptedBackend(
        lambda ids: rows[(len(ids) - 9) % count], HOSTILE, facts={"name": "<b>model</b>|x"}
    )
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}), max_tokens=count)
    record(stepper, path, prompt, title="</title><script>")
    assert [step.token.id for step in stepper.path()] == list(range(count))
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = hostile_run(tmp_path_factory.mktemp("hostile") / "run.llmi")
    return Source.of_session(open_session(path))


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = save(tmp_path_factory.mktemp("forked") / "run.llmi", forked_run())
    return Source.of_session(open_session(path))


# --- JSON lines -----------------------------------------------------------------------------------


def parsed(source: Source) -> list[dict[str, Any]]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in jsonl_lines(source)]


def test_the_contract(forked: Source) -> None:
    run, *steps, end = parsed(forked)
    assert (run["type"], run["schema"], run["model"]) == ("run", 1, "scripted")
    assert run["prompt_ids"] == [0, 1]
    assert run["settings"]["temperature"] == {"value": 0.0, "source": "flag"}
    assert [one["node"] for one in steps] == list(range(1, 10))
    assert set(steps[0]) >= {
        *("type", "node", "parent", "position", "token_id", "token_bytes", "text", "raw_logprob"),
        *("final_prob", "rank", "entropy_raw", "entropy_final", "u", "stages", "top", "time_ms"),
        *("kv", "log_z_raw"),
    }
    assert set(steps[0]["stages"][0]) >= {
        *("name", "params", "survivors", "mass_removed", "entropy")
    }
    assert set(steps[0]["top"][0]) >= {"id", "raw_logprob", "final_prob", "cut_by"}
    assert end["type"] == "end"
    assert end["reason"] == "interrupted", "this run was left before its end"
    assert end["tokens"] == 6


def test_lines_say_what_the_records_say(forked: Source) -> None:
    _, *found, _ = parsed(forked)
    for line, step in zip(found, forked.steps(), strict=True):
        assert line["raw_logprob"] == step.raw_logprob
        assert line["log_z_raw"] == step.log_z_raw
        for row, logit in zip(line["top"], step.top.raw_logits, strict=True):
            if row["raw_logprob"] is not None:
                assert np.float32(row["raw_logprob"] + line["log_z_raw"]) == logit
        assert line["u"] == step.draw.u
        assert line["time_ms"]["total"] == step.timing.total_ms
        assert [one["survivors"] for one in line["stages"]] == [
            one.survivors for one in step.stages
        ]
        for row, top in enumerate(line["top"]):
            assert top["id"] == step.top.ids[row]
            assert np.float64(top["final_prob"]) == step.top.probs[-1, row]
            cut = step.top.cut_by[row]
            assert top["cut_by"] == (None if cut == -1 else step.stages[cut].name)


def test_no_number_is_null_with_a_reason() -> None:
    """Case 39: a token that the model rules out has a log-probability of minus infinity."""
    logits = [[0.0, 1.0, -math.inf, 2.0]]
    stepper = Stepper(ScriptedBackend.from_vectors(logits), effective("guide", {}), max_tokens=9)
    list(first_records(stepper, "a"))
    forced = step_line(stepper.extend(0, force=2))
    assert forced["raw_logprob"] is None
    assert "minus infinity" in forced["raw_logprob_reason"]
    assert forced["u"] is None
    assert forced["u_reason"] == "no randomness was used: forced"
    assert forced["final_prob"] == 0.0
    (ruled_out,) = (one for one in forced["top"] if one["id"] == 2)
    assert (ruled_out["raw_logprob"], ruled_out["cut_by"]) == (None, "model")
    assert forced["kv"]["bytes"] is None
    assert forced["kv"]["bytes_reason"]
    cut = step_line(stepper.extend(0))["top"]
    assert {one["cut_by"] for one in cut} >= {None}
    json.loads(dumps(forced))


def test_bytes_survive_where_text_cannot(hostile: Source) -> None:
    """Case 15: an emoji in two tokens."""
    _, *steps, _ = parsed(hostile)
    assert bytes.fromhex("".join(one["token_bytes"] for one in steps)) == b"".join(HOSTILE)
    assert "".join(one["text"] for one in steps) == b"".join(HOSTILE).decode()
    assert (steps[9]["text"], steps[10]["text"]) == ("", "😊")
    alone = step_line(hostile.tree.steps[10])
    assert alone["text"] is None
    assert "token_bytes" in alone["text_reason"]


def test_texts_follow_each_branch(forked: Source) -> None:
    by_node = {step.node: text for step, text in texts(forked.steps())}
    for tip in forked.tips():
        steps = forked.branch(tip)
        whole = b"".join(step.token.bytes for step in steps).decode()
        assert "".join(by_node[step.node] for step in steps) == whole


def test_the_last_line_of_case_36() -> None:
    log = RunLog()
    for one in fakes.case_36():
        log.add(one)
    line = end_line("length", "", speed(log.prompt, log.prefill, log.path(5)), 5)
    assert (line["ttft_ms"], line["tps"], line["prefill_tps"]) == (500.0, 10.0, 20.0)
    short = end_line("context", "full", speed(log.prompt, log.prefill, log.path(1)), 1)
    assert short["reason"] == "length"
    assert (short["tps"], short["itl_ms"]) == (None, None)
    assert short["tps_reason"]


def test_a_run_line_with_hardly_any_facts() -> None:
    prompt = PromptRecord("\udcff", (), (), False, float("nan"))
    line = json.loads(dumps(run_line(None, prompt, None)))
    assert line["model"] is None
    assert line["model_reason"] == "not recorded"
    assert line["prompt"] == "?"


# --- the page -------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        (self.scripts if self._script else self.words).append(data)


def test_the_page_loads_nothing_and_runs_only_its_own_script(hostile: Source) -> None:
    text = "".join(html_lines(hostile))
    page = Page(text)
    names = [tag for tag, _ in page.tags]
    assert names.count("script") == 2
    assert not {"img", "iframe", "link", "object", "embed", "base", "form", "a"} & set(names)
    for _, attributes in page.tags:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "default-src 'none'" in text
    assert "http:" not in text.replace("http://a.b", "")


def test_the_page_holds_nothing_that_hides(hostile: Source) -> None:
    text = "".join(html_lines(hostile))
    assert not set(text) & {"\x1b", "\x00", "\u202e", "\u200b", "\r"}
    assert "␛[2J" in text
    shown = "".join(Page(text).words)
    for words in ("<script>alert(1)</script>", "{{steps}}", "<U+202E>", "<b>model</b>|x"):
        assert words in shown


def test_the_ladder_of_every_token_is_in_the_page(forked: Source) -> None:
    page = Page("".join(html_lines(forked)))
    data = json.loads(page.scripts[0])
    assert set(data) == {str(node) for node in range(1, 10)}
    step = forked.tree.steps[9]
    assert [level["label"] for level in data["9"]["levels"]] == [
        "model",
        *(stage.label for stage in step.stages),
    ]
    assert any(row["id"] == step.token.id for row in data["9"]["top"])
    tokens = [one for tag, one in page.tags if one.get("data-node")]
    assert {one["data-node"] for one in tokens} == set(data)
    assert page.words.count("Output, branch to node 9") == 1


def test_f18_page_and_report_say_what_the_branches_are_called(tmp_path: Path) -> None:
    records = [*forked_run(), BranchNamed(3, "left"), BranchNamed(6, "<b>wide</b>")]
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        source = Source.of_session(session)
        page = Page("".join(html_lines(source)))
        report = "".join(markdown_lines(source))
        left = "".join(markdown_lines(Source.of_session(session, 4)))
    assert page.words.count('Output, branch "<b>wide</b>" to node 9') == 1
    assert page.words.count('Output, branch "left" to node 4') == 1
    assert f'\n## Output, branch "{escape("<b>wide</b>")}"\n' in report
    assert '\n## Output, branch "left"\n' in left


def test_a_page_of_nothing(tmp_path: Path) -> None:
    with open_session(save(tmp_path / "run.llmi", [])) as session:
        source = Source.of_session(session)
        for form in FORMS.values():
            assert "".join(form(source))


# --- the report and the figures -------------------------------------------------------------------


def test_the_report_says_what_ran_and_what_came_out(forked: Source) -> None:
    text = "".join(markdown_lines(forked))
    assert text.startswith("# run\n")
    assert "| model | scripted |" in text
    output = b"".join(step.token.bytes for step in forked.branch()).decode()
    assert f"```text\n{output}\n```" in text
    rows = text[text.index("## Tokens") :].splitlines()[4:]
    assert len(rows) == 6


def test_the_report_holds_no_markup_of_the_model(hostile: Source) -> None:
    text = "".join(markdown_lines(hostile))
    fences = re.findall(r"^(`{3,})text$", text, re.MULTILINE)
    assert len(fences) == 2
    assert len(fences[1]) == 4, "longer than the fence in the output"
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?<!\\)[`<]", outside)
    assert "\x1b" not in text
    rows = outside[outside.index("## Tokens") :].splitlines()[4:]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {9}


def test_escaped_text_is_no_markup() -> None:
    assert escape("*a* [b](c) www.d.e 3.5 <f>|`g` x:y") == (
        r"\*a\* \[b\](c) www\.d\.e 3.5 \<f\>\|\`g\` x\:y"
    )


def test_the_figures_read_back(forked: Source, hostile: Source) -> None:
    for source in (forked, hostile):
        rows = list(csv.DictReader(io.StringIO("".join(csv_lines(source)))))
        steps = list(source.steps())
        assert len(rows) == len(steps)
        assert tuple(rows[0]) == COLUMNS
        for row, step in zip(rows, steps, strict=True):
            assert float(row["raw_logprob"]) == step.raw_logprob
            assert bytes.fromhex(row["token_bytes"]) == step.token.bytes
            assert row["u"] == ("" if step.draw.u is None else repr(step.draw.u))
            # No field begins like a formula, whatever the model wrote.
            assert not any(value.startswith(("=", "+", "@", "\t", "\r")) for value in row.values())
            assert json.loads(row["text"]) == step.token.bytes.decode("utf-8", "replace")


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_live_run_exports_like_its_session(tmp_path: Path, form: str) -> None:
    records = forked_run()
    log = RunLog()
    for one in records:
        log.add(one)
    write(Source.of_log(log, 9, "title"), tmp_path / f"live.{form}")
    with open_session(save(tmp_path / "run.llmi", records, title="title")) as session:
        write(Source.of_session(session), tmp_path / f"saved.{form}")
    live, saved = (tmp_path / f"{name}.{form}" for name in ("live", "saved"))
    assert live.read_bytes() == saved.read_bytes()


def test_an_export_is_written_whole_or_not_at_all(tmp_path: Path, forked: Source) -> None:
    path = tmp_path / "run.html"
    path.write_text("before")
    with pytest.raises(SessionError, match="is there already: choose another name"):
        write(forked, path)
    assert path.read_text() == "before"
    write(forked, path, overwrite=True)
    assert path.read_text().startswith("<!doctype html>")
    with pytest.raises(SessionError, match="cannot be written: No such file or directory"):
        write(forked, tmp_path / "nowhere" / "run.md")
    assert [one.name for one in tmp_path.iterdir()] == ["run.html"]


def test_the_form_is_in_the_name() -> None:
    assert form_of(Path("a.HTM")) == "html"
    assert form_of(Path("a.markdown")) == "md"
    with pytest.raises(SessionError, match=r"a\.pdf: exports end in \.html, \.md, \.jsonl, \.csv"):
        form_of(Path("a.pdf"))


def test_full_logits_do_not_get_in_the_way(tmp_path: Path) -> None:
    records = [*forked_run(), DenseLogits(1, np.zeros(270, np.float32))]
    with open_session(save(tmp_path / "run.llmi", records, full_logits=True)) as session:
        steps = [one for one in session.records() if isinstance(one, StepRecord)]
        assert len(parsed(Source.of_session(session))) == len(steps) + 2
