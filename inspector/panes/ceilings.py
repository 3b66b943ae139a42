"""Words in the place of this machine's ceilings, while they are not known."""

from __future__ import annotations

from engine.records.measured import MEASURING_CEILINGS
from engine.text import visible
from inspector.state.view import View


def asked_for(view: View) -> str:
    """The reason for which there are no ceilings, and what brings them."""
    log = view.log
    if log.ceilings_awaited:
        return "waits for the run's end"
    if log.loading is not None and log.loading.phase == MEASURING_CEILINGS:
        return f"being measured: {visible(log.loading.detail)}"
    if log.ceilings is not None and log.facts is not None:
        return f"measured on {log.ceilings.ceilings.device}, this is {log.facts.device}"
    return "M or click: measure it" if log.can_measure else "run llm-inspect bench"
