"""The columns that a step's records have, and what is common to the steps of one chain.

What later versions of the program add to the records goes, where it differs from its default, into
the JSON column ``extra``, so that it comes back without a new schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.records.cache import KVState
from engine.records.prompt import PromptRecord
from engine.records.step import Draw, StageTrace, StepRecord, StepTiming, TopTable

Row = tuple[Any, ...]

STEP_COLUMNS = (
    *("node", "parent", "position", "token", "how", "u", "low", "high", "raw_logprob"),
    *("final_prob", "rank", "entropy_raw", "entropy_final", "log_z_raw", "varentropy_raw"),
    *("weight_sum", "raw_logprobs", "raw_probs", "chain", "seed"),
    *("forward_ms", "sample_ms", "detokenize_ms", "other_ms", "total_ms", "warmup", "reused"),
    "reread",
    *("kv_seen", "kv_stored", "kv_bytes", "kv_computed", "kv_cached", "kv_block_size"),
    *("stop_kind", "stop_detail", "extra"),
)
STAGE_COLUMNS = (
    *("at", "survivors", "mass_removed", "entropy_before", "entropy", "log_z"),
    *("weight_sum", "logits", "probs"),
)
CANDIDATE_COLUMNS = ("at", "token", "raw_logit", "final_prob", "cut_by", "rank")


def _fields(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Of each record, the fields that have columns or follow from them. All others are "extra".
KNOWN_FIELDS: dict[type[Any], frozenset[str]] = {
    StepRecord: _fields(
        "node parent position token draw raw_logprob final_prob rank entropy_raw entropy_final "
        "log_z_raw varentropy_raw stages chain_spec preset seed top timing kv stop"
    ),
    Draw: _fields("token_id how u low high"),
    StepTiming: _fields(
        "forward_ms sample_ms detokenize_ms other_ms total_ms warmup reused reread"
    ),
    KVState: _fields("seen stored nbytes computed cached block_size"),
    TopTable: _fields("ids raw_logits raw_logprobs probs cut_by ranks tokens"),
    PromptRecord: _fields("text tokens origins chat tokenize_ms notes"),
    StageTrace: _fields(
        "name label params off survivors mass_removed entropy_before entropy log_z"
    ),
}


@dataclass(frozen=True, slots=True)
class StageOfChain:
    """Columns of a stage that all uses of its chain have in common."""

    name: str
    label: str
    params: dict[str, Any]
    off: bool
    divisor: float | None


@dataclass(frozen=True, slots=True)
class ChainOfSteps:
    """A chain as it is stored: its specification and its stages."""

    spec: str
    preset: str
    stages: tuple[StageOfChain, ...] = field(default=())
