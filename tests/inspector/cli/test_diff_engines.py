"""One text through two engines: how far apart they are, token by token."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.run.prompt import prompt_of_text
from inspector.cli.diff_engines import UnlikeError, add_options, check_prompts, engine_commands
from inspector.cli.main import main
from inspector.cli.options import add_prompt_options
from inspector.exit_codes import EXIT_OK, EXIT_USAGE
from tests.fake_servers import FakeLlama, FakeVllm, logprobs_of, some_words
from tests.http_server import serving
from tests.top_backend import TOKENS, words


def rounded(ids: Any) -> FloatArray:
    """The words' logits to the next quarter, as a quantised model may have them."""
    return np.round(words(ids) * 4) / np.float32(4)


def compared(capfd: pytest.CaptureFixture[str], *options: str, code: int = EXIT_OK) -> Any:
    """``diff-engines --format json`` of two servers."""
    assert main(["diff-engines", " w1 w2", "--format", "json", *options]) == code
    return json.loads(capfd.readouterr().out)


def kl(p: FloatArray, q: FloatArray) -> float:
    return float((np.exp(p.astype(np.float64)) * (p.astype(np.float64) - q)).sum())


def test_exact_figures_of_two_engines(capfd: pytest.CaptureFixture[str]) -> None:
    other = FakeVllm(inner=ScriptedBackend(rounded, TOKENS))
    with serving(FakeLlama(inner=ScriptedBackend(words, TOKENS))) as one, serving(other) as two:
        first = ["--engine", "llamacpp", "--url", one.url, "--max-tokens", "6"]
        found = compared(capfd, *first, "--engine", "vllm", "--url", two.url)
    assert (found["a"]["engine"], found["b"]["engine"]) == ("llamacpp", "vllm")
    assert found["exact"]
    assert found["tokens"] == len(found["positions"]) == 6
    ids, flips = [1, 2], 0
    for pair in found["positions"]:
        p, q = logprobs_of(words(ids)), logprobs_of(rounded(ids))
        assert pair["token_id"] == int(p.argmax()) == pair["top_a"]
        assert pair["top_b"] == int(q.argmax())
        flips += pair["top_a"] != pair["top_b"]
        assert pair["kl"]["low"] == pair["kl"]["high"] == pytest.approx(kl(p, q), abs=1e-5)
        assert pair["prob_a"] == pytest.approx(math.exp(p.max()), abs=1e-5)
        ids.append(pair["token_id"])
    assert found["flips"] == flips


def test_two_files_on_one_engine() -> None:
    """What stands before the first --engine counts for both, what follows one for that one."""

    def parser() -> argparse.ArgumentParser:
        found = argparse.ArgumentParser()
        found.add_argument("--config")
        add_prompt_options(found)
        add_options(found)
        return found

    words = ["x", "--threads", "1", "--engine", "llamacpp", "--model", "a.f16.gguf"]
    words += ["--engine", "llamacpp", "--model", "a.Q4_1.gguf", "--max-tokens", "7"]
    args, opens = engine_commands(words, parser)
    assert args.max_tokens == 7
    assert [one.backend for one in opens] == ["llamacpp", "llamacpp"]
    assert [one.options["model"] for one in opens] == ["a.f16.gguf", "a.Q4_1.gguf"]
    assert [one.options["threads"] for one in opens] == [1, 1]


def test_whole_vocabularies_that_are_too_many_are_refused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with serving(FakeLlama()) as one:
        engine = ["--engine", "llamacpp", "--url", one.url]
        told = ["diff-engines", " w1", "--max-tokens", "1000000", *engine, *engine]
        assert main(told) == EXIT_USAGE
    assert "more than 1 GiB: fewer --max-tokens, or --no-exact" in capfd.readouterr().err


def test_other_tokens_of_the_prompt_are_said() -> None:
    letters = ScriptedBackend(words, [*"w1 2", *TOKENS[4:]])
    one = prompt_of_text(some_words(), " w1 w2")
    check_prompts(one, one)
    with pytest.raises(UnlikeError, match=r"other tokens: at position 0 \" w1\" \(id 1\) and"):
        check_prompts(one, prompt_of_text(letters, " w1 w2"))
    with pytest.raises(UnlikeError, match="as 2 and 3 tokens"):
        check_prompts(one, prompt_of_text(some_words(), " w1 w2 w3"))


@pytest.mark.parametrize("given", [[], ["--engine", "hf"], ["--engine=hf"] * 3])
def test_two_engines_it_takes(given: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["diff-engines", "x", *given]) == EXIT_USAGE
    assert "takes two engines" in capfd.readouterr().err
