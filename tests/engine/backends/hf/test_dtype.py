"""Which dtype a CPU runs a model in: timed decode steps, hysteresis, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.backends.hf import dtype as hf_dtype
from engine.backends.hf import dtype_kept as hf_dtype_kept
from engine.backends.hf import dtype_trial as hf_dtype_steps
from engine.backends.hf import load as hf_open
from engine.backends.hf.dtype import Choice
from engine.backends.hf.dtype_trial import StepTimes, time_steps
from engine.backends.hf.reader import Reader
from engine.models.resolve import resolve
from engine.records.model import DtypeTrial, best_of_rows
from tests import tiny_models
from tests.tiny_models import CHAT_TEMPLATE, VOCAB

IDS = [5, 9, 13, 4, 22]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model as a folder, its weights stored in float32."""
    tiny_models.llama(tie_word_embeddings=True).save_pretrained(tmp_path)
    tiny_models.tokenizer(template=CHAT_TEMPLATE).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_converting_is_loading_in_that_dtype(folder: Path, dtype: str) -> None:
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    converted = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    hf_dtype.convert(converted, dtype)
    theirs, ours = loaded.state_dict(), converted.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    # The frequencies of the rotary embedding are no weights: half precision would put far
    # positions out.
    buffers = dict(converted.named_buffers())
    assert buffers["model.rotary_emb.inv_freq"].dtype == torch.float32
    prompt = torch.tensor([IDS])
    assert torch.equal(loaded(prompt).logits, converted(prompt).logits)
    assert converted.lm_head.weight is converted.model.embed_tokens.weight


def choose(
    model: Any = None, *, kept: str = "float32", free: int | None = None, **ms: Any
) -> Choice:
    """The choice after rounds of ``ms``; a number stands for three rounds alike."""
    rounds: Mapping[str, Sequence[float] | None] = {
        name: [value] * 3 if isinstance(value, float) else value for name, value in ms.items()
    }
    model = tiny_models.llama() if model is None else model
    return hf_dtype.choose(model, tiny_models.tokenizer(), IDS, rounds, kept=kept, free=free)


def test_the_fastest_dtype_that_agrees_is_taken() -> None:
    choice = choose(float32=52.0, float16=18.1, bfloat16=39.04)
    assert choice.dtype == "float16"
    assert choice.reason == (
        "float16: 18.1 ms a decode step (39.0 bfloat16, 52.0 float32), measured"
    )
    notes = {trial.dtype: (trial.step_ms, trial.agrees, trial.note) for trial in choice.trials}
    assert notes == {
        "float32": (52.0, True, "the reference"),
        "float16": (18.1, True, "same top token as float32 on a short prompt"),
        "bfloat16": (39.04, None, "not clearly faster, so not compared"),
    }


@pytest.mark.parametrize("kept", ["float32", "bfloat16"])
def test_e5_a_difference_within_the_noise_changes_nothing(kept: str) -> None:
    """E5: the dtype in use stays unless another wins by 5%."""
    near = {"float32": 20.0, "bfloat16": 20.0, "float16": 19.2}
    choice = choose(kept=kept, **near)
    assert choice.dtype == kept
    assert choice.reason.endswith(
        "measured; no other is clearly faster (5%, turn for turn and at best)"
    )
    assert choose(kept=kept, **{**near, "float16": 18.9}).dtype == "float16"


def test_e5_one_lucky_round_is_not_a_win() -> None:
    """E5: rounds are compared pair by pair, and the best ones with each other."""
    glitch = [40.0, 41.0, 20.0]
    assert choose(float32=glitch, float16=[20.0, 20.0, 20.0]).dtype == "float32"
    assert choose(float32=[20.0, 21.0, 20.0], float16=[12.0, 21.0, 20.5]).dtype == "float32"


def test_a_dtype_in_use_that_no_longer_agrees_gives_way() -> None:
    model = tiny_models.llama()
    with torch.no_grad():
        model.lm_head.weight *= 1e5  # float16 ends at 65504
    choice = choose(model, kept="float16", float32=20.0, float16=20.0, bfloat16=30.0)
    assert choice.dtype == "float32"
    assert choice.reason.endswith("float16 is out: its logits on a short prompt are not finite")


def test_a_dtype_that_overflows_is_out() -> None:
    ms: dict[str, Any] = {"float32": 52.0, "float16": 18.0, "bfloat16": 39.0}
    model = tiny_models.llama()
    with torch.no_grad():
        model.lm_head.weight *= 1e5  # float16 ends at 65504
    choice = choose(model, **ms)
    assert choice.dtype == "bfloat16"
    assert choice.reason.startswith(
        "bfloat16: 39.0 ms a decode step (18.0 float16, 52.0 float32), measured; "
    )
    assert "float16 is out: its logits on a short prompt are not finite" in choice.reason
    assert choice.trials[1].agrees is False


