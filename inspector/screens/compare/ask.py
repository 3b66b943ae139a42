"""The dialog that asks for one more column's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from textual.content import Content

from engine.commands import Settings
from engine.sampling.chain import DEFAULT_PRESET, SpecError, effective
from engine.text import visible
from inspector.screens.dialog import Ask
from inspector.state.request import MAX_SEED

_WORD = re.compile(r"(?:^|\s)(preset|seed)=(\S+)(?=\s|$)")
HINT = "such as temperature=1.2 top_p=0.9, or an order with >; also preset=hf, seed=3"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column to add; ``title`` is what was typed."""

    settings: Settings
    seed: int | None
    title: str


def understand(text: str) -> Wanted:
    """Settings in writing. Raises ValueError, which says what is wrong."""
    named = dict(_WORD.findall(text))
    spec = " ".join(_WORD.sub(" ", text).split())
    preset = named.get("preset", DEFAULT_PRESET)
    try:
        effective(preset, {}, spec=spec)
    except SpecError as error:
        raise ValueError(str(error)) from None
    seed = None
    if "seed" in named:
        if not named["seed"].isdecimal() or int(named["seed"]) > MAX_SEED:
            raise ValueError(f"seed is a whole number from 0 to {MAX_SEED:,}")
        seed = int(named["seed"])
    return Wanted(Settings(preset, spec=spec), seed, " ".join(text.split()))


class AskColumn(Ask[Wanted]):
    """Asks for the settings of one more column."""

    OK = "Add"

    def __init__(self, value: str = "") -> None:
        super().__init__(Content("One more column"), value, HINT)

    def understand(self, text: str) -> Wanted:
        return understand(text)

    def remark(self, answer: Wanted) -> Content:
        settings = answer.settings
        chain = effective(settings.preset, {}, spec=settings.spec).spec
        seed = "" if answer.seed is None else f", seed {answer.seed}"
        return Content.styled(f"{settings.preset}: {visible(chain)}{seed}", "$title")
