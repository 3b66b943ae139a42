"""The command palette: everything a key can do can be found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content


class KeyCommands(Provider):
    """One entry for each binding that the screen and the app offer; dim what cannot be done now."""

    def _entries(self) -> Iterator[tuple[str, str, str, Callable[[], Any]]]:
        """(name, style, help, what runs it)."""
        seen = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.description or binding.action in seen:
                continue
            seen.add(binding.action)
            run = partial(self.app.run_action, binding.action, active.node)
            name = f"{binding.description}  ({self.app.get_key_display(binding)})"
            told = active.tooltip or binding.tooltip
            yield (
                (name, "", told, run) if active.enabled else (name, "dim", f"not now: {told}", run)
            )

    async def discover(self) -> Hits:
        for name, style, told, run in self._entries():
            yield DiscoveryHit(Content.styled(name, style), run, name, told or None)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, style, told, run in self._entries():
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name).stylize(style), run, name, told or None)
