"""docs/timing.md: the run worked by hand, and the napkin's figures, computed anew."""

from __future__ import annotations

import re

import pytest

from engine.bill.account import account
from engine.bill.prices import Kind, example
from engine.napkin.figures import variants
from engine.napkin.library import Library
from engine.napkin.notation import EXAMPLE, parse
from engine.records.figure import Figure
from engine.records.thinking import ThinkingSettings
from tests.fakes import SMOLLM2, case_36, view
from tests.folders import ROOT

PAGE = (ROOT / "docs" / "timing.md").read_text("utf-8")
_UNITS = {"ms": 1.0, "B": 1.0, "": 1.0, "%": 0.01, "×": 1.0}


def stated() -> dict[str, float]:
    """The figures of the run by hand: name -> what the page says it is."""
    table = PAGE.split("### One run by hand")[1].split("\n\n")[2]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.splitlines()[2:]]
    found = {}
    for name, _, text in rows:
        number = re.match(r"([\d,.]+)\s*(\D*)$", text)
        assert number is not None, text
        found[name] = float(number[1].replace(",", "")) * _UNITS[number[2].strip()]
    return found


def test_the_run_by_hand_is_what_the_program_computes() -> None:
    run = view(*case_36())
    log = run.log
    found = account(SMOLLM2, log.prompt, log.prefill, run.path, {}, ThinkingSettings(), example())
    prompt, output = found.bill.line(Kind.PROMPT), found.bill.line(Kind.OUTPUT)
    assert prompt is not None
    assert output is not None
    context = [part.value for part in found.answers[2].parts if isinstance(part, Figure)]
    ratio = [part.value for part in found.answers[0].parts if isinstance(part, Figure)][2]
    said = stated()
    assert said == {
        "prompt, time": prompt.time.value,
        "output, time": output.time.value,
        "prompt, moved": prompt.moved.value,
        "output, moved": output.moved.value,
        "price": pytest.approx(found.bill.total.price.value),
        "output over prompt": pytest.approx(ratio),
        "K and V of a step": pytest.approx(context[2], rel=0.01),
        "1,000 positions more": pytest.approx(context[4], rel=0.001),
    }


def test_the_napkins_figures_are_those_of_the_page() -> None:
    library = Library.load()
    mha = variants(*parse("70B 80 layers 8192 wide mha 16bit", library))[0].figures
    gqa = variants(*parse(EXAMPLE, library))[0].figures
    assert f"{mha[1].value:,.0f} B a token" in PAGE
    assert f"{(mha[2].value or 0) / 1e9:.0f} GB at 128K" in PAGE
    assert f"{gqa[1].value:,.0f} B\nand {(gqa[2].value or 0) / 1e9:.1f} GB" in PAGE
    assert f"= {gqa[3].value:.1f} tokens a second" in PAGE
    assert EXAMPLE in PAGE