def with_a_rival(closeness: float) -> Any:
    """A model with a row in its head that is nearly, but not quite, as good as the best one."""
    model = tiny_models.llama()
    with torch.no_grad():
        head = model.lm_head.weight
        best = int(model(torch.tensor([IDS])).logits[0, -1].argmax())
        head[[0, best]] = head[[best, 0]]
        head[1] = head[0]
        head[0] *= 1 - closeness
    return model


def top(model: Any, dtype: str) -> int:
    hf_dtype.convert(model, dtype)
    with torch.inference_mode():
        return int(model(torch.tensor([IDS])).logits[0, -1].argmax())


def test_a_dtype_with_another_answer_is_out() -> None:
    ms: dict[str, Any] = {"float32": 52.0, "float16": 39.0, "bfloat16": 18.0}
    # Close enough for bfloat16's 8 bits to mix the two up, and not for float16's 11.
    closeness = next(
        close
        for close in (4e-3, 3e-3, 2e-3, 1e-3)
        if top(with_a_rival(close), "bfloat16") == 0 and top(with_a_rival(close), "float16") == 1
    )
    choice = choose(with_a_rival(closeness), **ms)
    assert choice.dtype == "float16"
    out = 'bfloat16 is out: its top token on a short prompt is "<unk>", float32\'s is "<bos>"'
    assert choice.reason.endswith(out)


def test_a_dtype_that_this_cpu_cannot_multiply_is_left_out() -> None:
    ms: dict[str, Any] = {"float32": 52.0, "float16": None, "bfloat16": 60.0}
    choice = choose(**ms)
    assert choice.dtype == "float32"
    assert choice.reason.startswith("float32: 52.0 ms a decode step (60.0 bfloat16), measured")
    assert choice.trials[1].note == "the model does not run in it on this CPU, so not compared"


def test_without_memory_to_compare_a_dtype_is_out() -> None:
    ms: dict[str, Any] = {"float32": 52.0, "float16": 18.0, "bfloat16": 39.0}
    choice = choose(free=1000, **ms)
    assert choice.dtype == "float32"
    assert "not enough memory to compare it with float32" in choice.reason


@pytest.mark.parametrize("build", [tiny_models.llama, tiny_models.gpt2])
def test_timing_runs_every_dtype_and_leaves_the_model_as_it_was(build: Callable[[], Any]) -> None:
    model = build()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    logits = model(torch.tensor([IDS])).logits
    found = time_steps(model, IDS, hf_dtype.TRIED, None)
    assert found.layers == found.of_layers == model.config.num_hidden_layers
    for times in found.rounds.values():
        assert times is not None
        assert len(times) >= 1
        assert min(times) > 0
    after = model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert torch.equal(model(torch.tensor([IDS])).logits, logits)
    assert model.config._attn_implementation == "sdpa"


