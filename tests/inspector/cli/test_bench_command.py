"""``llm-inspect bench``: figures worked out by hand, and the ceilings that it leaves behind."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.backends.base import BackendError
from engine.backends.scripted import ScriptedBackend
from engine.commands import Measure, Open, Step, Submit
from engine.measure import ceilings
from engine.measure import contest as measuring
from engine.measure.rival_process import RivalError
from engine.measure.rivals import Generate, LlamaCpp, rival_of
from engine.records.events import DenseLogits, SettingsChanged
from engine.records.measured import Ceilings, Contest, Measured
from engine.records.model import ModelFacts
from engine.records.step import StepRecord
from engine.roofline import reached
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.cli import main as cli
from inspector.cli.bench import bench
from inspector.cli.bench_chart import chart
from inspector.cli.bench_report import Circumstances, decode_ratio, lines, report
from inspector.cli.run import Progress
from inspector.draw.numbers import row
from inspector.panes.gauges.figures import gauges
from inspector.state.answers import Answers, EngineFailedError
from inspector.state.ceilings import Known, find, merged, save
from inspector.state.view import View
from tests import tiny_gguf
from tests.direct import DirectClient
from tests.fakes import SMOLLM2, case_36, chunk, kv, prefill, prompt, settings, step, timing, view
from tests.inspector.test_app import app, pane_text, press
from tests.launcher import Launcher

METHOD = "read 512 MiB; 1536 x 1536 matrix product in float32"
CEILINGS = Ceilings("cpu", "a CPU", "float32", 2, 20e9, 100e9, METHOD, cpu_share=0.97)
CONTEST = Contest("generate", "bfloat16", 24, (10.0, 20.0, 10.0), (20.0, 20.0, 30.0))
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


# --- against the ceilings ---------------------------------------------------------------------


def test_a_step_against_the_ceilings() -> None:
    steps = view(*case_36()).path[1:]
    found = reached(SMOLLM2, steps, CEILINGS)
    assert found is not None
    # 538,060,032 bytes of weights and 46,080 for each of 11, 12, 13 and 14 positions
    assert found.nbytes == 538_060_032 + 46_080 * 12.5
    # in 100 ms, of 20 GB/s
    assert found.mbu == pytest.approx(538_636_032 / 0.1 / 20e9)
    # at 14 positions; 270 million operations would take 2.7 ms only
    assert found.floor_ms == pytest.approx(538_705_152 / 20e9 * 1000)


def test_the_floor_is_computing_where_that_takes_longer() -> None:
    slow = replace(CEILINGS, flops_per_second=1e9)
    found = reached(SMOLLM2, view(*case_36()).path[1:], slow)
    assert found is not None
    # 2 a parameter, and 4 x 30 layers x 9 heads x 64 for each of 14 positions, in millions a second
    assert found.floor_ms == pytest.approx((2 * 134_515_008 + 4 * 30 * 9 * 64 * 14) / 1e6)


def test_without_a_step_or_a_size_there_is_nothing_to_hold_against() -> None:
    assert reached(SMOLLM2, [], CEILINGS) is None
    unknown = replace(kv(11), nbytes=None)
    assert reached(SMOLLM2, [step(2, timing(1.0), unknown)], CEILINGS) is None


def test_a_product_in_float32_counts_where_it_is_the_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So does a smaller one, where that is faster than the largest."""
    rates = {"torch.float16": [(64, 1e9)], "torch.float32": [(64, 2e9), (128, 4e9), (256, 3e9)]}
    monkeypatch.setattr(ceilings, "CPU_READ_BYTES", 16 << 20)
    monkeypatch.setattr(ceilings, "products", lambda torch, clock, dtype, *_: rates[str(dtype)])
    found = ceilings.measure_ceilings("cpu", "float16", seconds=0.001)
    assert (found.dtype, found.flops_per_second) == ("float16", 4e9)
    assert found.method == "read 16 MiB; 128 x 128 matrix product in float32"


# --- what the engine measures -------------------------------------------------------------------


