"""Napkin arithmetic: the figures of known models by hand, the notation, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.napkin.figures import (
    binding_batch,
    read_bytes,
    short,
    token_bytes,
    variants,
    weight_bytes,
)
from engine.napkin.library import Library, NapkinError
from engine.napkin.notation import EXAMPLE, parse, written
from engine.napkin.shapes import Machine, ModelShape
from engine.records.figure import Source

LIBRARY = Library.load()
CONTEXT = 131_072


def shape(text: str) -> ModelShape:
    return parse(text, LIBRARY)[0]


def machine(text: str) -> Machine:
    found = parse(text, LIBRARY)[1]
    assert found is not None
    return found


def figures(text: str, variant: int = 0) -> dict[str, float | None]:
    found = variants(*parse(text, LIBRARY))[variant]
    return {one.name: one.value for one in found.figures}


# --- the arithmetic -------------------------------------------------------------------------


def test_a_70b_with_a_kv_head_for_each_query_head() -> None:
    """2 x 80 x 8,192 x 2 bytes: about 2.6 MB a token and a third of a TB at 128K."""
    found = figures("70B 80 layers 8192 wide mha 16bit")
    assert found["K/V a token"] == 2_621_440
    assert found["K/V at 128K"] == pytest.approx(343.6e9, rel=1e-3)


def test_a_70b_with_8_query_heads_a_kv_head() -> None:
    """An eighth of it: about 330 KB a token and 43 GB at 128K."""
    found = figures("70B 80 layers 8192 wide gqa8 16bit")
    assert found["K/V a token"] == 327_680
    assert found["K/V at 128K"] == pytest.approx(42.95e9, rel=1e-3)


def test_140_gb_of_weights_at_3_35_tb_a_second() -> None:
    """About 24 tokens a second: 3.35e12 / 140e9 = 23.93; the batch: 989 / 3.35 = 295.2."""
    found = figures(EXAMPLE)
    assert found["weights"] == 140e9
    assert found["decode"] == pytest.approx(23.93, abs=0.01)
    assert found["batch"] == pytest.approx(295.2, abs=0.1)
    # (140 + 42.95) GB at 3.35 TB/s.
    assert found["decode at 128K"] == pytest.approx(18.31, abs=0.01)


def test_fewer_bits() -> None:
    """Half the weights' bytes: twice the tokens and half the batch; half of K/V: half the cache."""
    given, int8, int4, kv8 = (figures(EXAMPLE, at) for at in range(4))
    assert (int8["weights"], int4["weights"], kv8["weights"]) == (70e9, 35e9, 140e9)
    assert int8["decode"] == pytest.approx(2 * given["decode"])
    assert int4["batch"] == pytest.approx(given["batch"] / 4)
    assert kv8["K/V at 128K"] == given["K/V at 128K"] / 2
    assert kv8["decode"] == given["decode"]


def test_variants_that_save_nothing_are_left_out() -> None:
    labels = [one.label for one in variants(shape("70B 80 layers 8192 wide int8 int8 kv"), None)]
    assert labels == ["8 bit", "int4 weights"]


def test_the_batch_where_kv_bind_however_many_rows_there_are() -> None:
    """A row's K/V take 42.9 GB / 3.35 TB/s = 12.8 ms, its arithmetic 0.49 ms: bytes bind."""
    big, h100 = shape("llama-3.1-70b"), machine("llama-3.1-70b @ h100")
    assert binding_batch(big, h100, CONTEXT) is None
    reason = next(one for one in variants(big, h100)[0].figures if one.name == "batch at 128K")
    assert reason.value is None
    assert "bytes bind at any batch" in reason.reason


def test_latent_attention_keeps_one_latent_for_all_heads() -> None:
    """DeepSeek-V3: 61 layers x 576 values x 2 bytes = 70,272 bytes a token."""
    found = shape("deepseek-v3")
    assert found.attention == "MLA"
    assert token_bytes(found) == 70_272
    # 37B of 671B work on a token; in 16 bit the step reads 74 GB of 1,342.
    assert read_bytes(found, 0) == 74e9
    assert weight_bytes(found) == pytest.approx(1342e9)


@pytest.mark.parametrize(
    ("text", "kind", "each"),
    [
        ("llama-2-7b", "MHA", 2 * 32 * 32 * 128 * 2),
        ("llama-3.1-8b", "GQA 4:1", 2 * 32 * 8 * 128 * 2),
        ("falcon-7b", "MQA", 2 * 32 * 1 * 64 * 2),
        ("smollm2-135m 32bit 32bit kv", "GQA 3:1", 46_080),
    ],
)
def test_bytes_a_token_by_kind_of_attention(text: str, kind: str, each: int) -> None:
    assert shape(text).attention == kind
    assert token_bytes(shape(text)) == each


