"""Places in a recorded run and figures out of its records: the matter of the tour's texts."""

from __future__ import annotations

import math

import numpy as np

from engine.acceptance import acceptance
from engine.bill.prices import Kind
from engine.records.prompt import Origin
from engine.records.step import How, StepRecord
from engine.run.tree import ROOT
from engine.sampling.loops import Loop, find_loop
from inspector.draw.numbers import count, ms, nats, percent, rate, size, three
from inspector.panes.kv.figures import formula
from inspector.state.account import account_of
from inspector.state.view import RunLog, View


def places(log: RunLog) -> dict[str, int]:
    """Places by name, as nodes; those that this run has."""
    tips = log.tree.tips
    if not tips:
        return {"prompt": ROOT}
    sampled = min((tip for tip in tips if not _greedy(log, tip)), default=tips[0])
    path = log.path(sampled)
    nodes, entropy = path.figures["node"], path.figures["entropy_raw"]
    found = {
        "prompt": ROOT,
        "first": int(nodes[0]),
        "middle": int(nodes[len(nodes) // 2]),
        "end": sampled,
        "spiked": int(nodes[np.argmin(entropy[:-1])]),  # at the last one more is said
        "open": int(nodes[np.argmax(entropy)]),
    }
    forced = [node for node in sorted(log.nodes) if log.nodes[node].draw.how is How.FORCED]
    if forced:
        found["fork"] = forced[0]
    greedy = [tip for tip in tips if _greedy(log, tip)]
    if greedy and _loop(log, greedy[0]) is not None:
        found["loop"] = greedy[0]
    if log.rounds:
        best = max(log.rounds.values(), key=lambda one: one.added)
        found["round"] = best.node
    return found


def figures(log: RunLog, at: dict[str, int]) -> dict[str, str]:
    """The figures by name, as they are written; ``at`` are the places."""
    facts, prompt, prefill = log.facts, log.prompt, log.prefill
    assert facts is not None
    assert prompt is not None
    assert prefill is not None
    speed = View(log, at.get("middle", ROOT)).speed
    template = sum(one is not Origin.USER for one in prompt.origins)
    found = {
        "characters": count(len(prompt.text)),
        "own": count(len(prompt.tokens) - template),
        "template": count(template),
        "vocabulary": count(facts.vocab_size),
        "computed": count(prefill.computed),
        "cached": count(prefill.cached),
        "prefill": ms(prefill.total_ms),
        "ttft": ms(speed.ttft_ms),
        "weights": size(facts.weight_bytes),
        "itl": ms(speed.itl_ms),
        "tps": rate(speed.tps),
        "formula": (formula(facts) or ("",))[0],
        "each": count(facts.kv_bytes_per_token_expected),
    }
    if prefill.prefix is not None:
        found |= {"common": count(prefill.prefix.common), "block": count(prefill.prefix.block_size)}
    for name in ("spiked", "open"):
        if name in at:
            step = log.nodes[at[name]]
            found |= {
                f"{name}_top": percent(math.exp(float(step.top.raw_logprobs.max()))),
                f"{name}_entropy": nats(step.entropy_raw),
                f"{name}_position": count(step.position),
            }
    if "middle" in at:
        kv = log.nodes[at["middle"]].kv
        found |= {"stored": count(kv.stored), "held": size(kv.nbytes)}
    if "end" in at:
        found |= _bill(log, at["end"])
    if "open" in at:
        found["pipe"] = _pipe(log.nodes[at["open"]])
    if "fork" in at:
        step = log.nodes[at["fork"]]
        found |= {"fork_position": count(step.position), "fork_shared": count(step.position)}
    if "loop" in at:
        path, loop = log.path(at["loop"]), _loop(log, at["loop"])
        assert loop is not None
        chances = np.exp(path.figures["raw_logprob"][-loop.length :])
        found |= {
            "loop_start": count(len(prompt.tokens) + loop.start),
            "loop_length": count(loop.length),
            "loop_prob": percent(float(chances.mean())),
        }
    if log.rounds:
        whole = acceptance(log.rounds.values())
        found |= {
            "drafted": count(whole.drafted),
            "accepted": count(whole.accepted),
            "per_pass": three(whole.tokens_per_pass or math.nan),
        }
    return found


def _bill(log: RunLog, tip: int) -> dict[str, str]:
    """Times of a token of the prompt and of the output, in this run."""
    speed = View(log, tip).speed
    computed, output = (1000 / one if one else math.nan for one in (speed.prefill_tps, speed.tps))
    line = account_of(log, log.path(tip)).bill.line(Kind.OUTPUT)
    return {
        "prompt_each": ms(computed),
        "output_each": ms(output),
        "output_ratio": three(output / computed),
        "output_time": ms(line.time.value if line is not None else None),
    }


def _greedy(log: RunLog, tip: int) -> bool:
    return log.nodes[tip].draw.how is How.GREEDY


def _loop(log: RunLog, tip: int) -> Loop | None:
    """The loop that a branch ends in, also one that has gone round but twice."""
    return find_loop(log.path(tip).token_ids, min_repeats=2)


def _pipe(step: StepRecord) -> str:
    """The stages and what each left: ``temperature=0.8 left 49,152, top_k=40 left 40``."""
    return ", ".join(f"{one.label} left {one.survivors:,}" for one in step.stages)