def test_timing_takes_turns_with_the_weights_of_each_dtype(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: list[str] = []

    def turn(reader: Reader, token_id: int) -> float:
        turns.append(reader.parts.dtype)
        return 100.0 if token_id == IDS[-1] and turns[-1] == "float16" else 2.0

    monkeypatch.setattr(hf_dtype_steps, "_turn", turn)
    found = time_steps(tiny_models.llama(), IDS, hf_dtype.TRIED, None)
    # float16 is hopelessly slow here: it gets no second turn.
    assert turns[:3] == ["float32", "float16", "bfloat16"]
    assert turns[3:] == ["bfloat16", "float32", "float32", "bfloat16"] * 3
    assert found.rounds == {"float32": [2.0] * 6, "bfloat16": [2.0] * 6, "float16": [100.0]}


def test_timing_without_room_takes_the_first_layers_and_scales() -> None:
    model = tiny_models.llama(num_hidden_layers=6)
    whole = sum(one.numel() for one in hf_dtype.matrices(model))
    needed = sum(one.numel() for one in model.parameters()) * 4 * 1.2
    found = time_steps(model, IDS, ("float32", "float16"), int(needed * 0.55))
    assert (found.layers, found.of_layers) == (3, 6)
    assert len(model.model.layers) == model.config.num_hidden_layers == 6
    assert whole == sum(one.numel() for one in hf_dtype.matrices(model))
    assert all(times for times in found.rounds.values())


@pytest.mark.parametrize("build", [tiny_models.llama, tiny_models.gpt2])
def test_every_matrix_of_a_pass_is_measured_the_head_too(build: Callable[[], Any]) -> None:
    found = hf_dtype.matrices(build())
    shapes = {tuple(weight.shape) for weight in found}
    assert (VOCAB, 32) in shapes
    assert len(found) == (3 * 7 if build is tiny_models.llama else 2 * 4) + 1


# --- what is kept ---------------------------------------------------------------------------------

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MADE = Choice(
    "float16",
    "float16: 18.1 ms a decode step (52.0 float32), measured",
    (DtypeTrial("float32", True, "the reference", 52.0),),
)


def test_e5_a_choice_once_made_is_the_next_starts_too(tmp_path: Path) -> None:
    """E5: kept with its figures for this model, machine, threads and torch; else not found."""
    path, key = tmp_path / "dtypes.json", hf_dtype_kept.key_of("sha256:a")
    assert hf_dtype_kept.find(path, key) is None
    hf_dtype_kept.save(path, key, MADE, NOW)
    found = hf_dtype_kept.find(path, key)
    assert found is not None
    assert (found.dtype, found.trials) == ("float16", MADE.trials)
    assert found.reason == f"{MADE.reason}; kept from 2026-11-30, --dtype measure times again"
    assert hf_dtype_kept.find(path, hf_dtype_kept.key_of("sha256:b")) is None
    for name in ("machine", "device_name", "threads", "torch"):
        assert hf_dtype_kept.find(path, {**key, name: "another"}) is None
    hf_dtype_kept.save(path, key, Choice("float32", "r", ()), NOW)
    assert len(json.loads(path.read_text())["entries"]) == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"dtype": "int3"},
        {"trials": 7},
        {"trials": [{"dtype": "float32", "speed": 1}]},
        {"measured": "yesterday"},
        {"reason": None, "trials": None},
    ],
)
def test_a_kept_choice_that_makes_no_sense_counts_as_none(
    tmp_path: Path, broken: dict[str, Any]
) -> None:
    path, key = tmp_path / "dtypes.json", hf_dtype_kept.key_of("m")
    hf_dtype_kept.save(path, key, MADE, NOW)
    data = json.loads(path.read_text())
    data["entries"][0].update(broken)
    path.write_text(json.dumps(data))
    assert hf_dtype_kept.find(path, key) is None


def test_e5_starts_in_a_row_take_the_same_dtype(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E5: timed once; on request again, and then the one in use has to be beaten."""
    timed: list[int] = []
    rounds = {"float32": [20.0] * 3, "float16": [10.0] * 3, "bfloat16": [30.0] * 3}

    def times(*_: Any) -> StepTimes:
        timed.append(1)
        return StepTimes(rounds, 3, 3)

    monkeypatch.setattr("engine.backends.hf.dtype_trial.time_steps", times)
    monkeypatch.setattr(hf_open, "_WORTH_TIMING", 0)
    monkeypatch.setattr(hf_dtype_kept, "default_path", lambda: tmp_path / "dtypes.json")

    def start(dtype: str = "auto") -> hf_open.Loaded:
        return hf_open.load(
            resolve(str(folder)), dtype, "cpu", trust_remote_code=False, progress=lambda *_: None
        )

    first = start()
    assert first.model.dtype == torch.float16
    rounds["float32"] = [9.0] * 3
    second = start()
    assert second.model.dtype == torch.float16
    assert second.dtype_reason.startswith(f"{first.dtype_reason}; kept from ")
    assert second.trials == first.trials
    assert len(timed) == 1
    third = start("measure")
    assert (third.model.dtype, len(timed)) == (torch.float32, 2)
    rounds["float16"] = [8.8] * 3
    assert (start("measure").model.dtype, len(timed)) == (torch.float32, 3)
    assert start().model.dtype == torch.float32


def test_passes_over_several_texts_are_timed_too() -> None:
    """The dtype that is best for several may be another than for one; nothing is left behind."""
    model = tiny_models.llama()
    before = {name: one.clone() for name, one in model.named_parameters()}
    found = time_steps(model, IDS, ("float32", "bfloat16"), None)
    assert set(found.rows) == {"float32", "bfloat16"}
    assert all(ms > 0 for ms in found.rows.values())
    for name, one in model.named_parameters():
        assert torch.equal(one, before[name])


def test_the_best_dtype_for_several_texts() -> None:
    trials = (
        DtypeTrial("float32", True, "the reference", 20.0, 41.0),
        DtypeTrial("float16", True, "agrees", 19.0, 33.0),
        DtypeTrial("bfloat16", None, "not compared", 18.0),
    )
    best = best_of_rows(trials)
    assert best is not None
    assert best.dtype == "float16"
    assert best_of_rows(trials[2:]) is None
