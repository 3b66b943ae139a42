"""GGUF headers that speak of more than there is: refused in seconds, in one line (C12)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from time import thread_time

import pytest

from engine.models import gguf
from engine.models import resolve as models
from engine.models.checks import ModelError
from tests.engine.models.test_models import header_bytes, write_gguf

SECONDS = 5.0


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Importing the libraries is no part of reading a file."""
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    assert AutoModelForCausalLM
    assert LlamaForCausalLM


_U8, _U32, _STRING, _ARRAY = 0, 4, 8, 9


def said(path: Path, read: Callable[[Path], object] = gguf.read_header) -> str:
    """What reading ends with: one line, in time."""
    began = thread_time()
    with pytest.raises(ModelError) as caught:
        read(path)
    assert thread_time() - began < SECONDS
    line = str(caught.value)
    assert "\n" not in line
    return line


def sparse(path: Path, begin: bytes) -> Path:
    """A file that begins so and is zeros behind it: 16 GB that take no room."""
    path.write_bytes(begin)
    with path.open("r+b") as file:
        file.truncate(1 << 34)
    return path


def header(tensors: int, pairs: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs)


def pair(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


MANY = 10**8


@pytest.mark.parametrize(
    ("begin", "why"),
    [
        (header(MANY, 0), "it speaks of 100,000,000 tensors"),
        (header(0, MANY), "it speaks of 100,000,000 settings"),
        (
            header(0, 1) + pair("a", _ARRAY, struct.pack("<IQ", _STRING, MANY)),
            "it speaks of 100,000,000 entries of a list",
        ),
        (
            header(0, 1) + pair("a", _ARRAY, struct.pack("<IQ", _ARRAY, MANY)),
            "it speaks of 100,000,000 entries of a list",
        ),
        (
            header(0, 1) + pair("a", _ARRAY, struct.pack("<IQ", _ARRAY, 1) * 50),
            "lists in lists in lists",
        ),
        (
            header(1, 0) + struct.pack("<QI", 0, MANY),
            "a tensor of 100,000,000 dimensions",
        ),
        (header(0, 1) + struct.pack("<Q", 1 << 33), "a string of 8589934592 bytes"),
        (header(0, 2) + pair("a", _U8, b"\1") * 2, "a stands in it twice"),
        (header(0, 9_000), "stands in it twice"),
        (header(190_000, 0), "tensors"),
    ],
)
def test_c12_a_header_of_too_much_is_refused_at_once(
    tmp_path: Path, begin: bytes, why: str
) -> None:
    path = sparse(tmp_path / "x.gguf", begin)
    if why == "tensors":  # as many as may be, and nothing in them
        assert gguf.read_header(path).elements == 190_000
        return
    line = said(path)
    assert line.startswith(f"{path} is not a whole GGUF file (")
    assert line.endswith(f"{why}): download it again")


@pytest.mark.parametrize(
    ("key", "number", "why"),
    [
        ("llama.block_count", MANY, "llama.block_count is 100,000,000, with 12 tensors"),
        ("llama.block_count", 0, "llama.block_count is 0"),
        ("llama.embedding_length", 0, "llama.embedding_length is 0"),
        ("llama.embedding_length", 2**32 - 1, "llama.embedding_length is 4294967295"),
        ("llama.feed_forward_length", 0, "llama.feed_forward_length is 0"),
        ("llama.context_length", 0, "llama.context_length is 0"),
        ("llama.embedding_length", 2**30, "does not fit its own header"),
        ("llama.feed_forward_length", 2**30, "does not fit its own header"),
        ("llama.attention.head_count", 0, "x.gguf"),
        ("llama.attention.head_count", 2**31, "x.gguf"),
        ("llama.attention.head_count_kv", 0, "x.gguf"),
        ("llama.attention.head_count_kv", 2**31, "x.gguf"),
        ("llama.vocab_size", 0, "x.gguf"),
        ("llama.vocab_size", 2**30, "x.gguf"),
    ],
)
def test_c12_sizes_that_cannot_be_are_refused_before_anything_is_built(
    tmp_path: Path, key: str, number: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "x.gguf"
    write_gguf(path)
    data = bytearray(path.read_bytes())
    at = data.index(pair(key, _U32, b"")) + len(pair(key, _U32, b""))
    data[at : at + 4] = struct.pack("<I", number)
    path.write_bytes(data)
    assert why in said(path, lambda file: models.resolve(str(file)))


@pytest.mark.parametrize("alignment", [0, 3, 2**31])
def test_c12_an_alignment_that_cannot_be(tmp_path: Path, alignment: int) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(header_bytes(0, [("general.alignment", _U32, struct.pack("<I", alignment))]))
    assert f"an alignment of {alignment}" in said(path)


def test_b11_a_template_beside_a_gguf_file_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "downloads"
    place.mkdir()
    write_gguf(place / "x.gguf")
    (place / "chat_template.jinja").write_text("of another model")
    (place / "tokenizer_config.json").write_text('{"chat_template": "of another model"}')
    found = models.resolve(str(place / "x.gguf"))
    assert not any("another" in file.read_text("latin-1") for file in found.path.glob("*.j*"))
