"""The ladder as text pictures, its columns at every width, and the whole vocabulary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.geometry import Size

from engine.records.events import DenseLogits, SettingsChanged
from engine.records.upcoming import Upcoming
from engine.records.vocabulary import Token, TokenKind, Vocabulary
from engine.sampling.chain import effective
from engine.sampling.stages import StageContext
from inspector.draw.bars import DrawLine, share
from inspector.messages import NeedDense
from inspector.panes.ladder.draw import LadderUI, draw
from inspector.panes.ladder.draw_line import detail, draw_lines
from inspector.panes.ladder.head import compact, head, short_name, value_of
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.ladder.plan import plan
from inspector.panes.ladder.rows import LadderRows, tail
from inspector.state.candidates import CandidateRows, Recorded, Whole
from inspector.state.rerun import candidates_of
from inspector.state.view import RunLog, View
from inspector.state.whatif import chain_of
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import NEXT
from tests.fake_runs import EIGHTHS, Host, picture, run, styles_at

TOKENS = ["a", " b", "[/b]", "\x1b[2J", "日本", "\u202e"]
SHARP = "temperature=0.5 > top_k=4 > top_p=0.9"
MANY = "temperature=0.8 > top_k=5 > top_p=0.95 > min_p=0.1 > typical_p=0.95 > epsilon_cutoff=0.01"
FLAT = [1 / 200] * 200


def lines_of(view: View, width: int, first: int = 0) -> tuple[CandidateRows, LadderRows]:
    candidates = candidates_of(view)
    assert candidates is not None
    made = plan(width, candidates.stages, candidates.total, first)
    return candidates, LadderRows(candidates, made, tail(candidates, loading=False))


def drawn(view: View, width: int, height: int, *, first: int = 0, row: int = 0) -> str:
    """Everything the pane shows, all rows of it."""
    candidates, rows = lines_of(view, width, first)
    roomy = height >= 18
    below = [
        *draw_lines(candidates, width, roomy=roomy),
        *detail(candidates, row, width, roomy=roomy),
    ]
    return "\n".join(
        [
            picture(head(candidates, rows.plan, height)),
            picture(rows),
            picture(below),
        ]
    )


def look(text: str) -> str:
    return text.strip("\n")


# --- pictures -------------------------------------------------------------------------------


def test_a_tall_ladder_at_75_cells() -> None:
    # Squares of the probabilities: 64 16 4 1 ¼ ¼ of 85½; top-k leaves 85, top-p the first 80.
    assert drawn(run(TOKENS, spec=SHARP, seed=2), 75, 20) == look(
        """
 rank   id     raw model    temp     top_k    top_p    drawn   text
           logprob raw p    0.5      4        0.9      final p
       tokens left 6        6        4        2
      mass removed          0        −0.58%   −5.88%
     entropy, nats 1.34     0.76     0.72     0.50
    1    0   −0.69 50.0%█▉  74.9%██▊ 75.3%██▉ 80.0%███ ● 80.0% "a"
    2    1   −1.39 25.0%▉   18.7%▊   18.8%▊   20.0%▊     20.0% " b"
    3    2   −2.08 12.5%▌   4.68%▏   4.71%▏   ✂ top_p          "[/b]"
    4    3   −2.77 6.25%▎   1.17%    1.18%    ✂ top_p          "␛[2J"
    5    4   −3.47 3.12%▏   0.29%    ✂ top_k                   "日本"
    6    5   −3.47 3.12%▏   0.29%    ✂ top_k                   "<U+202E>"
 all 6 ids
                              ▼ u 0.35141 in [0.00000, 0.80000)
 draw 0█"a"██████████████████████████████████████████████████▃" b"▃▃▃▃▃▃▃▃1
 rank 1 · id 0 · survives · "a"
 raw logit −0.6931 · logprob −0.6931 · final p 0.8
"""
    )


def test_a_short_ladder_has_a_line_for_three() -> None:
    assert drawn(run(TOKENS, spec=SHARP, seed=2), 75, 12, row=3) == look(
        """
 rank   id     raw model    temp     top_k    top_p    drawn   text
           logprob raw p    0.5      4        0.9      final p
 tokens left −mass 6        6        4 −0.58% 2 −5.88%
    1    0   −0.69 50.0%█▉  74.9%██▊ 75.3%██▉ 80.0%███ ● 80.0% "a"
    2    1   −1.39 25.0%▉   18.7%▊   18.8%▊   20.0%▊     20.0% " b"
    3    2   −2.08 12.5%▌   4.68%▏   4.71%▏   ✂ top_p          "[/b]"
    4    3   −2.77 6.25%▎   1.17%    1.18%    ✂ top_p          "␛[2J"
    5    4   −3.47 3.12%▏   0.29%    ✂ top_k                   "日本"
    6    5   −3.47 3.12%▏   0.29%    ✂ top_k                   "<U+202E>"
 all 6 ids
 u 0.35141 in [0.00000, 0.80000) 0█"a"█████████▼█████████████████▃" b"▃▃▃1
 rank 4 · logit −2.7726 · logprob −2.7726 · final p 0 · cut by top_p=0.9
