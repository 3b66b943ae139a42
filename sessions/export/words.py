"""Facts of a run beside its tokens, for reports."""

from __future__ import annotations

from collections.abc import Iterable

from engine.acceptance import acceptance, brief_words
from engine.records.step import StepRecord
from engine.records.step_table import StepPath
from engine.records.vocabulary import Token
from engine.text import IncrementalDecoder, quote
from sessions.export.source import Source

NOTHING = "—"


def about(source: Source) -> list[tuple[str, str]]:
    """Model, machine and settings: (name, value) in the order to show them."""
    rows: list[tuple[str, str]] = []
    facts, settings, steps = source.facts, source.settings, source.branch()
    if facts is not None:
        rows += [
            ("model", facts.name),
            ("identity", facts.identity or NOTHING),
            ("device", f"{facts.device} ({facts.device_name})"),
            ("dtype", facts.dtype),
        ]
    if settings is not None:
        rows += [("preset", settings.preset), ("seed", str(settings.seed))]
    rounds = source.branch_rounds()
    if rounds:
        found = acceptance(rounds)
        names = ", ".join(dict.fromkeys(one.source for one in rounds))
        rows.append(("speculative decoding", f"{names}: {brief_words(found)}"))
    rows.append(("chain", "; ".join(dict.fromkeys(step.chain_spec for step in steps)) or NOTHING))
    rows += [
        ("prompt tokens", f"{len(source.prompt.tokens):,}" if source.prompt else NOTHING),
        ("output tokens", f"{len(steps):,}"),
        ("branches", f"{len(source.tree.tips):,}"),
        *([("deleted", deleted_words(source))] if source.tree.deleted else []),
        ("ended", steps[-1].stop.detail if steps and steps[-1].stop else "left before its end"),
    ]
    if facts is not None:
        versions = ", ".join(f"{name} {one}" for name, one in facts.versions.items())
        rows.append(("versions", versions or NOTHING))
    return rows


def speeds(source: Source) -> list[tuple[str, str]]:
    """The measured and derived speeds of the branch: (name, value)."""
    found = source.speed()
    return [
        ("time to first token", _figure(found.ttft_ms, "ms")),
        ("time between tokens", _figure(found.itl_ms, "ms")),
        ("decode", _figure(found.tps, "tokens/s")),
        ("prefill", _figure(found.prefill_tps, "tokens/s")),
        ("warm-up steps left out", str(found.warmup_steps)),
    ]


def deleted_words(source: Source) -> str:
    """A note on deleted branches, which a report leaves out."""
    branches, tokens = source.deleted, len(source.tree.deleted)
    return (
        f"{branches:,} branch{'' if branches == 1 else 'es'} "
        f"({tokens:,} token{'' if tokens == 1 else 's'}), left out here"
    )


def output_text(steps: Iterable[StepRecord]) -> str:
    """The text of these steps in a row."""
    decoder = IncrementalDecoder()
    if isinstance(steps, StepPath):
        # Its tokens are known without the steps.
        tokens = (steps.token(index) for index in range(len(steps)))
    else:
        tokens = (step.token for step in steps)
    return "".join(decoder.feed(token.bytes) for token in tokens) + decoder.flush()


def named(token: Token) -> str:
    """A token in quotes, with its id."""
    return f"{quote(token.bytes.decode('utf-8', 'replace'), 30)} (id {token.id})"


def _figure(value: float | None, unit: str) -> str:
    return NOTHING if value is None else f"{value:,.1f} {unit}"
