"""Text in cells: how wide it is on a terminal, cut or padded to a width, and safe to show.

A character is 0, 1 or 2 cells wide, so ``len`` is never the width. Text of the model's own goes
into the last column, where a terminal that measures it differently can push nothing aside.
"""

from __future__ import annotations

from rich.cells import cell_len, chop_cells, set_cell_size
from textual.content import Content

from engine.records.vocabulary import Token, TokenKind
from engine.text import label
from inspector.draw.numbers import FAINT

ELLIPSIS = "…"
UNKNOWN = "…"
"""Stands for a token whose name has not been fetched."""

_STYLES = {
    TokenKind.NORMAL: "",
    TokenKind.SPECIAL: "$special-token $special-token-style",
    TokenKind.ADDED: "$added-token $added-token-style",
    TokenKind.BYTE: "$byte-token $byte-token-style",
    TokenKind.UNUSED: "$special-token $special-token-style",
}
GLYPHS = {
    TokenKind.NORMAL: "·",
    TokenKind.SPECIAL: "◆",
    TokenKind.ADDED: "+",
    TokenKind.BYTE: "½",
    TokenKind.UNUSED: "∅",
}
"""A sign for each kind of token, so that its colour is not all that tells it."""


def clip(text: str, cells: int) -> str:
    """``text`` in at most ``cells`` cells; an ellipsis shows that something is missing."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1) + ELLIPSIS if cells > 0 else ""


def left(text: str, cells: int) -> str:
    """``text`` in exactly ``cells`` cells, at the left."""
    text = clip(text, cells)
    return text + " " * (cells - cell_len(text))


def right(text: str, cells: int) -> str:
    """``text`` in exactly ``cells`` cells, at the right."""
    text = clip(text, cells)
    return " " * (cells - cell_len(text)) + text


def chop(text: str, cells: int) -> list[str]:
    """``text`` in pieces of at most ``cells`` cells (or of one character, where that is wider)."""
    return [piece for piece in chop_cells(text, max(1, cells)) if piece]


def kind_style(kind: TokenKind) -> str:
    """The colour and text style of a kind of token."""
    return _STYLES[kind]


def token_parts(token: Token | None, style: str = "") -> tuple[tuple[str, str], ...]:
    """A token as it stands in a list: ordinary text in quotes, so that its spaces can be seen.

    What is not ordinary text (special, unused, a piece of a character) has no quotes. The style is
    the one of the token's kind where none is given.
    """
    if token is None:
        return ((UNKNOWN, FAINT),)
    unused = token.kind is TokenKind.UNUSED
    shown = label(token.id, token.bytes, "unused" if unused else "normal")
    style = style or kind_style(token.kind)
    if token.kind in (TokenKind.NORMAL, TokenKind.ADDED) and token.bytes:
        return (('"', FAINT), (shown, style), ('"', FAINT))
    return ((shown, style),)


def token_text(token: Token | None, style: str = "") -> Content:
    """A token by itself, as in a list."""
    return Content.assemble(*token_parts(token, style))


def hex_bytes(data: bytes) -> str:
    """Bytes as ``f0 9f 98``."""
    return data.hex(" ")