"""
    )


def test_greedy_has_no_dice() -> None:
    assert drawn(run(TOKENS, spec="temperature=0 > top_k=4 > top_p=0.9"), 75, 12) == look(
        """
 rank   id     raw model    temp     top_k    top_p    drawn   text
           logprob raw p    0        4        0.9      final p
 tokens left −mass 6        1 −50.0% 1        1
    1    0   −0.69 50.0%█▌   100%███  100%███  100%███ ●  100% "a"
    2    1   −1.39 25.0%▊   ✂ temp                             " b"
    3    2   −2.08 12.5%▍   ✂ temp                             "[/b]"
    4    3   −2.77 6.25%▏   ✂ temp                             "␛[2J"
    5    4   −3.47 3.12%▏   ✂ temp                             "日本"
    6    5   −3.47 3.12%▏   ✂ temp                             "<U+202E>"
 all 6 ids
 greedy: no dice, the most likely is taken 0█"a"█████████████████████████1
 rank 1 · logit −0.6931 · logprob −0.6931 · final p 1 · survives · "a"
"""
    )


def test_a_forced_token_keeps_its_mark_where_a_stage_had_cut_it() -> None:
    picture_ = drawn(run(TOKENS, spec=SHARP, forces=[5]), 75, 20, row=5)
    assert (
        picture_.splitlines()[-7:]
        == look(
            """
    5    4   −3.47 3.12%▏   0.29%    ✂ top_k                   "日本"
    6    5   −3.47 3.12%▏   0.29%    ✂ top_k           ●    0% "<U+202E>"
 all 6 ids
  forced; b goes back · no dice, its final p is 0%
 draw 0▆"a"▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▃" b"▃▃▃▃▃▃▃▃1
 rank 6 · id 5 · cut by top_k=4 (stage 2) · "<U+202E>"
 raw logit −3.4657 · logprob −3.4657 · final p 0
"""
        ).splitlines()
    )


def test_a_forced_survivor_is_where_it_would_have_been_drawn() -> None:
    line = drawn(run(TOKENS, spec=SHARP, forces=[1]), 45, 20).splitlines()[-3]
    assert line == ' draw 0▆"a"▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆█" b"██1'


def test_stages_that_are_off_say_so_and_take_little_room() -> None:
    view = run(TOKENS, spec="temperature=1 > top_k=0 > top_p=0.9", seed=2)
    assert (
        drawn(view, 75, 20).splitlines()[:7]
        == look(
            """
 rank   id     raw model    temp     top_k top_p    drawn   text
           logprob raw p    off      off   0.9      final p
       tokens left 6        ·        ·     4
      mass removed          ·        ·     −6.25%
     entropy, nats 1.34     ·        ·     1.14
    1    0   −0.69 50.0%██▉ ·        ·     53.3%███ ● 53.3% "a"
    2    1   −1.39 25.0%█▍  ·        ·     26.7%█▌    26.7% " b"
"""
        ).splitlines()
    )


def test_stages_out_of_sight_are_counted_and_can_be_scrolled_to() -> None:
    view = run(TOKENS, spec=MANY)
    first = drawn(view, 56, 20).splitlines()
    assert first[0] == " model    temp     top_k    top_p    drawn   text"
    assert first[1] == " raw p    0.8      5        0.95     final p +3 stages▸"
    # What cut a token is told in the last column where the stage's own is out of sight.
    assert first[9] == ' 6.25%▎   4.29%▎   4.29%▎   4.45%▎   ✂ min_p "␛[2J"'
    assert (
        drawn(view, 75, 20, first=1).splitlines()[:10]
        == look(
            """
 model    top_k    top_p    min_p    typical  epsilon  drawn   text
 raw p    5        0.95     0.1      0.95     0.01     final p ◂+1 stages
 6        6        4        3        3        3                left
          0        −3.60%   −4.45%   0        0                cut
 1.34     1.17     1.03     0.89     0.89     0.89             nats
                            p≥0.0598 H±1.313                   used
 50.0%██▍ 57.7%██▊ 59.8%██▉ 62.6%███ 62.6%███ 62.6%███ ● 62.6% "a"
 25.0%█▎  24.2%█▏  25.2%█▎  26.3%█▎  26.3%█▎  26.3%█▎    26.3% " b"
 12.5%▋   10.2%▌   10.6%▌   11.1%▌   11.1%▌   11.1%▌     11.1% "[/b]"
 6.25%▎   4.29%▎   4.45%▎   ✂ min_p                            "␛[2J"
