"""Model folders made to hang, to fill the memory or to read what is not theirs (B5, B7, B11).

Each ends within seconds with one line that says which file, which field and what is wrong.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
import torch

from engine.backends.base import BackendError
from engine.backends.hf import load as hf_open
from engine.models import resolve as models
from engine.models.checks import ModelError
from engine.progress import silent
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.spec import SpecError
from tests import tiny_models

SECONDS = 5.0
"""Of processor time; most take a tenth."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "tiny"
    tiny_models.llama().save_pretrained(folder)
    tiny_models.tokenizer(template=tiny_models.CHAT_TEMPLATE).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "tiny"))


def change(path: Path, **fields: Any) -> None:
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | fields))


def said(folder: Path) -> str:
    """What loading ends with: one line, in time; empty where it works."""
    began = thread_time()
    try:
        models.load(models.resolve(str(folder)))
    except ModelError as error:
        line = str(error)
    else:
        line = ""
    assert thread_time() - began < SECONDS
    assert "\n" not in line
    assert len(line) < 600
    return line


# --- config.json -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("num_hidden_layers", 1_000_000, "at most 30, as its weights are 30 tensors, not 1000000"),
        ("num_hidden_layers", -1, "a whole number from 1 to 2,147,483,647, not -1"),
        ("num_hidden_layers", 0, "a whole number from 1 to 2,147,483,647, not 0"),
        ("num_hidden_layers", "3", 'a whole number from 1 to 2,147,483,647, not "3"'),
        ("hidden_size", 0, "a whole number from 1 to 2,147,483,647, not 0"),
        ("hidden_size", 10**30, "a whole number from 1 to 2,147,483,647, not 1"),
        ("num_attention_heads", 0, "a whole number from 1 to 2,147,483,647, not 0"),
        ("num_key_value_heads", 0, "a whole number from 1 to 2,147,483,647, not 0"),
        ("head_dim", -8, "a whole number from 1 to 2,147,483,647, not -8"),
        ("intermediate_size", 1.5, "a whole number from 1 to 2,147,483,647, not 1.5"),
        ("vocab_size", True, "a whole number from 1 to 2,147,483,647, not true"),
        ("max_position_embeddings", [], ""),
        ("sliding_window", "abc", 'a whole number from -1 to 2,147,483,647, not "abc"'),
        ("eos_token_id", [[1]], "a token id, or a list of them, not [[1]]"),
        ("eos_token_id", "2", 'a token id, or a list of them, not "2"'),
        ("bos_token_id", 1.5, "a token id, not 1.5"),
        ("pad_token_id", 64, "below the vocabulary's size, 64, not 64"),
        ("dtype", "float7x", 'a dtype such as "float32", not "float7x"'),
        ("architectures", "LlamaForCausalLM", "a list of texts"),
        ("auto_map", None, "an object, not null"),
        ("quantization_config", {}, "text, not null"),
        ("model_type", ["llama"], 'text, not ["llama"]'),
        ("attention_bias", 1, "expected bool, got int"),
        ("attention_dropout", float("nan"), "a number, not NaN"),
        ("rms_norm_eps", "small", "expected float, got str"),
        ("hidden_act", "no such", "no such"),
        ("hidden_size", 33, "multiple of the number of attention heads"),
        ("rope_parameters", {"rope_type": "nope", "rope_theta": 1.0}, "nope"),
        ("layer_types", ["x"] * 100_000, ""),
        ("intermediate_size", 1_000_000, "is (32, 48) in the file and (32, 1000000) in the model"),
        ("head_dim", 1_000_000, "in the file and ("),
        ("num_key_value_heads", 1_000_000, "in the file and ("),
    ],
)
def test_b7_a_value_that_cannot_be_is_named_with_its_file_and_field(
    folder: Path, field: str, value: Any, wrong: str
) -> None:
    change(folder / "config.json", **{field: value})
    line = said(folder)
    assert wrong in line
    if "in the file and" in wrong:
        assert line.startswith("tiny does not fit its config.json: ")
    else:
        assert line.startswith(f"{folder / 'config.json'}: {field}")


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("config.json", "[]", "holds a list where an object of settings belongs"),
        ("config.json", "[" * 100_000, "cannot be read (it is nested too deeply)"),
        ("config.json", '{"a": ' + "9" * 5000 + "}", "cannot be read (Exceeds the limit"),
        ("generation_config.json", "[]", "holds a list where an object of settings belongs"),
        ("generation_config.json", "7", "holds a number where an object of settings belongs"),
        (
            "generation_config.json",
            '{"suppress_tokens": 3}',
            "suppress_tokens must be a list of token ids, not 3",
        ),
        (
            "generation_config.json",
            '{"eos_token_id": [[2]]}',
            "eos_token_id must be a token id, or a list of them, not [[2]]",
        ),
        ("tokenizer.json", "{", "cannot be read (Expecting"),
        ("tokenizer.json", "{}", "is not a tokenizer ("),
        ("tokenizer.json", "[" * 100_000, "cannot be read (it is nested too deeply)"),
        ("tokenizer_config.json", "[]", "holds a list where an object of settings belongs"),
        ("tokenizer_config.json", '{"model_max_length": "x"}', 'model_max_length cannot be "x"'),
        ("tokenizer_config.json", '{"unk_token": ""}', 'unk_token cannot be ""'),
    ],
)
def test_b7_a_file_that_cannot_be_is_named(folder: Path, name: str, text: str, wrong: str) -> None:
    (folder / name).write_text(text)
    line = said(folder)
    assert line.startswith(str(folder / name))
    assert wrong in line