class Metronome:
    """A rival that takes 2 ms a step, and notes what it was asked for."""

    dtype = "bfloat16"

    def __init__(self, log: list[str]) -> None:
        self.asked: list[tuple[int, int]] = []
        self._log = log

    def gaps(self, ids: Sequence[int], tokens: int) -> list[float]:
        self.asked.append((len(ids), tokens))
        self._log.append("theirs")
        return [2.0] * (tokens - 1)


def scripted(**facts: Any) -> Stepper:
    # <end> is certain, and a run would stop there.
    backend = ScriptedBackend.from_text(
        "a <end>", delay_ms=3.0, facts={"device": "cpu", "device_name": "a CPU", **facts}
    )
    return Stepper(backend, effective("guide", {"temperature": 0.0}))


def test_they_take_turns_and_the_first_round_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []
    real = measuring.our_gaps

    def noted(stepper: Stepper, ids: Sequence[int], tokens: int) -> list[float]:
        log.append("ours")
        return real(stepper, ids, tokens)

    monkeypatch.setattr(measuring, "our_gaps", noted)
    rival = Metronome(log)
    asked = Measure("abc", "metronome", tokens=10, rounds=3)
    found = measuring.contest(scripted(), rival, asked, lambda *_: None)
    assert log == ["theirs", "ours", "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert rival.asked == [(3, 8), (3, 10), (3, 10), (3, 10)]
    assert (found.rival, found.rival_dtype, found.tokens) == ("metronome", "bfloat16", 10)
    assert found.theirs_ms == (2.0, 2.0, 2.0)
    assert len(found.ours_ms) == 3
    assert min(found.ours_ms) >= 3.0


def test_our_turn_goes_past_a_stop_token() -> None:
    stepper = scripted()
    assert len(measuring.our_gaps(stepper, [97, 98], 6)) == 5
    assert len(stepper.nodes) == 6


@pytest.mark.parametrize(
    ("dtype", "measured"),
    [("float16", "float16"), ("uint8 + float16", "float32"), ("bfloat16 + float32", "bfloat16")],
)
def test_ceilings_are_those_of_the_dtype_that_is_computed_in(
    monkeypatch: pytest.MonkeyPatch, dtype: str, measured: str
) -> None:
    asked: list[tuple[str, str, float]] = []

    def fake(device: str, dtype: str, *, seconds: float, **_: object) -> Ceilings:
        asked.append((device, dtype, seconds))
        return replace(CEILINGS, device_name="x86_64")

    monkeypatch.setattr(measuring, "measure_ceilings", fake)
    found = measuring.measure(
        scripted(dtype=dtype), Measure("a"), Open("scripted"), lambda *_: None
    )
    assert asked == [("cpu", measured, 0.6)]
    assert found == Measured(CEILINGS, None)


def test_a_servers_machine_has_no_ceilings_here() -> None:
    with pytest.raises(BackendError, match="the server's machine cannot be measured from here"):
        measuring.measure(
            scripted(device="server"), Measure("a"), Open("scripted"), lambda *_: None
        )


def test_a_script_has_no_rival() -> None:
    asked = Measure("a", "generate")
    with pytest.raises(
        BackendError, match="generate is for real models: backend scripted has none"
    ):
        measuring.measure(scripted(), asked, Open("scripted"), lambda *_: None)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which ``rival`` tells, at its end, its environment and its modules."""
    return tmp_path_factory.mktemp("seen") / "seen.json"


@pytest.fixture(scope="module")
def rival(seen: Path) -> Iterator[Generate]:
    """``generate()`` of a tiny model that would stop at its first greedy token."""
    from tests import tiny_models

    folder, spy = seen.parent / "model", seen.parent / "spy"
    model = tiny_models.llama()
    first = int(model.generate(input_ids(model, [5, 6]), max_new_tokens=1, do_sample=False)[0, -1])
    model.generation_config.eos_token_id = first
    model.save_pretrained(folder)
    spy.mkdir()
    # Python runs this at start in every process that has the folder on its path.
    (spy / "sitecustomize.py").write_text(
        "import atexit, json, os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
        "def tell():\n"
        f"    json.dump([dict(os.environ), list(sys.modules)], open({str(seen)!r}, 'w'))\n"
        "atexit.register(tell)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(spy))
        patch.setenv("GIVEN", json.dumps(dict(os.environ)))
        started = Generate(folder)
    yield started
    started.close()


def test_generate_does_the_same_work_past_a_stop_token(rival: Generate) -> None:
    assert rival.dtype == "float32"
    for tokens in (6, 3):
        gaps = rival.gaps([5, 6], tokens)
        assert len(gaps) == tokens - 1
        assert min(gaps) > 0


def test_e4_generate_runs_with_nothing_of_ours_set(rival: Generate, seen: Path) -> None:
    """E4: its own process, the user's environment, no module of ours."""
    rival.gaps([5, 6], 2)
    rival._process.terminate()
    rival._process.wait(240)
    environment, modules = json.loads(seen.read_text())
    given = json.loads(environment.pop("GIVEN"))
    assert {name: environment.get(name) for name in given} == given
    ours = {"engine", "inspector", "sessions", "themes", "base", "hf"}
    assert not ours & {name.partition(".")[0] for name in modules}


def test_a_rival_that_ends_between_turns_says_so(rival: Generate) -> None:
    rival._process.kill()
    rival._process.wait()
    with pytest.raises(RivalError, match=r"^generate\(\) ended: "):
        rival.gaps([5, 6], 3)


def test_a_rival_that_cannot_load_says_why_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(RivalError, match=r"^generate\(\) ended: .*") as caught:
        Generate(tmp_path)
    assert "\n" not in str(caught.value)


def test_llama_cpp_takes_turns_in_a_process_of_its_own(tmp_path: Path) -> None:
    """As many gaps as tokens less one, and nothing is left behind."""
    rival = LlamaCpp(tiny_gguf.write(tmp_path / "tiny.gguf"), "F32", 64)
    folder = Path(rival._folder.name)
    with closing(rival):
        assert rival.dtype == "F32"
        gaps = rival.gaps([5, 6], 5)
    assert len(gaps) == 4
    assert all(gap > 0 for gap in gaps)
    assert not folder.exists()


def test_llama_cpp_needs_a_gguf_file(tmp_path: Path) -> None:
    command = Open("hf", {"model": str(tmp_path)})
    with pytest.raises(BackendError, match=r"runs a \.gguf file"):
        rival_of("llamacpp", command, SMOLLM2, lambda *_: None)


def input_ids(model: Any, ids: list[int]) -> Any:
    import torch

    return torch.tensor([ids], device=model.device)


# --- the report -----------------------------------------------------------------------------------


ABOUT = Circumstances(NOW, 0.5, 2, Path("f.json"))


def object_of(one: View, found: Measured, about: Circumstances = ABOUT) -> dict[str, Any]:
    made = report(one, found, about)
    value: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
    return value


def test_every_figure_has_a_name_and_a_unit() -> None:
    found = object_of(view(settings(), *case_36()), Measured(CEILINGS, CONTEST))
    assert (found["type"], found["schema"], found["measured"]) == (
        "bench",
        1,
        "2026-03-10T12:00:00+00:00",
    )
    assert (found["model"], found["dtype"], found["device"], found["threads"]) == (
        "SmolLM2-135M-Instruct", "float32", "cpu", 2,
    )  # fmt: skip
    assert (found["prompt_tokens"], found["prompt_computed"], found["tokens"]) == (10, 10, 5)
    assert (found["ttft_ms"], found["prefill_ms"], found["prefill_tps"]) == (500.0, 500.0, 20.0)
    assert (found["itl_ms"], found["itl_p50_ms"], found["itl_p95_ms"]) == (100.0, 100.0, 100.0)
    assert found["tps"] == 10.0
    assert found["step_ms"] == [100.0] * 4
    assert found["step_bytes"] == 538_636_032
    assert found["mbu"] == pytest.approx(0.269318, abs=1e-6)
    assert found["floor_ms"] == pytest.approx(26.935258, abs=1e-6)
    assert found["ceilings"] == {
        "read_bytes_per_second": 20e9,
        "flops_per_second": 100e9,
        "dtype": "float32",
        "threads": 2,
        "method": METHOD,
        "cpu_share": 0.97,
        "file": "f.json",
    }


def test_the_ratio_is_the_median_of_the_rounds_own() -> None:
    # 20/10, 20/20 and 30/10: not 20/10 of the medians alone
    assert decode_ratio(CONTEST) == 2.0
    assert decode_ratio(replace(CONTEST, theirs_ms=(10.0, 20.0, 30.0))) == 1.0
    versus = object_of(view(*case_36()), Measured(CEILINGS, CONTEST))["vs_generate"]
    assert versus == {
        "decode_ratio": 2.0,
        "ours_tps": 100.0,
        "theirs_tps": 50.0,
        "ours_dtype": "float32",
        "theirs_dtype": "bfloat16",
        "ours_ms": [10.0, 20.0, 10.0],
        "theirs_ms": [20.0, 20.0, 30.0],
        "tokens": 24,
        "rounds": 3,
    }
    assert "vs_generate" not in object_of(view(*case_36()), Measured(CEILINGS, None))


def test_what_cannot_be_known_is_null_with_a_reason() -> None:
    one = view(SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), step(1, timing(0.0), kv(10)))
    found = object_of(one, Measured(CEILINGS, None), replace(ABOUT, file=None, why="disk full"))
    for name in ("itl_ms", "itl_p95_ms", "tps", "mbu", "floor_ms", "step_bytes"):
        assert found[name] is None
        assert found[f"{name}_reason"] == "no step after the first counts"
    assert (found["ceilings"]["file"], found["ceilings"]["file_reason"]) == (None, "disk full")
    sizeless = [replace(one, kv=replace(one.kv, nbytes=None)) for one in view(*case_36()).path]
    one = view(*case_36()[:3], *sizeless)
    found = object_of(one, Measured(CEILINGS, None))
    assert found["mbu_reason"] == "the cache's size is not known"