"""
        ).splitlines()
    )
    assert drawn(view, 75, 20, first=99) == drawn(view, 75, 20, first=1)


def test_on_a_wide_ladder_the_models_bars_and_the_last_stages_take_the_spare_width() -> None:
    candidates, rows = lines_of(run(TOKENS, spec=MANY), 156)
    assert [column.index for column in rows.plan.stages] == [0, 1, 2, 3, 4, 5]
    assert rows.plan.before == rows.plan.after == 0
    assert [column.cells for column in rows.plan.stages] == [8, 8, 8, 8, 8, rows.plan.model]
    assert rows[0].plain.rstrip() == (
        "    1    0   −0.69 50.0% ███████████████████▏     57.7%██▊ 57.7%██▊ 59.8%██▉ 62.6%███ "
        '62.6%███ 62.6% ████████████████████████ ● 62.6% "a"'
    )
    assert candidates.largest == pytest.approx(0.626086)


def test_a_narrow_one_keeps_what_was_drawn() -> None:
    assert (
        drawn(run(TOKENS, spec=SHARP, seed=2), 20, 5).splitlines()[:4]
        == look(
            """
 drawn   text +3▸
 ● 80.0% "a"
   20.0% " b"
 ✂ top_p "[/b]"
"""
        ).splitlines()
    )


def test_ids_that_the_model_rules_out_and_unused_ids() -> None:
    tokens = [*TOKENS, Token(6, b"", TokenKind.UNUSED)]
    view = run(tokens, [*EIGHTHS, 0.0], spec=SHARP, dense=True)
    assert drawn(view, 75, 12, row=6).splitlines()[-4:] == [
        "    7    6      −∞ ✂ model                                     <unused 6>",
        " all 7 ids; unused: 1, with 0% of the raw mass",
        ' u 0.21186 in [0.00000, 0.80000) 0█"a"████▼██████████████████████▃" b"▃▃▃1',
        " rank 7 · logit −∞ · logprob −∞ · final p 0 · ruled out by the model",
    ]
    view = run(tokens, [0.25, 0.25, 0.125, 0.125, 0.125, 0.0625, 0.0625], spec=SHARP, dense=True)
    assert "unused: 1, with 6.25% of the raw mass" in drawn(view, 75, 12)


def test_a_token_whose_name_is_not_known_is_an_id() -> None:
    view = run([f"w{index}" for index in range(200)], FLAT, forces=[150], dense=True)
    view.log.vocabulary = None
    candidates, rows = lines_of(view, 75)
    assert rows[3].plain.rstrip().endswith('"w3"')  # the record holds it
    assert rows[100].plain.split() == [
        "101",
        "100",
        "−5.30",
        "0.50%",
        "██████",
        "·",
        "·",
        "·",
        "0.50%",
        "…",
    ]
    assert candidates[100].token is None


# --- what holds now -------------------------------------------------------------------------


def test_no_sliver_where_a_bar_would_be_less_than_half_an_eighth() -> None:
    """Issue 11, 2: 1.17% of 80% on three cells is 0.35 eighths; 3.12% is 0.94."""
    _, rows = lines_of(run(TOKENS, spec=SHARP), 56)
    assert rows[3].plain.startswith(" 6.25%▎   1.17%    1.18%    ")
    assert rows[4].plain.startswith(" 3.12%▏   0.29%    ")


def test_a_tie_that_is_kept_is_counted_apart() -> None:
    """A8: transformers' top-k keeps what ties with the k-th: 5 and 6 have one probability."""
    settings = effective("hf", {"top_k": 5, "temperature": 0.9})
    logits = np.log(np.array([0.5, 0.25, 0.1, 0.05, 0.04, 0.04, 0.02]))
    ladder = settings.chain.run(logits, StageContext())
    draw = settings.chain.choose(ladder, StageContext())
    whole = Whole(ladder, draw, lambda token_id: Token(token_id, b"w"))
    for height, line in ((20, 2), (12, 2)):
        words = head(whole, plan(75, whole.stages, 7), height)[line].plain
        assert "5+1eq" in words or "5 + 1 eq" in words
    assert len(head(whole, plan(75, whole.stages, 7), 20)) == 5


