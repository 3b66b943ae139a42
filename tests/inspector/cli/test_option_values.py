"""The same values are refused on the command line and in config.toml, in one line (C11); a folder
that cannot be written costs a log, not the run (C6)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from inspector.cli import engine_log as engine_log_module
from inspector.cli.config import Config, ConfigError
from inspector.cli.engine_log import engine_log
from tests.folders import ROOT
from tests.inspector.cli.test_cli import refused
from themes import ThemeError, load_file

HUGE = str(2**80)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("threads", "-1", "must lie in 1 .. 1,024, not -1"),
        ("threads", "0", "must lie in 1 .. 1,024, not 0"),
        ("threads", "1000000000000", "must lie in 1 .. 1,024, not 1,000,000,000,000"),
        ("max_tokens", "-5", "must lie in 1 .. 2,147,483,647, not -5"),
        ("max_tokens", HUGE, f"must lie in 1 .. 2,147,483,647, not {2**80:,}"),
        ("prefill_chunk", "0", "must lie in 1 .. 2,147,483,647, not 0"),
        ("seed", HUGE, f"must lie in 0 .. 2^63 - 1, not {2**80:,}"),
        ("seed", "-1", "must lie in 0 .. 2^63 - 1, not -1"),
        ("block_size", "0", "must lie in 1 .. 1,024, not 0"),
        ("seed", "9" * 100, "must lie in 0 .. 2^63 - 1, not a number of that size"),
    ],
)
def test_c11_a_flag_and_the_file_refuse_the_same_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: str, fault: str
) -> None:
    flag = f"--{name.replace('_', '-')}"
    assert refused(capsys, "run", "a", flag, value).startswith(f"argument {flag}: {fault}")
    path = tmp_path / "config.toml"
    path.write_text(f"{name} = {value}\n")
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value) == f"{path}: {name} {fault}"
    assert refused(capsys, "run", "a", "--config", str(path)) == str(caught.value)


@pytest.mark.parametrize("name", ["dtype", "kv_dtype"])
def test_c11_words_are_the_same_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert "invalid choice: 'int4'" in refused(
        capsys, "run", "a", f"--{name.replace('_', '-')}", "int4"
    )
    path = tmp_path / "config.toml"
    path.write_text(f'{name} = "int4"\n')
    with pytest.raises(ConfigError, match=f"{name} must be auto or .*, not 'int4'"):
        Config.load(path)


def within(seconds: float, path: Path) -> str:
    """What loading ``path`` ends with, in time."""
    said: list[str] = []

    def load() -> None:
        try:
            said.append(str(Config.load(path)))
        except ConfigError as error:
            said.append(str(error))

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(seconds)
    assert said, "it waits"
    return said[0]


def test_c11_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert within(60, pipe) == f"{pipe}: it is a pipe, not a file"
    assert within(60, Path("/dev/zero")) == "/dev/zero: it is a device, not a file"
    assert within(60, tmp_path) == f"{tmp_path}: it is a folder, not a file"
    sparse = tmp_path / "sparse.toml"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    assert "1,048,576 is the most" in within(60, sparse)
    deep = tmp_path / "deep.toml"
    deep.write_text("a = " + "[" * 100_000 + "]" * 100_000)
    assert within(60, deep).startswith(f"{deep}: ")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"model = '\xff'")
    assert within(60, latin) == f"{latin}: byte 9 is not UTF-8"


def test_c11_a_theme_that_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    with pytest.raises(ThemeError, match="cannot be read: it is a pipe, not a file"):
        load_file(pipe)


def test_c6_without_a_log_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file where a folder belongs")
    for place in (tmp_path / "state" / "log" / "engine.log", tmp_path / "pipe"):
        if place.name == "pipe":
            os.mkfifo(place)
        monkeypatch.setattr(engine_log_module, "log_file", lambda place=place: place)
        engine_log.cache_clear()
        assert engine_log() == Path(os.devnull)
        assert engine_log() == Path(os.devnull)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"llm-inspect: the engine keeps no log: {place} cannot be written")
    engine_log.cache_clear()


def test_c6_the_log_is_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "new" / "engine.log"
    monkeypatch.setattr(engine_log_module, "log_file", lambda: place)
    engine_log.cache_clear()
    assert engine_log() == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    engine_log.cache_clear()


def test_c6_the_engine_serves_without_its_log(tmp_path: Path) -> None:
    """The process itself, told to write where it cannot, goes on and answers."""
    (tmp_path / "state").write_text("a file")
    code = (
        "from pathlib import Path; from engine.process import EngineClient\n"
        "from engine.commands import Open\n"
        "if __name__ == '__main__':\n"
        f"    client = EngineClient(Path({str(tmp_path / 'state' / 'engine.log')!r}))\n"
        "    client.start(); client.send(Open('none of these', {}))\n"
        "    records = []\n"
        "    while not any(type(one).__name__ == 'EngineError' for one in records):\n"
        "        records += client.take(120)\n"
        "    print([one.message for one in records if hasattr(one, 'message')])\n"
        "    client.close()\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "none of these" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
