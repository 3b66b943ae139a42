"""Several stacks on one distribution, as text pictures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from textual import on
from textual.geometry import Size

from engine.records.engine import Probed
from engine.records.events import RunState, StateChanged
from engine.records.sampler_check import SamplerCheck
from engine.sampling.stacks import compare_stacks
from engine.sampling.stages import StageContext
from inspector.messages import NeedCheck
from inspector.panes.stacks.pane import StacksPane, draw
from inspector.state.view import View
from inspector.state.whatif import chain_of
from inspector.widgets.picture import DENSE
from tests.fake_runs import Host, logits, run

TOKENS = ["a", " b", "[/b]", "\x1b[2J", "日本", "\u202e"]
SHARP = "temperature=0.5 > top_k=4 > top_p=0.9"


def look(text: str) -> str:
    return text.strip("\n")


def sharp(**more: object) -> View:
    return run(TOKENS, spec=SHARP, seed=2, **more)  # type: ignore[arg-type]


async def shown(view: View, size: tuple[int, int], *keys: str) -> tuple[str, StacksPane]:
    pane = StacksPane(number=8)
    app = Host(pane, view)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        lines = [line.rstrip() for line in app.screen_lines()]
    return "\n".join(lines).rstrip(), pane


async def test_six_stacks_and_the_tokens_they_part_on() -> None:
    # llama.cpp cuts before it sharpens: 50 25 12.5 of 93.8% reach 0.9; mlx too, over all six.
    lines, pane = await shown(sharp(dense=True), (78, 18))
    assert str(pane.border_subtitle) == "the same dials for all"
    assert lines == look(
        """
 temperature=0.5 top_k=4 top_p=0.9
 stack     order                             kept nats ƒ  same dice draw
 guide     temperature > top_k > top_p           2  0.50  ● "a"
 hf        temperature > top_k > top_p           2  0.50  ● "a"
 vllm      temperature > top_k > top_p           2  0.50  ● "a"
 llamacpp  top_k > top_p > min_p > temp          3  0.67  ● "a"
 sglang    temperature > top_p > top_k           2  0.50  ● "a"
 mlx       top_p > top_k > temperature           4  0.72  ● "a"
They part on 2 tokens ──────────────────────────────────────────────────────
  raw p  guide   hf      vllm    llamacp sglang  mlx     token
▸ 12.5%  ✂ top_p ✂ top_p ✂ top_p 4.76%   ✂ top_p 4.71%   "[/b]"
  6.25%  ✂ top_p ✂ top_p ✂ top_p ✂ top_p ✂ top_p 1.18%   "␛[2J"


 guide, hf, vllm: cut by top_p=0.9: mass of the more likely 0.941 >= 0.9
 llamacpp, mlx: kept
 sglang: cut by top_p=0.9: mass of the more likely 0.936 > 0.9
