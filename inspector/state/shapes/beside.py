"""The ready requests on an engine of their own, in a thread beside the screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from engine.bill.prices import PriceList
from engine.commands import Open
from inspector.state.answers import Answers, EngineFailedError
from inspector.state.client import Client
from inspector.state.shapes.carry_out import Carried, Sizes, carry_out

_FRAME_S = 1 / 4


class _Unseen:
    """Progress that is shown nowhere: the screen has it from ``tell``."""

    live = True

    def show(self, phase: str, fraction: float | None, detail: str) -> None: ...
    def clear(self) -> None: ...


def begin_beside(
    client: Client,
    command: Open,
    sizes: Sizes,
    prices: PriceList,
    tell: Callable[[Carried], object],
) -> Callable[[], None]:
    """Begin to carry them out; ``tell`` is called in the thread. Gives what ends them.

    The client is closed by that, in the middle of a pass if need be.
    """

    def work() -> None:
        last, shown_at = Carried(()), 0.0

        def show(told: Carried) -> None:
            nonlocal last, shown_at
            # Each drawing takes time from what is timed; the beginning of a request is always told.
            if told.now != last.now or time.monotonic() - shown_at > _FRAME_S:
                tell(told)
                shown_at = time.monotonic()
            last = told

        try:
            carry_out(Answers(client, _Unseen()), command, sizes, prices, show)
        except EngineFailedError as error:
            tell(replace(last, now="", error=str(error)))

    def end() -> None:
        client.kill()
        client.close(0.0)

    # A daemon: nothing waits for records of an engine that has been ended.
    threading.Thread(target=work, name="shapes", daemon=True).start()
    return end
