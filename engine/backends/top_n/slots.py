"""Choice of the place in an engine's cache that reads a text: the one that has to read least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.kv.prefix import common_ids

_OLDER = 0.25
"""Worth of a position that an older text would lose, where one of the last text's is worth 1."""


@dataclass(slots=True, eq=False)
class Slot:
    """One text in the engine's cache. ``ids`` is what was read there, as far as we know."""

    number: int
    ids: list[int] = field(default_factory=list)
    used: int = 0


class Slots:
    """The texts that an engine keeps side by side, each behind a number.

    A text that parts from one in a slot takes that slot only where less is lost there than another
    one would have to read: so a step back and a new draw stay where they are, and a fork far up
    goes to a slot of its own and leaves the long branch as it is.
    """

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(max(1, count))]
        self._clock = 0

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def longest(self, ids: Sequence[int]) -> int:
        """Number of leading ``ids`` that some slot holds."""
        return max(common_ids(slot.ids, ids) for slot in self._slots)

    def pick(self, ids: Sequence[int]) -> tuple[Slot, int]:
        """The slot that should read ``ids``, and how many of them it holds."""
        found = [(slot, common_ids(slot.ids, ids)) for slot in self._slots]

        def cost(one: tuple[Slot, int]) -> tuple[float, int]:
            slot, common = one
            lost = len(slot.ids) - common
            # The text that was read last is the likeliest to be gone on with.
            worth = 1.0 if slot.used == self._clock else _OLDER
            return (len(ids) - common) + lost * worth, slot.used

        return min(found, key=cost)

    def at(self, number: int) -> Slot:
        """The slot of that number; raises IndexError where there is none."""
        return self._slots[number]

    def read(self, slot: Slot, ids: Sequence[int]) -> None:
        """Note that ``slot`` holds exactly ``ids`` now."""
        self._clock += 1
        slot.used = self._clock
        common = common_ids(slot.ids, ids)
        del slot.ids[common:]
        slot.ids.extend(ids[common:])

    def lose(self, slot: Slot) -> None:
        """Note that nobody knows what ``slot`` holds, as after a failed request."""
        slot.ids.clear()

    def clear(self) -> None:
        for slot in self._slots:
            slot.ids.clear()
