"""The default model, end to end: the engine, the command line and the promises of both."""

from __future__ import annotations

import codecs
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launcher import Launcher

pytestmark = pytest.mark.model

PROMPT = "The capital of France is"
GREEDY = ("--temperature", "0", "--max-tokens", "8")


def read(output: str) -> list[dict[str, Any]]:
    # Strict: a NaN or an Infinity would raise here.
    return [json.loads(line, parse_constant=pytest.fail) for line in output.splitlines()]


def run(launcher: Launcher, folder: Path, *words: str) -> list[dict[str, Any]]:
    """The JSON lines of ``llm-inspect run``."""
    done = launcher.run("run", "--format", "jsonl", "--model", str(folder), *words)
    assert done.returncode == 0, done.stderr
    return read(done.stdout)


def steps(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == "step"]


def ids(lines: list[dict[str, Any]]) -> list[int]:
    return [line["token_id"] for line in steps(lines)]


@pytest.fixture(scope="module")
def greedy(default_model_dir: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "inspector", "run", "--format", "jsonl", "--dtype", "float16"]
    done = subprocess.run(
        [*command, "--model", str(default_model_dir), PROMPT, *GREEDY],
        capture_output=True,
        check=True,
        text=True,
    )
    return read(done.stdout)


def test_greedy_equals_generate(default_model_dir: Path, greedy: list[dict[str, Any]]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model_dir)
    model = AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=torch.float16)
    given = tokenizer(PROMPT, return_tensors="pt")
    output = model.generate(**given, do_sample=False, max_new_tokens=8)
    assert greedy[0]["prompt_ids"] == given["input_ids"][0].tolist()
    assert ids(greedy) == output[0, given["input_ids"].shape[1] :].tolist()


def test_the_text_holds_paris_and_the_lines_keep_the_contract(
    greedy: list[dict[str, Any]],
) -> None:
    first, *middle, last = greedy
    assert "Paris" in "".join(line["text"] for line in middle)
    assert (first["type"], first["schema"]) == ("run", 1)
    assert {line["type"] for line in middle} == {"step"}
    assert (last["type"], last["reason"]) == ("end", "length")
    assert last["ttft_ms"] > 0
    assert last["tps"] > 0
    assert first["settings"]["temperature"] == {"value": 0.0, "source": "flag"}
    for number, line in enumerate(middle):
        assert line["position"] == len(first["prompt_ids"]) + number
        assert line["parent"] == line["node"] - 1
        assert line["u"] is None
        assert line["u_reason"]
        assert line["rank"] == 1
        assert any(row["id"] == line["token_id"] for row in line["top"])
        assert line["kv"]["cached"] + line["kv"]["computed"] == line["kv"]["seen"]


def test_the_cache_is_what_its_tensors_weigh(greedy: list[dict[str, Any]]) -> None:
    """Case 25: 2 x 30 layers x 3 K/V heads x 64 x 2 bytes = 23,040 bytes a position in fp16."""
    for line in steps(greedy):
        assert line["kv"]["bytes"] == 23_040 * line["kv"]["seen"]


def test_the_same_seed_gives_the_same_ids(launcher: Launcher, default_model_dir: Path) -> None:
    words = ("Once upon a time", "--temperature", "1", "--max-tokens", "12", "--dtype", "float16")
    first = run(launcher, default_model_dir, *words, "--seed", "3")
    assert ids(run(launcher, default_model_dir, *words, "--seed", "3")) == ids(first)
    assert ids(run(launcher, default_model_dir, *words, "--seed", "4")) != ids(first)


@pytest.mark.parametrize(
    "prompt",
    [
        "I am so happy 😊😊",
        "日本の首都は",
        "a [/b] tag, \x1b[2J and \u202eeno",
        "e\u0301\u200b👩‍💻",
    ],
)
def test_bytes_decode_to_exactly_the_text(
    launcher: Launcher, default_model_dir: Path, prompt: str
) -> None:
    words = ("--temperature", "1.3", "--max-tokens", "16", "--dtype", "float16")
    lines = run(launcher, default_model_dir, prompt, *words)
    assert b"".join(bytes.fromhex(one) for one in lines[0]["prompt_bytes"]).decode() == prompt
    data = b"".join(bytes.fromhex(line["token_bytes"]) for line in steps(lines))
    text = "".join(line["text"] for line in steps(lines))
    # What is left open at the end is not text yet.
    assert text == codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def test_text_output_is_the_text_alone(launcher: Launcher, default_model_dir: Path) -> None:
    model = ("--model", str(default_model_dir), "--dtype", "float16")
    done = launcher.run("run", *model, PROMPT, *GREEDY)
    assert done.returncode == 0
    assert done.stdout.startswith(" Paris")
    assert "tokens/s" in done.stderr


def test_chat_shows_what_the_template_adds(launcher: Launcher, default_model_dir: Path) -> None:
    """Case 17: SmolLM2's template makes 31 ids of a bare "hi", and none of them twice a BOS."""
    lines = run(
        launcher, default_model_dir, "hi", "--chat", "--max-tokens", "1", "--dtype", "float16"
    )
    assert len(lines[0]["prompt_ids"]) == 31
    assert lines[0]["prompt_ids"][:2] != [1, 1]
    assert any("system" in note for note in lines[0]["notes"])


def test_a_prompt_longer_than_the_context_is_one_line(
    launcher: Launcher, default_model_dir: Path
) -> None:
    model = ("--model", str(default_model_dir), "--dtype", "float16")
    done = launcher.run("run", *model, "-", given="word " * 9000)
    assert done.returncode == 3
    line = done.stderr.splitlines()[-1]
    assert line.startswith("llm-inspect: the prompt is 9,001 tokens")
    assert "holds 8,192" in line


def test_doctor_says_how_the_dtype_was_chosen(launcher: Launcher, default_model_dir: Path) -> None:
    done = launcher.run("doctor", "--model", str(default_model_dir))
    assert done.returncode == 0
    for dtype in ("float32", "float16", "bfloat16"):
        assert f"\n  {dtype}" in done.stdout
    assert re.search(
        r"\ndtype +(float32|float16|bfloat16): [\d.]+ ms a decode step \(.*\), measured",
        done.stdout,
    )
    assert "LlamaForCausalLM: 30 layers, 9 query heads, 3 K/V heads of 64" in done.stdout
