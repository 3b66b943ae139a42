"""The command palette: everything a key can do can be found by name, or by what people call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from textual.binding import ActiveBinding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from inspector.help_text import MOVES, SYNONYMS, TOPICS

_ORDER = {name: at for at, name in enumerate(one for topic in TOPICS for one in topic.ids)}
_WORD, _PREFIX = 2.0, 1.5
"""Scores of a synonym, whole or begun: above what Textual gives to scattered letters."""


def _place(active: ActiveBinding) -> tuple[bool, int]:
    """Actions before movements, and then as in the help."""
    name = active.binding.id or ""
    moves = name in MOVES or name.startswith(("pane-", "pane."))
    return moves, _ORDER.get(name, len(_ORDER))


def synonym_score(name: str, query: str) -> float:
    """Score of ``query`` among the words that people use for a key; 0 if it is none."""
    wanted, words = query.casefold().strip(), SYNONYMS.get(name, "").split()
    if wanted in words:
        return _WORD
    return _PREFIX if wanted and any(word.startswith(wanted) for word in words) else 0.0


class KeyCommands(Provider):
    """One entry for each binding that the screen and the app offer; dim what cannot be done now."""

    def _entries(self) -> Iterator[tuple[str, str, str, str, Callable[[], Any]]]:
        """(id, name, style, help, what runs it)."""
        found: dict[str, ActiveBinding] = {}
        for active in self.screen.active_bindings.values():
            # Those without an id are Textual's own.
            if active.binding.description and active.binding.id:
                found.setdefault(active.binding.id, active)
        for active in sorted(found.values(), key=_place):
            binding = active.binding
            run = partial(self.app.run_action, binding.action, active.node)
            name = f"{binding.description}  ({self.app.get_key_display(binding)})"
            told = active.tooltip or binding.tooltip
            style, told = ("", told) if active.enabled else ("dim", f"not now: {told}")
            yield binding.id or "", name, style, told, run

    async def discover(self) -> Hits:
        for _, name, style, told, run in self._entries():
            yield DiscoveryHit(Content.styled(name, style), run, name, told or None)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key, name, style, told, run in self._entries():
            score, synonym = matcher.match(name), synonym_score(key, query)
            if score > 0 or synonym > 0:
                shown = matcher.highlight(name) if score > 0 else Content(name)
                yield Hit(max(score, synonym), shown.stylize(style), run, name, told or None)
