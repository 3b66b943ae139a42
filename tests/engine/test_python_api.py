"""The engine from a script: the page's own example runs, and objects show what they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import engine
from engine.backends.base import Backend, BackendError
from engine.backends.scripted import ScriptedBackend
from engine.run.stepper import Stepper
from tests.folders import ROOT

PAGE = ROOT / "docs" / "python-api.md"
WORDS = ("The capital of France is", " Paris", " Lyon", ",", " a", " city")


def example() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return str(code)


def scripted(*_: Any, **__: Any) -> Backend:
    """After any text: Paris with one half, Lyon with one quarter, the rest in equal parts."""
    probs = np.array([1, 32, 16, 5, 5, 5]) / 64
    return ScriptedBackend(lambda ids: np.log(probs), WORDS)


def test_the_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.api.open_model", scripted)
    names: dict[str, Any] = {}
    exec(compile(example(), str(PAGE), "exec"), names)
    stepper = names["stepper"]
    assert isinstance(stepper, Stepper)
    first = stepper.path(1)
    assert first[0].token.bytes in [word.encode() for word in WORDS]
    out = capsys.readouterr().out
    assert "Stepper(model='scripted'" in out
    assert out.rstrip().endswith('breakpoint 1: prob(" Paris") > 0.01')


@pytest.mark.model
def test_the_example_runs_on_the_real_model(
    default_model_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from engine.api import open_model

    def opened(dtype: str = "auto") -> Backend:
        return open_model(str(default_model_dir), "float16")

    monkeypatch.setattr("engine.api.open_model", opened)
    names: dict[str, Any] = {}
    exec(compile(example(), str(PAGE), "exec"), names)
    assert " Paris" in capsys.readouterr().out
    assert len(names["stepper"].nodes) >= 3


def test_names_are_fetched_when_asked_for() -> None:
    assert engine.Stepper is Stepper
    assert set(engine.__all__) <= set(dir(engine))
    for name in engine.__all__:
        assert getattr(engine, name).__module__.startswith("engine.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = engine.nothing


def test_an_unknown_option_of_a_model_is_named() -> None:
    with pytest.raises(BackendError, match="unknown option 'devise'"):
        engine.open_model("m", devise="cpu")


def test_records_and_steppers_show_themselves() -> None:
    settings = engine.effective("guide", {"temperature": 1.0, "top_k": 2, "top_p": 1.0})
    stepper = Stepper(scripted(), settings, seed=3)
    stepper.submit(WORDS[0])
    record = stepper.step(force=1)
    assert repr(record).startswith(
        "StepRecord(node=1, parent=0, position=1, token=' Paris', token_id=1, how='forced', rank=1, "
        "raw_logprob=-0.6931, final_prob=0.6667, "
    )
    assert "survivors={'temperature': 6, 'top_k': 2, 'top_p': 2}" in repr(record)
    assert repr(stepper).startswith(
        "Stepper(model='scripted', dtype='float32', prompt='The capital of France is', "
        "text=' Paris', cursor=1, nodes=1, "
    )
    console = Console(width=60, color_system=None)
    with console.capture() as caught:
        console.print(stepper, record)
    assert "    text=' Paris',\n" in caught.get()
    assert "    rank=1,\n" in caught.get()