@pytest.mark.parametrize("spec", [SHARP, MANY])
def test_a_wide_screens_ladder_hides_no_stage_that_a_small_ones_shows(spec: str) -> None:
    """F20: the guide's three stages at 120x36 (56 cells) as at 80x24 (75 cells)."""
    _, wide = lines_of(run(TOKENS, spec=SHARP), 56)
    _, small = lines_of(run(TOKENS, spec=SHARP), 75)
    assert len(wide.plan.stages) == len(small.plan.stages) == 3


def test_the_header_says_what_holds_for_the_next_token() -> None:
    view = run(TOKENS, spec=SHARP, seed=2)
    size = Size(75, 20)
    assert "next token" not in draw(view, size).header[0].plain
    applied = effective("guide", {}, spec="temperature=1.5 > top_k=4 > top_p=0.9")
    view.log.add(SettingsChanged("guide", applied.spec, 0, applied.dials))
    assert draw(view, size).header[0].plain == (
        " next token: temperature 0.5 → 1.5 · this one: as below"
    )


def test_the_header_says_what_the_recorded_next_token_was_drawn_with() -> None:
    view = run(TOKENS, spec=SHARP, forces=[None, None])
    last = view.log.nodes[2]
    view.log.add(replace(last, chain_spec="temperature=0.5 > top_k=2 > top_p=0.9"))
    lines = draw(View(view.log, 1), Size(75, 20)).header
    assert lines[0].plain == " next token: top_k 4 → 2 · this one: as below"
    # At the tip nothing else is set.
    assert "next token: top_k 2 → 4" in draw(View(view.log, 2), Size(75, 20)).header[0].plain


# --- beyond the record ------------------------------------------------------------------------


def test_what_the_record_does_not_hold_is_said_and_the_drawn_row_is_there() -> None:
    view = run([f"w{index}" for index in range(200)], FLAT, forces=[150])
    candidates, rows = lines_of(view, 75)
    assert isinstance(candidates, Recorded)
    assert len(rows) == 66
    assert rows[64].plain.split() == [
        "151",
        "150",
        "−5.30",
        "0.50%",
        "██████",
        "·",
        "·",
        "·",
        "●",
        "0.50%",
        '"w150"',
    ]
    assert rows[65].plain == " 135 more tokens: 67.5% raw mass, 67.5% final mass · ↓ loads them"
    assert tail(candidates, loading=True).endswith("· loading the rest…")


def test_no_mass_is_left_where_the_record_holds_all_survivors() -> None:
    steep = [0.2 * 0.8**index for index in range(199)]
    view = run(
        [f"w{index}" for index in range(200)],
        [*steep, 0.8**199],
        spec="temperature=0.9 > top_k=7 > top_p=1",
    )
    assert lines_of(view, 75)[1].tail == (
        "136 more tokens: <.01% raw mass, 0% final mass · ↓ loads them"
    )


def big(spec: str = "temperature=0.8 > top_k=40 > top_p=0.95") -> View:
    """A step over 151,936 ids with its whole logits, by the same code that records one."""
    size = 151_936
    rng = np.random.default_rng(1)
    whole = (rng.standard_normal(size) * 3).astype(np.float32)
    view = run(TOKENS, spec=spec)
    settings = effective("guide", {}, spec=spec)
    context = StageContext(prompt_ids=(0,), seed=0)
    ladder = settings.chain.run(whole, context)
    draw = settings.chain.choose(ladder, context)
    table = ladder.table(64, lambda token_id: Token(token_id, b" w"), also=(draw.token_id,))
    log = RunLog()
    assert view.facts is not None
    assert view.prompt is not None
    assert view.step is not None
    log.add(replace(view.facts, vocab_size=size))
    log.add(view.prompt)
    log.add(SettingsChanged("guide", settings.spec, 0, settings.dials))
    log.add(
        replace(view.step, draw=draw, stages=ladder.traces, chain_spec=settings.spec, top=table)
    )
    log.add(Vocabulary.pack(Token(token_id, b" w%d" % token_id) for token_id in range(size)))
    log.add(DenseLogits(1, whole))
    return View(log, 1)