def test_the_report_for_people() -> None:
    one = view(settings(), *case_36())
    shown = lines(one, Measured(CEILINGS, CONTEST), ABOUT, 76)
    out = [line.plain.rstrip() for line in shown]
    assert "\n".join(out) == (
        """\
model     SmolLM2-135M-Instruct, float32 on a CPU, 2 threads
run       5 tokens after a prompt of 10, greedy
TTFT      500 ms ƒ   tokenize + prefill + first sample
ITL       100 ms ƒ   p50 100 ms, p95 100 ms •
TPS       10.0 tok/s ƒ   decoding; with the reading 5.56 tok/s ƒ
prefill   20.0 tok/s ƒ
overhead  0% ƒ   of a step: 0.00 ms ƒ, of which sampling 0.00 ms ƒ
MBU       27% ƒ   this step could take 26.9 ms at best ƒ
weights   513 MiB •   134,515,008 parameters, float32
KV cache  630 KiB •   14 positions
memory    20.0 GB/s •   ceiling: read 512 MiB
matrices  100 GFLOP/s •   ceiling: 1536 x 1536 matrix product in float32
generate  2.00 × ƒ   ours 100 tok/s in float32, theirs 50.0 in bfloat16 ƒ
• measured   ƒ derived   ~ estimated   counts are exact and carry no mark

step latency 100 ms – 100 ms •
    ┌──────────────────────────────────────────────────────────────────────┐
 200┤                                                                      │
    │                                                                      │
 100┤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀│
    │                                                                      │
    │                                                                      │
0.00┤                                                                      │
    └┬─────────────────────────────────────────────┬──────────────────────┬┘
     2                                             4                      5
ms                                    step

The ceilings are kept in f.json: the inspector shows MBU from now on."""
    )


