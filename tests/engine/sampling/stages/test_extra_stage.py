"""E3: a stage is one class with its dials and traits, and its place in a preset; all the rest finds it.

The stage in here is registered by this file alone. Nothing else is written for it: what the tests
look at is what the command line, the panes, conditions, sessions and the reference make of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from docs.pages.samplers import page
from engine.backends.scripted import ScriptedBackend
from engine.run.stepper import Stepper
from engine.sampling.candidates import Candidates
from engine.sampling.chain import PRESETS, SpecError, build, effective, parse_spec
from engine.sampling.explain import explain
from engine.sampling.partial import TailMissing
from engine.sampling.settings import MIROSTAT_REPLACES
from engine.sampling.stacks import compare_stacks
from engine.sampling.stages import (
    DIALS,
    STAGES,
    Dial,
    DialScale,
    Figure,
    Locality,
    Parameters,
    Role,
    StageContext,
    lists,
    stage,
)
from inspector.cli.options import add_chain_options
from inspector.state.whatif import absent_stages, chain_of, parsed
from sessions import open_session
from sessions.recording import record
from sessions.verify import verify
from tests.fake_runs import EIGHTHS, run
from tests.inspector.panes.test_dials import Bench, look
from tests.inspector.panes.test_ladder import drawn

TOKENS = ["a", " b", "c", "d", "e", "f"]


@dataclass(frozen=True)
class EveryNth(Parameters):
    """Keep every token whose id is a multiple of n, and those that are spared."""

    nth: int = 1
    spared: str = ""

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        ids = candidates.ids
        spared = [one.sequence[0] for one in lists.entries(self.spared, False)]
        return candidates.only(np.flatnonzero((ids % self.nth == 0) | np.isin(ids, spared)))

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure | None:
        return Figure("remainder", token_id % self.nth, ">", 0)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stage in the registry and in one preset, for one test."""
    stages, dials = dict(STAGES), dict(DIALS)
    stage(
        "nth",
        Dial("nth", int, 1, 100, 1, "keeps multiples of n", scale=DialScale(1, 9, 2, 4, 3)),
        Dial("spared", str, 0, 0, None, "kept too: 3, 'e'", form=lists.sequences, token_list=True),
        role=Role.LOGITS,
        source="these tests",
        locality=Locality.BY_ID,
        beside_mirostat=True,
    )(EveryNth)
    guide = PRESETS["guide"]
    order = tuple(
        name for one in guide.order for name in (("nth", one) if one == "temperature" else (one,))
    )
    monkeypatch.setitem(PRESETS, "guide", replace(guide, order=order))  # type: ignore[arg-type]
    yield
    for registry, before in ((STAGES, stages), (DIALS, dials)):
        registry.clear()
        registry.update(before)


def test_e3_its_place_and_its_sources_come_from_the_preset() -> None:
    found = effective("guide", {"nth": 2, "temperature": 1.5})
    assert found.spec == "nth=2 > temperature=1.5 > top_k=40 > top_p=0.95"
    assert (found.dials["nth"].source, found.dials["spared"].source) == ("flag", "default")
    assert "nth" not in [one.name for one in effective("guide", {}).chain.stages]
    with pytest.raises(SpecError, match="preset vllm"):
        effective("vllm", {"nth": 2})
    with pytest.raises(SpecError, match="nth=0 is out of range: 1 to 100"):
        effective("guide", {"nth": 0})


def test_e3_text_in_its_token_list_becomes_ids_and_mirostat_and_greedy_leave_it() -> None:
    found = effective("guide", {"nth": 2, "spared": "'e'"}, resolve=lambda text: [4])
    assert found.chain.stages[0].params == {"nth": 2, "spared": "4"}
    assert parse_spec(found.spec, "guide")[1]["spared"] == "4"
    with_mirostat = effective("guide", {"nth": 2, "mirostat_tau": 5.0, "top_k": 7})
    assert [one.name for one in with_mirostat.chain.stages] == [
        "nth", "temperature", "mirostat",
    ]  # fmt: skip
    assert MIROSTAT_REPLACES in with_mirostat.dials["top_k"].source
    greedy = effective("guide", {"nth": 2, "temperature": 0.0}).chain
    ladder = greedy.run(np.log([0.1, 0.6, 0.3]), StageContext())
    assert greedy.choose(ladder, StageContext()).token_id == 2


def test_e3_the_command_line_has_a_flag_for_each_dial() -> None:
    parser = argparse.ArgumentParser()
    add_chain_options(parser)
    args = parser.parse_args(["--nth", "3", "--spared", "1"])
    assert (args.dial_nth, args.dial_spared) == ("3", "1")
    assert "keeps multiples of n" in parser.format_help()