def test_a_whole_vocabulary_has_a_row_an_id_made_when_asked_for() -> None:
    view = big()
    candidates, rows = lines_of(view, 75)
    assert isinstance(candidates, Whole)
    assert len(rows) == 151_937
    assert not candidates._chunks
    last = candidates[151_935]
    assert last.token_id == int(np.argmin(view.dense.logits))  # type: ignore[union-attr]
    assert last.rank == 151_936
    assert list(candidates._chunks) == [151_935 // 64]
    assert rows[151_935].plain.startswith(f" {last.token_id:>6}")


def test_the_whole_ladder_agrees_with_the_record() -> None:
    for spec in ("temperature=0.8 > top_k=40 > top_p=0.95", "temperature=1.3 > top_k=0 > top_p=1"):
        view = big(spec)
        whole = candidates_of(view)
        assert whole is not None
        assert view.step is not None
        record = Recorded(view.step)
        for row in range(64):
            ours, theirs = whole[row], record[row]
            assert (ours.token_id, ours.rank, ours.cut_by) == (
                theirs.token_id,
                theirs.rank,
                theirs.cut_by,
            )
            assert ours.probs == pytest.approx(theirs.probs)
            assert ours.raw_logprob == pytest.approx(theirs.raw_logprob)
        at = whole.row_of(whole.draw.token_id)
        assert at is not None
        assert whole[at].rank == view.step.top.ranks[view.step.top.ids == whole.draw.token_id][0]
        known = whole.stretches()
        drawn_at = int(np.flatnonzero(known.ids == whole.draw.token_id)[0])
        assert known.probs[:drawn_at].sum() == pytest.approx(whole.draw.low)


def test_a_chain_that_does_not_come_out_as_recorded_is_not_drawn() -> None:
    view = run(TOKENS, spec=SHARP, dense=True)
    assert isinstance(candidates_of(view), Whole)
    assert view.step is not None
    low, *others = view.step.stages
    for wrong, why in (
        (replace(low, survivors=5), "temperature leaves 6, not as recorded"),
        (replace(low, name="someone else's"), "the chain as written down is not the one that ran"),
    ):
        view.log.add(replace(view.step, stages=(wrong, *others)))
        candidates = candidates_of(view)
        assert isinstance(candidates, Recorded)
        assert candidates.note.startswith(f"not to be run again here: {why}")


def test_candidates_differ_from_step_to_step_and_hold_the_chosen_one() -> None:
    log = big().log
    for view in (run(TOKENS, spec=SHARP, forces=[None] * 5), View(log, 1)):
        for step in view.log.nodes.values():
            candidates = candidates_of(View(view.log, step.node))
            assert candidates is not None
            row = candidates.row_of(step.draw.token_id)
            assert row is not None
            assert candidates[row].token_id == step.draw.token_id
            assert candidates.row_of(10**7) is None


# --- columns --------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [SHARP, MANY, "temperature=1 > top_k=0 > top_p=0.9"])
def test_cells_line_up_at_every_width(spec: str) -> None:
    view = run(TOKENS, spec=spec)
    for width in range(20, 200):
        candidates, rows = lines_of(view, width)
        made = rows.plan
        assert made.width == width
        assert made.before + len(made.stages) + made.after == len(candidates.stages)
        start = width - made.text
        for row in range(len(candidates)):
            text = rows[row].plain
            assert cell_len(text[:start]) == start
            assert text[start:].startswith('"'), (width, text)
        for height in (5, 12, 20):
            for line in head(candidates, made, height):
                assert line.cell_length == width
            for line in draw_lines(candidates, width, roomy=height == 20):
                assert line.cell_length <= width


@pytest.mark.parametrize(
    ("name", "cells", "short"),
    [
        ("temperature", 11, "temperature"),
        ("temperature", 8, "temp"),
        ("repetition_penalty", 8, "rep_pen"),
        ("top_n_sigma", 5, "t_n_s"),
        ("top_p", 5, "top_p"),
        ("abcdef", 3, "abc"),
    ],
)
def test_names_of_stages_are_shortened_word_by_word(name: str, cells: int, short: str) -> None:
    assert short_name(name, cells) == short


@pytest.mark.parametrize(
    ("label", "cells", "text"),
    [
        ("top_p=0.95", 8, "0.95"),
        ("xtc_probability=0.5 xtc_threshold=0.1", 12, "0.5 0.1"),
        ("xtc_probability=0.5 xtc_threshold=0.1", 40, "xtc_probability=0.5 xtc_threshold=0.1"),
        ('stop="a b=\u202e"', 8, '"a b=<U+202E>"'),
    ],
)
def test_what_a_stage_is_set_to(label: str, cells: int, text: str) -> None:
    view = run(TOKENS, spec=SHARP)
    assert view.step is not None
    assert value_of(replace(view.step.stages[0], label=label), cells) == text


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0.0, "0%"), (1e-9, "<.01%"), (0.00004, "<.01%"), (0.00006, "0.01%"), (0.0312, "3.12%"),
        (0.09994, "9.99%"), (0.09996, "10.0%"), (0.9994, "99.9%"), (0.9996, "100%"), (1.0, "100%"),
    ],
)  # fmt: skip
def test_shares_fit_five_cells(probability: float, text: str) -> None:
    assert share(probability) == text


