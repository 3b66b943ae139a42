"""The ready requests on this run's model, on an engine of their own beside the run's."""

from __future__ import annotations

from functools import partial

from inspector.actions.host import Host
from inspector.screens.shapes.screen import ShapesScreen
from inspector.state.shapes.beside import begin_beside
from inspector.state.shapes.carry_out import Sizes

NAME = "Request shapes"
TOLD = "Where the time and bill of four ready requests go; the model is loaded once more for it"


def show_shapes(host: Host) -> None:
    """Open their screen, which begins them; a run that goes on would be timed with them."""
    if host.controller.log.facts is None:
        host.say("no model is loaded yet", warn=True)
        return
    if host.controller.busy:
        host.say("space pauses the run first: it would be timed with the requests", warn=True)
        return
    client, opening = host.engine.another(), host.engine.opening(host.controller, host.asked)
    begin = partial(begin_beside, client, opening, Sizes(), host.controller.log.prices)
    host.app.push_screen(ShapesScreen(begin))
