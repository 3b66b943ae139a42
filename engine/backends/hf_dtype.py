"""Which dtype this CPU runs a model fastest in, by measuring; and whether its answers hold."""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.model_facts import DtypeTrial
from engine.text import quote

TRIED = ("float32", "float16", "bfloat16")
_SAMPLE = 150_000_000
"""Most weights that the trial multiplies with: more than any cache holds, less than a second."""
_ROUNDS, _FEWEST, _SECONDS = 6, 2, 0.6
"""Rounds of the trial: all of them, or after the fewest those that begin within the seconds."""
_WORTH_THREADS = 100_000
"""Numbers in a matrix from which on several threads are of use."""
_HOPELESS = 20.0
"""A dtype this many times slower than the best in its first round is not measured again."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The dtype to use, why in words, and what was measured."""

    dtype: str
    reason: str
    trials: tuple[DtypeTrial, ...]


def matrices(model: Any) -> list[Any]:
    """The weights that one pass multiplies a vector with, each as ``(out, in)``, the head too."""
    found: list[Any] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            found.append(module.weight)
        elif type(module).__name__ == "Conv1D":  # GPT-2's, stored as (in, out)
            found.append(module.weight.t())
    return [weight for weight in found if weight.is_floating_point()]


def _sample(found: Sequence[Any], limit: int) -> list[Any]:
    """At most about ``limit`` elements of ``found``: of every shape, and evenly over the layers."""
    groups: defaultdict[tuple[int, ...], list[Any]] = defaultdict(list)
    for weight in found:
        groups[tuple(weight.shape)].append(weight)
    share = min(1.0, limit / max(1, sum(weight.numel() for weight in found)))
    picked = []
    for group in groups.values():
        count = max(1, math.floor(len(group) * share))
        picked += [group[index * len(group) // count] for index in range(count)]
    return picked


def measure(model: Any, free: int | None = None) -> dict[str, float | None]:
    """Milliseconds of one pass's matrix-vector products in each dtype; None where it cannot.

    ``model`` holds float32 weights on the CPU. Rounds of the dtypes take turns, each going through
    all layers, so that no weight is still in a cache when its turn comes again. Every product
    counts by its best round: on a busy machine some of any round's products are interrupted. Only
    the sampled weights are copied, within a quarter of the ``free`` bytes; the figure is scaled up
    from them.
    """
    found = matrices(model)
    limit = _SAMPLE if free is None else min(_SAMPLE, free // 16)
    picked = _sample(found, limit)
    if not picked:
        return dict.fromkeys(TRIED)
    scale = sum(weight.numel() for weight in found) / sum(weight.numel() for weight in picked)
    best: dict[str, list[float]] = {}
    with torch.inference_mode():
        work = {name: _products(picked, getattr(torch, name)) for name in TRIED}
        began = time.perf_counter()
        for round_ in range(_ROUNDS):
            if round_ >= _FEWEST and time.perf_counter() - began > _SECONDS:
                break
            for name in list(work):
                times = _timed(work[name])
                if times is None:  # this build of torch has no such product on this CPU
                    del work[name]
                elif name not in best:
                    best[name] = times
                else:
                    best[name] = [min(pair) for pair in zip(best[name], times, strict=True)]
            if round_ == 0:
                fastest = min((sum(times) for times in best.values()), default=0.0)
                for name, times in best.items():
                    if sum(times) > _HOPELESS * fastest:
                        del work[name]
    return {name: sum(best[name]) * scale if name in best else None for name in TRIED}


def _products(picked: Sequence[Any], dtype: Any) -> list[tuple[Any, Any]]:
    return [
        (weight.to(dtype), torch.full((1, 1, weight.shape[1]), 0.01, dtype=dtype))
        for weight in picked
    ]


def _timed(products: Sequence[tuple[Any, Any]]) -> list[float] | None:
    """Milliseconds of each product; None where torch refuses one."""
    times = []
    try:
        for weight, vector in products:
            start = time.perf_counter()
            torch.nn.functional.linear(vector, weight)
            times.append((time.perf_counter() - start) * 1000)
    except RuntimeError:
        return None
    return times


def is_busy(model: Any) -> bool:
    """Whether other work keeps torch's threads from running side by side just now.

    A product ends when its slowest thread does, so one that is kept waiting for a core makes it
    take up to a hundred times as long: a trial would then measure the waiting. The sign of it is
    that a product is slower on all threads than on one.
    """
    threads = torch.get_num_threads()
    weights = sorted(matrices(model), key=lambda one: one.numel())
    if threads == 1 or not weights or weights[-1].numel() < _WORTH_THREADS:
        return False
    # float16 products are plain loops, which every thread takes an equal share of.
    product = _products([weights[len(weights) // 2]], torch.float16)
    with torch.inference_mode():
        together = sorted(_timed(product * 40) or [0.0])[:-2]
        torch.set_num_threads(1)
        try:
            alone = min(_timed(product * 8) or [0.0])
        finally:
            torch.set_num_threads(threads)
    return sum(together) / len(together) > 1.5 * alone


def choose(model: Any, tokenizer: Any, ids: Sequence[int], free: int | None = None) -> Choice:
    """Measure, then take the fastest dtype whose answer to the prompt ``ids`` is float32's.

    ``model`` holds float32 weights on the CPU and is left as it is. Dtypes are compared from the
    fastest on and only until one agrees; each comparison needs a 16-bit copy of the weights, and
    is left out (which rules the dtype out) when that is more than the ``free`` bytes. On a busy
    machine all this is done on one thread, which the reason mentions.
    """
    if not is_busy(model):
        return _choose(model, tokenizer, ids, free)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        choice = _choose(model, tokenizer, ids, free)
    finally:
        torch.set_num_threads(threads)
    return replace(choice, reason=f"{choice.reason}; on one thread, as the machine was busy")


def _choose(model: Any, tokenizer: Any, ids: Sequence[int], free: int | None) -> Choice:
    measured = measure(model, free)
    order = sorted(
        (name for name in TRIED if measured[name] is not None),
        key=lambda name: measured[name] or 0.0,
    )
    unasked = "slower, so not compared"
    outcome = {name: DtypeTrial(name, measured[name], None, unasked) for name in TRIED}
    outcome["float32"] = DtypeTrial("float32", measured["float32"], True, "the reference")
    for name in TRIED:
        if measured[name] is None:
            note = "there is no such product on this CPU" if matrices(model) else "nothing to time"
            outcome[name] = DtypeTrial(name, None, None, note)
    chosen = "float32"
    for name in order:
        if name != "float32":
            agrees, note = _compare(model, tokenizer, ids, name, free)
            outcome[name] = DtypeTrial(name, measured[name], agrees, note)
            if not agrees:
                continue
        chosen = name
        break
    trials = tuple(outcome[name] for name in TRIED)
    return Choice(chosen, _reason(chosen, order, trials), trials)


def _compare(
    model: Any, tokenizer: Any, ids: Sequence[int], name: str, free: int | None
) -> tuple[bool | None, str]:
    """Whether the model in dtype ``name`` gives finite logits with float32's top token."""
    parameters = dict(model.named_parameters())
    needed = sum(parameter.numel() for parameter in parameters.values()) * 2
    if free is not None and needed > free:
        return None, "not enough memory to compare it with float32"
    prompt = torch.tensor([list(ids)])
    with torch.inference_mode():
        expected = model(prompt).logits[0, -1]
        copies = dict(converted(model, getattr(torch, name)))
        found = torch.func.functional_call(model, copies, (prompt,)).logits[0, -1].float()
    # Minus infinity is a logit that some models give on purpose.
    if bool(torch.isnan(found).any() | torch.isposinf(found).any()):
        return False, "its logits on a short prompt are not finite"
    wanted, got = int(expected.argmax()), int(found.argmax())
    if wanted != got:
        words = [quote(tokenizer.decode([token_id]), 20) for token_id in (got, wanted)]
        return False, f"its top token on a short prompt is {words[0]}, float32's is {words[1]}"
    return True, "same top token as float32 on a short prompt"


def _reason(chosen: str, order: Sequence[str], trials: Sequence[DtypeTrial]) -> str:
    """Such as ``float16: fastest of 3 measured (9.7 ms against 19.4 bfloat16, ...)``."""
    by_name = {trial.dtype: trial for trial in trials}
    if not order:
        return f"{chosen}: nothing to measure, the model has no matrix-vector products"
    figures = [f"{by_name[name].matvec_ms:.1f} {name}" for name in order if name != chosen]
    first = f"{by_name[chosen].matvec_ms:.1f} ms"
    against = f"{first} against {', '.join(figures)}" if figures else first
    why = f"{against} for one pass's matrix-vector products"
    out = [f"{name} is out: {by_name[name].note}" for name in order[: order.index(chosen)]]
    rank = "fastest" if not out else "fastest that can be trusted"
    return "; ".join([f"{chosen}: {rank} of {len(order)} measured ({why})", *out])


def _kept_wide(model: Any, dtype: Any) -> re.Pattern[str] | None:
    """Names of the weights that the model's own class keeps in float32."""
    names = set(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    if dtype == torch.float16:
        names |= set(getattr(model, "_keep_in_fp32_modules", None) or ())
    return re.compile("|".join(rf"(^|\.){name}($|\.)" for name in names)) if names else None


def converted(model: Any, dtype: Any) -> Iterator[tuple[str, Any]]:
    """(name, copy in ``dtype``) of every parameter that ``from_pretrained(dtype=...)`` converts."""
    kept = _kept_wide(model, dtype)
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and not (kept and kept.search(name)):
            yield name, parameter.data.to(dtype)


def convert(model: Any, name: str) -> None:
    """Give ``model`` the dtype ``name`` in place, as loading it in that dtype would have.

    Not ``model.to(dtype)``: that also rounds the rotary frequencies, which are no weights, and
    puts every position a little out.
    """
    dtype = getattr(torch, name)
    parameters = dict(model.named_parameters())
    for key, copy in converted(model, dtype):  # one at a time: little memory on top
        parameters[key].data = copy
    stored = model.state_dict(keep_vars=True)
    kept = _kept_wide(model, dtype)
    for key, buffer in model.named_buffers():
        if key in stored and buffer.is_floating_point() and not (kept and kept.search(key)):
            buffer.data = buffer.data.to(dtype)
    model.config.dtype = dtype
