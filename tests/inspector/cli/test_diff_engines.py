"""One text through two engines: how far apart they are, token by token."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.run.prompt import prompt_of_text
from inspector.cli.diff_engines import UnlikeError, check_prompts
from inspector.cli.main import main
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
        first = ["--engine", "llamacpp", "--url", one.url, "--tokens", "6"]
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
