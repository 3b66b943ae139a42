"""What is measured on demand is said where it was asked for."""

from __future__ import annotations

from inspector.draw.numbers import ms
from tests.inspector.actions.test_saving import notes
from tests.inspector.test_app import app, press


async def test_f7_the_cost_without_a_cache_is_said_in_a_line() -> None:
    """F7: at 80x24 the gauges, which draw it, are not to be seen."""
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "n", "C")
        curves = one.controller.log.curves
        assert curves is not None
        on, off = curves.with_ms[-1], curves.without_ms[-1]
        first, said = notes(one)
        assert first == "timing this branch with a cache and without"
        assert said.startswith(
            f"a token at {curves.lengths[-1]} positions: {ms(on)} • with the cache, "
            f"{ms(off)} • without"
        )
        await press(pilot, "n", "C")
        assert len(notes(one)) == 4, "asked again, it is said again"
