"""Records made by hand, with numbers that can be checked in the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.records.cache import KVState
from engine.records.events import Record, SettingsChanged
from engine.records.model import ModelFacts
from engine.records.prompt import LayerTime, Origin, PrefillChunk, PrefillRecord, PromptRecord
from engine.records.round import (
    Accept,
    Drafted,
    DraftVerdict,
    Residual,
    ResidualRow,
    RoundEnd,
    RoundRecord,
)
from engine.records.step import Draw, How, StepRecord, StepTiming, TopTable
from engine.records.vocabulary import Token
from inspector.state.view import RunLog, View

SMOLLM2 = ModelFacts(
    name="SmolLM2-135M-Instruct",
    identity="sha256:0000",
    architecture="LlamaForCausalLM",
    device="cpu",
    device_name="a CPU",
    dtype="float32",
    dtype_reason="fastest here",
    dtype_trials=(),
    backend="hf",
    vocab_size=49152,
    tokenizer_size=49152,
    layers=30,
    query_heads=9,
    kv_heads=3,
    head_dim=64,
    hidden_size=576,
    context_length=8192,
    parameters=134_515_008,
    weight_bytes=538_060_032,
    kv_bytes_per_token_expected=46_080,
    kv_note="",
    cache_kind="full attention",
    can_rewind=True,
    load_ms=1840.0,
    threads=2,
)
"""The default model in float32: 2 × 30 × 3 × 64 × 4 = 46,080 bytes of K and V a token."""

TOKEN = Token(7, b" word")


def kv(seen: int, *, computed: int = 1, stored: int | None = None, each: int = 46_080) -> KVState:
    """A cache of ``seen`` positions of which the last ``computed`` were read by this pass."""
    held = seen if stored is None else stored
    return KVState(seen, held, held * each, computed, seen - computed)


def prompt(count: int, *, tokenize_ms: float = 0.0) -> PromptRecord:
    """A prompt of ``count`` tokens, of different ids: what repeats would be watched."""
    tokens = tuple(Token(1000 + at, TOKEN.bytes) for at in range(count))
    return PromptRecord("word " * count, tokens, (Origin.USER,) * count, False, tokenize_ms)


def chunk(
    start: int,
    count: int,
    ms: float,
    *,
    layers: Sequence[LayerTime] = (),
    warmup: bool = False,
    layers_note: str = "",
) -> PrefillChunk:
    return PrefillChunk(start, count, ms, tuple(layers), warmup, layers_note)


def prefill(*chunks: PrefillChunk, done: bool = True, cached: int = 0) -> PrefillRecord:
    """A prefill of these chunks."""
    computed = sum(one.count for one in chunks)
    return PrefillRecord(
        chunks=chunks,
        cached=cached,
        computed=computed,
        total_ms=sum(one.ms for one in chunks),
        kv=kv(cached + computed, computed=computed),
        done=done,
    )


def timing(
    forward: float,
    sample: float = 0.0,
    detokenize: float = 0.0,
    other: float = 0.0,
    **flags: Any,
) -> StepTiming:
    """A step's timing whose total is the sum of its parts."""
    total = forward + sample + detokenize + other
    return StepTiming(forward, sample, detokenize, other, total, **flags)


_TABLE = TopTable(
    ids=np.array([TOKEN.id], np.int32),
    raw_logits=np.zeros(1, np.float32),
    raw_logprobs=np.zeros(1),
    probs=np.ones((1, 1)),
    cut_by=np.full(1, -1, np.int8),
    ranks=np.ones(1, np.int32),
    tokens=(TOKEN,),
)


def step(node: int, times: StepTiming, cache: KVState, **changes: Any) -> StepRecord:
    """Step ``node`` of a run without forks, its parent the node before."""
    record = StepRecord(
        node=node,
        parent=node - 1,
        position=cache.seen,
        token=TOKEN,
        draw=Draw(TOKEN.id, How.GREEDY, None, 0.0, 1.0),
        raw_logprob=0.0,
        final_prob=1.0,
        rank=1,
        entropy_raw=1.0,
        entropy_final=0.5,
        log_z_raw=0.0,
        varentropy_raw=0.0,
        stages=(),
        chain_spec="temperature=0",
        seed=0,
        top=_TABLE,
        timing=times,
        kv=cache,
    )
    return replace(record, **changes)


_VERDICTS: dict[str, DraftVerdict] = {
    one.value[0]: one for one in DraftVerdict if one is not DraftVerdict.AFTER_STOP
}
_VERDICTS["s"] = DraftVerdict.AFTER_STOP


def a_round(
    node: int,
    verdicts: str,
    *,
    accept: str = "exact",
    expected: float = 0.8,
    times: tuple[float, float, float] = (2.0, 10.0, 1.0),
) -> RoundRecord:
    """A round whose drafts are a(ccepted), r(ejected), d(iscarded) or s (after a stop)."""
    fates = [_VERDICTS[one] for one in verdicts]
    accepted = fates.count(DraftVerdict.ACCEPTED)
    end = RoundEnd.REJECTED if "r" in verdicts else RoundEnd.BONUS
    end = RoundEnd.STOP if "s" in verdicts else end
    seen = (DraftVerdict.ACCEPTED, DraftVerdict.REJECTED)
    drafted = tuple(
        Drafted(TOKEN, 0.5, fate, 0.4, 0.3, 0.2, expected)
        if fate in seen
        else Drafted(TOKEN, 0.5, fate, draft_u=0.2)
        for fate in fates
    )
    return RoundRecord(
        node=node,
        parent=node - 1,
        source="ngram:3",
        accept=Accept(accept),
        asked=len(fates),
        drafted=drafted,
        added=accepted + (end is not RoundEnd.STOP),
        end=end,
        draft_ms=times[0],
        verify_ms=times[1],
        rest_ms=times[2],
        written=len(fates) + 1,
        taken_back=len(fates) - accepted,
        residual=Residual(0.6, (ResidualRow(TOKEN, 0.4, 0.1, 0.5),)) if "r" in verdicts else None,
    )


def view(*records: Record, cursor: int | None = None) -> View:
    """A look at these records, at the last node unless told otherwise."""
    log = RunLog()
    for record in records:
        log.add(record)
    return View(log, max(log.nodes, default=0) if cursor is None else cursor)


def case_36() -> list[Record]:
    """10 prompt tokens read in 500 ms, then 5 output tokens, 100 ms a decode step."""
    steps = [step(1, timing(0.0), kv(10, computed=10))]
    steps += [step(node, timing(100.0), kv(9 + node)) for node in range(2, 6)]
    return [SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), *steps]


def settings(seed: int = 0) -> SettingsChanged:
    """The default chain's settings."""
    return SettingsChanged("guide", "temperature=0.8 > top_k=40 > top_p=0.95", seed, {})


def texts(lines: Sequence[Any]) -> str:
    """Lines of Content as a picture: their text, without what trails."""
    return "\n".join(line.plain.rstrip() for line in lines)
