"""Many draws from one distribution, beside what was to be expected."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from engine.records.vocabulary import Token
from engine.sampling.repeat import Repeats
from inspector.draw.block_chars import bar
from inspector.draw.cells import right, token_text
from inspector.draw.numbers import MUTED, cut, fit, heading, muted, plural

UNUSUAL = 0.01
"""Below this p-value the counts are said to be far from what was expected."""


def histogram(
    found: Repeats, name: Callable[[int], Token | None], width: int, *, tried: bool
) -> list[Content]:
    """A title with the test's outcome, and a line a token that came up."""
    most = max(1.0, float(max(found.counts.max(), found.expected.max())))
    digits = max(len(f"{found.draws:,}"), 8)
    length = max(0, min(30, (width - 2 * (digits + 1) - 14) // 2))
    source = "what is tried" if tried else "the final p"
    lines = [
        heading(f"Drawn ×{found.draws:,} from {source}", width),
        fit(width, *_verdict(found)),
        cut(
            Content.styled(
                f"{'drawn':>{digits}} {'':{length}} {'expected':>{digits}} {'':{length}} token",
                "$title",
            ).stylize("underline"),
            width,
        ),
    ]
    for token_id, count, expected in zip(
        found.ids.tolist(), found.counts.tolist(), found.expected.tolist(), strict=True
    ):
        lines.append(
            cut(
                Content.assemble(
                    f"{right(f'{count:,}', digits)} ",
                    (bar(count / most, length), "$estimated" if tried else "$bar-drawn"),
                    (f" {right(f'{expected:,.1f}', digits)} ", MUTED),
                    (bar(expected / most, length), "$bar"),
                    " ",
                )
                + token_text(name(token_id)),
                width,
            )
        )
    return lines


def _verdict(found: Repeats) -> list[Content]:
    """The test in words, from the longest to the shortest."""
    came = f"{plural(found.ids.size, 'token')} came up"
    if found.p_value is None or found.chi_square is None:
        return [muted(f"{came}: nothing to hold against chance"), muted(came)]
    degrees = f"{found.degrees} degree{'' if found.degrees == 1 else 's'}"
    test = f"χ² {found.chi_square:.2f}, {degrees}, p {_p(found.p_value)}"
    word = "as expected" if found.p_value >= UNUSUAL else "far from expected"
    said = Content.styled(word, "$success" if found.p_value >= UNUSUAL else "$error bold")
    return [said + muted(f": {test} · {came}"), said + muted(f": {test}"), said]


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"