"""
    )


async def test_each_stack_with_its_own_defaults() -> None:
    lines, pane = await shown(sharp(dense=True), (78, 18), "v")
    assert str(pane.border_subtitle) == "each stack's own defaults"
    assert "no dial is set: every stack has its own defaults" in lines
    assert 'mlx       temperature                           1  0.00  ● "a"' in lines, "greedy"
    assert "hf        top_k                                 6  1.34" in lines
    assert "vllm      nothing is on                         6  1.34" in lines
    assert "✂ temp  " in lines


async def test_turned_dials_turn_all_stacks() -> None:
    view = sharp(dense=True)
    tried = View(view.log, view.cursor, chain_of("temperature=2 > top_k=4 > top_p=0.9", "guide"))
    lines, pane = await shown(tried, (78, 18))
    assert str(pane.border_title) == "8 Stacks · WHAT IF, not the record"
    assert lines.startswith(" temperature=2 top_k=4 top_p=0.9")
    assert "llamacpp  top_k > top_p > min_p > temp          3  1.06" in lines


async def test_another_token_than_the_records_is_marked() -> None:
    # what is drawn at temperature 2 lies elsewhere: u 0.35 is beyond the first token's 32.7%
    view = sharp(dense=True)
    tried = View(view.log, view.cursor, chain_of("temperature=2 >", "guide"))
    lines, _ = await shown(tried, (78, 18))
    assert '○ " b"' in lines


async def test_a_token_of_the_list_is_explained_when_it_is_chosen() -> None:
    lines, _ = await shown(sharp(dense=True), (78, 18), "down")
    assert " mlx: kept" in lines
    assert " llamacpp: cut by top_p=0.9: mass of the more likely" in lines


async def test_a_stack_that_refuses_says_so() -> None:
    view = sharp(dense=True)
    spec = "suppress='0, 1, 2, 3, 4, 5' > temperature=1"
    lines, _ = await shown(View(view.log, view.cursor, chain_of(spec, "guide")), (78, 18))
    assert "✗ stage suppress=" in lines


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (sharp(forces=[]), "no token drawn yet: step to draw the first"),
        (sharp(), "this needs the whole logits of the step: the engine is asked for them"),
    ],
)
async def test_where_there_is_nothing_to_compare(view: View, words: str) -> None:
    lines, _ = await shown(view, (78, 18), "down")
    assert lines.strip("▸ ") == words
    assert DENSE in draw(view, Size(78, 18)).wants


async def test_nothing_is_computed_while_the_engine_runs() -> None:
    view = sharp(dense=True)
    view.log.add(StateChanged(RunState.RUNNING))
    lines, _ = await shown(view, (78, 18))
    assert "the engine is running" in lines


async def test_stacks_that_agree() -> None:
    view = run(TOKENS, spec="temperature=1 >", seed=2, dense=True)
    tried = View(view.log, view.cursor, chain_of("temperature=1.5 > top_k=2 > min_p=0.1", "guide"))
    lines, _ = await shown(tried, (78, 18))
    assert "They part on 0 tokens" in lines
    assert "all keep the same tokens" in lines


async def test_the_figures_are_those_of_the_engines_own_comparison() -> None:
    found = compare_stacks(
        logits((0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125)),
        {"temperature": 0.5, "top_k": 4, "top_p": 0.9},
        StageContext(prompt_ids=(0,), seed=2),
    )
    lines, _ = await shown(sharp(dense=True), (78, 18))
    for column in found.columns:
        assert column.ladder is not None
        (line,) = [one for one in lines.splitlines() if one.startswith(f" {column.preset} ")]
        assert f" {len(column.ladder.final)}  {column.ladder.final.entropy:.2f}" in line


@pytest.mark.parametrize("size", [(1, 1), (20, 4), (40, 10), (76, 24), (300, 80)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    pane = StacksPane()
    app = Host(pane, sharp(dense=True))
    async with app.run_test(size=size) as pilot:
        await pilot.press("down", "end", "v")
        await pilot.pause()
        width = pane.scrollable_content_region.width
        assert all(cell_len(line) == width for line in app.screen_lines())
        assert "\x1b" not in "".join(app.screen_lines())


def with_sampler(**more: object) -> View:
    """A step of an engine that tells what its own sampler leaves."""
    view = sharp(dense=True)
    assert view.log.facts is not None
    row = Probed("own sampler", "yes", "")
    view.log.facts = replace(view.log.facts, backend="llamacpp", probed=(row,))
    if more:
        found = SamplerCheck(view.cursor, "llamacpp", "top_k=4", 3, 3, True, **more)  # type: ignore[arg-type]
        view.log.add(found)
    return view


def line_of(view: View) -> str:
    return next(str(line) for line in draw(view, Size(78, 18)).header if "itself" in str(line))


def test_the_engines_own_sampler_beside_our_preset() -> None:
    assert line_of(with_sampler()) == " O: ask llamacpp itself what it keeps"
    same = with_sampler(parted=0, largest=1e-7, near=2e-4, rows=())
    assert line_of(same) == " llamacpp itself ✓ keeps the same · 3 kept at top_k=4"
    apart = with_sampler(parted=2, largest=0.03, near=2e-4, rows=())
    assert (
        line_of(apart)
        == " llamacpp itself ✗ parts from ours on 2 tokens, by 0.03 · 3 kept at top_k=4"
    )
    off = with_sampler(parted=0, largest=0.03, near=2e-4, rows=())
    assert "✗ differs, by 0.03" in line_of(off)


async def test_a_key_asks_the_engine_with_the_dials_of_its_stack() -> None:
    pane = StacksPane(number=8)
    asked: list[NeedCheck] = []

    class Asked(Host):
        @on(NeedCheck)
        def _keep(self, message: NeedCheck) -> None:
            asked.append(message)

    async with Asked(pane, with_sampler()).run_test(size=(78, 18)) as pilot:
        await pilot.press("O")
        await pilot.pause()
    assert [one.node for one in asked] == [pane.view.cursor]
    assert asked[0].dials == {"temperature": 0.5, "top_k": 4, "top_p": 0.9, "min_p": 0.05}
