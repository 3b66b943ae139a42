"""The command palette: everything a key can do can be found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider


class KeyCommands(Provider):
    """One entry for each binding that the screen and the app offer."""

    def _entries(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        seen = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.description or binding.action in seen:
                continue
            seen.add(binding.action)
            run = partial(self.app.run_action, binding.action, active.node)
            key = self.app.get_key_display(binding)
            yield f"{binding.description}  ({key})", active.tooltip or binding.tooltip, run

    async def discover(self) -> Hits:
        for name, help_text, run in self._entries():
            yield DiscoveryHit(name, run, help=help_text or None)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, help_text, run in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=help_text or None)
