"""Panes of a run on an engine of its own: what it does not tell is the formula's, or n/a, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from textual.geometry import Size

from engine.records.cache import KVState
from engine.records.model import ModelFacts
from inspector.panes.gauges.pane import draw as draw_gauges
from inspector.panes.kv.pane import draw as draw_kv
from inspector.panes.roofline.pane import RooflineUI
from inspector.panes.roofline.pane import draw as draw_roofline
from inspector.panes.speculation.pane import draw as draw_speculation
from inspector.state.view import View
from inspector.widgets.picture import Picture
from tests import fakes

HERE = replace(fakes.SMOLLM2, backend="llamacpp", top=64)
"""A file in this process: its formula is known, 46,080 bytes a position."""
SERVER = replace(
    HERE,
    device="server",
    layers=0,
    query_heads=0,
    kv_heads=0,
    kv_bytes_per_token_expected=None,
    kv_note="the cache is the server's, which tells its counts alone",
)


def seen(facts: ModelFacts) -> View:
    """A prompt of 8 tokens and three more, with the bytes that this engine's records have."""

    def kv(length: int) -> KVState:
        return replace(fakes.kv(length), nbytes=facts.kv_bytes(length))

    steps = [fakes.step(at, fakes.timing(20.0), kv(7 + at)) for at in (1, 2, 3)]
    read = fakes.prefill(fakes.chunk(0, 8, 40.0))
    found = fakes.view(facts, fakes.prompt(8), replace(read, kv=kv(8)), *steps)
    found.log.can_measure = True
    return found


def words(draw: Callable[..., Picture], view: View, *ui: object, width: int = 150) -> str:
    found = draw(view, Size(width, 46), *ui)
    rows = [found.rows[at] for at in range(len(found.rows))]
    lines: Sequence[object] = [*found.header, *rows, *found.footer]
    return " ".join(fakes.texts(lines).split())


def test_bytes_of_k_and_v_are_the_formulas_and_marked_so() -> None:
    """10 positions of 45 KiB: 450 KiB, derived; nothing is summed from tensors that nobody saw."""
    view = seen(HERE)
    kv, gauges = words(draw_kv, view, width=70), words(draw_gauges, view)
    assert "cache now 450 KiB ƒ 10 positions, by the formula" in kv
    assert "a token 45.0 KiB ƒ 46,080 bytes, by the formula" in kv
    assert "KV cache 450 KiB ƒ 10 positions" in gauges
    assert "summed from the tensors" not in kv
    assert "450 KiB ƒ" in draw_kv(view, Size(150, 46)).subtitle.plain


def test_a_file_in_this_process_is_held_against_this_machine() -> None:
    assert "M or click: measure it" in words(draw_gauges, seen(HERE))
    assert "M or click: measure it" in words(draw_roofline, seen(HERE))


@pytest.mark.parametrize("draw", [draw_gauges, draw_roofline])
def test_a_servers_machine_is_not_offered_for_measurement(draw: Callable[..., Picture]) -> None:
    found = words(draw, seen(SERVER))
    assert "n/a: the server's machine cannot be measured from here" in found
    assert "measure it" not in found
    assert "needs the machine's ceilings" not in found
    assert "n/a n/a" not in found
    assert "n/a: n/a" not in found


@pytest.mark.parametrize("facts", [HERE, SERVER])
def test_nothing_is_offered_that_such_an_engine_cannot_do(facts: ModelFacts) -> None:
    """C and T read texts beside the run, a draft is verified by whole distributions."""
    view = seen(facts)
    growth = words(draw_roofline, view, RooflineUI(1))
    assert "needs steps at three contexts: go on " in growth
    assert "C times" not in growth
    modules = words(draw_roofline, view, RooflineUI(2))
    assert "n/a: engine llamacpp does not time its layers" in modules
    assert "T times" not in modules
    speculation = words(draw_speculation, view)
    assert "n/a: a draft is verified by whole distributions, and engine llamacpp" in speculation
    assert "--draft" not in speculation


def test_what_a_server_does_not_tell_has_its_reason() -> None:
    found = words(draw_kv, seen(SERVER), width=70)
    assert "cache now — the cache is the server's, which tells its counts alone" in found
    assert "heads n/a the server does not tell" in found
    assert "at the end n/a as its size is not known" in found
