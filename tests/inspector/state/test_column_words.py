"""A column's settings in writing: what stands beside the sampler's own part."""

from __future__ import annotations

import pytest

from engine.records.round import Accept, DraftSettings
from inspector.state.column_words import ColumnWords, column_words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ColumnWords("")),
        ("temperature=0.3 top_k=5", ColumnWords("temperature=0.3 top_k=5")),
        ("preset=hf, draft=ngram:4", ColumnWords("", "hf", None, DraftSettings("ngram:4"))),
        (
            "temperature=0 seed=3 draft=self:2 draft-tokens=6 accept=match",
            ColumnWords("temperature=0", None, 3, DraftSettings("self:2", 6, Accept.MATCH)),
        ),
        (
            "draft=ngram draft_tokens=auto top_k=40 > temperature=0.8",
            ColumnWords("top_k=40 > temperature=0.8", None, None, DraftSettings("ngram", 0)),
        ),
        ("draft=none temperature=0", ColumnWords("temperature=0", draft=DraftSettings())),
        ('draft="a model" top_k=2', ColumnWords("top_k=2", draft=DraftSettings("a model"))),
        # What a dial's value in quotes says is the dial's.
        ('bias=" seed=4=1.5"', ColumnWords('bias=" seed=4=1.5"')),
    ],
)
def test_what_is_read_out_of_it(text: str, found: ColumnWords) -> None:
    assert column_words(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("preset=nope", "preset"),
        ("seed=-1", "seed is a whole number"),
        ("seed=1e3", "seed is a whole number"),
        ("seed=1 seed=2", "seed is given twice"),
        ("draft=ngram:0", "whole number"),
        ("draft=ngram draft_tokens=0", "draft_tokens is auto or"),
        ("draft=ngram accept=often", "accept is exact or match or typical"),
        ("accept=match", "accept needs draft="),
        ("draft=none draft_tokens=3", "draft_tokens needs draft="),
    ],
)
def test_what_cannot_be_is_one_line(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        column_words(text)
    assert "\n" not in str(raised.value)
