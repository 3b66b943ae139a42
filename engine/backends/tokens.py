"""From what people write to token ids: a text inside a dial, a token named in a condition."""

from __future__ import annotations

from engine.backends.base import Backend, BackendError
from engine.records.events import Tokenized
from engine.records.prompt import Origin
from engine.text import quote


def ids_of(backend: Backend, text: str) -> list[int]:
    """The ids of a text, without what a tokenizer puts around a prompt."""
    encoded = backend.tokenize(text, chat=False, system=None)
    pairs = zip(encoded.ids, encoded.origins, strict=True)
    return [token_id for token_id, origin in pairs if origin is Origin.USER]


def tokenized(backend: Backend, text: str) -> Tokenized:
    """A text as it would go on a text which has begun, in tokens that are its very bytes.

    Where the tokenizer cannot be brought to that, the tokens that it gives a text of its own.
    """
    try:
        ids = _going_on(backend, text)
    except BackendError as error:
        return Tokenized(text, (), str(error))
    return Tokenized(text, tuple(backend.token(token_id) for token_id in ids))


def _going_on(backend: Backend, text: str) -> list[int]:
    data = text.encode("utf-8", "surrogatepass")
    alone = ids_of(backend, text)
    if _data(backend, alone) == data:
        return alone
    # Some tokenizers put a space before a text of its own; not where something stands before it.
    for before in ("\n", ".", "a"):
        head, whole = ids_of(backend, before), ids_of(backend, before + text)
        rest = whole[len(head) :]
        if whole[: len(head)] == head and _data(backend, rest) == data:
            return rest
    return alone


def _data(backend: Backend, ids: list[int]) -> bytes:
    return b"".join(backend.token(token_id).bytes for token_id in ids)


def id_of(backend: Backend, text: str) -> int:
    """The id of the token that is exactly this text. Raises BackendError where there is none."""
    data = text.encode("utf-8", "surrogatepass")
    ids = ids_of(backend, text)
    if len(ids) == 1 and backend.token(ids[0]).bytes == data:
        return ids[0]
    # Some tokenizers put a space before a text of its own, and never give the token as it is.
    vocabulary = backend.vocabulary()
    for token_id in range(len(vocabulary)):
        if vocabulary.token(token_id).bytes == data:
            return token_id
    pieces = " + ".join(quote(backend.token(one).bytes.decode("utf-8", "replace")) for one in ids)
    made_of = f": it is {len(ids)}, {pieces}" if len(ids) > 1 else ""
    raise BackendError(f"{quote(text)} is not one token of this model{made_of}")