def test_what_rests_on_a_datasheet_is_estimated_and_a_size_derived() -> None:
    for figure in variants(*parse("llama-3.1-8b @ h100", LIBRARY))[0].figures:
        sized = figure.name == "weights" or figure.name.startswith("K/V")
        assert figure.source is (Source.DERIVED if sized else Source.ESTIMATED), figure.name
        assert figure.value is not None or figure.reason


def test_rows_that_fit() -> None:
    """(80 - 16.06) GB / (131,072 x 131,072 bytes) = 3.7: three fit; of a 70B none does."""
    assert figures("llama-3.1-8b @ h100")["fit, of 128K"] == 3
    assert figures("llama-3.1-70b @ h100")["fit, of 128K"] == 0
    assert figures("llama-3.1-70b @ 3TB/s")["fit, of 128K"] is None


def test_without_a_machine_there_are_sizes_and_a_reason() -> None:
    found = variants(shape("llama-3.1-8b"), None)[0].figures
    assert [one.name for one in found if one.value is not None] == [
        "weights",
        "K/V a token",
        "K/V at 128K",
    ]
    assert all("no machine" in one.reason for one in found if one.value is None)


def test_positions_as_people_say_them() -> None:
    assert [short(count) for count in (0, 512, 1024, 131_072)] == ["0", "512", "1K", "128K"]


# --- the notation ---------------------------------------------------------------------------


def test_the_example() -> None:
    found, on = parse(EXAMPLE, LIBRARY)
    assert (found.parameters, found.layers, found.width) == (70e9, 80, 8192)
    assert (found.query_heads, found.kv_heads, found.head_dim, found.bits) == (64, 8, 128, 16)
    assert "heads of 128 are assumed" in found.notes
    assert on is not None
    assert (on.bytes_per_second, on.flops_per_second) == (3.35e12, 989e12)


def test_figures_behind_a_name_replace_its_own() -> None:
    found, on = parse("Llama-3.1-70B int4, int8 kv @ 2x H100 100GB", LIBRARY)
    assert (found.layers, found.bits, found.kv_bits) == (80, 4, 8)
    assert on is not None
    assert (on.bytes_per_second, on.memory_bytes, on.name) == (6.7e12, 200e9, "2x h100")


def test_a_model_in_writing_is_read_as_what_it_was() -> None:
    line = written(134_515_008, 30, 576, 9, 3, 64, 32.0, 21.5e9, 88e9)
    found, on = parse(line, LIBRARY)
    assert (found.layers, found.width, found.query_heads, found.kv_heads) == (30, 576, 9, 3)
    assert (found.head_dim, found.bits) == (64, 32)
    assert found.parameters == pytest.approx(134_515_008, rel=1e-3)
    assert on is not None
    assert (on.bytes_per_second, on.flops_per_second) == (21.5e9, 88e9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "say which model"),
        ("@ h100", "say which model"),
        ("70B 80 layers 8192 wide @", "say which machine"),
        ("70B 80 layers", "width are missing: say for example 8192 wide"),
        ("70B 8192 wide", "layers are missing"),
        ("80 layers 8192 wide", "parameters are missing"),
        ("70B 80 layers 8192 wide gqa7", "gqa7: 64 query heads are no multiple of 7"),
        ("70B 80 layers 8192 wide gqa0", "group must be above 0"),
        ("70B 80 layers 8192 wide mha gqa8", "say one of"),
        ("70B 8B 80 layers 8192 wide", "second parameters"),
        ("70B 80 layers 8192 wide 10 kv heads", "cannot share"),
        ("llama-3.1-7b", "did you mean llama-3.1-70b?"),
        ("llama-3.1-8b falcon-7b", "two names"),
        ("llama-3.1-8b @ h1000", "did you mean h100?"),
        ("llama-3.1-8b @ 989TFLOPs", "bandwidth is missing"),
        ("llama-3.1-8b @ h100 @ l4", "more"),
        ("llama-3.1-8b @ 0TB/s", "bandwidth must be above 0"),
        ("llama-3.1-8b 9B active", "more parameters are active"),
        ("\x1b[2J", "cannot read"),
        ("9" * 500, "too long"),
        ("1" * 300 + "B", "cannot read"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, said: str) -> None:
    with pytest.raises(NapkinError) as caught:
        parse(text, LIBRARY)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


# --- files ----------------------------------------------------------------------------------

OWN = """
[models.mine]
parameters = 1.5
layers = 24
width = 2048
query_heads = 16
kv_heads = 4
head_dim = 128
[machines.h100]
bandwidth = 2000
"""


