"""--draft, --draft-tokens and --accept: what they mean, and what is refused before a model loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.records.round import Accept, DraftSettings
from inspector.cli.config import Config, ConfigError
from tests.inspector.cli.test_cli import asked, refused


@pytest.mark.parametrize(
    ("words", "draft"),
    [
        ((), DraftSettings()),
        (("--draft", "ngram"), DraftSettings("ngram", 4)),
        (("--draft", "self:8", "--draft-tokens", "6"), DraftSettings("self:8", 6)),
        (("--draft", "ngram:5", "--draft-tokens", "auto"), DraftSettings("ngram:5", 0)),
        (
            ("--draft", "some/model", "--accept", "match"),
            DraftSettings("some/model", 4, Accept.MATCH),
        ),
    ],
)
def test_options_become_settings(words: tuple[str, ...], draft: DraftSettings) -> None:
    assert asked("a prompt", *words).configure.draft == draft


def test_the_file_has_them_too_and_flags_win(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('draft = "ngram"\ndraft_tokens = "auto"\naccept = "typical"\n')
    config = Config.load(path)
    assert asked("a", config=config).configure.draft == DraftSettings("ngram", 0, Accept.TYPICAL)
    found = asked("a", "--draft", "self:2", "--draft-tokens", "3", config=config).configure.draft
    assert found == DraftSettings("self:2", 3, Accept.TYPICAL)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('draft = "ngram:0"', "takes a whole number from 1 on"),
        ("draft_tokens = 65", "must lie in 1 .. 64, not 65"),
        ('draft_tokens = "many"', "must lie in 1 .. 64, not 'many'"),
        ('accept = "always"', "must be exact or match or typical"),
    ],
)
def test_the_file_is_checked(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(line + "\n")
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--draft", "self:x"), "--draft self:N takes a whole number from 1 on, not 'x'"),
        (("--draft", "self"), "--draft self:N takes a whole number from 1 on, not ''"),
        (("--draft-tokens", "5"), "--draft-tokens needs --draft"),
        (("--accept", "match"), "--accept needs --draft"),
        (("--draft", "ngram", "--draft-tokens", "0"), "must lie in 1 .. 64, not 0"),
        (("--draft", "ngram", "--draft-tokens", "x"), "takes a whole number"),
        (("--draft", "ngram", "--accept", "always"), "invalid choice: 'always'"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    assert line in refused(capsys, "run", "a", *words)
