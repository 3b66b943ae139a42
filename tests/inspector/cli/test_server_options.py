"""Options for engines that run as a server, from the command line to the request that leaves."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engine.commands import Open
from inspector.cli.engine_log import engine_log
from inspector.cli.main import main
from inspector.cli.server_options import with_slots
from inspector.exit_codes import EXIT_ENGINE, EXIT_OK, EXIT_USAGE
from tests.fake_servers import FakeLlama, FakeVllm
from tests.hostile import MARKER, acting
from tests.http_server import Asked, reply, serving

KEY = "sk-secret-4711"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "vllm"], "say where it is by --url"),
        (["--engine", "openai"], "say where it is by --url"),
        (["--engine", "vllm", "--url", "localhost:8000"], "is not an address"),
        (["--engine", "vllm", "--url", "http://me:pw@h"], "--api-key-env NAME"),
        (["--engine", "hf", "--url", "http://h"], "--url: no option of the engine hf"),
        (["--engine", "vllm", "--url", "http://h", "--api-key-env", KEY], "not a key"),
        (["--engine", "vllm", "--url", "http://h", "--timeout", "0"], "must lie in 1 .. 86,400"),
        (["--engine", "vllm", "--url", "http://h", "--device", "cpu"], "--device: no option"),
    ],
)
def test_options_that_mean_nothing(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "x", *options]) == EXIT_USAGE
    line = capsys.readouterr().err
    assert said in line
    assert len(line.splitlines()) == 1
    assert KEY not in line
    assert "pw" not in line


def test_a_run_against_a_server_keeps_its_key_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Sent with each request; not in the session, the log or what is printed."""
    monkeypatch.setenv("SECRET", KEY)
    saved = tmp_path / "run.llmi"
    with serving(FakeLlama()) as server:
        options = ["--engine", "llamacpp", "--url", server.url, "--api-key-env", "SECRET"]
        words = ["run", " w1 w2", *options, "--max-tokens", "3", "--save", str(saved)]
        assert main([*words, "--format", "jsonl", "--temperature", "0"]) == EXIT_OK
        asked = {one.headers.get("authorization") for one in server.asked}
    assert asked == {f"Bearer {KEY}"}
    shown = capfd.readouterr()
    assert KEY not in shown.out + shown.err + engine_log().read_text("utf-8", "replace")
    assert KEY.encode() not in saved.read_bytes()
    with sqlite3.connect(saved) as database:
        kept = "".join(database.iterdump())
    database.close()
    assert KEY not in kept
    assert "words.gguf" in kept
    assert "b1-fake" in kept


def test_a_server_that_fails_in_the_middle(capfd: pytest.CaptureFixture[str]) -> None:
    fake = FakeVllm()

    def fails(asked: Asked) -> bytes | None:
        if asked.path != "/v1/completions" or len(asked.body["prompt"]) <= 3:
            return None
        return reply({"error": {"message": MARKER}}, 429, Retry_After="9")

    with serving(fake) as server:
        fake.override = fails
        options = ["--engine", "vllm", "--url", server.url, "--temperature", "0"]
        assert main(["run", " w1 w2", *options, "--max-tokens", "8"]) == EXIT_ENGINE
    shown = capfd.readouterr()
    assert shown.out.count(" w") == 2
    assert "429, too many requests; it asks to wait 9 s" in shown.err
    assert acting(shown.err) == ""


def test_doctor_says_what_a_server_can(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(FakeVllm(metrics=False)) as server:
        assert main(["doctor", "--engine", "vllm", "--url", server.url]) == EXIT_OK
    lines = capfd.readouterr().out.splitlines()
    assert any(line.split()[:1] == ["candidates"] and "any number" in line for line in lines)
    assert len([line for line in lines if "metrics" in line]) == 1, "once"
    assert any("more on demand" in line for line in lines)
    assert any("metrics" in line and "n/a (it has no /metrics)" in line for line in lines)


def test_a_servers_machine_is_not_benched(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(FakeVllm()) as server:
        assert main(["bench", "--engine", "vllm", "--url", server.url]) == EXIT_ENGINE
    assert "a server's cannot be measured from here" in capfd.readouterr().err


def test_columns_have_a_place_each_in_a_llama_cpp_of_our_own() -> None:
    def slots(columns: int, backend: str = "llamacpp", **options: object) -> object:
        return with_slots(Open(backend, options), columns).options.get("slots")

    assert [slots(count) for count in (1, 2, 3, 16, 64)] == [2, 2, 3, 16, 16]
    assert slots(5, slots=3) == 3, "as was asked for"
    assert slots(5, url="http://h") is None, "a server has its own"
    assert slots(5, "hf") is None