@given(st.floats(0, 1))
def test_any_share_fits(probability: float) -> None:
    assert len(share(probability)) <= 5


def test_counts_are_compact() -> None:
    assert [compact(n) for n in (0, 999, 1000, 9949, 9950, 49152, 999_499, 999_500, 1_250_000)] == [
        "0", "999", "1.0k", "9.9k", "10k", "49k", "999k", "1.0M", "1.2M",
    ]  # fmt: skip


# --- the draw -------------------------------------------------------------------------------


def test_survivors_take_turns_and_the_drawn_one_stands_out() -> None:
    line = DrawLine(np.array([0.5, 0.25, 0.125, 0.125]), (0.5, 0.75), 0.6)
    assert line.bar(16).plain == "▆▆▆▆▆▆▆▆████▆▆▃▃"
    assert line.bar(16, mark_u=True).plain == "▆▆▆▆▆▆▆▆█▼██▆▆▃▃"
    assert [str(span.style) for span in line.bar(16).spans] == ["$bar", "$bar-drawn", "$bar"]


def test_stretches_too_narrow_for_a_cell_are_one_haze_and_the_drawn_one_still_has_a_cell() -> None:
    many = DrawLine(np.full(1000, 0.001), (0.5, 0.501), 0.5005)
    assert many.bar(10).plain == "░░░░░█░░░░"


def test_what_is_not_known_of_the_draw_is_haze() -> None:
    part = DrawLine(np.array([0.5, 0.1]), (0.0, 0.5), 0.1)
    assert part.bar(10).plain == "█████▃░░░░"
    assert DrawLine(np.array([]), None, None).bar(4).plain == "░░░░"


@given(
    st.lists(st.floats(0.001, 1), min_size=1, max_size=50), st.integers(0, 60), st.floats(0, 0.999)
)
def test_the_bar_is_as_wide_as_asked_and_u_lies_on_the_drawn_stretch(
    weights: list[float], cells: int, u: float
) -> None:
    probs = np.sort(np.array(weights) / sum(weights))[::-1]
    ends = np.cumsum(probs)
    at = min(int(np.searchsorted(ends, u, side="right")), len(probs) - 1)
    line = DrawLine(probs, (float(ends[at] - probs[at]), float(ends[at])), u)
    bar = line.bar(cells).plain
    assert len(bar) == cells
    where = line.u_cell(cells)
    assert not cells or (where is not None and bar[where] == "█")


def test_close_ends_are_written_with_enough_digits() -> None:
    view = big("temperature=1.3 > top_k=0 > top_p=1")
    words = drawn_words(view)
    low, high = words.split("[")[1].rstrip(")").split(", ")
    assert low != high


def drawn_words(view: View) -> str:
    candidates = candidates_of(view)
    assert candidates is not None
    return draw_lines(candidates, 75, roomy=True)[0].plain.strip().removesuffix("▼").strip()


# --- styles ---------------------------------------------------------------------------------


def test_cut_tokens_are_grey_from_the_stage_that_cut_them() -> None:
    _, rows = lines_of(run(TOKENS, spec=SHARP), 75)
    assert "$cut" in styles_at(rows, 2, "✂ top_p")
    assert "$cut" not in styles_at(rows, 2, "4.71%")
    assert "$cut" in styles_at(rows, 2, "[/b]")
    assert "$bar-drawn" in styles_at(rows, 0, "● 80.0%")
    assert "bold" in styles_at(rows, 0, "a")


# --- the pane -------------------------------------------------------------------------------


async def test_the_drawn_row_is_pinned_when_it_is_not_among_the_first() -> None:
    app = Host(LadderPane(), run([f"w{index}" for index in range(200)], FLAT, forces=[150]))
    async with app.run_test(size=(76, 12)) as pilot:
        await pilot.pause()
        lines = app.screen_lines()
        assert lines[3].startswith("    1    0")
        assert lines[8].startswith("    6    5")
        assert lines[9].split()[:3] == ["▸", "151", "150"]
        assert "●" in lines[9]
        app.pane.show(run([f"w{index}" for index in range(200)], FLAT, forces=[4]))
        await pilot.pause()
        lines = app.screen_lines()
        assert lines[7].startswith("▸   5    4")
        assert lines[9].startswith("    7    6")


