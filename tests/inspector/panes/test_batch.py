"""The batch pane: who was in each pass, and what passes cost by their rows."""

from __future__ import annotations

from dataclasses import replace

from textual.geometry import Size

from engine.records.columns import ColumnsSet, ColumnState, Part, PassColumn, PassRecord
from inspector.panes.batch.figures import RowsCost, costs
from inspector.panes.batch.pane import NO_PASS, BatchUI, draw, place_of
from inspector.state.view import View
from tests.fake_runs import picture
from tests.fakes import kv, prompt, step, timing, view

MIB = 1 << 20


def passed(
    *nodes: int, ms: float, parts: str = "", passes: int = 1, warmup: bool = False, error: str = ""
) -> PassRecord:
    """A pass that gave columns 3, 4, ... these nodes, in ``ms``; ``parts``: r(ow), t(win) ..."""
    kinds = {part.value[0]: part for part in Part}
    told = [kinds[one] for one in parts or "r" * len(nodes)]
    columns = tuple(
        PassColumn(3 + at, 0, part, (node,) if node else (), error if node == 0 else "")
        for at, (node, part) in enumerate(zip(nodes, told, strict=True))
    )
    rows = told.count(Part.ROW)
    return PassRecord(
        columns, rows, passes, ms, ms + 1.0, "float32", 512 * MIB, 3 * MIB, warmup=warmup
    )


def seen(*passes: PassRecord, cursor: int = 0, steps: int = 8) -> View:
    found = [step(node, timing(10.0), kv(node), parent=0) for node in range(1, steps + 1)]
    states = tuple(ColumnState(number, 0) for number in (3, 4, 5, 6))
    return view(prompt(3), *found, ColumnsSet(states), *passes, cursor=cursor)


def test_without_passes_it_says_how_there_come_some() -> None:
    words = " ".join(picture(draw(seen(), Size(60, 20)).rows).split())
    assert words == NO_PASS


def test_a_row_says_who_was_in_a_pass_and_what_a_token_cost() -> None:
    """Four rows in 20 ms: 5 ms a token; 512 MiB of weights for four tokens: 128 MiB each."""
    found = draw(seen(passed(1, 2, 3, 4, ms=20.0)), Size(100, 20))
    assert picture(found.rows).split() == [
        "1",
        "4",
        "20.0",
        "ms",
        "5.00",
        "ms",
        "128",
        "MiB",
        "A",
        "B",
        "C",
        "D",
    ]
    footer = "\n".join(line.plain for line in found.footer)
    assert "tokens a pass 4.00 ƒ" in footer
    assert "in all 21.0 ms •  K and V 3.00 MiB •  weights float32 512 MiB •" in footer
    assert "read once" not in footer, "each row read its own"
    one = replace(passed(1, 2, ms=20.0), shared_kv_bytes=2 * MIB)
    footer = "\n".join(line.plain for line in draw(seen(one), Size(100, 20)).footer)
    assert "2.00 MiB • of K and V read once for all rows" in footer


def test_a_server_that_tells_no_bytes_has_none() -> None:
    """vLLM tells neither its weights' bytes nor those of K and V; the note says how rows went."""
    told = "one request for all rows; the engine shares its passes among them"
    one = replace(passed(1, 2, ms=20.0), weight_bytes=0, kv_bytes=None, note=told)
    found = draw(seen(one), Size(100, 20))
    assert picture(found.rows).split() == ["1", "2", "20.0", "ms", "10.0", "ms", "—", "A", "B"]
    footer = "\n".join(line.plain for line in found.footer)
    assert "K and V —" in footer
    assert "weights float32 —" in footer
    assert told in footer


def test_a_twin_shares_a_row_and_one_that_failed_says_why() -> None:
    one = passed(1, 2, 0, 3, ms=20.0, parts="rtfk", error="an \x1b[31m empty set")
    found = draw(seen(one), Size(100, 20))
    # One row served two columns: two tokens in 20 ms.
    words = picture(found.rows).split()
    assert words[:7] == ["1", "1", "20.0", "ms", "10.0", "ms", "256"]
    assert words[8:] == ["A", "=B", "✗C", "·D"]
    footer = "\n".join(line.plain for line in found.footer)
    assert "✗ an " in footer
    assert footer.replace("\n", "").isprintable()


def test_the_median_by_rows_leaves_out_the_first_of_each_shape() -> None:
    passes = [
        passed(1, 2, ms=90.0, warmup=True),
        *(passed(1, 2, ms=ms) for ms in (12.0, 14.0, 40.0)),
        passed(1, 2, 3, ms=18.0),
        passed(1, 2, 3, ms=99.0, passes=3),
    ]
    one = seen(*passes)
    assert costs(passes, one.branch) == [RowsCost(2, 3, 14.0), RowsCost(3, 1, 18.0)]
    assert costs(passes, one.branch)[0].each_ms == 7.0


def test_one_row_costs_what_the_plain_steps_of_the_branch_do() -> None:
    """Steps that passes made are none of them, nor is the first, which the prompt's reading gave."""
    steps = [step(node, timing(ms), kv(3 + node)) for node, ms in enumerate((5, 10, 12, 50), 1)]
    one = view(prompt(3), *steps)
    found = costs([passed(4, 9, ms=15.0)], one.branch)
    assert found == [RowsCost(1, 2, 10.0, plain=True), RowsCost(2, 1, 15.0)]
    lines = draw(view(prompt(3), *steps, passed(4, 9, ms=15.0)), Size(100, 20)).footer
    assert any("1.50x one row" in line.plain for line in lines)


def test_the_cursor_finds_its_pass() -> None:
    passes = [passed(1, 2, ms=1.0), passed(3, 4, ms=1.0), passed(6, 7, ms=1.0)]
    assert [place_of(passes, node) for node in range(9)] == [None, 0, 0, 1, 1, None, 2, 2, None]
    found = draw(seen(*passes, cursor=4), Size(100, 20), BatchUI())
    assert (found.select, found.follow) == (1, 1)
