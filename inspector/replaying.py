"""The app on a saved session instead of a running model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from inspector.actions.player import Playing
from inspector.actions.replay import Recording, request_of
from inspector.app import Inspector
from inspector.state.client import Client
from inspector.state.replay_client import ReplayClient
from inspector.state.request import Request
from sessions.reader import Session


def replaying(
    session: Session,
    asked: Request,
    *,
    attach: Callable[[], Client] | None = None,
    playing: Playing | None = None,
    read_only: bool = False,
    at_end: bool = True,
    **options: Any,
) -> Inspector:
    """The inspector on a saved session; ``attach`` starts an engine where there is to be one.

    ``read_only``: no key writes a file or looks for another one. ``at_end``: at the end of the run,
    and not at its prompt.
    """
    return Inspector(
        request_of(session, asked),
        ReplayClient(session),
        attach or partial(ReplayClient, session),
        recording=Recording(session, attach, playing or Playing(), read_only, at_end),
        **options,
    )