@pytest.mark.parametrize(("load", "busy"), [(0.5, False), (0.51, True), (9.0, True)])
def test_a_busy_machine_is_no_measure(load: float, busy: bool) -> None:
    about = replace(ABOUT, load=load, file=None, why="disk full")
    *_, before, last = lines(view(*case_36()), Measured(CEILINGS, None), about, 200)
    assert last.plain == "The ceilings could not be kept: disk full"
    words = f"The machine was busy (load average {load:.1f} on 2 CPUs) before this began"
    assert before.plain.startswith(words) is busy
    assert object_of(view(*case_36()), Measured(CEILINGS, None), about)["load_average"] == load


# --- the chart --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 12, 39, 40, 80, 200])
def test_a_chart_fits_any_width(width: int) -> None:
    steps = [(at, 20.0 + at % 5) for at in range(2, 60)]
    drawn = chart(steps, width)
    assert max(map(len, drawn)) <= width
    assert len(drawn) == (11 if width >= 40 else 2)


def test_the_latency_of_six_steps() -> None:
    steps = [(2, 10.0), (3, 10.0), (4, 20.0), (5, math.inf), (6, 10.0), (7, math.nan), (8, 10.0)]
    assert chart(steps, 30) == ["step latency 10.0 ms – 20.0 m…", "▄▄█▄▄"]
    wide = chart(steps, 60)
    assert wide[0] == "step latency 10.0 ms – 20.0 ms •  2 steps left out: no fini…"
    assert [line[:4].strip() for line in wide[2:8]] == ["20.0", "", "15.0", "", "", "10.0"]
    assert wide[9].split() == ["2", "4", "8"]