@pytest.mark.parametrize(
    ("name", "vocabulary", "mlp", "embeddings"),
    [
        ("smollm2-135m", 49_152, 1536, 1),
        ("llama-2-7b", 32_000, 11_008, 2),
        ("llama-3.1-8b", 128_256, 14_336, 2),
        ("llama-3.1-70b", 128_256, 28_672, 2),
        ("llama-3.1-405b", 128_256, 53_248, 2),
        ("qwen2.5-7b", 152_064, 18_944, 2),
    ],
)
def test_parameters_that_ship_are_the_sum_of_the_layers(
    name: str, vocabulary: int, mlp: int, embeddings: int
) -> None:
    """Embeddings, and per layer Q and output, K and V, three products of the gated MLP."""
    one = LIBRARY.models[name]
    attention = 2 * one.width * one.head_dim * (one.query_heads + one.kv_heads)
    layer = attention + 3 * one.width * mlp
    total = embeddings * vocabulary * one.width + one.layers * layer
    assert one.parameters == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "layers", "width", "heads", "kv"),
    [
        # LlamaConfig, FalconConfig, MixtralConfig, DeepseekV3Config of transformers 5.24.
        ("llama-2-7b", 32, 4096, 32, 2 * 32 * 128),
        ("falcon-7b", 32, 4544, 71, 2 * 64),
        ("mixtral-8x7b", 32, 4096, 32, 2 * 8 * 128),
        ("deepseek-v3", 61, 7168, 128, 512 + 64),
        # Tables of arXiv:2005.14165 and of arXiv:2405.04434.
        ("gpt-3-175b", 96, 12_288, 96, 2 * 96 * 128),
        ("deepseek-v2", 60, 5120, 128, 512 + 64),
    ],
)
def test_shapes_that_ship(name: str, layers: int, width: int, heads: int, kv: int) -> None:
    one = LIBRARY.models[name]
    assert (one.layers, one.width, one.query_heads, one.values) == (layers, width, heads, kv)


def test_the_cache_of_deepseek_v2_is_what_its_paper_says() -> None:
    """93.3% less than DeepSeek 67B's (95 layers, 8 K/V heads of 128), kept at 6 bits."""
    v2 = LIBRARY.models["deepseek-v2"]
    saved = 1 - v2.layers * v2.values * 6 / (95 * 2 * 8 * 128 * 16)
    assert saved == pytest.approx(0.933, abs=0.001)


@pytest.mark.parametrize(
    ("name", "units", "a_clock", "ghz", "bits", "gbit"),
    [
        ("h100", 132, 4096, 1.83, 5120, 5.23),
        ("h200", 132, 4096, 1.83, 6144, 6.25),
        ("a100", 108, 2048, 1.41, 5120, 3.186),
        ("rtx-4090", 128, 512, 2.52, 384, 21),
        ("rtx-3090", 82, 512, 1.695, 384, 19.5),
        ("mi300x", 304, 2048, 2.1, 8192, 5.2),
    ],
)
def test_datasheets_that_ship_follow_from_units_clocks_and_bus(
    name: str, units: int, a_clock: int, ghz: float, bits: int, gbit: float
) -> None:
    one = LIBRARY.machines[name]
    assert one.flops_per_second == pytest.approx(units * a_clock * ghz * 1e9, rel=0.01)
    assert one.bytes_per_second == pytest.approx(bits * gbit / 8 * 1e9, rel=0.01)


def test_every_entry_that_ships_names_its_source() -> None:
    entries = [*LIBRARY.models.values(), *LIBRARY.machines.values()]
    assert len(entries) > 15
    assert all(one.source for one in entries)


def test_a_file_of_ones_own_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "napkin.toml"
    path.write_text(OWN)
    library = Library.load(path)
    found, on = parse("mine @ h100", library)
    assert found.parameters == 1.5e9
    assert on == Machine("h100", 2e12)
    assert "llama-3.1-8b" in library.models
    assert Library.load(tmp_path / "none.toml") == LIBRARY


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models = 3", "must be a table"),
        ("[models]\nmine = 3", "[models.mine] must be a table"),
        ("[prices]", "unknown table"),
        (OWN.replace("layers = 24\n", ""), "layers is missing"),
        (OWN.replace("24", "true"), "layers must be a whole number above 0"),
        (OWN.replace("24", "0"), "layers must be a whole number above 0"),
        (OWN.replace("1.5", "nan"), "parameters must be a number"),
        (OWN.replace("2000", "inf"), "bandwidth must be a number"),
        (OWN.replace("bandwidth", "bandwith"), "unknown key 'bandwith'"),
        (OWN.replace("kv_heads = 4", "kv_heads = 5"), "cannot share"),
        ("[" * 2000, ""),
        ("a = " + "[" * 5000, ""),
    ],
)
def test_a_file_that_makes_no_sense_is_named_with_the_fault(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "napkin.toml"
    path.write_text(text)
    with pytest.raises(NapkinError) as caught:
        Library.load(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
