"""Dials of the preset ``llamacpp`` as fields of a request to llama.cpp itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.backends.base import BackendError
from engine.sampling.stages.lists import entries

_SAMPLERS = (
    *("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc"),
    "temperature",
)
"""The default order, said out loud: a server may have been started with another one."""
_OFF: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "dynatemp_range": 0.0,
    "repeat_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repeat_last_n": 64,
    "dry_multiplier": 0.0,
    "mirostat": 0,
    "min_keep": 0,
}
_ALL = 1 << 20
"""More tokens than there are behind any position."""
_NAMES = {
    "penalty_last_n": "repeat_last_n",
    "repetition_penalty": "repeat_penalty",
    "dry_last_n": "dry_penalty_last_n",
    "mirostat_version": "mirostat",
}
_PLAIN = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "min_keep"),
    *("xtc_probability", "xtc_threshold", "dynatemp_range", "dynatemp_exponent"),
    *("frequency_penalty", "presence_penalty", "mirostat_tau", "mirostat_eta"),
    *("dry_multiplier", "dry_base", "dry_allowed_length"),
)


def sampler_request(dials: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that make llama.cpp's own sampler do what ``dials`` say, and nothing else.

    Raises BackendError for a dial that it has in another form, or whose effect cannot be told.
    """
    asked: dict[str, Any] = {**_OFF, "samplers": list(_SAMPLERS), "seed": 1}
    for name, value in dials.items():
        if name in _PLAIN:
            asked[name] = value
        elif name in _NAMES:
            # Ours says -1 for everything, which its server refuses.
            asked[_NAMES[name]] = _ALL if value == -1 else value
        elif name == "dry_breakers" and value:
            asked["dry_sequence_breakers"] = [one.text or "" for one in entries(value, False)]
        elif name == "logit_bias":
            asked["logit_bias"] = [_bias(one) for one in entries(value, True)]
        else:
            raise BackendError(f"{name}: llama.cpp's server takes it in another form")
    if asked["repeat_penalty"] != 1.0:
        raise BackendError(
            "repetition_penalty looks at the sign of a logit, and llama.cpp tells "
            "log-probabilities: what it should be cannot be computed from them"
        )
    if 0.0 < asked["xtc_probability"] < 1.0:
        raise BackendError(
            "xtc_probability between 0 and 1 lets llama.cpp's own dice decide: check it at 1"
        )
    return asked


def _bias(entry: Any) -> list[Any]:
    of = entry.text if entry.text is not None else entry.sequence[0]
    return [of, False if entry.number == float("-inf") else entry.number]
