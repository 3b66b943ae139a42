"""This machine's ceilings where they are not known, or cannot be right."""

from __future__ import annotations

import numpy as np

from engine.passes import in_one_pass
from engine.records.measured import MEASURING_CEILINGS, SERVERS_MACHINE
from engine.records.step_table import StepPath, steady
from engine.text import visible
from inspector.state.ceilings import busy
from inspector.state.view import View


def plain_steps(view: View) -> StepPath:
    """The steady steps after the first whose pass was theirs alone, a token each."""
    later = view.path[1:]
    shared = [node for one in view.log.passes if in_one_pass(one) for node in one.nodes]
    figures = later.figures
    alone = (figures["round"] == 0) & ~np.isin(figures["node"], shared)
    return later.only(steady(figures) & alone)


def too_low(view: View) -> bool:
    """True if a ceiling was measured on a busy machine, or a plain step moved bytes faster."""
    known, facts = view.log.ceilings, view.facts
    if known is None or facts is None or known.ceilings.device != facts.device.partition(":")[0]:
        return False
    if busy(known.ceilings):
        return True
    figures = plain_steps(view).figures
    # A step whose cache's size is not known proves nothing, nor does one without a pass.
    moved, took = facts.weight_bytes + figures["kv_bytes"], figures["forward_ms"]
    could = known.ceilings.read_bytes_per_second * took / 1000
    return bool(((took > 0) & (moved > could)).any())


def asked_for(view: View) -> str:
    """The reason for which there are no ceilings, and what brings them."""
    log = view.log
    if log.facts is not None and log.facts.remote:
        return SERVERS_MACHINE
    if log.ceilings_awaited:
        return "waits for the run's end"
    if log.loading is not None and log.loading.phase == MEASURING_CEILINGS:
        return f"being measured: {visible(log.loading.detail)}"
    if log.ceilings is not None and log.facts is not None:
        return f"measured on {log.ceilings.ceilings.device}, this is {log.facts.device}"
    return "M or click: measure it" if log.can_measure else "run llm-inspect bench"
