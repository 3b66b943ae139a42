"""The keys as they are now: the bindings of the screen, the app and the panes, as rebound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from textual.app import App
from textual.binding import Binding, BindingsMap, BindingType


@dataclass(frozen=True, slots=True)
class LiveKey:
    """One thing that keys do, and the keys that do it."""

    id: str
    keys: tuple[str, ...]
    """Their names on screen."""
    name: str
    what: str = ""


def normalized(keymap: Mapping[str, str]) -> dict[str, str]:
    """The keymap with the names that Textual gives to keys, in place of their characters."""
    return {
        name: ",".join(one.key for one in Binding.make_bindings([Binding(keys, "")]))
        for name, keys in keymap.items()
    }


def live_keys(
    app: App[object], groups: Iterable[Iterable[BindingType]], keymap: Mapping[str, str]
) -> dict[str, LiveKey]:
    """The keys by id. Each group is the bindings of one widget; only within one can they clash."""
    found: dict[str, LiveKey] = {}
    for group in groups:
        bindings = BindingsMap(group)
        bindings.apply_keymap(normalized(keymap))
        for _, binding in bindings:
            if binding.id is None or not binding.description:
                continue
            before = found.get(binding.id)
            # A sign of its own stands for all keys of a binding.
            shown = app.get_key_display(binding)
            keys = before.keys if before is not None else ()
            if shown not in keys:
                keys = (*keys, shown)
            found[binding.id] = LiveKey(binding.id, keys, binding.description, binding.tooltip)
    return found
