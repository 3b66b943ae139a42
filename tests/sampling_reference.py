"""Samplers of the stacks in the plainest float64 code: the tests' measure, never the program's.

Each function takes a logit vector and returns the kept ids in ascending order. Written from the
definitions alone; nothing here looks at ``engine``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Logits = np.ndarray


def softmax(logits: Logits) -> np.ndarray:
    """Probabilities in float64."""
    values = np.asarray(logits, dtype=np.float64)
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def descending(logits: Logits) -> np.ndarray:
    """Ids of the finite logits, most likely first, lowest id first among equals."""
    ids = [i for i in range(len(logits)) if logits[i] > -math.inf]
    return np.array(sorted(ids, key=lambda i: (-logits[i], i)))


def ids_of(keep: np.ndarray) -> list[int]:
    return np.flatnonzero(keep).tolist()


def top_k_with_ties(logits: Logits, k: int) -> list[int]:
    """transformers, vLLM: whatever is not below the k-th largest."""
    order = descending(logits)
    kth = logits[order[min(k, len(order)) - 1]]
    return ids_of((logits >= kth) & (logits > -math.inf))


def top_k_exact(logits: Logits, k: int) -> list[int]:
    """llama.cpp, SGLang, mlx-lm: k of them."""
    return sorted(descending(logits)[:k].tolist())


def top_p_from_below(logits: Logits, p: float) -> list[int]:
    """transformers, vLLM, mlx-lm: from the least likely up, drop while the mass is <= 1 - p."""
    probs = softmax(logits)
    finite = np.flatnonzero(logits > -math.inf)
    ascending = finite[np.argsort(logits[finite], kind="stable")]
    mass = np.cumsum(probs[ascending])
    kept = ascending[mass > 1 - p].tolist()
    return sorted(kept or ascending[-1:].tolist())


def top_p_reach(logits: Logits, p: float) -> list[int]:
    """llama.cpp: from the most likely down, stop as soon as the mass is >= p."""
    probs, kept, mass = softmax(logits), [], 0.0
    for token in descending(logits):
        kept.append(int(token))
        mass += probs[token]
        if mass >= p:
            break
    return sorted(kept)


def top_k_top_p_joint(logits: Logits, k: int, p: float) -> list[int]:
    """SGLang: of one distribution, the first k, as long as the mass before them is <= p."""
    probs, kept, mass = softmax(logits), [], 0.0
    for place, token in enumerate(descending(logits)):
        if place >= k or mass > p:
            break
        kept.append(int(token))
        mass += probs[token]
    return sorted(kept)


def min_p_probability(logits: Logits, m: float) -> list[int]:
    """transformers, vLLM: drop p < m * p_max."""
    probs = softmax(logits)
    return ids_of((probs >= m * probs.max()) & (logits > -math.inf))


def min_p_logit(logits: Logits, m: float) -> list[int]:
    """llama.cpp, mlx-lm: drop logit < max + ln m."""
    values = np.asarray(logits, dtype=np.float64)
    return ids_of(values >= values.max() + math.log(m))


def typical_exact(logits: Logits, t: float) -> list[int]:
    """llama.cpp: nearest to the entropy first, until the mass is > t."""
    probs = softmax(logits)
    tokens = [int(i) for i in descending(logits) if probs[i] > 0]
    entropy = -sum(probs[i] * math.log(probs[i]) for i in tokens)
    tokens.sort(key=lambda i: abs(-math.log(probs[i]) - entropy))
    kept, mass = [], 0.0
    for token in tokens:
        kept.append(token)
        mass += probs[token]
        if mass > t:
            break
    return sorted(kept)


def top_n_sigma(logits: Logits, n: float) -> list[int]:
    """llama.cpp: drop logit < max - n * population deviation of the finite logits."""
    values = np.asarray(logits, dtype=np.float64)
    finite = values[values > -math.inf]
    sigma = math.sqrt(((finite - finite.mean()) ** 2).mean())
    return ids_of((values >= finite.max() - n * sigma) & (values > -math.inf))


def xtc(logits: Logits, threshold: float) -> list[int]:
    """llama.cpp, once its coin has said yes: of those at or above the threshold keep the last."""
    order = descending(logits)
    probs = softmax(logits)
    above = [i for i in order if probs[i] >= threshold]
    if threshold > 0.5 or len(above) < 2:
        return sorted(order.tolist())
    return sorted(set(order.tolist()) - {int(i) for i in above[:-1]})


def mirostat_v2(logits: Logits, mu: float) -> list[int]:
    """Drop what has more than mu bits of surprisal; the most likely stays."""
    probs = softmax(logits)
    kept = [int(i) for i in descending(logits) if probs[i] > 0 and -math.log2(probs[i]) <= mu]
    return sorted(kept or descending(logits)[:1].tolist())


def dynamic_temperature(logits: Logits, t: float, span: float, exponent: float) -> float:
    """llama.cpp's temp-ext: the temperature that it divides by."""
    probs = softmax(logits)
    probs = probs[probs > 0]
    entropy = -(probs * np.log(probs)).sum()
    low, high = max(0.0, t - span), t + span
    count = int((np.asarray(logits) > -math.inf).sum())
    return low + (high - low) * (entropy / math.log(count)) ** exponent


def repetition(logits: Logits, seen: Sequence[int], penalty: float) -> np.ndarray:
    """Once per distinct id: a positive logit divided, another multiplied."""
    out = np.array(logits, dtype=np.float64)
    for token in set(seen):
        out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    return out


def frequency_presence(
    logits: Logits, counted: Sequence[int], frequency: float, presence: float
) -> np.ndarray:
    out = np.array(logits, dtype=np.float64)
    for token in set(counted):
        out[token] -= list(counted).count(token) * frequency + presence
    return out


def dry(
    logits: Logits,
    history: Sequence[int],
    multiplier: float,
    base: float,
    allowed: int,
    breakers: Sequence[int] = (),
) -> np.ndarray:
    """Try every earlier place and count back, stopping at single-token breakers."""
    out = np.array(logits, dtype=np.float64)
    history = list(history)
    longest: dict[int, int] = {}
    for place in range(1, len(history)):
        length = 0
        while (
            length < place
            and history[place - 1 - length] == history[len(history) - 1 - length]
            and history[len(history) - 1 - length] not in breakers
        ):
            length += 1
        if length:
            longest[history[place]] = max(longest.get(history[place], 0), length)
    for token, length in longest.items():
        if length >= allowed and token not in breakers:
            out[token] -= multiplier * base ** (length - allowed)
    return out