async def test_the_cursor_follows_the_drawn_token_until_it_is_moved_and_again_at_the_next_step() -> (
    None
):
    """Issue 11, 2."""
    pane = LadderPane()
    view = run(TOKENS, forces=[4, 2, 5])
    app = Host(pane, View(view.log, 1))
    async with app.run_test(size=(76, 20)) as pilot:
        await pilot.pause()
        assert pane.token_id_of(pane.selected) == 4
        await pilot.press("up")
        app.pane.show(View(view.log, 1))
        assert pane.token_id_of(pane.selected) == 3
        app.pane.show(View(view.log, 2))
        assert pane.token_id_of(pane.selected) == 2
        # Another chain, tried there, draws another token.
        app.pane.show(View(view.log, 2, chain_of("temperature=0 >", "guide")))
        assert pane.token_id_of(pane.selected) == 0


@pytest.mark.parametrize("forks", [(), ((0, 1),)])
def test_a_forced_token_says_which_keys_go_back(forks: tuple[tuple[int, int], ...]) -> None:
    """F3."""
    view = run(TOKENS, spec=SHARP, forces=[5], forks=forks)
    words = "\n".join(line.plain for line in draw(View(view.log, 1), Size(75, 20)).footer)
    assert ("forced; b and h go back" if forks else "forced; b goes back") in words


