"""Screens above the debugger: modal dialogs, and others that show the run in its place."""

from __future__ import annotations

from typing import Any, TypeVar

from textual.app import App
from textual.reactive import Reactive
from textual.screen import ModalScreen, Screen, SystemModalScreen
from textual.widget import Widget

_Result = TypeVar("_Result")


class PaneScreen(Screen[_Result]):
    """A screen of panes: one that loses or gets the focus is painted, and not the whole screen."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)


class RunScreen(PaneScreen[_Result]):
    """A screen that shows the run in the debugger's place, with keys of its own for it."""


def run_screen_open(app: App[Any]) -> bool:
    """True if such a screen lies above the debugger."""
    return any(isinstance(one, RunScreen) for one in app.screen_stack)


def modal_open(app: App[Any]) -> bool:
    """True if the topmost screen is a window that waits for an answer.

    The command palette is none: it closes before it does what was chosen in it.
    """
    stack = app.screen_stack
    top = stack[-1] if stack else None
    return isinstance(top, ModalScreen) and not isinstance(top, SystemModalScreen)


def is_closed(screen: Screen[Any]) -> bool:
    """True if a key that came at once has closed a screen before its widgets were there."""
    return screen not in screen.app.screen_stack
