"""Choose the dtype that a CPU runs a model in, from timed decode steps; convert a model to it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.records.model import DtypeTrial
from engine.text import quote

TRIED = ("float32", "float16", "bfloat16")
BETTER = 1.05
"""Factor by which another dtype must be faster than the one in use to take its place."""


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


def choose(
    model: Any,
    tokenizer: Any,
    ids: Sequence[int],
    rounds: Mapping[str, Sequence[float] | None],
    *,
    kept: str = "float32",
    free: int | None = None,
) -> Choice:
    """The fastest dtype whose answer to the prompt ``ids`` is float32's; ``kept`` when in doubt.

    ``model`` holds float32 weights on the CPU and is left as it is. ``rounds`` are milliseconds of
    a decode step, round by round as they were taken in turns; None where the model does not run in
    a dtype. Another dtype than ``kept`` has to win by ``BETTER``, in the median of the rounds' own
    ratios. Dtypes are compared with float32 from the fastest on, each with a 16-bit copy of the
    weights; one for whose copy there are not ``free`` bytes is out.
    """
    times = {name: statistics.median(of) for name in TRIED if (of := rounds.get(name))}
    trials = {name: _trial(name, times.get(name)) for name in TRIED}
    out: list[str] = []
    for name in _order(rounds, times, kept):
        agrees, note = _compare(model, tokenizer, ids, name, free)
        trials[name] = replace(trials[name], agrees=agrees, note=note)
        if agrees:
            break
        out.append(f"{name} is out: {note}")
    else:
        name = "float32"
    return Choice(name, _reason(name, times, out), tuple(trials.values()))


def _trial(name: str, ms: float | None) -> DtypeTrial:
    if name == "float32":
        return DtypeTrial(name, True, "the reference", ms)
    note = "the model does not run in it on this CPU" if ms is None else "not clearly faster"
    return DtypeTrial(name, None, f"{note}, so not compared", ms)


def _order(
    rounds: Mapping[str, Sequence[float] | None], times: Mapping[str, float], kept: str
) -> list[str]:
    """Dtypes in the order in which they are taken if their answers hold, up to float32."""
    faster = sorted((name for name in times if _wins(rounds, name, kept)), key=times.__getitem__)
    order = [*faster, kept] if kept == "float32" else [*faster, kept, "float32"]
    return order[: order.index("float32") + 1]


def _wins(rounds: Mapping[str, Sequence[float] | None], name: str, over: str) -> bool:
    """True if ``name`` is clearly faster than ``over``: round for round, and best against best.

    A round that something else on the machine has disturbed decides neither.
    """
    ours, theirs = rounds.get(name), rounds.get(over)
    if name == over or not ours:
        return False
    if not theirs:
        return True
    ratios = [slow / fast for fast, slow in zip(ours, theirs, strict=False)]
    return min(statistics.median(ratios), min(theirs) / min(ours)) >= BETTER


def _compare(
    model: Any, tokenizer: Any, ids: Sequence[int], name: str, free: int | None
) -> tuple[bool | None, str]:
    """True if the model in dtype ``name`` gives finite logits with float32's top token."""
    if name == "float32":
        return True, "the reference"
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


def _reason(chosen: str, times: Mapping[str, float], out: Sequence[str]) -> str:
    """The reason in words: ``float16: 31.0 ms a decode step (38.2 float32), measured``."""
    if chosen not in times:
        return "; ".join([f"{chosen}: no decode step could be timed", *out])
    others = sorted((ms, name) for name, ms in times.items() if name != chosen)
    figures = ", ".join(f"{ms:.1f} {name}" for ms, name in others)
    said = [
        f"{chosen}: {times[chosen]:.1f} ms a decode step{figures and f' ({figures})'}, measured"
    ]
    if others and others[0][0] < times[chosen] and not out:
        said.append(f"no other is clearly faster ({BETTER - 1:.0%}, turn for turn and at best)")
    return "; ".join([*said, *out])


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
