"""The gauges: speed, memory and use of the machine up to the cursor, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.records.measured import MEASURING_CEILINGS, MEASURING_CURVES, SERVERS_MACHINE, Ceilings
from engine.records.model import ModelFacts
from engine.records.step import StepRecord
from engine.records.step_table import figures_of, steady
from engine.roofline import reached
from engine.text import visible
from engine.timing import Speed, gaps_ms, percentile
from inspector.draw.engine_clock import MEANS, engine_figure, engine_notes
from inspector.draw.numbers import (
    derived,
    measured,
    ms,
    muted,
    nothing,
    percent,
    plural,
    rate,
    size,
    three,
)
from inspector.panes.ceilings import plain_steps
from inspector.panes.gauges.cache_curves import chart_of, in_words
from inspector.panes.gauges.steps import forward, letter
from inspector.panes.kv.figures import kv_mark
from inspector.state.ceilings import busy
from inspector.state.view import View

LABEL = 10
WHY = {"": "", "w": "warm-up: ", "r": "reused logits: ", "b": "branch read again: "}
MBU = "MBU"
NEEDS_TWO = "needs two tokens that count"
_MBU_IS = "(weights + K and V so far) / time / this machine's bandwidth"


@dataclass(frozen=True)
class Gauge:
    """One line: a figure, notes on it (the longest that fits is shown) and its definition."""

    label: str
    figure: Content
    notes: tuple[str, ...] = ()
    definition: str = ""


def gauges(
    view: View, ceilings: Ceilings | None, stale: str = "", *, can_measure: bool = False
) -> list[Gauge]:
    """All figures, most important first. ``stale`` is the date of ceilings that are not recent.

    With ``can_measure`` there is an engine that ceilings can be had of.
    """
    speed, path = view.speed, view.path
    return [
        *_speeds(speed, path),
        _this_step(view.step),
        *_engine(view.step),
        _overhead(path),
        _ceilings_on_the_way(view) or _mbu(view, ceilings, stale, can_measure=can_measure),
        *_memory(view),
        *_cache(view),
        _steps(speed, path),
    ]


def _figure(text: str, reason: str) -> Content:
    """A derived figure, or ``—`` and why."""
    return derived(text, "bold") if text != "—" else nothing(reason)


def _speeds(speed: Speed, path: Sequence[StepRecord]) -> list[Gauge]:
    gaps = gaps_ms(path)
    p50, p95 = (ms(percentile(gaps, share)) for share in (0.5, 0.95))
    spread = f"p50 {p50}, p95 {p95} •" if len(gaps) else ""
    none_yet = "no token yet" if not path else NEEDS_TWO
    wait = speed.end_to_end_tps
    whole = f"with the reading {rate(wait)} ƒ" if wait is not None else ""
    return [
        Gauge(
            "TTFT",
            _figure(ms(speed.ttft_ms), "no token yet"),
            ("tokenize + prefill + first sample",),
            "submit to first token id; loading and thinking time never count",
        ),
        Gauge(
            "ITL",
            _figure(ms(speed.itl_ms), none_yet),
            tuple(filter(None, (spread,))),
            "mean time between tokens (TPOT), over the steps that count",
        ),
        Gauge(
            "TPS",
            _figure(rate(speed.tps), none_yet),
            tuple(filter(None, (f"decoding; {whole}" if whole else "", whole))),
            "(n − 1) tokens / time from the first to the last, the same steps",
        ),
        Gauge(
            "prefill",
            _figure(rate(speed.prefill_tps), "nothing read yet"),
            (),
            "prompt tokens really computed / time of the prefill",
        ),
    ]


def _this_step(step: StepRecord | None) -> Gauge:
    if step is None:
        return Gauge("this step", nothing("the prompt"))
    t = step.timing
    rest = t.detokenize_ms + t.other_ms
    parts = f"forward {forward(step)}, sample {ms(t.sample_ms)}, other {ms(rest)} •"
    why = WHY[letter(t)]
    return Gauge(
        "this step",
        measured(ms(t.total_ms), "bold"),
        (why + parts, why + f"forward {forward(step)} •", why.rstrip(": ")),
        "forward pass + sampling + detokenizing and keeping the record",
    )


def _engine(step: StepRecord | None) -> list[Gauge]:
    """The step's pass by the clock of an engine of its own; nothing where there is none."""
    times = None if step is None else step.timing.engine
    if step is None or times is None:
        return []
    notes = engine_notes((times,), step.timing.forward_ms)
    return [Gauge("engine", engine_figure((times,)), notes, MEANS)]


def _overhead(path: Sequence[StepRecord]) -> Gauge:
    """Cost of a step beside its forward pass, on average."""
    later = figures_of(path)[1:]
    counts = steady(later)
    totals, forwards, samples = (
        later[name][counts] for name in ("total_ms", "forward_ms", "sample_ms")
    )
    total = float(totals.sum())
    if total <= 0:
        return Gauge("overhead", nothing(NEEDS_TWO))
    extra = total - float(forwards.sum())
    sample = float(samples.mean())
    each = extra / len(totals)
    return Gauge(
        "overhead",
        derived(percent(extra / total)),
        (f"of a step: {ms(each)} ƒ, of which sampling {ms(sample)} ƒ", f"{ms(each)} ƒ a step"),
        "share of a step that is not the forward pass",
    )