@pytest.mark.parametrize("values", [[5.0, 5.0], [0.0, 0.0], [1e-9, 1e9]])
def test_odd_values_are_drawn_all_the_same(values: list[float]) -> None:
    assert len(chart(list(enumerate(values)), 60)) == 11


def test_nothing_is_no_chart() -> None:
    assert chart([], 80) == []
    assert chart([(2, 1.0)], 80) == []
    assert chart([(2, math.nan), (3, math.inf)], 80) == []
    assert chart([(2, 1.0), (3, 1.0)], 0) == []


# --- the file of ceilings -----------------------------------------------------------------------


FACTS = replace(SMOLLM2, versions={"torch": "2.13.0"})


def test_ceilings_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ceilings.json"
    save(FACTS, CEILINGS, path, NOW)
    assert find(FACTS, path, NOW) == Known(CEILINGS, NOW, stale="")
    faster = replace(CEILINGS, read_bytes_per_second=30e9)
    save(FACTS, faster, path, NOW + timedelta(hours=1))
    assert find(FACTS, path, NOW) == Known(faster, NOW + timedelta(hours=1), stale="")
    assert len(json.loads(path.read_text())["entries"]) == 1
    assert [one.name for one in path.parent.iterdir()] == ["ceilings.json"]


@pytest.mark.parametrize(
    "other",
    [
        {"device": "cuda:0"},
        {"device_name": "another CPU"},
        {"dtype": "float16"},
        {"threads": 1},
    ],
)
def test_those_of_another_device_are_not_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    path = tmp_path / "ceilings.json"
    save(FACTS, CEILINGS, path, NOW)
    assert find(replace(FACTS, **other), path, NOW) is None


def test_nor_those_of_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ceilings.json"
    save(FACTS, CEILINGS, path, NOW)
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert find(FACTS, path, NOW) is None


def test_old_ones_are_dated(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    save(FACTS, CEILINGS, path, NOW)
    for days, stale in ((30, ""), (31, "2026-03-10")):
        found = find(FACTS, path, NOW + timedelta(days=days))
        assert found is not None
        assert found.stale == stale


@pytest.mark.parametrize(
    ("share", "unasked", "stale", "bandwidth", "rate"),
    [
        (0.97, False, "", 10e9, 200e9),
        (0.97, True, "", 20e9, 200e9),
        (0.4, False, "", 20e9, 200e9),
        (0.4, False, "2025-01-01", 10e9, 200e9),
        (None, False, "", 10e9, 200e9),
    ],
)
def test_what_a_busy_machine_gives_lowers_no_ceiling(
    share: float | None, unasked: bool, stale: str, bandwidth: float, rate: float
) -> None:
    """20 GB/s and 100 GFLOP/s were kept; 10 and 200 are measured."""
    new = replace(CEILINGS, read_bytes_per_second=10e9, flops_per_second=200e9, cpu_share=share)
    kept = merged(new, Known(CEILINGS, NOW, stale), unasked=unasked)
    assert (kept.read_bytes_per_second, kept.flops_per_second) == (bandwidth, rate)
    assert merged(new, None) == new


def test_those_of_another_torch_are_dated_and_the_newest_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    for version, days in (("2.11.0", 1), ("2.12.0", 2), ("2.10.0", 0)):
        facts = replace(FACTS, versions={"torch": version})
        rate = replace(CEILINGS, read_bytes_per_second=1e9 * days + 1e9)
        save(facts, rate, path, NOW + timedelta(days=days))
    found = find(FACTS, path, NOW + timedelta(days=3))
    assert found is not None
    assert (found.stale, found.ceilings.read_bytes_per_second) == ("2026-03-12", 3e9)
    # One of this very torch wins, old as it may be.
    save(FACTS, CEILINGS, path, NOW)
    found = find(FACTS, path, NOW + timedelta(days=3))
    assert found is not None
    assert (found.stale, found.ceilings) == ("", CEILINGS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 2, "entries": []}',
        '{"schema": 1, "entries": 3}',
        '{"schema": 1, "entries": [3, {}, {"ceilings": {}}]}',
        "\ufeff{}",
    ],
)
def test_a_damaged_file_counts_as_none_and_is_written_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ceilings.json"
    path.write_text(text)
    assert find(FACTS, path, NOW) is None
    save(FACTS, CEILINGS, path, NOW)
    assert find(FACTS, path, NOW) == Known(CEILINGS, NOW, stale="")


