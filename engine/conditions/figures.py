"""Every name that a condition may use: one table, from which help and docs are made.

A bare name is a figure of the step and of the token that was drawn. The same name called with
another token, as in ``rank(" Lyon")``, is that token's figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from engine.conditions.moment import Moment, NotHere, Unavailable, exact
from engine.records.round import RoundRecord
from engine.records.step import Came, How
from engine.sampling.loops import MIN_REPEATS, MIN_TOKENS

Value = bool | int | float | str
"""Value of an expression."""


@dataclass(frozen=True, slots=True)
class Name:
    """A figure of the step: its unit (or what sort of value it is), and what it is."""

    name: str
    unit: str
    definition: str
    read: Callable[[Moment], Value]


# --- the token ---------------------------------------------------------------------------------


def _stop(at: Moment) -> str:
    return "" if at.step.stop is None else at.step.stop.kind.value


# fmt: off
TOKEN = (
    Name("token", "text", "text of the token; bytes that are no whole character read as U+FFFD",
         lambda at: at.step.token.bytes.decode("utf-8", "replace")),
    Name("token_id", "id", "its id in the vocabulary", lambda at: at.step.token.id),
    Name("token_bytes", "hex", 'its bytes, such as "205061"', lambda at: at.step.token.bytes.hex()),
    Name("kind", "text", "normal, special, added or byte", lambda at: at.step.token.kind.value),
    Name("text", "text", "all that was generated so far, with this token", lambda at: at.text),
    Name("prompt", "text", "the prompt", lambda at: at.moments.prompt.text),
    Name("stop", "text", 'stop_token, length or context where the run ends here, "" elsewhere',
         _stop),
)
# fmt: on

# --- the place ---------------------------------------------------------------------------------

PLACE = (
    Name("step", "count", "number of the token in the output, from 1", lambda at: at.index + 1),
    Name("position", "count", "tokens before it, prompt included", lambda at: at.step.position),
    Name("node", "number", "its node in the tree of the run", lambda at: at.step.node),
    Name("parent", "number", "the node before; 0 is the prompt", lambda at: at.step.parent),
)

# --- the draw ----------------------------------------------------------------------------------


def _u(at: Moment) -> float:
    if at.step.draw.u is None:
        raise Unavailable(f"no randomness was used: the token is {at.step.draw.how.value}")
    return at.step.draw.u


def _flip(at: Moment) -> float:
    u, low, high = _u(at), exact(at.step.draw.low), exact(at.step.draw.high)
    borders = [u - low] * (low > 0.0) + [high - u] * (high < 1.0)
    if not borders:
        raise Unavailable("nothing else could be drawn")
    return min(borders)


DRAW = (
    Name("how", "text", "sampled, greedy or forced", lambda at: at.step.draw.how.value),
    Name("forced", "yes/no", "the token was forced", lambda at: at.step.draw.how is How.FORCED),
    Name("u", "0..1", "the random number of the draw", _u),
    Name("flip", "0..1", "how far u was from another token's stretch", _flip),
    Name("seed", "number", "the seed it was drawn with", lambda at: at.step.seed),
)

# --- what the model thought --------------------------------------------------------------------


def _margin(at: Moment) -> float:
    probs = at.step.top.probs[0]
    return float(probs[0] - probs[1]) if len(probs) > 1 else float(probs[0])


def _leaders(at: Moment) -> tuple[int, float, float]:
    """(row of the most likely token after the chain, its probability, that of the second)."""
    top = at.step.top
    final = top.probs[-1]
    if top.slack is not None and top.slack[-1].any():
        raise Unavailable("probabilities after the chain are not known exactly")
    # Lowest id first among equals, as greedy decoding has it.
    order = sorted(range(len(final)), key=lambda row: (-final[row], top.ids[row]))
    second = float(final[order[1]]) if len(order) > 1 else 0.0
    return order[0], float(final[order[0]]), second


def _rest(at: Moment) -> float:
    """The most that one token that was not recorded can have after the chain."""
    rest = 1.0 - float(at.step.top.probs[-1].sum())
    # What is left by rounding is no token.
    return rest if rest > 1e-9 else 0.0


def _top_row(at: Moment) -> int:
    row, best, _ = _leaders(at)
    if best < _rest(at):
        raise Unavailable("the most likely token after the chain may not be among those recorded")
    return row


def _margin_final(at: Moment) -> float:
    _, best, second = _leaders(at)
    if second < _rest(at):
        raise Unavailable("the second most likely token after the chain may not be recorded")
    return best - second


def _text_of(at: Moment, row: int) -> str:
    return at.step.top.tokens[row].bytes.decode("utf-8", "replace")


MODEL = (
    Name("raw_logprob", "nats", "log-softmax of the model's logit", lambda at: at.step.raw_logprob),
    Name("raw_prob", "0..1", "exp(raw_logprob)", lambda at: math.exp(exact(at.step.raw_logprob))),
    Name("surprisal", "nats", "-raw_logprob", lambda at: at.step.surprisal),
    Name("rank", "count", "place in the model's order, 1 the most likely", lambda at: at.step.rank),
    Name("entropy", "nats", "of the model's distribution", lambda at: at.step.entropy_raw),
    Name("varentropy", "nats²", "variance of the surprisal", lambda at: at.step.varentropy_raw),
    Name("margin", "0..1", "the model's two largest probabilities, their difference", _margin),
    Name("top", "text", "the model's most likely token", lambda at: _text_of(at, 0)),
)

# --- what the chain made of it -----------------------------------------------------------------


def survivors(at: Moment, stage: str | None = None) -> float:
    """Candidates left after a stage, or after the whole chain."""
    if stage is not None:
        return at.step.stages[at.stage(stage)].survivors
    if not at.step.stages:
        raise Unavailable("the chain has no stages")
    return at.step.stages[-1].survivors


# fmt: off
CHAIN = (
    Name("final_prob", "0..1", "probability after the chain", lambda at: at.step.final_prob),
    Name("prob", "0..1", "another name for final_prob", lambda at: at.step.final_prob),
    Name("entropy_final", "nats", "entropy after the chain", lambda at: at.step.entropy_final),
    Name("margin_final", "0..1", "as margin, after the chain", _margin_final),
    Name("top_final", "text", "most likely token after the chain",
         lambda at: _text_of(at, _top_row(at))),
    Name("argmax_changed", "yes/no", "the chain has put another token first than the model",
         lambda at: _top_row(at) != 0),
    Name("survivors", "count", "tokens still possible after the chain", survivors),
    Name("chain", "text", "the chain in writing", lambda at: at.step.chain_spec),
    Name("preset", "text", "the stack whose rules it follows", lambda at: at.step.preset),
)
# fmt: on

# --- the cache ---------------------------------------------------------------------------------


def _new_block(at: Moment) -> bool:
    kv = at.step.kv
    if kv.nbytes is None:
        raise Unavailable("there is no cache of blocks")
    size = kv.block_size
    return -(-kv.seen // size) > -(-(kv.seen - kv.computed) // size)


def _kv_bytes(at: Moment) -> int:
    if at.step.kv.nbytes is None:
        raise Unavailable("the cache's size is not known")
    return at.step.kv.nbytes


# fmt: off
CACHE = (
    Name("context", "count", "positions that the model had read", lambda at: at.step.kv.seen),
    Name("computed", "count", "positions that the pass read", lambda at: at.step.kv.computed),
    Name("cached", "count", "positions that it found in the cache", lambda at: at.step.kv.cached),
    Name("kv_bytes", "bytes", "size of the cache, of its real tensors", _kv_bytes),
    Name("new_block", "yes/no", "the pass began a new block of the cache", _new_block),
    Name("prefix_miss", "yes/no", "the pass found nothing in the cache and read everything",
         lambda at: at.step.kv.computed > 0 and at.step.kv.cached == 0),
    Name("reread", "yes/no", "the branch was no longer in the cache and was read again",
         lambda at: at.step.timing.reread),
    Name("copied_blocks", "count",
         "blocks of the cache that the pass copied, because others share them",
         lambda at: at.step.kv.copied_blocks),
    Name("evicted_blocks", "count", "blocks of other branches that went to make room for it",
         lambda at: at.step.kv.evicted_blocks),
)
# fmt: on

# --- time --------------------------------------------------------------------------------------

# fmt: off
TIME = (
    Name("latency_ms", "ms", "all of the step; reading the prompt is not in the first",
         lambda at: at.step.timing.total_ms),
    Name("forward_ms", "ms", "the model's pass", lambda at: at.step.timing.forward_ms),
    Name("sample_ms", "ms", "the chain and the draw", lambda at: at.step.timing.sample_ms),
    Name("warmup", "yes/no", "first pass of its shape", lambda at: at.step.timing.warmup),
    Name("reused", "yes/no", "no pass was needed", lambda at: at.step.timing.reused),
)
# fmt: on

# --- loops -------------------------------------------------------------------------------------

# fmt: off
LOOP = (
    Name("loop", "yes/no",
         f"the text ends in a cycle that ran {MIN_REPEATS} times or more, over {MIN_TOKENS} tokens "
         "or more", lambda at: at.loop is not None),
    Name("loop_length", "count", "tokens in one cycle, 0 without",
         lambda at: 0 if at.loop is None else at.loop.length),
    Name("loop_repeats", "count", "whole cycles so far, 0 without",
         lambda at: 0 if at.loop is None else at.loop.repeats),
)
# fmt: on

# --- speculative decoding ----------------------------------------------------------------------


def _ended(at: Moment) -> RoundRecord:
    """The round whose last token this is. Raises Unavailable at other tokens."""
    found = at.round
    if found is None:
        # The first token never does, and tells nothing of whether the run drafts.
        drafts = bool(at.moments.rounds) or not at.index
        raise (NotHere if drafts else Unavailable)("the token did not come in a speculative round")
    if at.step.node != found.nodes[-1]:
        raise NotHere("the round goes on: it is told of at its last token")
    return found


def _residual_mass(at: Moment) -> float:
    left = _ended(at).residual
    if left is None:
        raise NotHere("no residual was drawn from: nothing was rejected by min(1, p/q)")
    return left.mass


ROUND = (
    Name("came", "text", "plain, accepted, corrected or bonus", lambda at: at.step.came.value),
    Name(
        "rejected",
        "yes/no",
        "the target rejected a draft here and drew this token instead",
        lambda at: at.step.came is Came.CORRECTED,
    ),
    Name(
        "accepted",
        "count",
        "drafts accepted in the speculative round that this token ends",
        lambda at: _ended(at).accepted,
    ),
    Name("drafted", "count", "tokens drafted in that round", lambda at: len(_ended(at).drafted)),
    Name(
        "residual_mass",
        "0..1",
        "sum of max(0, p - q) where that round rejected a draft",
        _residual_mass,
    ),
    Name("round_ms", "ms", "all of that round", lambda at: _ended(at).total_ms),
)

NAME_GROUPS: dict[str, tuple[Name, ...]] = {
    "the token": TOKEN,
    "its place": PLACE,
    "the draw": DRAW,
    "what the model thought": MODEL,
    "what the chain made of it": CHAIN,
    "the cache": CACHE,
    "time": TIME,
    "loops": LOOP,
    "speculative decoding": ROUND,
}
NAMES = {one.name: one for group in NAME_GROUPS.values() for one in group}