def _ceilings_on_the_way(view: View) -> Gauge | None:
    """Progress of the measurement of the ceilings; None where it is not wanted."""
    now = view.log.loading
    if view.log.ceilings_awaited:
        return Gauge(MBU, nothing("waits for the run's end"), (), _MBU_IS)
    if now is not None and now.phase == MEASURING_CEILINGS:
        return Gauge(MBU, nothing("being measured"), (visible(now.detail),), _MBU_IS)
    return None


def _mbu(view: View, ceilings: Ceilings | None, stale: str, *, can_measure: bool) -> Gauge:
    definition, facts, path = _MBU_IS, view.facts, view.path
    if facts is not None and facts.remote:
        return Gauge(MBU, muted(SERVERS_MACHINE), (), definition)
    if ceilings is None:
        how = "M or click: measure it" if can_measure else "run llm-inspect bench"
        return Gauge(MBU, nothing(how), (), definition)
    if facts is None:
        return Gauge(MBU, nothing("no model loaded"), (), definition)
    if facts.device.partition(":")[0] != ceilings.device:
        why = f"bench was on {ceilings.device}, this is {facts.device}"
        return Gauge(MBU, nothing(why), (), definition)
    steps = plain_steps(view)
    found = reached(facts, steps, ceilings)
    if found is None:
        several = bool(steady(path.figures[1:]).any())
        none = "of plain steps; rounds and batches: f11" if several else NEEDS_TWO
        why = none if not steps else "the cache's size is not known"
        return Gauge(MBU, nothing(why), (), definition)
    least = ms(found.floor_ms)
    notes: tuple[str, ...] = (f"this step could take {least} at best ƒ", f"floor {least} ƒ")
    if stale or busy(ceilings):
        # Of the notes that fit, one that says why the figure is in doubt must win.
        told = ("ceiling of a busy machine (M)", "busy machine (M)")
        dated = (f"bench of {stale}", f"of {stale}") if stale else told
        notes = (f"{notes[0]}; {dated[0]}", f"{notes[1]}; {dated[0]}", *dated)
    if found.mbu is not None and found.mbu > 1:
        # Memory gives no more than it can: a figure above 1 would be of something else.
        why = "faster than memory can be: weights in a cache, or a ceiling too low (M)"
        return Gauge(MBU, nothing(why), (), definition)
    return Gauge(MBU, _figure(percent(found.mbu), ""), notes, definition)


def _weights(facts: ModelFacts) -> Gauge:
    if not facts.remote:
        notes = (f"{facts.parameters:,} parameters, {facts.dtype}", facts.dtype)
        return Gauge("weights", measured(size(facts.weight_bytes)), notes)
    if not facts.weight_bytes:
        return Gauge("weights", nothing("the server does not tell"))
    notes = (f"{facts.parameters:,} parameters, told by the server", "told by the server")
    return Gauge("weights", Content(size(facts.weight_bytes)), notes)


def _memory(view: View) -> list[Gauge]:
    facts = view.facts
    kv = view.step.kv if view.step else view.prefill.kv if view.prefill else None
    if facts is None:
        return [Gauge("weights", nothing("no model loaded"))]
    cache = kv.nbytes if kv is not None else None
    reason = "nothing read yet" if kv is None else visible(facts.kv_note) or "its size is not told"
    return [
        _weights(facts),
        Gauge(
            "KV cache",
            kv_mark(facts)(size(cache)) if cache is not None else nothing(reason),
            (plural(kv.stored, "position"),) if kv is not None and cache is not None else (),
        ),
    ]


def _cache(view: View) -> list[Gauge]:
    """Worth of the KV cache, where that was measured, is being, or had better be."""
    now, chart = view.log.loading, chart_of(view)
    if now is not None and now.phase == MEASURING_CURVES:
        share = f" {now.fraction * 100:.0f}%" if now.fraction is not None else ""
        return [Gauge("cache", nothing(f"measuring{share}: {visible(now.detail)}"))]
    definition = "time of a token without a cache / with one, at the longest text measured"
    if chart is not None:
        ratio = chart.ratio
        figure = _figure(f"{three(ratio)} ×" if ratio is not None else "—", "no time was measured")
        length = plural(chart.curves.lengths[-1], "token")
        notes = (in_words(chart), f"faster with it, at {length}", "faster with it")
        return [Gauge("cache", figure, notes, definition)]
    if view.facts is not None and not view.facts.keeps_cache:
        return [Gauge("cache", nothing("off: C times this text with one too"), (), definition)]
    return []


def _steps(speed: Speed, path: Sequence[StepRecord]) -> Gauge:
    counted = len(gaps_ms(path))
    out = [
        plural(number, what)
        for number, what in (
            (speed.warmup_steps, "warm-up"),
            (speed.reused_steps, "reused step"),
            (speed.reread_steps, "branch read again"),
        )
        if number
    ]
    note = f"{counted:,} in the averages" + (f"; left out: {', '.join(out)}" if out else "")
    return Gauge(
        "steps",
        Content(f"{len(path):,}"),
        (note, f"{counted:,} averaged"),
        "w warm-up; r reused logits; b branch read again; × not finite",
    )
