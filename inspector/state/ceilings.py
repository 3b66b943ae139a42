"""Ceilings of this machine that were measured, kept in the user's cache folder.

One small JSON file: an entry for each machine, device, dtype, number of threads and torch. Read
without torch. A file that cannot be read, or an entry that makes no sense, counts as not there:
``bench`` writes it anew.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine import machine_file
from engine.machine_file import cache_dir
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts

NAME = "ceilings.json"
SCHEMA = 1
BUSY = 0.8
"""Share of its CPU time below which a measurement ran beside something else."""
RECENT = timedelta(days=30)
"""Older ceilings are shown with their date: memory, cooling and drivers change."""


@dataclass(frozen=True)
class Known:
    """Ceilings for the model that is loaded, and when they were measured.

    ``stale`` is the date, where it was long ago or with another torch; empty where it was not.
    """

    ceilings: Ceilings
    measured: datetime
    stale: str


def default_path() -> Path:
    """The file of measured ceilings in the user's cache folder."""
    return cache_dir() / NAME


def find(facts: ModelFacts, path: Path, now: datetime) -> Known | None:
    """The ceilings that a model of these facts runs under here; those of another torch if need be.

    Never those of another machine, device, dtype or number of threads.
    """
    wanted = _key(facts)
    best: Known | None = None
    for entry in machine_file.entries(path, SCHEMA):
        same = {name: entry.get(name) for name in wanted}
        exact = same == wanted
        if not exact and {**same, "torch": wanted["torch"]} != wanted:
            continue
        known = _known(entry, exact, now)
        if known and (best is None or exact or known.measured > best.measured):
            best = known
        if exact and known:
            break
    return best


def save(facts: ModelFacts, ceilings: Ceilings, path: Path, now: datetime) -> None:
    """Keep the ceilings that were measured under a model of these facts. Raises OSError."""
    found = {"measured": now.isoformat(timespec="seconds"), "ceilings": asdict(ceilings)}
    machine_file.save(path, SCHEMA, _key(facts), found)


def merged(new: Ceilings, before: Known | None, *, unasked: bool = False) -> Ceilings:
    """Ceilings to keep of what was measured now and ``before``.

    What was measured beside something else, or ``unasked``, lowers none: a ceiling is what can be
    reached. Those of long ago, or of another torch, are no longer true of this machine.
    """
    if before is None or before.stale or not (unasked or busy(new)):
        return new
    old = before.ceilings
    shares = [one.cpu_share for one in (new, old) if one.cpu_share is not None]
    return replace(
        new,
        read_bytes_per_second=max(new.read_bytes_per_second, old.read_bytes_per_second),
        flops_per_second=max(new.flops_per_second, old.flops_per_second),
        cpu_share=max(shares, default=None),
    )


def busy(ceilings: Ceilings) -> bool:
    """True if they were measured beside something else, and are too low."""
    return ceilings.cpu_share is not None and ceilings.cpu_share < BUSY


def _key(facts: ModelFacts) -> dict[str, str | int]:
    return {
        "machine": platform.node(),
        "device": facts.device,
        "device_name": facts.device_name,
        "dtype": facts.dtype,
        "threads": facts.threads if facts.device == "cpu" else 0,
        "torch": facts.versions.get("torch", ""),
    }


def _known(entry: Mapping[str, Any], exact: bool, now: datetime) -> Known | None:
    """Ceilings in an entry; None where it makes no sense."""
    try:
        ceilings = Ceilings(**entry["ceilings"])
        measured = datetime.fromisoformat(entry["measured"]).astimezone(UTC)
        rates = [ceilings.read_bytes_per_second, ceilings.flops_per_second]
        if ceilings.cpu_share is not None:
            rates.append(ceilings.cpu_share)
        if not all(math.isfinite(rate) and rate > 0 for rate in rates):
            return None
    except (KeyError, TypeError, ValueError):
        return None
    recent = exact and now - measured <= RECENT
    return Known(ceilings, measured, "" if recent else f"{measured:%Y-%m-%d}")