def test_b7_a_stop_id_beyond_the_vocabulary_never_comes_and_is_said(folder: Path) -> None:
    change(folder / "generation_config.json", eos_token_id=[2, 64, 10**6])
    wanted = {"model": str(folder), "dtype": "float32"}
    facts = hf_open.open_backend(wanted, silent).facts
    assert set(facts.stop_ids) == {2}
    for token_id in (64, 10**6):
        line = f"stop id {token_id} (generation config) lies beyond the vocabulary of 64: it never"
        assert any(note.startswith(line) for note in facts.notes)


# --- no files ----------------------------------------------------------------------------------


READ = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("chat_template.jinja", "model.safetensors"),
)


@pytest.mark.parametrize("name", READ)
def test_b7_a_pipe_or_a_folder_in_the_place_of_a_file_is_not_waited_for(
    folder: Path, name: str
) -> None:
    path = folder / name
    path.unlink()
    os.mkfifo(path)
    line = said(folder)
    assert line.startswith(f"{path} cannot be read")
    assert "it is a pipe, not a file" in line
    path.unlink()
    path.mkdir()
    line = said(folder)
    assert line.startswith(f"{path} cannot be read")
    assert "it is a folder, not a file" in line


def test_b7_what_is_named_as_a_model_may_be_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "model.gguf"
    os.mkfifo(pipe)
    assert said(pipe) == f'"{pipe}" cannot be opened: it is a pipe, not a file'
    assert "it is a device, not a file" in said(Path("/dev/zero"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja"])
def test_b7_a_file_of_a_terabyte_is_not_read(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(1 << 40)
    line = said(folder)
    assert line.startswith(str(folder / name))
    assert "1,099,511,627,776 bytes" in line


def test_b7_a_header_of_a_terabyte_is_not_read(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes((1 << 39).to_bytes(8, "little"))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert said(folder) == f"{path} is damaged or no safetensors file: fetch it again"


# --- what is not in the folder -----------------------------------------------------------------


@pytest.mark.parametrize("name", READ)
def test_b11_a_link_out_of_the_folder_is_not_followed(
    folder: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "private"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    line = said(folder)
    assert line.startswith(f"{folder / name} is a link out of the model folder, to {outside}: ")


def test_b11_links_within_the_folder_and_to_it_are_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").rename(folder / "kept")
    (folder / "config.json").symlink_to("kept")
    (tmp_path / "link").symlink_to(folder)
    (folder / "README.md").symlink_to("/etc/hostname")  # nobody reads it
    assert said(tmp_path / "link") == ""


def test_b11_a_folder_of_more_templates_is_looked_into_too(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.jinja").write_text("secret")
    (folder / "additional_chat_templates").mkdir()
    link = folder / "additional_chat_templates" / "tool_use.jinja"
    link.symlink_to(tmp_path / "secret.jinja")
    assert said(folder).startswith(f"{link} is a link out of the model folder")


def cached(folder: Path, place: Path) -> Path:
    """The folder as the hub's client lays it out: links into blobs that carry the content."""
    blobs, snapshot = place / "blobs", place / "snapshots" / "0123abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    return snapshot


def test_b11_the_links_of_a_hubs_cache_are_its_own(folder: Path, tmp_path: Path) -> None:
    snapshot = cached(folder, tmp_path / "models--a--b")
    assert said(snapshot) == ""
    (snapshot / "chat_template.jinja").unlink()
    (snapshot / "chat_template.jinja").symlink_to("/etc/hostname")
    assert "is a link out of the model folder, to /etc/hostname" in said(snapshot)


@pytest.mark.parametrize("name", ["../weights.safetensors", "/etc/hostname", 3, "", "a\0b"])
def test_b11_an_index_names_only_files_of_its_folder(folder: Path, name: Any) -> None:
    shutil.move(folder / "model.safetensors", folder.parent / "weights.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
    assert said(folder).startswith(f"{index} is damaged (")


# --- code --------------------------------------------------------------------------------------


class _Runs:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("zipped", [True, False])
def test_b5_a_pickle_with_code_is_one_line_of_ours(
    folder: Path, tmp_path: Path, zipped: bool
) -> None:
    (folder / "model.safetensors").unlink()
    path, mark = folder / "pytorch_model.bin", tmp_path / "ran"
    torch.save({"lm_head.weight": _Runs(mark)}, path, _use_new_zipfile_serialization=zipped)
    assert said(folder) == (
        f"{path} is a pickle that holds more than tensors, and reading it could run code of its "
        "own: it is not read; give the model as safetensors"
    )
    assert not mark.exists()


@pytest.mark.parametrize(
    "data", [b"", b"abc" * 100, b"PK\3\4" + bytes(300), pickle.dumps({}, protocol=2)]
)
def test_b5_other_bytes_are_no_checkpoint(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(data)
    line = said(folder)
    assert line.startswith(f"{folder / 'pytorch_model.bin'} is ")


def test_b7_a_tokenizer_with_code_of_its_own_is_refused_in_our_words(
    folder: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w')\n")
    auto = {"AutoTokenizer": ["own.T", None]}
    change(folder / "tokenizer_config.json", auto_map=auto, tokenizer_class="OwnTokenizer")
    assert said(folder) == (
        "tiny brings Python code of its own for its tokenizer: read it, and give "
        "--trust-remote-code if you trust it"
    )
    assert not mark.exists()


# --- every field -------------------------------------------------------------------------------


ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 3, 10**6, 2**63, 10**400, 1.5, -0.5, float("nan"), float("inf")),
    *("", "abc", "5", [], [1], [[1]], ["x"], {}, {"a": 1}, "x" * 100_000),
)
MORE = {
    "config.json": ("rope_scaling", "sliding_window", "auto_map", "torch_dtype", "text_config"),
    "generation_config.json": (
        *("temperature", "top_k", "top_p", "suppress_tokens", "bad_words_ids", "sequence_bias"),
        *("max_length", "do_sample", "stop_strings"),
    ),
    "tokenizer_config.json": ("auto_map", "added_tokens_decoder", "chat_template"),
}
"""Fields beside those that the files have."""


def cases(name: str, settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every field with four of the odd values, others at each field."""
    for number, field in enumerate([*settings, *MORE[name]]):
        for turn in range(4):
            yield field, ODD[(4 * number + turn) % len(ODD)]


def used(folder: Path) -> str:
    """What a run of three tokens ends with; empty where it works."""
    wanted = {"model": str(folder), "dtype": "float32", "threads": 1}
    try:
        backend = hf_open.open_backend(wanted, silent)
        run = Stepper(
            backend, effective("guide", {}, generation_config=backend.facts.generation_config)
        )
        run.submit("abc", chat=False)
        for _ in range(3):
            run.step()
    except (ModelError, BackendError, SpecError, StepperError) as error:
        return str(error) or "nothing is said"
    return ""


@pytest.mark.parametrize("name", list(MORE))
def test_b7_no_field_can_hang_or_break_the_engine(folder: Path, name: str) -> None:
    path, threads = folder / name, torch.get_num_threads()
    settings = json.loads(path.read_text())
    try:
        for field, value in cases(name, settings):
            path.write_text(json.dumps(settings | {field: value}))
            began = thread_time()
            line = used(folder)
            shown = f"{field} = {str(value)[:40]}: {line}"
            assert thread_time() - began < SECONDS, shown
            assert "\n" not in line, shown
            assert len(line) < 600, shown
            assert "could not be loaded" not in line, shown
    finally:
        torch.set_num_threads(threads)
