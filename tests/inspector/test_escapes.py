"""Characters that cannot be typed, written with a backslash and read back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import visible
from inspector.escapes import escaped, needs_escapes, unescaped

# Lone surrogates too: a prompt may hold them.
TEXTS = st.text(st.characters(codec=None, exclude_categories=()))


@given(TEXTS)
def test_what_is_written_is_read_back(text: str) -> None:
    written = escaped(text)
    assert unescaped(written) == text
    assert not needs_escapes(written)
    assert visible(written, newline="\n", tab="\t") == written


@given(TEXTS)
def test_a_text_box_keeps_every_line_of_what_is_written(text: str) -> None:
    assert "\n".join(escaped(text).split("\n")) == escaped(text)
    assert len(escaped(text).splitlines()) in (
        escaped(text).count("\n"),
        escaped(text).count("\n") + 1,
    )


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a\nb\tc", "a\nb\tc"),
        (r"\x1b[2J", "\x1b[2J"),
        (r"\u202e\U0001f600", "\u202e😀"),
        (r"\\n", r"\n"),
        (r"\0\r", "\0\r"),
        ("plain", "plain"),
    ],
)
def test_what_the_escapes_mean(written: str, text: str) -> None:
    assert unescaped(written) == text


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (r"\frac", r"\f stands for nothing: write \\ for a backslash"),
        ("end\\", "\\ stands for nothing"),
        (r"\xg1", r"\x stands for nothing"),
        (r"\U00110000", r"there is no character \U00110000"),
    ],
)
def test_what_means_nothing_is_refused_by_name(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        unescaped(written)


@pytest.mark.parametrize(
    ("text", "needs"), [("a\n\tb é 日", False), ("\r", True), ("\u2028", True)]
)
def test_only_what_cannot_be_shown_is_escaped(text: str, needs: bool) -> None:
    assert needs_escapes(text) is needs
