"""Tokens of a server's model by id: those that it has told of so far; it is asked for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.backends.base import Encoded
from engine.records.prompt import Origin
from engine.records.vocabulary import Token, TokenKind

KNOWN_ENDS = (
    *("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>"),
    *("<|eom_id|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|return|>", "<|END_OF_TURN_TOKEN|>"),
    *("<｜end▁of▁sentence｜>", "[EOS]", "<|endofturn|>", "<|end_of_role|>"),
)
"""Texts that end a turn or a text in some model; which of them do in this one is tried out."""


def ends_of(
    texts: Iterable[str], ids_of: Callable[[str], Sequence[int]], ends: Callable[[int], bool]
) -> list[int]:
    """Tokens that end a text, of those whose text is one of ``texts``.

    ``ends``: whether the engine says so when it is made to choose one.
    """
    found: list[int] = []
    for text in dict.fromkeys(texts):
        ids = ids_of(text) if text else ()
        if len(ids) == 1 and ids[0] not in found and ends(ids[0]):
            found.append(ids[0])
    return found


class TokenNames:
    """Tokens by id. ``ask`` is called for one that nothing is known of yet."""

    def __init__(self, ask: Callable[[int], Token]) -> None:
        self._ask = ask
        self._known: dict[int, Token] = {}

    def learn(self, data: Mapping[int, bytes]) -> None:
        """The exact bytes of some tokens; an empty one has a text that it keeps to itself."""
        for token_id, found in data.items():
            if found and token_id not in self._known:
                self._known[token_id] = token_of(token_id, found)

    def __contains__(self, token_id: int) -> bool:
        return token_id in self._known

    def token(self, token_id: int) -> Token:
        found = self._known.get(token_id)
        if found is None:
            found = self._ask(token_id)
            if not found.bytes:
                found = Token(token_id, b"", TokenKind.UNUSED)
            self._known[token_id] = found
        return found


def token_of(token_id: int, data: bytes) -> Token:
    """A token of text, or of a byte that is a part of a character."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return Token(token_id, data, TokenKind.BYTE)
    return Token(token_id, data)


def origins(ids: Sequence[int], own: Sequence[int], around: Origin) -> tuple[Origin, ...]:
    """Origin of each of ``ids``: the user, whose own text has the ids ``own``, or ``around``.

    Its first and last token may have been joined to what stands beside them.
    """
    for head, tail in ((0, 0), (1, 0), (0, 1), (1, 1)):
        wanted = tuple(own[head : len(own) - tail])
        for start in range(len(ids) - len(wanted), -1, -1) if wanted else ():
            if ids[start] == wanted[0] and tuple(ids[start : start + len(wanted)]) == wanted:
                inside = range(start, start + len(wanted))
                return tuple(Origin.USER if at in inside else around for at in range(len(ids)))
    return (around,) * len(ids)


def encoded(ids: Sequence[int], own: Sequence[int], *, chat: bool, notes: Sequence[str]) -> Encoded:
    """A prompt of ``ids``, in which the user's text has the ids ``own``."""
    around = Origin.TEMPLATE if chat else Origin.TOKENIZER
    return Encoded(tuple(ids), origins(ids, own, around), tuple(notes))
