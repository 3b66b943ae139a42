"""The newest steps as a table: what each one cost, and how sure the model was."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records import StepRecord
from engine.text import visible_bytes
from inspector.panes.figures import MUTED, cut, heading, ms, muted, right

COLUMNS = (("step", 6), ("total", 9), ("forward", 9), ("sample", 9), ("other", 9), ("entropy", 9))
FINAL = ("final", 7)


def step_table(path: Sequence[StepRecord], width: int, height: int) -> list[Content]:
    """The newest steps of ``path``, with a title and column names, in ``height`` lines."""
    rows = height - 2
    if rows < 1 or not path:
        return []
    names = Content("").join(right(muted(name), cells) for name, cells in (*COLUMNS, FINAL))
    names += muted("    token")
    first = max(0, len(path) - rows)
    title = "Steps: times •, entropy in nats ƒ"
    lines = [heading(title, width), cut(names, width)]
    lines += [
        cut(_row(number, path[number - 1]), width) for number in range(first + 1, len(path) + 1)
    ]
    return lines


def _row(number: int, step: StepRecord) -> Content:
    t = step.timing
    rest = t.detokenize_ms + t.other_ms
    texts = (
        f"{number:,}",
        *(ms(value) for value in (t.total_ms, t.forward_ms, t.sample_ms, rest)),
        f"{step.entropy_raw:.2f}",
    )
    cells = [right(Content(text), width) for text, (_, width) in zip(texts, COLUMNS, strict=True)]
    cells.append(right(Content(f"{step.entropy_final:.2f}"), FINAL[1]))
    why = "  w" if t.warmup else "  r" if t.reused else "   "
    return Content.assemble(*cells, (why, MUTED), f" {visible_bytes(step.token.bytes)}")
