"""The transcript of a run with speculative rounds: how each token came, told without colour."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size

from inspector.panes.transcript.pane import TranscriptUI, draw
from inspector.state.view import View
from tests.speculating import Listed, Source, by_last, log_of, stepper


def shown(source: Source | None, *, boundaries: bool = False, width: int = 100) -> list[Content]:
    target = by_last([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    run = stepper(target, source, prompt="a", tokens=3, max_tokens=9)
    picture = draw(View(log_of(run), 1), Size(width, 8), TranscriptUI(boundaries=boundaries))
    return [*picture.header, *picture.rows]


def test_marks_of_a_round() -> None:
    """The first token is plain; then three drafts and a bonus, then two and a correction."""
    legend, text, *_ = shown(lambda _: Listed([2, 3, 0], [2, 3, 1]))
    assert text.plain == "a▐b▌✓cda+b✓cd↻ab"
    assert "✓accepted ↻corrected +bonus" in legend.plain


def test_accepted_drafts_are_told_from_others_without_colour() -> None:
    _, text, *_ = shown(lambda _: Listed([2, 3, 0], [2, 3, 1]))
    slanted = {
        text.plain[at]
        for span in text.spans
        if "italic" in str(span.style)
        for at in range(span.start, span.end)
    }
    assert slanted == {"c", "d", "a"}
    at = text.plain.rindex("a")
    assert not any(
        "italic" in str(span.style) and span.start <= at < span.end for span in text.spans
    )


def test_with_token_marks_each_token_has_its_own() -> None:
    """A plain token's is the dot of any boundary."""
    _, text, *_ = shown(lambda _: Listed([2, 3, 0], [2, 3, 1]), boundaries=True)
    assert text.plain == "·a·▐b▌✓c✓d✓a+b✓c✓d↻a·b"


def test_a_mark_stays_with_its_token_where_a_line_ends() -> None:
    """Six cells a line: ✓ is not left behind at the end of the first."""
    _, *lines = shown(lambda _: Listed([2, 3, 0], [2, 3, 1]), width=6)
    assert not any(line.plain[-1:] in "✓↻+" for line in lines if line.plain)


def test_a_run_without_rounds_has_no_marks() -> None:
    legend, text, *_ = shown(None)
    assert text.plain == "a▐b▌cdabcdab"
    assert "accepted" not in legend.plain
