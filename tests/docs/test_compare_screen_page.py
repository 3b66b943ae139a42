"""The page of the compare screen: its worked example is what the code finds, and its keys are the screen's."""

from __future__ import annotations

import math
import re

import pytest

from inspector.screens.compare.keys import KEYS
from sessions.compare.why_part import why_part
from tests.folders import ROOT
from tests.sessions.test_why_part import first

PAGE = (ROOT / "docs" / "compare-screen.md").read_text("utf-8")
TWO, THREE = "temperature=1 top_k=2 top_p=1", "temperature=1 top_k=3 top_p=1"


def test_the_worked_example_is_what_the_code_finds() -> None:
    found = why_part(first(TWO, u=0.6), first(THREE, u=0.6))
    assert f"{found.kl.low:.4f} nats; KL(B‖A) is infinite" in PAGE
    assert why_part(first(THREE), first(TWO)).kl.low == math.inf
    assert f"3/21) = {found.total_variation:.4f}" in PAGE
    assert found.stage is not None
    assert (found.stage.stage, found.stage.a, found.stage.b) == ("top_k", 2, 3)
    assert (found.a.bytes, found.b.bytes) == (b"a", b"b")
    both = why_part(first(TWO, u=0.1), first(THREE, u=0.1))
    assert (both.a.bytes, both.b.bytes) == (b"a", b"a")
    rows = dict(re.findall(r"^\| ([abcd]) \| (.*) \|$", PAGE, re.MULTILINE))
    for row, token in enumerate("abcd"):
        model, a, b = rows[token].split(" | ")
        for text, spec, level in ((model, TWO, 0), (a, TWO, -1), (b, THREE, -1)):
            probability = float(first(spec).top.probs[level][row])
            assert text == ("cut" if probability == 0.0 else f"{probability:.4f}")


@pytest.mark.parametrize("binding", KEYS, ids=lambda one: str(one.id))
def test_every_key_of_the_screen_is_on_the_page(binding: object) -> None:
    key = str(binding.key).split(",")[0]  # type: ignore[attr-defined]
    if key in ("shift+tab", "ctrl+c") or key in "2345678":
        return
    assert f"`{key}`" in PAGE
