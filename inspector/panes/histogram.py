"""Many draws from one distribution, beside what was to be expected."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from engine.records import Token
from engine.sampling.repeat import Repeats
from inspector.panes.cells import right, token_text
from inspector.panes.figures import MUTED, cut, heading, muted
from inspector.panes.sparks import bar

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
        cut(_verdict(found), width),
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


def _verdict(found: Repeats) -> Content:
    """The test in words."""
    came = f"{found.ids.size:,} tokens came up"
    if found.p_value is None or found.chi_square is None:
        return muted(f"{came}: too few to compare with chances")
    test = f"χ² {found.chi_square:.2f}, {found.degrees} degrees, p {_p(found.p_value)}"
    word = "as expected" if found.p_value >= UNUSUAL else "far from expected"
    style = "$success" if found.p_value >= UNUSUAL else "$error bold"
    return Content.styled(word, style) + muted(f": {test} · {came}")


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"
