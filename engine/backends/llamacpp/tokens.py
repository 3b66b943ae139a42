"""Texts and tokens of a GGUF file: llama.cpp's tokenizer, the file's vocabulary and template."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from engine.backends import prompt
from engine.backends.base import Encoded
from engine.models.gguf_model import GgufModel
from engine.records.vocabulary import TokenKind, Vocabulary

_ROLES = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}


class GgufTokens:
    """The tokenizer of the engine; ids and bytes by the file. ``Tokens`` of the top-N backend."""

    def __init__(self, model: GgufModel, ids_of: Callable[[str, bool], list[int]]) -> None:
        """``ids_of(text, special)``: the engine's ids, with those that it puts around a text."""
        self._size = model.vocab_size
        self.token = cache(model.token)
        """The token of an id."""
        self._tokenizer = _Tokenizer(model, ids_of)
        self.chat_template = prompt.template_text(self._tokenizer)

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        return prompt.encode(
            self._tokenizer,
            text,
            chat=chat,
            system=system,
            is_special=lambda token_id: self.token(token_id).kind is TokenKind.SPECIAL,
        )

    def vocabulary(self) -> Vocabulary:
        return Vocabulary.pack(map(self.token, range(self._size)))


class _Tokenizer:
    """A tokenizer as ``prompt.encode`` asks for one, with transformers' names and no more."""

    is_fast = False

    def __init__(self, model: GgufModel, ids_of: Callable[[str, bool], list[int]]) -> None:
        self._model = model
        self._ids_of = ids_of
        self.chat_template = model.chat_template
        self.bos_token_id = model.special_id("bos")
        self.special_tokens_map = {
            f"{name}_token": self.convert_ids_to_tokens(token_id)
            for role, name in _ROLES.items()
            if (token_id := model.special_id(role)) is not None
        }
        self.bos_token = self.special_tokens_map.get("bos_token", "")

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, Any]:
        return {"input_ids": self._ids_of(text, add_special_tokens)}

    def get_chat_template(self) -> str | None:
        return self.chat_template

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return self._model.token(token_id).bytes.decode("utf-8", "replace")
