"""The sampler reference is what the registry says."""

from __future__ import annotations

from docs.pages.samplers import page
from engine.sampling.presets import PRESETS
from engine.sampling.stages import DIALS, STAGES
from tests.folders import ROOT

PAGE = ROOT / "docs" / "samplers.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == page(), (
        "run: python -m docs.pages.samplers > docs/samplers.md"
    )


def test_every_stage_dial_and_preset_is_on_it():
    text = page()
    for name in (*STAGES, *PRESETS, "processor"):
        assert f"### {name}\n" in text
    for name in DIALS:
        assert f"| `{name}` |" in text
