"""The command line: what is refused, in which words, with which exit code. No model is loaded."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.commands import Configure, Open, Submit
from engine.records.round import DraftSettings
from inspector.cli import main as cli
from inspector.cli.config import Config, ConfigError
from inspector.cli.options import (
    OneLineParser,
    add_model_options,
    add_prompt_options,
    add_sampler_options,
    request,
)
from inspector.state.request import Request


def asked(*words: str, config: Config | None = None) -> Request:
    parser = OneLineParser(prog="test", allow_abbrev=False)
    add_prompt_options(parser)
    add_model_options(parser)
    add_sampler_options(parser)
    return request(parser.parse_args(words), config or Config())


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a usage error prints."""
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line.removeprefix("llm-inspect: ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], 'no prompt given: llm-inspect "The capital of France is" (or --file F)'),
        (["run", ""], 'the prompt is empty: llm-inspect "The capital of France is"'),
        (["run", "a", "-p", "b"], "the prompt is given twice: PROMPT and -p"),
        (["run", "a", "--file", "b"], "the prompt is given twice: PROMPT and --file"),
        (["run", "--file", "nowhere.txt"], "cannot read nowhere.txt: No such file or directory"),
        (["run", "a", "--temperature", "x"], "--temperature: temperature takes a number, not 'x'"),
        (["run", "a", "--top-p", "3"], "--top-p: top_p=3 is out of range: 0 to 1"),
        (["run", "a", "--top-p", "nan"], "--top-p: top_p=nan is out of range: 0 to 1"),
        (["run", "a", "-s", "temprature=1"], "unknown dial 'temprature'; did you mean temperature?"),
        (["run", "a", "-s", "top_p=1", "--top-p", "1"], "top_p is given by a flag and in -s: choose one"),
        (["run", "a", "--topk", "3"], "unknown option --topk; did you mean --top-k?"),
        (["run", "a", "--system", "s"], "--system needs --chat: only a chat template has a place for it"),
        (["rnu", "Hi"], "there is no command rnu; did you mean run? (see llm-inspect --help)"),
        (["Hi", "there"], 'a prompt of several words stands in quotes: llm-inspect "Hi there"'),
        (
            ["sessions", "export", "F", "--html"],
            "unknown option --html; did you mean --format html? (see llm-inspect sessions export --help)",
        ),
        (["run", "a", "--theme"], "unrecognized arguments: --theme (see llm-inspect run --help)"),
        (["run", "a", "--seed", "-1"], "argument --seed: must lie in 0 .. 2^63 - 1, not -1 (see llm-inspect run --help)"),
        (["run", "a", "--engine", "hff"], "argument --engine: must be hf or llamacpp or vllm or openai or scripted, not 'hff' (see llm-inspect run --help)"),
        (["run", "a", "--engine", "scripted", "--device", "cpu"], "--device: no option of the engine scripted, which takes --model"),
        (["run", "a", "--engine", "scripted", "--no-cache"], "--cache: no option of the engine scripted, which takes --model"),
        (["run", "a", "--config", "none.toml"], "no configuration file at none.toml"),
    ],
)  # fmt: skip
def test_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert refused(capsys, *words) == line


def test_the_inspector_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "needs a terminal" in refused(capsys, "hello")


def test_unknown_presets_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "run", "a", "--preset", "llamacp").endswith("did you mean llamacpp?")


def test_no_prompt_can_hide_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cli, "request", broken)
    assert cli.main(["run", "a"]) == 3
    assert capsys.readouterr().err == "llm-inspect: ZeroDivisionError: a bug (--debug shows more)\n"
    assert cli.main(["run", "a", "--debug"]) == 3
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback ")
    assert printed.endswith("ZeroDivisionError: a bug\n")


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "request", interrupted)
    assert cli.main(["run", "a"]) == 130


