"""--think-tags and --think-budget: what they mean, what is refused, and what comes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.geometry import Size

from engine.commands import Configure, Open, Run, Submit
from engine.records.events import EngineError
from engine.records.step import How
from engine.records.thinking import ThinkingSettings
from engine.run.tree import ROOT
from inspector.cli.config import Config, ConfigError
from inspector.panes.transcript.pane import cursor_info, draw
from inspector.state.account import thinking_of
from inspector.state.view import RunLog, View
from tests.direct import DirectClient
from tests.fake_runs import styles_at
from tests.inspector.cli.test_cli import asked, refused
from tests.thinkers import CLOSE, LETTERS, THINK, WORDS


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ((), None),
        (("--think-budget", "40"), ThinkingSettings(budget=40)),
        (("--think-tags", "<t>, </t>"), ThinkingSettings("<t>", "</t>", "--think-tags")),
        (
            ("--think-tags", "[T],[/T]", "--think-budget", "0"),
            ThinkingSettings("[T]", "[/T]", "--think-tags", 0),
        ),
    ],
)
def test_options_become_settings(words: tuple[str, ...], settings: ThinkingSettings | None) -> None:
    assert asked("a prompt", *words).configure.thinking == settings


def test_the_file_has_them_too(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('think_tags = "<t>,</t>"\nthink_budget = 5\n')
    found = asked("a", config=Config.load(path)).configure.thinking
    assert found == ThinkingSettings("<t>", "</t>", "configuration file", 5)
    path.write_text("think_budget = -1\n")
    with pytest.raises(ConfigError, match="must lie in 0"):
        Config.load(path)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--think-tags", "<t>"), "takes two tags that differ"),
        (("--think-tags", "<t>,<t>"), "takes two tags that differ"),
        (("--think-tags", ",</t>"), "takes two tags that differ"),
        (("--think-tags", "a,b,c"), "takes two tags that differ"),
        (("--think-tags", "a," + "b" * 61), "at most 60 characters"),
        (("--think-budget", "-1"), "must lie in 0"),
        (("--think-budget", "many"), "takes a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    assert line in refused(capsys, "a prompt", *words)


# --- in a run -------------------------------------------------------------------------------


def run(thinking: ThinkingSettings | None) -> View:
    """A whole run of the model that thinks, as the app sees it."""
    client, log = DirectClient(), RunLog()
    tokens = [*WORDS, *dict.fromkeys(LETTERS)]
    client.send(Open("scripted", {"function": "tests.thinkers:logits_of", "tokens": tokens}))
    client.send(Configure(dials={"temperature": 0.0}, max_tokens=30, thinking=thinking))
    client.send(Submit("?"))
    client.send(Run(ROOT))
    for record in client.take():
        log.add(record)
    return View(log, max(log.nodes, default=ROOT))


def test_the_tags_in_use_are_told_with_the_settings() -> None:
    found = run(ThinkingSettings(budget=2))
    assert found.settings is not None
    assert found.settings.thinking == ThinkingSettings("<think>", "</think>", "tokenizer", 2)
    ids = found.path.token_ids
    assert ids.index(CLOSE) - ids.index(THINK) - 1 == 2
    assert found.path[3].draw.how is How.FORCED


def test_thinking_is_set_apart_in_the_transcript() -> None:
    """Italic, on its shade; the answer as ever; a tag that was forced says so."""
    found = run(ThinkingSettings(budget=2))
    assert thinking_of(found).tolist() == [True, True, True, True, False, False]
    rows = draw(View(found.log, found.path[4].node), Size(60, 20)).rows
    line = next(at for at in range(len(rows)) if "hm" in rows[at].plain)
    assert "italic" in styles_at(rows, line, "hm")
    assert "on $surprisal-0" in styles_at(rows, line, "hm")
    assert "italic" not in styles_at(rows, line, "42")
    assert "underline" in styles_at(rows, line, "/think>")
    assert "forced · thinking" in cursor_info(View(found.log, found.path[3].node)).plain


def test_a_budget_without_tags_is_one_clear_line() -> None:
    client = DirectClient()
    client.send(Open("scripted", {"tokens": list("abc")}))
    client.send(Configure(thinking=ThinkingSettings(budget=2)))
    (error,) = [one for one in client.take() if isinstance(one, EngineError)]
    assert "--think-tags" in error.message
