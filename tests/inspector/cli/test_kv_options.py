"""How K and V are kept, as it is asked for: flags, the configuration file, amounts of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from engine.records.model import KVStorage
from inspector.cli import main as cli
from inspector.cli.config import Config, ConfigError
from inspector.cli.options import OneLineParser, add_model_options
from inspector.cli.sessions import live_open
from inspector.cli.sizes import parse_size
from sessions import Session
from sessions.compare.diff import Change, model_changes
from sessions.export.jsonl import run_line
from tests.fakes import SMOLLM2, prompt
from tests.inspector.cli.test_cli import asked, refused

KV = ("cache", "block_size", "kv_budget", "kv_dtype")


def options(*words: str, config: Config | None = None) -> tuple[object, ...]:
    given = asked("a", *words, config=config).open.options
    return tuple(given[name] for name in KV)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1000", 1000),
        ("100b", 100),
        ("512M", 512 * 2**20),
        ("512MiB", 512 * 2**20),
        ("512MB", 512 * 10**6),
        ("2G", 2**31),
        ("1.5GiB", 3 * 2**29),
        (" 2 g ", 2**31),
        (".5k", 512),
        ("1T", 2**40),
    ],
)
def test_amounts_of_memory(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1e9", "1ib", "M", "1.5.5G", "1 G B", "nan", "inf", "１G"]
)
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match=r"takes a size such as 512M, 2G or 1\.5GiB, not "):
        parse_size(text)


@pytest.mark.parametrize("text", ["0", "0.0001k", "99999999T", "9" * 400])
def test_amounts_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match="between one byte and an exbibyte") as caught:
        parse_size(text)
    assert len(str(caught.value)) < 100


def test_unasked_there_is_a_cache_of_the_usual_kind() -> None:
    assert options() == (True, None, None, "auto")


def test_flags() -> None:
    words = ("--block-size", "8", "--kv-budget", "64M", "--kv-dtype", "int8")
    assert options(*words) == (True, 8, 64 * 2**20, "int8")
    assert options("--no-cache") == (False, None, None, "auto")


def test_flags_win_over_the_file() -> None:
    file = Config({"cache": False, "block_size": 4, "kv_budget": "1G", "kv_dtype": "int8"})
    assert options(config=file) == (False, 4, 2**30, "int8")
    words = ("--cache", "--block-size", "8", "--kv-budget", "1M", "--kv-dtype", "auto")
    assert options(*words, config=file) == (True, 8, 2**20, "auto")
    # What the file says of K and V does not keep a flag from switching them off.
    assert options("--no-cache", config=file)[0] is False


@pytest.mark.parametrize("command", [["run", "a"], ["a"], ["bench"], ["doctor"]])
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--kv-budget", "lots"], "takes a size such as 512M, 2G or 1.5GiB, not 'lots'"),
        (["--kv-budget", "0"], "must lie between one byte and an exbibyte, not '0'"),
        (["--block-size", "0"], "must lie in 1 .. 1,024, not 0"),
        (["--block-size", "1025"], "must lie in 1 .. 1,024, not 1,025"),
        (["--block-size", "x"], "takes a whole number, not 'x'"),
        (["--kv-dtype", "int4"], "invalid choice: 'int4' (choose from 'auto', 'int8')"),
        (
            ["--no-cache", "--kv-dtype", "int8"],
            "--no-cache and --kv-dtype int8: without a cache there are no K and V to keep",
        ),
        (
            ["--no-cache", "--kv-budget", "1G"],
            "--no-cache and --kv-budget: without a cache there are no K and V to keep",
        ),
    ],
)
def test_one_line_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], command: list[str], words: list[str], line: str
) -> None:
    assert line in refused(capsys, *command, *words)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kv_budget = 'lots'", "kv_budget takes a size such as 512M, 2G or 1.5GiB, not 'lots'"),
        ("kv_budget = 0", "kv_budget must lie between one byte and an exbibyte, not '0'"),
        ("kv_budget = 1.5", "kv_budget must be str or int, not 1.5"),
        ("cache = 'no'", "cache must be bool, not 'no'"),
        ("block_size = 0", "block_size must lie in 1 .. 1,024, not 0"),
        ("kv_dtype = 'int4'", "kv_dtype must be auto or int8, not 'int4'"),
    ],
)
def test_a_bad_configuration_file_names_the_fault(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value) == f"{path}: {fault}"


def test_a_configuration_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('cache = false\nblock_size = 8\nkv_budget = 1048576\nkv_dtype = "int8"\n')
    assert options(config=Config.load(path)) == (False, 8, 2**20, "int8")


@pytest.mark.parametrize(
    ("kept", "words", "expected"),
    [
        (None, (), (True, "auto")),
        (KVStorage(cached=False), (), (False, "auto")),
        (KVStorage(dtype="int8", block_size=16), (), (True, "int8")),
        (KVStorage(dtype="int8", block_size=16), ("--kv-dtype", "auto"), (True, "auto")),
        (KVStorage(cached=False), ("--cache",), (True, "auto")),
        (KVStorage(dtype="float16", block_size=16), ("--no-cache",), (False, "auto")),
    ],
)
def test_a_recording_goes_on_as_it_was_kept(
    kept: KVStorage | None, words: tuple[str, ...], expected: tuple[bool, str]
) -> None:
    parser = OneLineParser(prog="test", allow_abbrev=False)
    add_model_options(parser)
    session = SimpleNamespace(facts=replace(SMOLLM2, kv_storage=kept))
    command = live_open(parser.parse_args(words), Config(), cast(Session, session))
    assert (command.options["cache"], command.options["kv_dtype"]) == expected
    assert command.options["dtype"] == "float32"


def test_another_kind_of_cache_is_a_difference_between_runs() -> None:
    usual = replace(SMOLLM2, kv_storage=KVStorage(dtype="float32", block_size=16))
    eight = replace(SMOLLM2, kv_storage=KVStorage(dtype="int8", block_size=16))
    assert list(model_changes(SMOLLM2, usual)) == []
    assert list(model_changes(usual, eight)) == [Change("KV cache", None, "int8 KV")]


def test_the_run_line_says_how_they_are_kept() -> None:
    eight = KVStorage(dtype="int8", block_size=8, blocks=(20,), pool_bytes=1920)
    line = run_line(replace(SMOLLM2, kv_storage=eight), prompt(3), None)
    assert line["kv_cache"] == {
        "cached": True,
        "dtype": "int8",
        "block_size": 8,
        "blocks": [20],
        "pool_bytes": 1920,
    }
    assert run_line(SMOLLM2, prompt(3), None)["kv_cache"] is None


@pytest.mark.parametrize("command", [[], ["run"], ["replay"], ["bench"], ["doctor"]])
def test_help_lists_them(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([*command, "--help"])
    shown = capsys.readouterr().out
    for flag in ("--no-cache", "--block-size", "--kv-budget", "--kv-dtype"):
        assert flag in shown