@pytest.mark.parametrize(
    "damage",
    [
        {"measured": "yesterday"},
        {"measured": None},
        {"ceilings": {"device": "cpu"}},
        {"ceilings": 7},
    ],
)
def test_an_entry_that_makes_no_sense_is_not_taken(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = tmp_path / "ceilings.json"
    save(FACTS, CEILINGS, path, NOW)
    data = json.loads(path.read_text())
    data["entries"][0].update(damage)
    path.write_text(json.dumps(data))
    assert find(FACTS, path, NOW) is None


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf])
def test_a_ceiling_that_is_no_speed_is_not_taken(tmp_path: Path, rate: float) -> None:
    path = tmp_path / "ceilings.json"
    save(FACTS, CEILINGS, path, NOW)
    path.write_text(path.read_text().replace("20000000000.0", json.dumps(rate)))
    assert find(FACTS, path, NOW) is None


# --- in the inspector -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "note"),
    [
        (120, "MBU       27% ƒ   this step could take 26.9 ms at best ƒ; bench of 2026-03-10"),
        (60, "MBU       27% ƒ   floor 26.9 ms ƒ; bench of 2026-03-10"),
        (40, "MBU       27% ƒ   bench of 2026-03-10"),
        (32, "MBU       27% ƒ   of 2026-03-10"),
    ],
)
def test_a_figure_from_an_old_ceiling_says_so(width: int, note: str) -> None:
    shown = gauges(view(*case_36()), CEILINGS, "2026-03-10")
    mbu = next(one for one in shown if one.label == "MBU")
    assert row(mbu.label, 10, width, mbu.figure, *mbu.notes).plain == note


async def test_the_inspector_holds_a_run_against_what_bench_found() -> None:
    asked: list[ModelFacts] = []

    def known(facts: ModelFacts) -> Known:
        asked.append(facts)
        return Known(CEILINGS, NOW, stale="2026-03-10")

    one = app(facts={"device": "cpu"})
    one.measurements.find = known
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n")
        assert one.controller.log.ceilings == Known(CEILINGS, NOW, "2026-03-10")
        # A script keeps no tensors: the question has changed from "which ceiling" to "which size".
        assert "MBU       —  the cache's size is not known" in pane_text(one, "gauges")
    assert len(asked) == 1


async def test_without_a_bench_it_says_what_to_do() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n")
        assert "MBU       —  M or click: measure it" in pane_text(one, "gauges")


# --- the command ------------------------------------------------------------------------------------


@pytest.fixture
def ceilings_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Ceilings come from CEILINGS, and are kept in a folder of this test's own."""
    monkeypatch.setattr(measuring, "measure_ceilings", lambda *_, **limits: CEILINGS)
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(tmp_path))
    return tmp_path / "ceilings.json"


