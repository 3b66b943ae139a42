"""Reading the prompt: where the time to the first token went, on one axis, and layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size

from engine.records.events import RunState
from engine.records.prompt import PrefillRecord
from engine.timing import Phase, PhaseKind, phases, ttft_ms
from inspector.draw.block_chars import bar, placed
from inspector.draw.engine_clock import engine_figure, engine_notes
from inspector.draw.numbers import (
    Mark,
    beside,
    cut,
    derived,
    measured,
    ms,
    muted,
    nothing,
    padded,
    plural,
    rate,
    right,
    row,
    with_marks,
)
from inspector.draw.stacked import stacked as stacked_bar
from inspector.panes.kv.prefix import prefix_short
from inspector.panes.prefill.layers import layer_lines
from inspector.panes.waiting import about, loading
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

LABEL = 9
NARROWEST_AXIS = 14
TWO_COLUMNS = 72
BAR_FROM = 12
"""Lines from which there is a bar of all phases beside the axis of single ones."""
SIGNS = {
    PhaseKind.TEMPLATE: ("▞", "$phase-tokenize"),
    PhaseKind.TOKENIZE: ("▚", "$phase-tokenize"),
    PhaseKind.LOOKUP: ("▒", "$kv-shared"),
    PhaseKind.PREFILL: ("█", "$phase-prefill"),
    PhaseKind.HEAD: ("▓", "$phase-sample"),
    PhaseKind.SAMPLE: ("▒", "$phase-sample"),
    PhaseKind.DETOKENIZE: ("░", "$phase-detokenize"),
}
"""Signs of the phases on the one bar; neighbours differ without colour."""
TALL = 20
"""From this height on all goes below each other, over the whole width."""


def _lines(view: View, width: int, height: int) -> list[Content]:
    if view.facts is None:
        text = "How the prompt is read will be here, and the time to the first token."
        return [*loading(view, width), *about(text, width)]
    if view.prompt is None:
        return [cut(muted("no prompt yet"), width), *_load(view, None, width)]
    first = view.path[0] if view.path else None
    parts = phases(view.prompt, view.prefill, first)
    total = ttft_ms(parts)
    chunks = view.prefill.chunks if view.prefill is not None else ()
    side = bool(chunks) and width >= TWO_COLUMNS and height < TALL
    left = width * 3 // 5 if side else width
    bar_below = height >= BAR_FROM
    head = _sum(parts, total, width, signs=bar_below)
    head += [stacked(parts, width)] if bar_below else []
    head += _progress(view, width)
    lines = waterfall(parts, view.prefill, left)
    lines += _rates(view.prefill, view.speed.prefill_tps, left)
    lines += _engine(view.prefill, left)
    lines += prefix_short(view, left, LABEL)
    lines += _load(view, total, left)
    if any(chunk.warmup for chunk in chunks):
        lines.append(cut(muted("w: warm-up, the first pass of its shape"), left))
    room = height - len(head)
    if side:
        return [*head, *beside(lines, layer_lines(chunks, width - left - 2, room), left)]
    if chunks:
        lines += layer_lines(chunks, width, room - len(lines) - 1)
    return [*head, *lines]


# --- the axis -------------------------------------------------------------------------------


def waterfall(parts: Sequence[Phase], prefill: PrefillRecord | None, width: int) -> list[Content]:
    """One line a phase, each drawn where it lies on the common time axis."""
    total = sum(part.ms for part in parts)
    labels = [_label(part, prefill) for part in parts]
    times = [measured(ms(part.ms)) for part in parts]
    speeds = [_chunk_rate(part, prefill) for part in parts]
    label_width = max(len(label) for label in labels) + 1
    time_width = max(time.cell_length for time in times) + 1
    speed_width = max(speed.cell_length for speed in speeds) + 2
    axis = width - label_width - time_width - speed_width
    if axis < NARROWEST_AXIS:
        axis, speed_width = width - label_width - time_width, 0
    if axis < NARROWEST_AXIS // 2:
        axis = 0
    lines = [cut(Content(" " * label_width) + _scale(total, axis), width)] if axis and total else []
    start = 0.0
    for part, label, time, speed in zip(parts, labels, times, speeds, strict=True):
        end = start + part.ms
        drawn = placed(start / total, end / total, axis) if total > 0 else " " * axis
        line = Content.assemble(
            padded(muted(label), label_width),
            (drawn, SIGNS[part.kind][1]),
            right(time, time_width),
        )
        lines.append(cut(line + right(speed, speed_width) if speed_width else line, width))
        start = end
    return lines


def stacked(parts: Sequence[Phase], width: int) -> Content:
    """All phases as one bar, chunks together; what took any time has a cell at least."""
    times = [
        (*sign, sum(part.ms for part in parts if part.kind is kind)) for kind, sign in SIGNS.items()
    ]
    drawn = stacked_bar(times, sum(took for _, _, took in times), width - LABEL, least=True)
    return Content(" " * LABEL) + drawn if len(drawn) else drawn


def _label(part: Phase, prefill: PrefillRecord | None) -> str:
    if part.chunk is None or prefill is None:
        return "1st sample" if part.kind is PhaseKind.SAMPLE else str(part.kind)
    if part.kind is PhaseKind.HEAD:
        return "  head"
    chunk = prefill.chunks[part.chunk]
    warm = " w" if chunk.warmup else ""
    return f"read {chunk.start:,}–{chunk.start + chunk.count - 1:,}{warm}"


def _chunk_rate(part: Phase, prefill: PrefillRecord | None) -> Content:
    if part.chunk is None or prefill is None or part.kind is PhaseKind.HEAD or part.ms <= 0:
        return Content("")
    return derived(rate(prefill.chunks[part.chunk].count / part.ms * 1000))


def _scale(total: float, width: int) -> Content:
    """The axis: nothing at the left, the whole time at the right, half of it in between."""
    end, half = f" {ms(total)}", f" {ms(total / 2)} "
    rule = list("0 " + "─" * max(0, width - 2 - len(end)) + end)
    middle = width // 2
    if width >= 2 * (len(end) + len(half)):
        rule[middle : middle + len(half)] = half
        rule[middle - 1] = "┼"
    return muted("".join(rule)[:width])


# --- the figures ----------------------------------------------------------------------------


def _sum(parts: Sequence[Phase], total: float | None, width: int, *, signs: bool) -> list[Content]:
    """TTFT as the sum that it is, on a second line where one is not enough.

    With the ``signs`` of the bar that stands below.
    """
    known = total if total is not None else sum(part.ms for part in parts)
    name = "TTFT" if total is not None else "so far"
    spent = {
        kind: sum(part.ms for part in parts if part.kind is kind)
        for kind in SIGNS
        if kind is not PhaseKind.DETOKENIZE and any(part.kind is kind for part in parts)
    }
    names = {PhaseKind.SAMPLE: "first sample"}
    sign = {kind: f"{one} " if signs else "" for kind, (one, _) in SIGNS.items()}
    long = " + ".join(
        f"{sign[kind]}{names.get(kind, kind)} {ms(took)}" for kind, took in spent.items()
    )
    short = " + ".join(f"{sign[kind]}{ms(took)}" for kind, took in spent.items())
    if total is None:
        long, short = f"{long} •; no token yet", f"{short} •; no token yet"
    else:
        long, short = f"{long} •", f"{short} •"
    figure = derived(ms(known), "bold")
    if LABEL + figure.cell_length + len(short) + 5 > width:
        # Cut off it would be no sum; the axis below has its parts.
        sums = (f"= {one}" for one in (short, short.replace(" + ", "+")))
        below = next((one for one in sums if Content(one).cell_length <= width), "")
        return [row(name, LABEL, width, figure), *([muted(below)] if below else [])]
    return [row(name, LABEL, width, figure, f"= {long}", f"= {short}")]


def _progress(view: View, width: int) -> list[Content]:
    """Progress of reading, while it runs or is paused half-way."""
    prompt, done = view.prompt, view.prefill
    reading = view.log.state.state is RunState.PREFILL
    if prompt is None or (done is not None and done.done) or not (reading or done is not None):
        return []
    total = len(prompt.tokens)
    read = 0 if done is None else done.cached + done.computed
    word = "reading" if reading else "paused"
    return [progress(word, read / total if total else 0.0, f"{read:,}/{total:,} tokens", width)]


def progress(label: str, share: float, text: str, width: int) -> Content:
    """``reading  ▕████▌      ▏ 512/1,300 tokens``."""
    room = width - LABEL - len(text) - 3
    if room < 4:
        return cut(padded(muted(label), LABEL) + text, width)
    filled = bar(share, room)
    return padded(muted(label), LABEL) + Content.assemble(
        ("▕", "$kv-free"), (filled, "$phase-prefill"), ("▏", "$kv-free"), f" {text}"
    )


def _rates(prefill: PrefillRecord | None, speed: float | None, width: int) -> list[Content]:
    if prefill is None:
        return []
    computed = f"{plural(prefill.computed, 'token')} computed"
    cached = f"{prefill.cached:,} cached"
    took = f"in {ms(prefill.total_ms)} ƒ"
    figure = derived(rate(speed)) if speed is not None else nothing("")
    notes = (f"{computed} {took}, {cached}", f"{computed}, {cached}", computed)
    return [row("prefill", LABEL, width, figure, *notes)]


def _engine(prefill: PrefillRecord | None, width: int) -> list[Content]:
    """The reading by the clock of an engine of its own; nothing where there is none."""
    chunks = () if prefill is None else prefill.chunks
    times = [chunk.engine for chunk in chunks if chunk.engine is not None]
    if prefill is None or not times:
        return []
    notes = engine_notes(times, prefill.total_ms)
    return [row("engine", LABEL, width, engine_figure(times), *notes)]


def _load(view: View, ttft: float | None, width: int) -> list[Content]:
    """Loading the model, which is in no other figure."""
    facts = view.facts
    if facts is None or facts.load_ms <= 0:
        return [row("loading", LABEL, width, nothing("not recorded"))]
    notes = ["apart: not in TTFT"]
    if ttft is not None:
        notes.insert(0, f"apart: not in TTFT; with it {ms(facts.load_ms + ttft)} ƒ")
    return [row("loading", LABEL, width, measured(ms(facts.load_ms)), *notes)]


def draw(view: View, size: Size) -> Picture:
    """The pane."""
    ttft = view.speed.ttft_ms
    return Picture(
        _lines(view, *size),
        subtitle=with_marks("" if ttft is None else f"TTFT {ms(ttft)} {Mark.DERIVED}", size.width),
    )


class PrefillPane(Pane):
    """The reading of the prompt: phases, chunks and layers on one time axis."""

    NAME = "Prefill"

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size)
