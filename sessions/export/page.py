"""A run as one HTML page: transcript, the ladder at each token, timing. It loads nothing else.

Whatever comes from the model, the prompt or the file is made visible first (no control, bidi or
zero-width character survives), then escaped for where it stands.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.records.step import DrawnOn, How, StepRecord
from engine.records.step_table import StepPath
from engine.records.vocabulary import Token
from engine.text import label, visible
from sessions.export.bill import bill_pairs
from sessions.export.jsonl import cut_name, plain, texts
from sessions.export.source import Source
from sessions.export.words import about, speeds

ROWS = 20
"""Candidates shown at each token."""
_BRANCHES = 20
_TOKENS = 5000
"""Tokens in all branches that are shown: each has a table, which a browser must hold."""
_SHADES = (0.5, 1.0, 2.0, 4.0, 7.0)
_MARK = re.compile(r"{{(\w+)}}")
_TEMPLATE = Path(__file__).with_name("page.html")


def html_lines(source: Source) -> Iterator[str]:
    """The page, in one piece."""
    tips = source.tips()
    shown = _shown(source, tips)
    steps = {step.node: step for branch in shown for step in branch}
    main = shown[0]
    parts = {
        "title": escape(source.title),
        "about": _pairs([*about(source), *_left_out(source, tips, shown)]),
        "prompt": _text(source.prompt.text if source.prompt else ""),
        "branches": "".join(
            _branch(source, tip, branch, len(tips))
            for tip, branch in zip(tips, shown, strict=False)
        ),
        "speeds": _pairs([*speeds(source), *bill_pairs(source.account())]),
        "latency": _bars(main),
        "slowest": f"up to {max((step.timing.total_ms for step in main), default=0.0):,.1f} ms",
        "entropy": _curve([step.entropy_raw for step in main]),
        "widest": f"up to {max((step.entropy_raw for step in main), default=0.0):.2f} nats",
        "settings": _pairs(_settings(source)),
        "steps": _json({str(node): _step(step) for node, step in steps.items()}),
    }
    # In one pass, so that a mark inside the run's own text stays text.
    yield _MARK.sub(lambda found: parts[found[1]], _TEMPLATE.read_text("utf-8"))


def _shown(source: Source, tips: Sequence[int]) -> list[StepPath]:
    """The first branches, and of those the first tokens: as much as a page can hold."""
    found: list[StepPath] = []
    left = _TOKENS
    for tip in tips[:_BRANCHES]:
        if left <= 0:
            break
        found.append(source.branch(tip)[:left])
        left -= len(found[-1])
    return found


def _left_out(
    source: Source, tips: Sequence[int], shown: Sequence[Sequence[StepRecord]]
) -> Iterator[tuple[str, str]]:
    branches = len(tips) - len(shown)
    tokens = sum(len(source.branch(tip)) for tip in tips[: len(shown)]) - sum(map(len, shown))
    if branches or tokens:
        yield "left out here", f"{branches:,} branches, and {tokens:,} tokens of those shown"


def escape(text: str) -> str:
    """``text`` on one line, for HTML content or an attribute."""
    return html.escape(visible(text))


def _text(text: str) -> str:
    """``text`` with its line breaks."""
    return html.escape(visible(text, newline="⏎\n"))


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in. ASCII only."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)


def _settings(source: Source) -> Iterator[tuple[str, str]]:
    dials = source.settings.dials if source.settings else {}
    for name, setting in dials.items():
        yield name, f"{setting.value} ({setting.source})"


def _branch(source: Source, tip: int, steps: Sequence[StepRecord], branches: int) -> str:
    named = branches > 1 or source.name(tip)
    name = f"Output, {escape(source.branch_title(tip))}" if named else "Output"
    tokens = "".join(_token(step, text) for step, text in texts(steps))
    return f'<h2>{name}</h2><div class="box text">{tokens}</div>'


def _token(step: StepRecord, text: str) -> str:
    # A piece of a character shows its bytes; the piece that completes it, the character.
    shown = visible(text, newline="⏎\n") if text else _label(step.token)
    forced = " forced" if step.draw.how is How.FORCED else ""
    shade = sum(step.surprisal >= limit for limit in _SHADES)
    return (
        f'<span class="t s{shade}{forced}" role="button" tabindex="-1" data-node="{step.node}" '
        f'aria-pressed="false">{html.escape(shown)}</span>'
    )


def _label(token: Token) -> str:
    return label(token.id, token.bytes, token.kind.value)


def _step(step: StepRecord) -> dict[str, Any]:
    top = step.top
    rows = list(range(min(ROWS, len(top.tokens))))
    # The drawn token is always in the table, wherever it ranks.
    rows += [
        row for row, token_id in enumerate(top.ids) if token_id == step.token.id and row >= ROWS
    ]
    left_out = len(top.tokens) - len(rows)
    return {
        "text": _label(step.token),
        "id": step.token.id,
        "position": step.position,
        "how": _how(step),
        "figures": f"entropy {step.entropy_raw:.3f} → {step.entropy_final:.3f} nats, "
        f"{step.timing.total_ms:,.1f} ms",
        "stop": visible(step.stop.detail) if step.stop else None,
        "levels": [
            {"label": "model", "notes": []},
            *(
                {
                    "label": visible(stage.label),
                    "notes": [f"{stage.survivors:,} left", f"−{stage.mass_removed:.2%}"],
                }
                for stage in step.stages
            ),
        ],
        "top": [
            {
                "rank": int(top.ranks[row]),
                "id": int(top.ids[row]),
                "text": _label(top.tokens[row]),
                "probs": [_rounded(value) for value in top.probs[:, row].tolist()],
                "cut": visible(cut_name(int(top.cut_by[row]), step.stages) or "") or None,
            }
            for row in rows
        ],
        "more": f"{left_out} more candidates are in the session file." if left_out else None,
    }


def _how(step: StepRecord) -> str:
    draw = step.draw
    if draw.u is None:
        return f"{draw.how.value}, probability {step.final_prob:.2%}"
    where = {
        DrawnOn.SURVIVORS: "",
        DrawnOn.VERDICT: "; a draft, accepted below min(1, p/q)",
        DrawnOn.RESIDUAL: " of the residual max(0, p - q); the draft was rejected",
        DrawnOn.DRAFT: " of the draft's own distribution; accepted by a rule that is NOT lossless",
    }[draw.on]
    return f"u = {draw.u:.6f} fell between {draw.low:.6f} and {draw.high:.6f}{where}"


def _rounded(value: float) -> float | None:
    number: float | None = plain(value)
    return None if number is None else float(f"{number:.6g}")


def _bars(steps: Sequence[StepRecord]) -> str:
    """A bar a step; grey ones are no ordinary decode steps."""
    slowest = max((step.timing.total_ms for step in steps), default=0.0)
    if slowest <= 0.0:
        return "—"
    bars = []
    for index, step in enumerate(steps):
        height = 100 * step.timing.total_ms / slowest
        kind = "" if step.timing.steady and index else ' class="warm"'
        bars.append(
            f'<rect{kind} x="{index + 0.1:.1f}" y="{100 - height:.2f}" width="0.8" '
            f'height="{height:.2f}"/>'
        )
    return f"{_svg(len(steps), 'time of each step')}{''.join(bars)}</svg>"


def _curve(values: Sequence[float]) -> str:
    largest = max(values, default=0.0)
    if largest <= 0.0:
        return "—"
    points = " ".join(
        f"{index + 0.5:.1f},{100 - 100 * value / largest:.2f}" for index, value in enumerate(values)
    )
    return f'{_svg(len(values), "entropy at each step")}<polyline points="{points}"/></svg>'


def _svg(width: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{title}">'
    )
