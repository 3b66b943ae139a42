"""Room in an engine's cache that grows with the texts that are kept there side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from engine.backends.top_n.slots import Slots
from engine.kv.prefix import common_ids

_STEP = 256
"""Positions by which room is counted."""


@runtime_checkable
class Growing(Protocol):
    """A completer that begins with little room, and can make more."""

    room: int
    """Positions that its cache holds, of all slots together; ``most`` it can be made to hold."""
    most: int
    spare: int
    """Tokens that a run writes, as far as is known: room is made for so many more."""

    def grow(self, positions: int) -> None:
        """Make the cache hold that many; what it held is lost. Raises BackendError."""


def whole_steps(positions: int) -> int:
    """So many positions or a few more, as room is counted."""
    return -(-positions // _STEP) * _STEP


def more_room(engine: Growing, slots: Slots, ids: Sequence[int], length: int) -> int | None:
    """Room that is to be made before a text that begins with ``ids`` and has ``length`` is read.

    None where there is enough for it, beside its branches in the other slots. A text of which
    nothing is held gets room for the tokens of a run as well: to grow costs least right then.
    """
    slot, held = slots.pick(ids)
    others = (one.ids for one in slots if one is not slot)
    needed = length + sum(len(one) for one in others if common_ids(one, ids))
    wanted = min(whole_steps(needed + engine.spare), engine.most)
    enough = wanted if not held else min(needed, engine.most)
    return None if enough <= engine.room else wanted


def room_of(engine: Growing, texts: Sequence[Sequence[int]]) -> int | None:
    """Room that is to be made before these are read side by side; None where there is enough."""
    needed = sum(len(one) + 1 for one in texts)
    wanted = min(whole_steps(needed + len(texts) * engine.spare), engine.most)
    return None if min(needed, engine.most) <= engine.room else wanted
