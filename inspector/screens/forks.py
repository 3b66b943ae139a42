"""The dialogs about branches: how to fork, with which dice or settings, names, and deletion."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.records.events import NAME_LENGTH
from engine.sampling.chain import Chain, SpecError, parse_spec
from engine.sampling.spec import has_order
from engine.text import visible
from inspector.keys import shown
from inspector.screens.dialog import Ask, Menu
from inspector.state.request import MAX_SEED
from inspector.state.whatif import chain_of, turned


class ForkMenu(Menu):
    """Menu of ways to branch at the cursor."""

    # fmt: off
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("r", "choose('redraw')", "Draw again", "fork.redraw", "With a new seed"),
        shown("s", "choose('seed')", "With a seed …", "fork.seed", "A seed of your own"),
        shown("t", "choose('token')", "Take a token …", "fork.token",
              "Instead of drawing: a text, or the id of a token"),
        shown("o", "choose('settings')", "Other settings …", "fork.settings",
              "The sampler's dials, for this token and all new ones"),
        shown("w", "choose('where')", "Elsewhere", "fork.where",
              "Instead of the token at the cursor, or after it"),
        shown("P", "choose('prompt')", "Another prompt …", "fork.prompt",
              "A new run, which reads again only what differs"),
    ]
    # fmt: on


class DeleteMenu(Menu):
    """Menu that asks before a branch is deleted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "choose('yes')", "Yes, delete", id="delete.yes", tooltip="u brings it back"),
        Binding("n", "close", "No", id="delete.no", show=False, tooltip="Keep it"),
    ]


class SeedAsk(Ask[int]):
    """A seed."""

    OK: ClassVar[str] = "Draw"

    def understand(self, text: str) -> int:
        wanted = text.strip()
        if not wanted.isdecimal() or int(wanted) > MAX_SEED:
            raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, not {text!r}")
        return int(wanted)


class SettingsAsk(Ask[Chain]):
    """Other settings: a whole chain with its order, or some dials to turn in the one there is."""

    OK: ClassVar[str] = "Draw"

    def __init__(self, title: Content, chain: Chain) -> None:
        super().__init__(title, chain.spec, "temperature=1.2 turns a dial; > puts stages in order")
        self._chain = chain

    def understand(self, text: str) -> Chain:
        chain = self._chain
        if not text.strip():
            raise SpecError("no dial is given: write one, such as temperature=1.2")
        if has_order(text):
            return chain_of(text, chain.preset)
        for dial, value in parse_spec(text, chain.preset)[1].items():
            chain = turned(chain, dial, value)
        return chain

    def remark(self, answer: Chain) -> Content:
        return Content.styled(f"draws with {visible(answer.spec)}", "$title")


class NameAsk(Ask[str]):
    """A name for a branch; nothing takes its name away."""

    OK: ClassVar[str] = "Name"

    def understand(self, text: str) -> str:
        name = text.strip()
        if len(name) > NAME_LENGTH:
            raise ValueError(f"a name has at most {NAME_LENGTH} characters, not {len(name)}")
        return name