def run_bench(form: str, *, tokens: int = 5, **options: Any) -> int:
    facts = {"device": "cpu", "device_name": "a CPU", "threads": 2}
    command = Open("scripted", {"text": "a <end>", "facts": facts, **options})
    client: Any = DirectClient
    return bench(command, tokens=tokens, rival=None, form=form, connect=client)


def test_one_json_object_and_the_ceilings_kept(
    ceilings_measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_bench("json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line, parse_constant=pytest.fail)
    assert (found["model"], found["tokens"]) == ("scripted", 5)
    assert found["chain"].startswith("temperature=0")
    assert len(found["step_ms"]) == 4
    # Nothing of the prompt was there before: the first token alone may be shared.
    assert found["prompt_computed"] >= found["prompt_tokens"] - 1
    assert (found["prefill_warmup"], found["ceilings"]["file"]) == (False, str(ceilings_measured))
    assert json.loads(ceilings_measured.read_text())["entries"][0]["ceilings"]["device"] == "cpu"


def test_the_text_says_where_they_are_kept(
    ceilings_measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert run_bench("text", tokens=8) == 0
    out = capsys.readouterr().out.splitlines()
    assert (
        out[-1]
        == f"The ceilings are kept in {ceilings_measured}: the inspector shows MBU from now on."
    )
    assert "memory    20.0 GB/s •   ceiling: read 512 MiB" in out
    assert any(line.startswith("step latency ") for line in out)


def test_a_folder_that_cannot_be_written_costs_only_the_file(
    ceilings_measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings_measured.parent.joinpath("file").write_text("")
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(ceilings_measured.parent / "file"))
    assert run_bench("json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ceilings"]["file"] is None
    assert "file/ceilings.json: " in found["ceilings"]["file_reason"]


def test_an_engine_that_fails_is_one_line(
    ceilings_measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_bench("json", fault="raise", fault_at=2) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == "llm-inspect: scripted fault in pass 2"
    assert not ceilings_measured.exists()


def test_answers_come_in_the_order_of_the_questions() -> None:
    client: Any = DirectClient()
    answers = Answers(client, Progress(io.StringIO()))
    assert answers.ask(Open("scripted", {"text": "a b"}), ModelFacts).name == "scripted"
    # What came together with the facts is still there.
    assert answers.ask(Submit("a"), SettingsChanged).preset == "guide"
    answers.tell(Step(0))
    assert answers.ask(Step(0), StepRecord).node == 1
    assert sorted(answers.log.nodes) == [1]
    with pytest.raises(EngineFailedError, match="there is no node 9"):
        answers.ask(Step(9), DenseLogits)
    assert sorted(answers.log.nodes) == [1, 2]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--tokens", "2"], "--tokens must be 3 or more: fewer have no speed"),
        (["--vs", "vllm"], "argument --vs: invalid choice: 'vllm' (choose from generate, llamacpp) (see llm-inspect bench --help)"),
        (["--temperature", "1"], "unrecognized arguments: --temperature 1 (see llm-inspect bench --help)"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert cli.main(["bench", *words]) == 2
    # Whether argparse quotes the choices depends on Python's version.
    said = capsys.readouterr().err.replace("'generate', 'llamacpp'", "generate, llamacpp")
    assert said == f"llm-inspect: {line}\n"


@pytest.mark.model
@pytest.mark.slow
def test_the_default_model_against_generate(
    launcher: Launcher, default_model_dir: Path, tmp_path: Path
) -> None:
    words = [
        "--model",
        str(default_model_dir),
        "--tokens",
        "6",
        "--vs",
        "generate",
        "--dtype",
        "float32",
    ]
    kept = {"LLM_INSPECT_CACHE": str(tmp_path)}
    done = launcher.run("bench", *words, "--format", "json", environment=kept)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["parameters"] == 134_515_008
    # The ceilings may have been measured while others used the machine, and the pace while not.
    assert 0 < found["mbu"] < 20
    assert 0 < found["floor_ms"] < found["itl_ms"] * 20
    assert found["vs_generate"]["decode_ratio"] > 0
    assert (found["vs_generate"]["rounds"], len(found["vs_generate"]["ours_ms"])) == (5, 5)
    assert (tmp_path / "ceilings.json").exists()