def test_e3_the_ladder_has_a_column_for_it_and_says_what_cut_a_token() -> None:
    # Of 16 8 4 2 1 1 thirty-seconds the first, third and fifth: 21 are left.
    view = run(TOKENS, EIGHTHS, spec="nth=2 > temperature=1", seed=2)
    assert drawn(view, 75, 12, row=1) == look(
        """
 rank   id     raw model       nth         temp     drawn   text
           logprob raw p       2           off      final p
 tokens left −mass 6           3 −34.4%    ·
    1    0   −0.69 50.0% ███▎  76.2% █████ ·        ● 76.2% "a"
    2    1   −1.39 25.0% █▋    ✂ nth                        " b"
    3    2   −2.08 12.5% ▉     19.0% █▎    ·          19.0% "c"
    4    3   −2.77 6.25% ▍     ✂ nth                        "d"
    5    4   −3.47 3.12% ▎     4.76% ▎     ·          4.76% "e"
    6    5   −3.47 3.12% ▎     ✂ nth                        "f"
 all 6 ids
 u 0.35141 in [0.00000, 0.76190) 0█"a"█████████▼████████████████▃"c"▃▃▃▆▆1
 rank 2 · logit −1.3863 · logprob −1.3863 · final p 0 · cut by nth=2 · " b"
"""
    )


def test_e3_why_a_token_was_cut_and_what_would_have_saved_it_is_worked_out() -> None:
    chain, context = chain_of("nth=3 >", "guide"), StageContext()
    found = explain(chain, chain.run(np.log(EIGHTHS), context), context, 4)
    assert found.text == "cut by nth=3: remainder 1 > 0"
    assert found.saved_by is not None
    assert (found.saved_by.dial, found.saved_by.new) == ("nth", 2)


async def test_e3_the_dials_show_it_and_turn_it_by_its_own_steps() -> None:
    app = Bench(run(TOKENS, EIGHTHS, spec="nth=2 > temperature=1", seed=2, dense=True))
    async with app.run_test(size=(76, 7)) as pilot:
        app.dials.turn(1, far=False)
        await pilot.pause()
        assert app.spec == "nth=4 > temperature=1"
        # Of 16 and 1 the dice fall on the first again: ids 0 and 4 are left.
        assert "\n".join(line.rstrip() for line in app.screen_lines()) == look(
            """
▸ 1 *nth                  −         4 + ━│━╸───── was 2 · flag
  2  temperature          −         1 + ━━━━╸──── flag
 drafts, from the next round on ──────────────────────────────────────────
     draft                −      none +
 other dials, off or as they come ────────────────────────────────────────
 would draw ○ "a" all the same · 2 tokens left, not 3 · same u 0.35141
 nth: keeps multiples of n · 1 to 100
"""
        )
        app.dials.turn(1, far=True)
        await pilot.pause()
        assert app.spec == "nth=8 > temperature=1"


def test_e3_what_if_can_put_it_in_and_reads_its_lists() -> None:
    view = run(TOKENS, EIGHTHS, spec="temperature=1 >", dense=True)
    chain = chain_of("temperature=1 >", "guide")
    assert "nth" in absent_stages(chain)
    assert parsed("spared", "'e', 1", view.log.vocabulary) == "4, 1"


def test_e3_as_it_looks_at_ids_alone_a_recorded_head_settles_what_is_cut_after_it() -> None:
    """Of 200 tokens 64 are recorded: the ten likeliest multiples of 2 are among them for certain."""
    logits = -0.2 * np.arange(200, dtype=np.float32)
    backend = ScriptedBackend(lambda ids: logits, [f"t{number} " for number in range(200)])
    stepper = Stepper(backend, effective("guide", {}, spec="top_k=50 >"))
    stepper.submit_ids([0])
    step, context = stepper.step(), StageContext(prompt_ids=(0,))
    order, dials = parse_spec("nth=2 > top_k=10", "guide")
    ladder = build(order, dials, "guide").run_record(step, context, 200)
    assert sorted(ladder.final.ids.tolist()) == list(range(0, 20, 2))
    with pytest.raises(TailMissing):
        build(*parse_spec("nth=2 >", "guide"), "guide").run_record(step, context, 200)


def test_e3_conditions_name_it_and_stacks_that_lack_it_say_so() -> None:
    backend = ScriptedBackend(lambda ids: np.log(EIGHTHS), TOKENS)
    stepper = Stepper(backend, effective("guide", {"nth": 2, "temperature": 1.0}))
    stepper.submit_ids([0])
    stepper.step()
    assert stepper.evaluate('survivors("nth")') == 3
    assert stepper.evaluate('cut("nth", 1)') is True
    columns = compare_stacks(np.log(EIGHTHS), {"nth": 2, "top_p": 1.0}, StageContext()).columns
    assert [one.preset for one in columns if not one.ignored] == ["guide"]
    assert columns[0].kept_ids.tolist() == [0, 2, 4]


def test_e3_a_session_keeps_what_it_did_and_is_reproduced(tmp_path: Path) -> None:
    def model() -> ScriptedBackend:
        return ScriptedBackend(lambda ids: np.log(EIGHTHS), TOKENS)

    settings = effective("guide", {"nth": 2, "spared": "1"})
    record(Stepper(model(), settings, max_tokens=5), tmp_path / "run.llmi", "a")
    with open_session(tmp_path / "run.llmi") as session:
        kept = session.step(1).stages[0]
        assert (kept.name, kept.params, kept.survivors) == ("nth", {"nth": 2, "spared": "1"}, 4)
        assert verify(session, Stepper(model())).reproduced


def test_e3_the_reference_page_describes_it() -> None:
    text = page()
    assert "### nth\n\nKeep every token whose id is a multiple of n" in text
    assert "| `nth` | keeps multiples of n | 1 to 100 | `1` | `1` |" in text
    assert "| `spared` | kept too: 3, 'e' | text | nothing | — |" in text
    assert "nth → temperature" in text
    assert "Source: these tests." in text
