"""Token bytes, incremental decoding and safe display text."""

from __future__ import annotations

import codecs
import pickle
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from engine.models.token_table import Token, TokenTable
from engine.text import IncrementalDecoder, label, quote, visible, visible_bytes

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


# ------------------------------------------------------------------- small tokenizers


def byte_level() -> PreTrainedTokenizerFast:
    """GPT-2's alphabet, one merge, a special, an added word, a run of spaces."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: n for n, letter in enumerate(letters)} | {"Ġ" + "a": 256, "ðŁ": 257}
    core = Tokenizer(models.BPE(vocab, [("Ġ", "a"), ("ð", "Ł")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken("<|end|>", special=True)])
    core.add_tokens([AddedToken("[tool]", special=False), AddedToken("   ", special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")


def byte_level_after_sentencepiece() -> PreTrainedTokenizerFast:
    """What transformers 5.17 makes of a byte-level tokenizer in a GGUF file."""
    tokenizer = byte_level()
    steps: list[Any] = [decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("▁", " ")]
    tokenizer.backend_tokenizer.decoder = decoders.Sequence([*steps, decoders.ByteLevel()])
    return tokenizer


def sentencepiece(*, strip: bool = True) -> PreTrainedTokenizerFast:
    """Like Llama 2: metaspace, byte fallback, a dummy space before the first word."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256))]
    pieces += ["▁Hey", "▁there", "▁", "Hey", "there", "!", "▁▁▁", "é"]
    core = Tokenizer(
        models.BPE(
            {piece: n for n, piece in enumerate(pieces)},
            [],
            unk_token="<unk>",
            byte_fallback=True,
            ignore_merges=True,
        )
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    core.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def metaspace(scheme: str) -> PreTrainedTokenizerFast:
    pieces = {"<unk>": 0, "▁a": 1, "b": 2, "▁": 3, "▁▁": 4, "c▁d": 5}
    core = Tokenizer(models.WordLevel(pieces, unk_token="<unk>"))
    core.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


def wordpiece() -> PreTrainedTokenizerFast:
    pieces = ["[UNK]", "[CLS]", "a", "play", "##ing", ".", "dog", "##s"]
    core = Tokenizer(models.WordPiece({p: n for n, p in enumerate(pieces)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.decoder = decoders.WordPiece()
    core.add_special_tokens(["[CLS]"])
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]", cls_token="[CLS]")


def word_end() -> PreTrainedTokenizerFast:
    """Like openai-gpt: the mark is at the end of a word, so the space comes late."""
    pieces = {"a</w>": 0, "lo": 1, "w</w>": 2, "b</w>": 3, "a": 4}
    core = Tokenizer(models.WordLevel(pieces, unk_token="a"))
    core.decoder = decoders.BPEDecoder(suffix="</w>")
    return PreTrainedTokenizerFast(tokenizer_object=core)


ALL = {
    "byte level": byte_level,
    "sentencepiece": sentencepiece,
    "sentencepiece, nothing stripped": lambda: sentencepiece(strip=False),
    "metaspace": lambda: metaspace("always"),
    "metaspace, never": lambda: metaspace("never"),
    "wordpiece": wordpiece,
    "word end": word_end,
}


def table_of(tokenizer: PreTrainedTokenizerFast, extra: int = 0) -> TokenTable:
    return TokenTable.from_tokenizer(tokenizer, len(tokenizer) + extra)


# ------------------------------------------------------------------------ token bytes


def test_the_three_tokens_of_an_emoji_keep_their_bytes() -> None:
    tokenizer = byte_level()
    ids = tokenizer.encode("😊")
    table = table_of(tokenizer)
    assert [table[i].data for i in ids] == [b"\xf0\x9f", b"\x98", b"\x8a"]
    assert [table[i].kind for i in ids] == ["byte"] * 3
    assert [label(*table[i][:3]) for i in ids] == ["\\xf0\\x9f", "\\x98", "\\x8a"]


@pytest.mark.parametrize("make", [byte_level, byte_level_after_sentencepiece])
def test_byte_level_covers_all_256_bytes(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    table = table_of(make())
    single = {table[i].data for i in range(256)}
    assert single == {bytes([n]) for n in range(256)}
    kinds = {table[i].data[0]: table[i].kind for i in range(256)}
    assert {b for b, kind in kinds.items() if kind == "byte"} == set(range(0x80, 0x100))


def test_kinds_of_special_added_and_padded_ids() -> None:
    table = table_of(byte_level(), extra=2)
    assert len(table) == 263
    assert table[256] == Token(256, b" a", "normal", b" a")
    assert table[258] == Token(258, b"<|end|>", "special", b"<|end|>")
    assert table[259] == Token(259, b"[tool]", "added", b"[tool]")
    assert table[260].data == b"   "
    assert table[262] == Token(262, b"", "unused", b"")
    assert label(262, b"", "unused") == "<unused 262>"
    assert label(9, b"", "special") == "<empty 9>"


@pytest.mark.parametrize("outside", [-1, 263, 2**40])
def test_an_id_outside_the_logits_is_refused(outside: int) -> None:
    with pytest.raises(IndexError, match=r"outside the vocabulary 0\.\.262"):
        table_of(byte_level(), extra=2)[outside]


def test_sentencepiece_drops_the_dummy_space_of_the_first_token_only() -> None:
    tokenizer = sentencepiece()
    table = table_of(tokenizer)
    hey, there, space = tokenizer.convert_tokens_to_ids(["▁Hey", "▁there", "▁"])
    assert table.pieces([hey, there, hey]) == [b"Hey", b" there", b" Hey"]
    # " Hey there" encodes to a dummy space and the text's own
    assert table.pieces([space, hey, there]) == [b"", b" Hey", b" there"]
    # with <s> before it nothing is at the start but <s>, as the tokenizer's decode has it
    assert tokenizer.decode([1, hey]) == "<s> Hey"
    assert table.pieces([1, hey]) == [b"<s>", b" Hey"]
    kept = table_of(sentencepiece(strip=False))
    assert kept.pieces([hey, there]) == [b" Hey", b" there"]


def test_sentencepiece_byte_tokens_are_the_bytes_they_name() -> None:
    tokenizer = sentencepiece()
    table = table_of(tokenizer)
    euro = tokenizer.convert_tokens_to_ids(["<0xE2>", "<0x82>", "<0xAC>"])
    assert table.pieces(euro) == [b"\xe2", b"\x82", b"\xac"]
    assert {table[i].kind for i in range(3, 259)} == {"byte"}  # <0x41> too
    assert table[tokenizer.convert_tokens_to_ids("é")] == Token(
        266, "é".encode(), "normal", "é".encode()
    )
    assert table[1].kind == "special"


def test_metaspace_takes_every_marker_of_the_first_token() -> None:
    table = table_of(metaspace("always"))
    assert [table[i].data for i in range(1, 6)] == [b" a", b"b", b" ", b"  ", b"c d"]
    assert [table[i].first for i in range(1, 6)] == [b"a", b"b", b"", b"", b"cd"]
    never = table_of(metaspace("never"))
    assert [never[i].first for i in range(1, 6)] == [b" a", b"b", b" ", b"  ", b"c d"]


def test_wordpiece_is_read_by_decoding() -> None:
    table = table_of(wordpiece())
    assert [table[i].data for i in (3, 4, 5)] == [b" play", b"ing", b"."]
    assert table.pieces([3, 4, 6, 7, 5]) == [b"play", b"ing", b" dog", b"s", b"."]
    assert table.piece(6, before=[3, 4]) == b" dog"


def test_a_space_that_comes_with_the_next_token() -> None:
    assert table_of(word_end()).pieces([1, 2, 3]) == [b"lo", b"w", b" b"]


def test_added_tokens_of_a_byte_level_bpe_are_their_utf8_a5() -> None:
    """A5: an added token never went through the byte table, so it is not read through it."""
    tokenizer = byte_level()
    tokenizer.add_tokens(["čaj", "đem", "für"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<｜ü｜>", "¡ø!"]})
    table = TokenTable.from_tokenizer(tokenizer, len(tokenizer))
    for text in ("čaj", "đem", "für", "<｜ü｜>", "¡ø!"):
        (token_id,) = tokenizer.encode(text)
        assert table[token_id].data == table[token_id].first == text.encode()
        assert table[token_id].kind == ("special" if "!" in text or "｜" in text else "added")
    assert table[tokenizer.convert_tokens_to_ids("čaj")].data.hex(" ") == "c4 8d 61 6a"
    joined = b"".join(table.pieces(tokenizer.encode("đem čaj für üü")))
    assert joined.decode() == "đem čaj für üü"


def test_what_merges_lead_to_stays_bytes_though_it_was_added_a5() -> None:
    """A5: the id of one letter of the byte alphabet is that byte in every other text."""
    tokenizer = byte_level()
    (byte_e9,) = [n for letter, n in tokenizer.get_vocab().items() if letter == "é"]
    tokenizer.add_tokens(["é", "Ġa"])
    table = TokenTable.from_tokenizer(tokenizer, len(tokenizer))
    assert table[byte_e9].data == b"\xe9"
    assert table[256].data == b" a"
    assert b"".join(table.pieces(tokenizer.encode("鐩"))).decode() == "鐩"


def test_added_tokens_of_sentencepiece_keep_a_marker_that_is_text_a5() -> None:
    """A5: looked for in the text as given, a marker in an added token is that very character."""
    tokenizer = sentencepiece()
    tokenizer.add_tokens([AddedToken("▁x", normalized=False), AddedToken("für", normalized=False)])
    tokenizer.add_tokens([AddedToken("▁y", normalized=True)])
    table = TokenTable.from_tokenizer(tokenizer, len(tokenizer))
    ids = {text: tokenizer.convert_tokens_to_ids(text) for text in ("▁x", "für", "▁y", "▁▁▁")}
    assert table[ids["▁x"]].data == "▁x".encode()
    assert table[ids["für"]].data == "für".encode()
    assert table[ids["▁▁▁"]].data == b"   "
    normalised = tokenizer.backend_tokenizer.normalizer is not None
    assert table[ids["▁y"]].data == (b" y" if normalised else "▁y".encode())


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_pieces_joined_are_the_tokenizers_own_decode(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=12))
    table = table_of(tokenizer)
    if name.startswith("sentencepiece"):  # its decoder spends U+FFFD differently
        ids = [i for i in ids if not 3 + 0x80 <= i < 3 + 0x100]
    joined = b"".join(table.pieces(ids))
    expected = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    assert joined.decode("utf-8", "replace") == expected


TOKENIZERS = {name: make() for name, make in ALL.items()}


class NoBackend:
    """A slow tokenizer: nothing but the calls the table may rely on."""

    added_tokens_decoder: dict[int, Any] = {}
    all_special_ids: list[int | None] = [None]
    pieces = ["a", "<0xE2>", "é", "\ufffd"]

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [0]

    def decode(self, ids: list[int], **options: bool) -> str:
        assert options == {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return "".join("\ufffd" if i == 1 else self.pieces[i % 4] for i in ids)

    def convert_ids_to_tokens(self, token_id: int) -> str | None:
        return self.pieces[token_id] if token_id < len(self.pieces) else None


def test_a_tokenizer_without_a_backend() -> None:
    table = TokenTable.from_tokenizer(NoBackend(), 5)
    assert [(t.data, t.kind) for t in table] == [
        (b"a", "normal"),
        (b"\xe2", "byte"),
        ("é".encode(), "normal"),
        (b"\xef\xbf\xbd", "normal"),
        (b"", "unused"),
    ]
    assert table.pieces([0, 1, 2]) == [b"a", b"\xe2", "é".encode()]


def test_only_what_is_asked_for_is_read() -> None:
    asked: list[int] = []

    class Counting(NoBackend):
        def convert_ids_to_tokens(self, token_id: int) -> str | None:
            asked.append(token_id)
            return "a"

    table = TokenTable.from_tokenizer(Counting(), 150_000)
    assert asked == []
    assert table[7] is table[7]
    assert asked == [7]


def test_a_pickled_table_has_the_same_rows_and_no_tokenizer() -> None:
    table = table_of(sentencepiece(), extra=1)
    copy = pickle.loads(pickle.dumps(table))
    assert list(copy) == list(table)
    assert len(copy) == 268
    hey = sentencepiece().convert_tokens_to_ids("▁Hey")
    assert copy.pieces([hey, hey]) == [b"Hey", b" Hey"]
    with pytest.raises(IndexError):
        copy[268]


def test_a_template_that_adds_bos_changes_no_bytes() -> None:
    tokenizer = sentencepiece()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    assert b"".join(table_of(tokenizer).pieces(tokenizer.encode("Hey"))) == b"<s> Hey"


# ---------------------------------------------------------------- incremental decoding


def test_text_comes_when_the_character_is_whole() -> None:
    decoder = IncrementalDecoder()
    assert decoder.feed(b"a\xf0\x9f") == "a"
    assert decoder.pending == b"\xf0\x9f"
    assert decoder.feed(b"\x98") == ""
    assert decoder.feed(b"\x8a!") == "😊!"
    assert decoder.pending == b""
    assert decoder.feed(b"\xe2\x82") == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.pending == b""
    assert decoder.feed(b"b") == "b"


@given(st.lists(st.binary(max_size=6)))
@example([b"\xf0", b"\x9f", b"\x98", b"\xf0\x9f\x98\x8a"])
@example([b"\xed", b"\xa0", b"\x80"])
@example([b"\xc0", b"\x80\xff"])
def test_however_the_bytes_are_cut_the_text_is_the_same(chunks: list[bytes]) -> None:
    decoder = IncrementalDecoder()
    text = "".join([*(decoder.feed(chunk) for chunk in chunks), decoder.flush()])
    assert text == b"".join(chunks).decode("utf-8", errors="replace")


@given(st.text(), st.data())
def test_no_character_is_lost_or_early(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    decoder = IncrementalDecoder()
    start = decoder.feed(raw[:cut])
    assert text.startswith(start)
    assert raw[:cut] == start.encode() + decoder.pending
    assert start + decoder.feed(raw[cut:]) == text


# --------------------------------------------------------------------------- safe text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本 😊 [/b] \\", "plain é 日本 😊 [/b] \\"),
        ("\x1b[2J", "␛[2J"),
        ("\x1b]0;t\x07", "␛]0;t␇"),
        ("\x00\x1f\x7f", "␀␟␡"),
        ("\x9b2J\x80\x9f", "\\x9b2J\\x80\\x9f"),
        ("a\nb\tc\r\n", "a⏎b⇥c␍⏎"),
        ("\u202eabc\u2066\u200e\u061c", "<U+202E>abc<U+2066><U+200E><U+061C>"),
        ("a\u200bb\ufeff\u2060\u00ad", "a<U+200B>b<U+FEFF><U+2060><U+00AD>"),
        ("\u2028\u2029\x85", "<U+2028><U+2029>\\x85"),
        ("\ud800x\udfff", "<U+D800>x<U+DFFF>"),
        ("\U000e0041\U000e0001\U000e0100", "<U+E0041><U+E0001><U+E0100>"),
        ("\u3164\u115f\u034f\uffff", "<U+3164><U+115F><U+034F><U+FFFF>"),
        ("❤\ufe0f 👩\u200d💻", "❤<U+FE0F> 👩<U+200D>💻"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_newlines_and_tabs_become_what_the_caller_asks() -> None:
    assert visible("a\nb\tc", newline="\n", tab="→") == "a\nb→c"
    assert visible("a\nb", newline="↵\n") == "a↵\nb"
    assert visible("a\r\nb", newline="\n") == "a␍\nb"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("❤\ufe0f!", "❤\ufe0f!"),
        ("👩\u200d💻 👍\U0001f3fd", "👩\u200d💻 👍\U0001f3fd"),
        ("👁\ufe0f\u200d🗨\ufe0f", "👁\ufe0f\u200d🗨\ufe0f"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
        # where nothing is joined they hide, or make text look like other text
        ("a\u200db", "a<U+200D>b"),
        ("a\ufe0f", "a<U+FE0F>"),
        ("👩\u200dx", "👩<U+200D>x"),
        ("👩\u200d", "👩<U+200D>"),
        ("\u200d👩", "<U+200D>👩"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f<U+FE0F>"),
        ("👩\u200d\u200d💻", "👩<U+200D><U+200D>💻"),
        ("👩\u202e💻\x1b", "👩<U+202E>💻␛"),
        ("1\ufe0f", "1<U+FE0F>"),
    ],
)
def test_emoji_sequences_stay_whole_only_when_asked(text: str, shown: str) -> None:
    assert visible(text, emoji=True) == shown


def acts_or_hides(ch: str) -> bool:
    return unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_every_code_point_of_unicode_is_safe() -> None:
    hidden = 0
    for code in range(sys.maxunicode + 1):
        shown = visible(chr(code))
        assert shown
        assert not any(map(acts_or_hides, shown)), hex(code)
        shown.encode()
        hidden += shown != chr(code)
    # 65 controls, 2048 surrogates, 66 noncharacters, 4096 code points of tags and selectors
    assert hidden > 65 + 2048 + 66 + 4096
    assert hidden < 65 + 2048 + 66 + 4096 + 300


@given(any_text, st.booleans())
def test_visible_text_holds_no_control_and_encodes(text: str, emoji: bool) -> None:
    shown = visible(text, emoji=emoji)
    assert not any(unicodedata.category(ch) in ("Cc", "Cs", "Zl", "Zp") for ch in shown)
    assert not any(acts_or_hides(ch) and ch != "\u200d" for ch in shown)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert visible(shown, emoji=emoji) == shown
    assert len(shown) >= len(text)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b" the", " the"),
        ("😊".encode(), "😊"),
        (b"\xf0\x9f", "\\xf0\\x9f"),
        (b"\x98", "\\x98"),
        (b"a\xf0\x9f\x98", "a\\xf0\\x9f\\x98"),
        (b"\x8a!\xff\xe2\x82\xac\xc3", "\\x8a!\\xff€\\xc3"),
        (b"\x1b[2J\n", "␛[2J⏎"),
        ("\u202e".encode(), "<U+202E>"),
        ("\u0301e\u0301".encode(), "◌\u0301e\u0301"),
        (b"\xff\xcc\x81", "\\xff◌\u0301"),
        ("\ufe0f".encode(), "<U+FE0F>"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        (b"", ""),
    ],
)
def test_visible_bytes(data: bytes, shown: str) -> None:
    assert visible_bytes(data) == shown


@given(st.binary())
def test_visible_bytes_are_safe_and_no_byte_is_lost(data: bytes) -> None:
    shown = visible_bytes(data)
    assert not any(map(acts_or_hides, shown))
    shown.encode()
    assert "\ufffd" not in shown or "\ufffd".encode() in data
    assert bool(shown) == bool(data)


def test_quote_is_one_short_line() -> None:
    assert quote("gpt2") == '"gpt2"'
    assert quote("a\nb\x1b") == '"a⏎b␛"'
    assert quote("x" * 60) == '"' + "x" * 60 + '"'
    assert quote("x" * 61) == '"' + "x" * 59 + '…"'
    assert quote("abcdef", 3) == '"ab…"'
    assert quote("\x80" * 10_000_000, 8) == '"\\x80\\x8…"'


# --------------------------------------------------------------------- the real thing


@pytest.mark.model
def test_smollm2_vocabulary(default_model_dir: Any) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model_dir)
    table = TokenTable.from_tokenizer(tokenizer, 49152)
    ids = tokenizer.encode("😊", add_special_tokens=False)
    assert ids == [10813, 242, 228]
    assert [table[i].data.hex() for i in ids] == ["f09f", "98", "8a"]
    assert table[212].data == b"\x1b"
    rows = list(table)
    assert sum(r.data.decode("utf-8", "replace") == "\ufffd" for r in rows) == 265
    whole = [r.data.decode() for r in rows if r.kind != "byte"]
    odd = set("\n\t\r")
    assert sum(any(unicodedata.category(c) == "Cc" for c in set(t) - odd) for t in whole) == 24
    assert sum(r.kind == "special" for r in rows) == 17
    assert tokenizer.decode(list(range(49152))) == codecs.decode(
        b"".join(table.pieces(range(49152))), "utf-8", "replace"
    )
