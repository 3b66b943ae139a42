"""The dialog that asks for one more column's settings."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from engine.commands import Settings
from engine.sampling.chain import DEFAULT_PRESET, effective
from engine.text import visible
from inspector.screens.dialog import Ask
from inspector.state.column_words import NO_DRAFT, column_words

HINT = "such as temperature=1.2 top_p=0.9, or an order with >; also preset=hf seed=3 draft=ngram:3"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column to add; ``title`` is what was typed."""

    settings: Settings
    seed: int | None
    title: str


def understand(text: str) -> Wanted:
    """Settings in writing. Raises ValueError, which says what is wrong."""
    words = column_words(text)
    preset = words.preset or DEFAULT_PRESET
    effective(preset, {}, spec=words.spec)
    settings = Settings(preset, spec=words.spec, draft=words.draft)
    return Wanted(settings, words.seed, " ".join(text.split()))


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
        draft = settings.draft
        drafts = "" if draft is None else f", drafts: {visible(draft.source) or NO_DRAFT}"
        return Content.styled(f"{settings.preset}: {visible(chain)}{seed}{drafts}", "$title")
