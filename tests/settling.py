"""A wait for an app that a test drives: until nothing is left to do, whatever the machine's load.

Textual's own, ``wait_for_idle``, sleeps 20 ms at least, and takes a process that used little of the
processor in that time for an idle one: so does a process that had no turn on a busy machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import textual.app
import textual.pilot
import textual.screen
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App, ScreenStackError
from textual.command import CommandPalette
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip

from inspector.background import Background

SOON_S = 0.02
"""A timer that rings within this time is waited for."""
PAINTS = 50
"""So often a screen is painted, at most, where each paint asks for the next one."""
LIMIT_S = 60.0
"""Seconds after which a test goes on with an app that never rests."""

_jobs: WeakSet[Background] = WeakSet()


async def settled(min_sleep: float = 0.0, max_sleep: float = LIMIT_S) -> None:
    """Wait until no task can go on, all is painted, and no thread looks for anything.

    The arguments of Textual's own count for nothing.
    """
    loop: Any = asyncio.get_running_loop()
    limit, paints = time.monotonic() + LIMIT_S, 0
    while time.monotonic() < limit:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        if paints < PAINTS and _painted(background=not paints):
            paints += 1
            continue
        if _searching() or not all(one.idle.is_set() for one in _jobs):
            await asyncio.sleep(0.002)
            continue
        rings = min(
            (timer.when() for timer in loop._scheduled if not timer.cancelled()), default=None
        )
        if rings is None or (wait := rings - loop.time()) > SOON_S:
            return
        await asyncio.sleep(max(wait, 0.0))


async def until(condition: Callable[[], object]) -> None:
    """Wait for what a timer or another thread brings about."""
    end = time.monotonic() + LIMIT_S
    await settled()
    while not condition():
        assert time.monotonic() < end, "it has not come about"
        await asyncio.sleep(0.01)
        await settled()


def _searching() -> bool:
    """True while the command palette looks for what was typed."""
    group = CommandPalette._GATHER_COMMANDS_GROUP
    return any(one.group == group and one.is_running for one in _app().workers)


def _app() -> App[Any]:
    return textual.app.active_app.get()


def _painted(*, background: bool) -> bool:
    """Lay out and paint what is due, as each screen's timer would; True if that was anything.

    ``background``: screens below the topmost too. What those paint makes them due again.
    """
    app = _app()
    try:
        screens = [app.screen, *app._background_screens]
    except ScreenStackError:  # at the app's end
        return False
    due = [
        screen
        for screen in screens
        if screen.is_running and _due(screen, paint=background or screen is app.screen)
    ]
    if app._batch_count or not due:
        return False
    for screen in due:
        screen._on_timer_update()
    return True


def _due(screen: Screen[Any], *, paint: bool) -> bool:
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._recompose_required
        or screen._callbacks
        or (paint and (screen._repaint_required or screen._dirty_widgets))
    )


def _drawn(
    compositor: Compositor,
    full: bool = False,
    screen_stack: list[Screen[Any]] | None = None,
    simplify: bool = False,
) -> object:
    """Have each widget that is due draw its lines. Nobody takes what a terminal would be sent.

    Textual would cut the lines of all widgets to pieces and put them together: as much work again;
    and draw the screens below a window once more, dimmed. A whole picture (``full``,
    ``render_strips``) is made as ever.
    """
    if full:
        return _render_update(compositor, full, screen_stack, simplify)
    due = compositor._dirty_regions.copy()
    compositor._dirty_regions.clear()
    if due:
        place = Region.from_union(list(due)).intersection(compositor.size.region)
        for widget, (region, clip) in compositor.visible_widgets.items():
            seen = region.intersection(clip)
            if seen and place.overlaps(clip) and not (screen_stack and widget is compositor.root):
                widget.render_lines(seen.translate(-region.offset))
    return None


def _strips(compositor: Compositor, size: Size | None = None) -> list[Strip]:
    """The whole picture, the screens below a window too, which are drawn now."""
    root: Any = compositor.root
    if root is root.app.screen:
        visible_screen_stack.set(list(root.app._background_screens))
    return _render_strips(compositor, size)


_render_update, _render_strips = Compositor.render_update, Compositor.render_strips


def install() -> None:
    """Have every test's pilot wait so, and paint then, rather than 60 times a second."""
    textual.screen.UPDATE_PERIOD = 1.0  # type: ignore[misc]
    Compositor.render_update = _drawn  # type: ignore[method-assign]
    Compositor.render_strips = _strips  # type: ignore[method-assign]
    textual.pilot.wait_for_idle = settled  # type: ignore[assignment]
    textual.app.wait_for_idle = settled  # type: ignore[assignment]
    submit = Background.submit

    def noted(background: Background, job: Any) -> None:
        _jobs.add(background)
        submit(background, job)

    Background.submit = noted  # type: ignore[method-assign]
