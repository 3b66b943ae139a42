"""Contrast of all that the app's screens show, as it is painted: colours mixed, dim resolved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.color import Color as RichColor
from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from textual.screen import ModalScreen

import themes
from engine.commands import Configure, Open, Submit
from inspector.actions.replay import request_of
from inspector.app import Inspector
from inspector.panes.transcript.pane import legend
from inspector.replaying import replaying
from inspector.state.request import Request
from inspector.theming import use_theme
from sessions import open_session
from sessions.examples import example
from tests.themes.test_themes import TEXT, contrast

SYSTEMS = {None: "truecolor", 256: "256", 16: "standard"}
TEXT_LEAST = {**TEXT, "ansi-dark": 4.5}
QUIET = {"high-contrast": 3.0}
"""Borders without the focus, scrollbars: 3 to 1 here, 2 to 1 elsewhere."""
ON_SHADES_16 = {"ansi-dark": 2.4}
"""Letters on a surprisal shade in 16 colours: no seven of them leave more than 3 to 1, and of the
terminal's own, where letters are not white, 2.4."""
XTERM = [
    "000000",
    "cd0000",
    "00cd00",
    "cdcd00",
    "0000ee",
    "cd00cd",
    "00cdcd",
    "e5e5e5",
    "7f7f7f",
    "ff0000",
    "00ff00",
    "ffff00",
    "5c5cff",
    "ff00ff",
    "00ffff",
    "ffffff",
]
"""The terminal's own colours, for the theme that leaves them to it: xterm's."""
TERMINALS_DIM = 2 / 3
"""What a terminal leaves of a dim letter's colour, as VTE has it; Textual resolves it elsewhere."""

SCREENS = (
    ("capital", (160, 48), (["b"] * 5, ["4"], ["6"], ["7"], ["9"], ["s", "down", "3", "enter"])),
    ("capital", (80, 24), (["b"] * 5, ["8"], ["e"], ["escape", "B"], ["escape", "o"])),
    ("capital", (80, 24), (["ctrl+p"],)),
    ("rounds", (80, 24), (["b"] * 4, ["f10"], ["escape", "4"])),
    ("capital", (80, 24), (["question_mark"],)),
    ("chat", (100, 30), (["b"], ["3"])),
    ("bytes", (100, 30), (["b"], ["3"])),
)


def is_mark(text: str) -> bool:
    """True for lines, blocks, plots and dots for free cells."""
    return all("─" <= c <= "▟" or "⠀" <= c <= "⣿" or c in " ·" for c in text)


def painted(app: Inspector) -> Iterator[Segment]:
    """All that is on the screen in front, as it goes to the terminal."""
    screen = app.screen
    strips = screen._compositor.render_strips()
    regions = (
        [child.region for child in screen.children]
        if isinstance(screen, ModalScreen)
        else [screen.region]
    )
    for region in regions:
        for strip in strips[region.y : region.bottom]:
            yield from strip.crop(region.x, region.right)


def rgb(color: RichColor | None, default: str, depth: int | None) -> str:
    """A colour as a terminal with so many shows it."""
    if color is None or color.is_default:
        return default
    if color.number is not None and color.number < len(XTERM):
        return f"#{XTERM[color.number]}"
    if depth is not None:
        color = color.downgrade(COLOR_SYSTEMS[SYSTEMS[depth]])
    return "#{:02x}{:02x}{:02x}".format(*color.get_truecolor())


def faint(segment: Segment, theme: str, depth: int | None, shades: set[str]) -> str:
    """A complaint about a segment that can hardly be read."""
    text, style = segment.text.strip(), segment.style
    if not text or style is None:
        return ""
    front, back = rgb(style.color, "#e5e5e5", depth), rgb(style.bgcolor, "#000000", depth)
    if style.dim:
        mixed = (
            round(int(back[i : i + 2], 16) * (1 - TERMINALS_DIM))
            + round(int(front[i : i + 2], 16) * TERMINALS_DIM)
            for i in (1, 3, 5)
        )
        front = "#{:02x}{:02x}{:02x}".format(*mixed)
    least = QUIET.get(theme, 2.0) if is_mark(text) else TEXT_LEAST[theme]
    if (depth == 16 or theme == "ansi-dark") and back in shades:
        least = ON_SHADES_16.get(theme, 3.0)
    ratio = contrast(front, back)
    return f"{ratio:.2f} {front} on {back}: {text[:20]!r}" if ratio < least else ""


@pytest.mark.parametrize("depth", SYSTEMS)
@pytest.mark.parametrize("theme", themes.names())
async def test_f14_all_on_screen_can_be_read(
    theme: str, depth: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters 4.5 to 1, and 7 to 1 in high contrast; borders and marks 2 to 1, there 3 to 1."""
    if theme == "ansi-dark" and depth is not None:
        return  # it leaves its colours to the terminal at any depth
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path)
    spec = themes.load(theme).in_colors(depth)
    complaints: set[str] = set()
    # Their pairs are other shades of the same: a few screens show nearly all of them.
    for name, size, steps in SCREENS if depth is None else (SCREENS[0], SCREENS[-1]):
        session = open_session(example(name))
        app = replaying(session, request_of(session, Request(Open(), Configure(), Submit(""))))
        app.console._color_system = COLOR_SYSTEMS[SYSTEMS[depth]]
        use_theme(app, theme)
        shades = {
            rgb(
                RichColor.parse(spec.variables[f"surprisal-{level}"].removeprefix("ansi_")),
                "",
                depth,
            )
            for level in range(themes.SURPRISAL_LEVELS)
        }
        async with app.run_test(size=size) as pilot:
            for keys in steps:
                await pilot.press(*keys)
                await pilot.pause()
                complaints |= {faint(one, theme, depth, shades) for one in painted(app)}
    assert not "\n".join(sorted(complaints - {""}))


@pytest.mark.parametrize("name", [name for name in themes.names() if not themes.load(name).ansi])
@pytest.mark.parametrize("depth", SYSTEMS)
def test_f14_borders_are_seen(name: str, depth: int | None) -> None:
    """The focused pane's 3 to 1, the others' 2 to 1, and 3 to 1 in high contrast."""
    spec = themes.load(name).in_colors(depth)
    shown = {
        key: rgb(RichColor.parse(color), "", depth)
        for key, color in {**spec.colors, **spec.textual}.items()
        if color.startswith("#")
    }
    assert contrast(shown["primary"], shown["background"]) >= 3
    assert contrast(shown["border"], shown["background"]) >= 3
    assert contrast(shown["border-blurred"], shown["background"]) >= QUIET.get(name, 2.0)


def test_f22_without_colour_the_legend_says_what_is_seen() -> None:
    assert legend(78, colour=False).plain.startswith("bold surprisal of 4 nats or more")


def test_f22_a_selected_row_is_seen_in_the_terminals_own_colours_and_without_any() -> None:
    spec = themes.load("ansi-dark")
    assert spec.textual["block-cursor-blurred-text-style"] == "reverse"
