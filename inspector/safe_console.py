"""A rich console for standard output or error, on which no foreign text acts on the terminal."""

from __future__ import annotations

import sys

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

from engine.safe_output import unguarded
from engine.text import safe


def console(*, stderr: bool = False) -> Console:
    """Standard output or error: no markup, nothing wrapped, no colour where none is wanted.

    Its text is made safe apart from its styles, so that these may pass.
    """
    stream = unguarded(sys.stderr if stderr else sys.stdout)
    made = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=True)
    made.push_render_hook(_SafeText())
    return made


class _SafeText(RenderHook):
    """Has everything printed on a console pass ``safe``."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Safe(one) for one in renderables]


class _Safe:
    """A renderable with its text made safe."""

    def __init__(self, what: ConsoleRenderable) -> None:
        self._what = what

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in out.render(self._what, options):
            yield Segment(text if control else safe(text), style, control)
