"""A GGUF file as an engine that runs it sees it: sizes, special tokens, template, vocabulary."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.models.checks import ModelError
from engine.models.ggml_types import type_bytes, type_name
from engine.models.gguf_reader import Reader, Strings, TensorInfo, read_settings, read_tensors
from engine.models.token_table import byte_level
from engine.plain_files import check_plain, reason
from engine.records.vocabulary import Token, TokenKind

_TOKENS, _KINDS = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 3, 4, 5, 6
"""Kinds of tokens, as ``llama_token_type`` numbers them; 1 is an ordinary one."""
_BYTE_TOKEN = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
_STOPS = {"eos": "eos", "eot": "end of turn", "eom": "end of message"}
_FULL_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True, eq=False)
class GgufModel:
    """Settings and vocabulary of a GGUF file; ``types`` counts the numbers of each tensor type.

    ``weight_bytes`` is the size of all tensors together.
    """

    path: Path
    settings: dict[str, Any]
    types: dict[str, int]
    weight_bytes: int

    def own(self, name: str) -> Any:
        """A setting of the architecture, such as ``block_count``; None where there is none."""
        return self.settings.get(f"{self.architecture}.{name}")

    def size(self, name: str) -> int:
        """A size of the architecture; 0 where it is not said, or differs from layer to layer."""
        value = self.own(name)
        return value if type(value) is int and value > 0 else 0

    @property
    def architecture(self) -> str:
        return str(self.settings.get("general.architecture") or "")

    @property
    def name(self) -> str:
        return str(self.settings.get("general.name") or self.path.stem)

    @property
    def quantisation(self) -> str:
        """The type of most numbers: ``Q4_1``, or a dtype's name such as ``float32``."""
        most = max(self.types, key=self.types.__getitem__, default="F32")
        return _FULL_NAMES.get(most, most)

    @property
    def parameters(self) -> int:
        return sum(self.types.values())

    @property
    def chat_template(self) -> str | None:
        found = self.settings.get("tokenizer.chat_template")
        return found if isinstance(found, str) and found.strip() else None

    def special_id(self, role: str) -> int | None:
        """The id of a special token: bos, eos, eot, eom, unknown, padding."""
        found = self.settings.get(f"tokenizer.ggml.{role}_token_id")
        return found if type(found) is int and 0 <= found < self.vocab_size else None

    @cached_property
    def stop_ids(self) -> dict[int, str]:
        """Every id that the file says ends a text -> which of its settings says so."""
        found: dict[int, str] = {}
        for role, words in _STOPS.items():
            token_id = self.special_id(role)
            if token_id is not None:
                found.setdefault(token_id, f"GGUF file: {words}")
        return found

    @property
    def vocab_size(self) -> int:
        return len(self.settings[_TOKENS])

    def kind(self, token_id: int) -> int:
        """The kind of a token as ``llama_token_type`` numbers it."""
        kinds = self.settings.get(_KINDS)
        return 1 if kinds is None else int(kinds[token_id])

    @property
    def unused(self) -> int:
        """Number of ids that the vocabulary has for nothing."""
        kinds = self.settings.get(_KINDS)
        return 0 if kinds is None else int((kinds == _UNUSED).sum())

    def token(self, token_id: int) -> Token:
        """The token of an id below ``vocab_size``, made when it is asked for."""
        bytes_level = self.settings.get("tokenizer.ggml.model") == "gpt2"
        return _token(token_id, self.settings[_TOKENS][token_id], self.kind(token_id), bytes_level)


def read_model(path: Path) -> GgufModel:
    """Read the head of a GGUF file. Raises ModelError if it is damaged, cut short or no model."""
    try:
        size = check_plain(path)
        with path.open("rb") as file:
            reader = Reader(file, size)
            settings, count = read_settings(reader, keep=(_TOKENS, _KINDS))
            infos = read_tensors(reader, count)
    except (ValueError, OverflowError, RecursionError, struct.error) as error:
        raise ModelError(f"{path} is not a whole GGUF file ({error}): download it again") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {reason(error)}") from error
    if not isinstance(settings.get(_TOKENS), Strings) or not infos:
        raise ModelError(f"{path} is no language model: it has no vocabulary, or no tensors")
    kinds = settings.get(_KINDS)
    if kinds is not None and len(kinds) != len(settings[_TOKENS]):
        raise ModelError(f"{path} has {len(settings[_TOKENS]):,} tokens of {len(kinds):,} kinds")
    types, weight_bytes = _sizes(infos)
    if weight_bytes > size:
        raise ModelError(f"{path} is not a whole GGUF file (it ends early): download it again")
    return GgufModel(path, settings, types, weight_bytes)


def _sizes(infos: list[TensorInfo]) -> tuple[dict[str, int], int]:
    """(numbers by type, bytes of all); a type that is new to the gguf package counts no bytes."""
    types: Counter[str] = Counter()
    total = 0
    for shape, kind, _ in infos:
        numbers = math.prod(shape)
        name = type_name(kind)
        types[name or f"type {kind}"] += numbers
        total += type_bytes(name, numbers) if name else 0
    return dict(types), total


def _token(token_id: int, surface: bytes, kind: int, bytes_level: bool) -> Token:
    """A token as llama.cpp writes it: byte-level letters, or SentencePiece's marker of a space."""
    if kind == _UNUSED:
        return Token(token_id, b"", TokenKind.UNUSED)
    if kind == _CONTROL:
        return Token(token_id, surface, TokenKind.SPECIAL)
    if kind == _USER_DEFINED:
        return Token(token_id, surface, TokenKind.ADDED)
    found = _BYTE_TOKEN.fullmatch(surface) if kind == _BYTE else None
    if found is not None:
        return Token(token_id, bytes([int(found[1], 16)]), TokenKind.BYTE)
    text = surface.decode("utf-8", "replace")
    data = byte_level(text) if bytes_level else text.replace("\u2581", " ").encode()
    try:
        data.decode()
    except UnicodeDecodeError:
        return Token(token_id, data, TokenKind.BYTE)
    return Token(token_id, data)
