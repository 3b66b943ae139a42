"""The dtype that was chosen for a model on this machine, kept in the user's cache folder.

Timing decode steps takes seconds and, where two dtypes are nearly as fast, may end one way or the
other: so it is done once for a model, and the next start takes the same dtype.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from engine import machine_file
from engine.backends.hf.dtype import TRIED, Choice
from engine.backends.hf.facts import device_name
from engine.machine_file import cache_dir
from engine.records.model import DtypeTrial

_SCHEMA = 1


def default_path() -> Path:
    """The file of chosen dtypes in the user's cache folder."""
    return cache_dir() / "dtypes.json"


def key_of(identity: str) -> dict[str, str | int]:
    """The key of a choice: the model ``identity``, and this machine as torch uses it."""
    return {
        "model": identity,
        "machine": platform.node(),
        "device_name": device_name("cpu"),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def find(path: Path, key: Mapping[str, str | int]) -> Choice | None:
    """The choice that was kept under ``key``; None where there is none that makes sense."""
    for entry in machine_file.entries(path, _SCHEMA):
        if not machine_file.matches(entry, key):
            continue
        try:
            trials = tuple(DtypeTrial(**one) for one in entry["trials"])
            day = datetime.fromisoformat(entry["measured"]).astimezone(UTC)
            reason = f"{entry['reason']}; kept from {day:%Y-%m-%d}, --dtype measure times again"
        except (LookupError, TypeError, ValueError):
            return None
        dtype = entry.get("dtype")
        return Choice(dtype, reason, trials) if dtype in TRIED else None
    return None


def save(path: Path, key: Mapping[str, Any], choice: Choice, now: datetime) -> None:
    """Keep ``choice`` under ``key``. Raises OSError."""
    found = {
        "dtype": choice.dtype,
        "reason": choice.reason,
        "trials": [asdict(trial) for trial in choice.trials],
        "measured": now.isoformat(timespec="seconds"),
    }
    machine_file.save(path, _SCHEMA, key, found)