async def test_a_click_selects_and_a_double_click_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: a later click on the row that is selected already does nothing."""
    monkeypatch.setattr("inspector.panes.ladder.reasons._PAUSE_S", 60.0)
    pane = LadderPane()
    app = Host(pane, run(TOKENS, spec=SHARP))
    async with app.run_test(size=(76, 20)) as pilot:
        await pilot.click(pane, offset=(30, 8))
        await pilot.pause()
        chosen = pane.selected
        await pilot.click(pane, offset=(30, 8))
        await pilot.pause()
        assert (pane.selected, app.posted) == (chosen, [])
        await pilot.click(pane, offset=(30, 8), times=2)
        await pilot.pause()
        (message,) = app.posted
        assert isinstance(message, Pane.Chosen)
        assert message.row == chosen


async def test_the_end_of_the_record_asks_for_the_rest_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "inspector.panes.ladder.reasons._PAUSE_S", 60.0
    )  # reasons ask for it as well
    view = run([f"w{index}" for index in range(200)], FLAT, forces=[150])
    whole = run([f"w{index}" for index in range(200)], FLAT, forces=[150], dense=True)
    app = Host(LadderPane(), view)
    async with app.run_test(size=(76, 14)) as pilot:
        await pilot.press("end")
        await pilot.press("up", "end")
        await pilot.pause()
        assert [message.node for message in app.posted if isinstance(message, NeedDense)] == [1]
        assert any("loading the rest…" in line for line in app.screen_lines())
        view.log.vocabulary = whole.log.vocabulary
        view.log.add(whole.log.dense)
        app.pane.show(view)
        await pilot.press("end")
        await pilot.pause()
        assert app.pane.selected == 200
        assert any(line.startswith("▸all 200 ids") for line in app.screen_lines())
        assert len(app.posted) == 1


async def test_enter_chooses_the_selected_token(monkeypatch: pytest.MonkeyPatch) -> None:
    # A row that is explained has whole logits asked for as well, when the cursor has rested.
    monkeypatch.setattr("inspector.panes.ladder.reasons._PAUSE_S", 60.0)
    pane = LadderPane()
    app = Host(pane, run(TOKENS, spec=SHARP))
    async with app.run_test(size=(76, 20)) as pilot:
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        (message,) = app.posted
        assert isinstance(message, Pane.Chosen)
        assert pane.token_id_of(message.row) == 2
        assert 'rank 3 · id 2 · cut by top_p=0.9 (stage 3) · "[/b]"' in "\n".join(
            app.screen_lines()
        )
        await pilot.press("end", "enter")  # the line after the last row is no token
        await pilot.pause()
        assert len(app.posted) == 1
        assert pane.token_id_of(6) is None
        assert pane.token_id_of(-1) is None


async def test_brackets_scroll_the_stages() -> None:
    app = Host(LadderPane(), run(TOKENS, spec=MANY))
    async with app.run_test(size=(57, 20)) as pilot:
        assert "+3 stages▸" in app.screen_lines()[1]
        await pilot.press("right_square_bracket")
        assert "top_k" in app.screen_lines()[0]
        assert "◂+1 stages" in app.screen_lines()[2]
        await pilot.press(*["right_square_bracket"] * 9)
        assert "◂+3 stages" in app.screen_lines()[1]
        await pilot.press("left_square_bracket")
        assert "◂+2 stages" in app.screen_lines()[2]


def test_at_the_prompt_the_next_distribution_is_shown_without_its_draw() -> None:
    """F20: back at the prompt, and in a recording, as a debugger shows the line to come."""
    view = run(TOKENS, spec=SHARP, seed=2)
    found = draw(View(view.log, 0), Size(75, 20))
    assert found.remark == "next token, not drawn yet"
    text = picture(found.rows) + picture(found.header)
    assert "74.9%██▊ 75.3%██▉ 80.0%███   80.0%" in text
    assert "✂ top_p" in text
    assert "●" not in text
    footer = picture(found.footer)
    assert "no draw yet: n goes on" in footer
    assert " draw 0▆" in footer
    assert "█" not in footer
    assert not found.wants
    for width, height in ((20, 3), (4, 1), (1, 1), (40, 6), (300, 80)):
        assert len(draw(View(view.log, 0), Size(width, height)).rows) == 7


def before_the_draw(at: int) -> View:
    """A live run at a node that nothing was drawn after, and what its engine said of the next."""
    view = run(TOKENS, forces=[1] * at)
    after = run(TOKENS, spec=SHARP, seed=2).log.nodes[1]
    told = Upcoming(at, after.entropy_raw, after.entropy_final, after.stages, after.top)
    view.log.add(told)
    assert picture(draw(View(view.log, at), Size(75, 20), NEXT_TOKEN).rows)
    return view


NEXT_TOKEN = LadderUI(next=True)


@pytest.mark.parametrize("at", [0, 2])
def test_f20_in_a_live_run_the_next_distribution_is_shown_before_its_draw(at: int) -> None:
    """F20: at the prompt by itself, at the tip once it is asked for."""
    view = before_the_draw(at)
    found = draw(view, Size(75, 20), NEXT_TOKEN if at else LadderUI())
    recorded = draw(View(run(TOKENS, spec=SHARP, seed=2).log, 0), Size(75, 20))
    assert picture(found.rows) == picture(recorded.rows)
    assert picture(found.header) == picture(recorded.header)
    assert picture(found.footer) == picture(recorded.footer)
    assert "no draw yet" in picture(found.footer)
    assert found.remark == "next token, not drawn yet"
    assert not found.wants
    if at:
        assert "●" in picture(draw(view, Size(75, 20)).rows), "else the one that was drawn"


def test_f20_what_is_not_known_is_wanted_and_what_is_tried_too() -> None:
    view = run(TOKENS, forces=[])
    assert draw(view, Size(75, 20)).wants == [NEXT]
    view = before_the_draw(0)
    chain = chain_of("temperature=0.25 > top_k=2", "guide")
    tried = replace(view, what_if=chain)
    assert draw(tried, Size(75, 20)).wants == [NEXT]
    assert "74.9%" in picture(draw(tried, Size(75, 20)).rows), "until it comes, the run's own"
    after = run(TOKENS, spec=chain.spec).log.nodes[1]
    told = Upcoming(0, 0.0, 0.0, after.stages, after.top, (chain.preset, chain.spec))
    view.log.add(told)
    found = draw(tried, Size(75, 20))
    assert found.tries
    assert not found.wants
    assert "✂ top_k" in picture(found.rows)
    assert "○" not in picture(found.rows), "nothing would be drawn yet"


async def test_f20_a_key_shows_the_next_token_and_enter_means_that_one() -> None:
    app = Host(pane := LadderPane(), before_the_draw(2))
    async with app.run_test(size=(76, 20)) as pilot:
        assert not pane.shows_next
        await pilot.press("full_stop")
        assert "no draw yet" in "\n".join(app.screen_lines())
        assert pane.shows_next
        app.posted.clear()
        await pilot.press("end", "home", "enter")
        assert [type(one).__name__ for one in app.posted] == ["Chosen"], "no logits of the last"
        await pilot.press("full_stop")
        assert "no draw yet" not in "\n".join(app.screen_lines())


async def test_before_the_first_token_there_is_a_hint() -> None:
    app = Host(LadderPane(), run(TOKENS, forces=[]))
    async with app.run_test(size=(76, 12)) as pilot:
        await pilot.press("end", "enter", "right_square_bracket")
        assert app.screen_lines()[0].strip() == "no token drawn yet: step to draw the first"
        assert app.posted == []


@pytest.mark.parametrize("size", [(20, 3), (4, 1), (1, 1), (40, 6), (300, 80)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    app = Host(LadderPane(), run(TOKENS, spec=MANY))
    async with app.run_test(size=size) as pilot:
        await pilot.press("down", "end")
        await pilot.pause()
        width = app.pane.scrollable_content_region.width
        assert all(cell_len(line) == width for line in app.screen_lines())
