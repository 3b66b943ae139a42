"""The title card of README.md: one step of a recorded run as the ladder has it, drawn as SVG."""

from __future__ import annotations

import html
import math

import themes
from engine.records.step import StepRecord
from engine.text import visible
from sessions.reader import Session

_WIDTH, _HEIGHT = 1200, 400
_NODE = 26
"""A step of the example at which the dice did not take the likeliest token."""
_ROWS = 6
_TOP, _ROW = 168, 30
_TEXT, _MODEL, _FINAL = 560, 690, 950
"""Where the columns begin."""
_BAR = 150
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def title_card(session: Session) -> str:
    """The name, what it is, and a step: candidates before and after the sampler, and the draw."""
    theme = themes.load("dark")
    colors = {**theme.colors, **theme.variables}
    step = session.step(_NODE)
    assert session.prompt is not None
    before = b"".join(one.token.bytes for one in session.branch(_NODE)[:-1]).decode()
    parts = [
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="16" fill="{colors["background"]}"/>',
        _text(48, 150, "llm-inspect", colors["accent"], size=60, weight="bold"),
        _text(48, 204, "a debugger for text generation", colors["foreground"], size=24),
        _text(48, 238, "one forward pass at a time", colors["cut"], size=24),
        *_keys(colors),
        _text(_TEXT, 84, f"{session.prompt.text}{before} …", colors["foreground"], size=22),
        _text(_MODEL, 132, "model", colors["cut"]),
        _text(_FINAL, 132, "after the sampler", colors["cut"]),
        *_rows(step, colors),
        *_draw(step, colors),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="{_FONT}" role="img" aria-label="llm-inspect">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _keys(colors: dict[str, str]) -> list[str]:
    """The first keys, as on the footer."""
    parts = []
    for at, (key, name) in enumerate(
        (("n", "step"), ("b", "back"), ("f", "fork"), ("s", "what if"))
    ):
        x = 48 + at * 112
        parts.append(_text(x, 316, key, colors["primary"], size=20, weight="bold"))
        parts.append(_text(x + 20, 316, name, colors["cut"], size=20))
    return parts


def _rows(step: StepRecord, colors: dict[str, str]) -> list[str]:
    """The leading candidates: probability in the model and after the last stage, or what cut it."""
    parts = []
    top = step.top
    for row in range(_ROWS):
        y = _TOP + row * _ROW
        drawn = top.ids[row] == step.token.id
        cut = int(top.cut_by[row])
        color = colors["accent"] if drawn else colors["cut" if cut >= 0 else "survivor"]
        name = visible(top.tokens[row].bytes.decode(errors="replace"))
        parts.append(_text(_TEXT, y, f'"{name}"', color, weight="bold" if drawn else "normal"))
        bar = colors["bar-drawn" if drawn else "bar"]
        parts += _bar(_MODEL, y, math.exp(top.raw_logprobs[row]), bar, color)
        if cut < 0:
            parts += _bar(_FINAL, y, float(top.probs[-1][row]), bar, color)
        else:
            parts.append(_text(_FINAL, y, f"✂ {step.stages[cut].name}", color))
        if drawn:
            parts.append(_text(_TEXT - 28, y, "●", color))
    return parts


def _bar(x: int, y: int, share: float, color: str, words: str) -> list[str]:
    figure = f"{share:.1%}"
    width = round(max(share, 0.004) * 2 * _BAR, 1)
    return [
        f'<rect x="{x + 76}" y="{y - 14}" width="{width}" height="18" rx="2" fill="{color}"/>',
        _text(x, y, figure.rjust(6).replace(" ", "\u2007"), words),
    ]


def _draw(step: StepRecord, colors: dict[str, str]) -> list[str]:
    """The survivors side by side on [0, 1), and where the dice landed."""
    draw, width, y = step.draw, 580, 366
    assert draw.u is not None
    parts, left = [], 0.0
    for token, share in zip(step.top.ids, step.top.probs[-1], strict=True):
        color = colors["bar-drawn" if token == step.token.id else "bar"]
        if share > 0:
            parts.append(
                f'<rect x="{_TEXT + left * width + 1:.1f}" y="{y - 12}" '
                f'width="{share * width - 2:.1f}" height="14" fill="{color}"/>'
            )
        left += float(share)
    at = _TEXT + draw.u * width
    words = f"u {draw.u:.5f} in [{draw.low:.5f}, {draw.high:.5f})"
    parts.append(_text(at - 6, y - 16, "▼", colors["accent"], size=14))
    parts.append(_text(_TEXT, y - 17, words, colors["accent"], size=15))
    return parts


def _text(
    x: float, y: float, words: str, color: str, *, size: int = 18, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{color}" font-size="{size}" font-weight="{weight}" '
        f'xml:space="preserve">{html.escape(words)}</text>'
    )