def test_a_prompt_comes_from_where_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes("Grüße 😊\n".encode())
    assert asked("a b").submit == Submit("a b")
    assert asked("--prompt=-x").submit == Submit("-x")
    assert asked("--file", str(file)).submit.text == "Grüße 😊", "F21: without its final newline"
    file.write_bytes(b"two\r\n\r\n")
    assert asked("--file", str(file)).submit.text == "two\r\n", "one newline, and no more"
    stdin = io.TextIOWrapper(io.BytesIO("日本\n".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert asked("-").submit.text == "日本"
    assert asked("hi", "--chat", "--system", "be brief").submit == Submit("hi", True, "be brief")


def test_text_that_is_not_utf8_is_refused_not_mangled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "latin1.txt"
    file.write_bytes(b"caf\xe9")
    assert refused(capsys, "run", "--file", str(file)) == f"{file} is not UTF-8 (byte 3)"
    assert refused(capsys, "run", "caf\udce9") == "the prompt is not UTF-8 (byte 3)"


def test_flags_win_over_the_file_and_both_over_defaults() -> None:
    config = Config({"model": "m", "seed": 4, "max_tokens": 9}, {"temperature": 0.3, "top_k": 7})
    one = asked("a", "--seed", "5", "--temperature", "0.9", config=config)
    assert one.open.options["model"] == "m"
    assert one.configure == Configure(
        "guide", {"temperature": 0.9, "top_k": 7}, "", seed=5, max_tokens=9, draft=DraftSettings()
    )
    assert asked("a").configure.seed == 0


def test_a_specification_takes_the_place_of_the_file_s_dials() -> None:
    config = Config({}, {"temperature": 0.3, "top_k": 7})
    assert asked("a", "-s", "temperature=1.5", config=config).configure.dials == {"top_k": 7}
    assert asked("a", "-s", "top_k=3 > temperature=1.5", config=config).configure.dials == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("modle = 'x'", "unknown option 'modle'; did you mean model?"),
        ("seed = 'x'", "seed must be int, not 'x'"),
        ("seed = true", "seed must be int, not True"),
        ("sampler = 3", "sampler must be a table: [sampler]"),
        ("[sampler]\ntop_q = 1", "unknown dial 'top_q' in [sampler]; did you mean top_p?"),
        ("[sampler]\ntop_p = 7", "[sampler] top_p=7 is out of range: 0 to 1"),
        ("[keys]\nstep = 3", "[keys] step must be keys in writing, such as 'n,right'"),
        ("a = ", "Invalid value"),
    ],
)
def test_a_bad_configuration_file_names_the_fault(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).startswith(f"{path}: {fault}")


def test_a_configuration_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('model = "m"\n[sampler]\ntop_k = 5\n[keys]\nstep = "j"\n')
    config = Config.load(path)
    assert config == Config({"model": "m"}, {"top_k": 5}, {"step": "j"}, path=path)


def test_the_engine_is_chosen_by_a_flag_or_the_file(tmp_path: Path) -> None:
    """Options that it lacks are left out of what the file says; a flag for one is refused."""
    path = tmp_path / "config.toml"
    path.write_text('engine = "scripted"\ndevice = "cpu"\nmodel = "script.json"\n')
    config = Config.load(path)
    assert asked("a", config=config).open == Open("scripted", {"file": "script.json"})
    assert asked("a", "--engine", "hf", config=config).open.backend == "hf"
    assert asked("a").open.backend == "hf"
    path.write_text('engine = "llama"\n')
    with pytest.raises(
        ConfigError, match=r"engine must be hf or llamacpp or .* or scripted, not 'llama'"
    ):
        Config.load(path)


def test_doctor_lists_the_engines_and_what_each_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--no-load", "--engine", "scripted"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line[:20].strip(): line[20:] for line in lines if line.startswith("engine ")}
    assert {"engine hf", "engine scripted"} <= listed.keys()
    assert "transformers on torch" in listed["engine hf"]
    assert "tells what its KV cache holds" in listed["engine hf"]
    assert listed["engine scripted"].endswith("; chosen")


def test_the_module_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "inspector", "run", "a", "--top-p", "3"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "llm-inspect: --top-p: top_p=3 is out of range: 0 to 1\n"


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_help_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*([command] if command else []), "--help"])
    assert caught.value.code == 0
    assert "usage: llm-inspect" in capsys.readouterr().out
