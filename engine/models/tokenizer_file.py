"""Naming token ids from a ``tokenizer.json`` alone: no model, no torch, no transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.models.token_table import TokenTable
from engine.plain_files import read_text, reason
from engine.records.vocabulary import Token, TokenKind, Vocabulary

FILE = "tokenizer.json"
_LARGEST = 256 << 20
"""Bytes; the largest known file has 35 MB."""
_MOST_IDS = 10_000_000


class TokenizerError(ValueError):
    """A tokenizer that cannot be used; one line says what is wrong with it."""


class Names:
    """The tokens of a ``tokenizer.json``, and unused ones for the ids that logits have beyond."""

    def __init__(self, path: Path, vocab_size: int = 0) -> None:
        """Read the file, for logits ``vocab_size`` wide. Raises TokenizerError."""
        from tokenizers import Tokenizer

        try:
            text = read_text(path, _LARGEST)
        except (OSError, ValueError) as error:
            raise TokenizerError(f"cannot read {path}: {reason(error)}") from None
        try:
            tokenizer = Tokenizer.from_str(text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the library's panics are no Exceptions
            raise TokenizerError(f"{path} is not a tokenizer: {error}") from None
        # Either could make millions of tokens out of a word, or none.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = _Wrapped(tokenizer)
        self.size = self._tokenizer.size
        """Number of ids the tokenizer itself has."""
        if self.size > _MOST_IDS:
            raise TokenizerError(
                f"{path} has an id of {self.size - 1:,}: no vocabulary is so large"
            )
        self._table = TokenTable.from_tokenizer(self._tokenizer, max(vocab_size, self.size))

    def token(self, token_id: int) -> Token:
        """The token of ``token_id``. Raises IndexError outside tokenizer and logits."""
        row = self._table[token_id]
        return Token(row.id, row.data, TokenKind(row.kind))

    def vocabulary(self) -> Vocabulary:
        return Vocabulary.pack(self.token(token_id) for token_id in range(len(self._table)))

    def ids(self, text: str) -> list[int]:
        """The ids of ``text``, without special tokens around it."""
        return self._tokenizer.encode(text, add_special_tokens=False)


class _Wrapped:
    """A tokenizer of the ``tokenizers`` library with what TokenTable asks of a transformers one."""

    all_special_ids: Sequence[int] = ()

    def __init__(self, tokenizer: Any) -> None:
        self.backend_tokenizer = tokenizer
        self.added_tokens_decoder: dict[int, Any] = tokenizer.get_added_tokens_decoder()

    @property
    def size(self) -> int:
        """One more than the largest id: there may be gaps."""
        known = int(self.backend_tokenizer.get_vocab_size(with_added_tokens=True))
        return max(known, *(token_id + 1 for token_id in self.added_tokens_decoder), 1)

    def convert_ids_to_tokens(self, token_id: int) -> str | None:
        token: str | None = self.backend_tokenizer.id_to_token(token_id)
        return token

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        encoded = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return list(encoded.ids)

    def decode(
        self, ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str:
        """``clean_up_tokenization_spaces`` is transformers' own and False wherever this is used."""
        text: str = self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        return text
