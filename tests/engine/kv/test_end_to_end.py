"""The options of the KV cache on the default model, from the command line and in one process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.backends import open_backend
from engine.backends.base import Backend
from engine.measure.cache_curves import measure_curves
from engine.measure.drift import measure_drift
from engine.models.resolve import FLOAT_DTYPES
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from tests.engine.backends.hf.test_real_model import GREEDY, PROMPT, ids, run, steps
from tests.inspector.cli.test_cli import asked
from tests.launcher import Launcher

pytestmark = pytest.mark.model

HALF = ("--dtype", "float16")
POSITION = 23_040
"""Bytes of a position in float16: 2 x 30 layers x 3 heads x 64 x 2."""


@pytest.fixture(scope="module")
def greedy(launcher: Launcher, default_model_dir: Path) -> list[dict[str, Any]]:
    return run(launcher, default_model_dir, PROMPT, *GREEDY, *HALF)


def opened(folder: Path, *words: str) -> Backend:
    """The backend that these words of a command line open."""
    command = asked("a", "--model", str(folder), *HALF, *words).open
    return open_backend(command.backend, command.options)


def stepper_on(backend: Backend, text: str = PROMPT) -> Stepper:
    stepper = Stepper(backend, effective("guide", {"temperature": 0}), max_tokens=400)
    stepper.submit(text)
    return stepper


def test_without_a_cache_the_tokens_are_the_same(
    launcher: Launcher, default_model_dir: Path, greedy: list[dict[str, Any]]
) -> None:
    lines = run(launcher, default_model_dir, PROMPT, *GREEDY, *HALF, "--no-cache")
    assert ids(lines) == ids(greedy)
    assert lines[0]["kv_cache"] == {
        "cached": False,
        "dtype": None,
        "block_size": None,
        "blocks": [],
        "pool_bytes": None,
    }
    for line in steps(lines):
        assert line["kv"]["cached"] == 0
        assert line["kv"]["computed"] == line["kv"]["seen"] == line["position"]
        assert line["kv"]["bytes"] is None
    assert greedy[0]["kv_cache"]["cached"] is True
    assert (greedy[0]["kv_cache"]["dtype"], greedy[0]["kv_cache"]["block_size"]) == ("float16", 16)


def test_eight_bits_in_blocks_of_eight(
    launcher: Launcher, default_model_dir: Path, greedy: list[dict[str, Any]]
) -> None:
    """2 x 30 x 3 heads x (64 bytes and a scale of 2) = 11,880 bytes a position."""
    words = ("--kv-dtype", "int8", "--block-size", "8", "--kv-budget", "2M")
    lines = run(launcher, default_model_dir, PROMPT, *GREEDY, *HALF, *words)
    kept = lines[0]["kv_cache"]
    assert (kept["dtype"], kept["block_size"]) == ("int8", 8)
    assert kept["blocks"] == [2 * 2**20 // (8 * 11_880)]
    assert kept["pool_bytes"] == kept["blocks"][0] * 8 * 11_880 <= 2 * 2**20
    for line in steps(lines):
        assert line["kv"]["bytes"] == 11_880 * line["kv"]["seen"]
        assert line["kv"]["block_size"] == 8
    assert ids(lines)[0] == ids(greedy)[0]


def command(launcher: Launcher, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return launcher.run("run", "--format", "jsonl", "--model", str(folder), *HALF, *words)


def test_a_budget_without_room_for_a_block_is_one_line(
    launcher: Launcher, default_model_dir: Path
) -> None:
    done = command(launcher, default_model_dir, PROMPT, "--kv-budget", "1000")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1] == (
        "llm-inspect: a KV budget of 1,000 bytes holds no block of 16 positions "
        f"({16 * POSITION:,} bytes): raise it"
    )


def test_a_budget_too_small_for_the_text_ends_it_in_one_line(
    launcher: Launcher, default_model_dir: Path
) -> None:
    """Two blocks of 4: 5 positions of the prompt, 3 read after it, 4 tokens drawn."""
    small = ("--block-size", "4", "--kv-budget", str(8 * POSITION))
    done = command(
        launcher, default_model_dir, PROMPT, "--temperature", "0", "--max-tokens", "9", *small
    )
    assert done.returncode == 3
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (lines[-1]["type"], lines[-1]["reason"]) == ("end", "error")
    assert len(steps(lines)) == 4
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("llm-inspect: ")]
    assert "the KV pool is full" in line
    assert "raise the KV budget" in line


@pytest.fixture
def small(default_model_dir: Path) -> Iterator[Backend]:
    backend = opened(default_model_dir, "--block-size", "4", "--kv-budget", str(16 * POSITION))
    yield backend
    backend.close()


def test_a_full_pool_evicts_and_the_branch_is_read_again(small: Backend) -> None:
    """Four blocks of 4: two branches of 12 positions that share one do not fit side by side."""
    stepper = stepper_on(small)
    trunk = [stepper.step() for _ in range(8)]
    fork = stepper.extend(ROOT, force=trunk[0].token.id + 1)
    stepper.cursor = fork.node
    for _ in range(7):
        stepper.step()
    state = small.pool_state()
    assert state is not None
    assert state.evicted_blocks > 0
    stepper.cursor = trunk[-1].node
    again = stepper.step()
    assert again.timing.reread
    whole = stepper_on(small)
    expected = [whole.step() for _ in range(9)]
    assert [one.token for one in expected] == [one.token for one in (*trunk, again)]


def test_doctor_shows_the_pool_that_would_be(launcher: Launcher, default_model_dir: Path) -> None:
    words = (*HALF, "--kv-dtype", "int8", "--kv-budget", str(100 * 16 * 11_880))
    done = launcher.run("doctor", "--model", str(default_model_dir), *words)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("KV cache"))
    assert lines[at].split(maxsplit=2)[2] == (
        f"int8, 100 blocks of 16 positions: {100 * 16 * 11_880 / 2**20:.1f} MiB reserved (measured)"
    )
    assert lines[at + 1].strip() == "room for 1,600 positions of all branches together"


@pytest.fixture(scope="module")
def far(default_model_dir: Path) -> Iterator[Stepper]:
    """The default model in float16, 4 tokens behind a prompt of 76."""
    backend = opened(default_model_dir)
    stepper = stepper_on(backend, " ".join([PROMPT] * 15 + ["a"]))
    for _ in range(4):
        stepper.step()
    yield stepper
    backend.close()


def test_the_drift_of_the_default_model(far: Stepper) -> None:
    """Case 28: none of them is equal to the bit, and none is more than 16-bit rounding."""
    found = measure_drift(far)
    assert (found.node, found.positions) == (4, 76 + 3)
    assert [row.label for row in found.rows] == [
        "this run, K and V in float16",
        "beside a shorter text, padded",
        *(f"weights in {name}" for name in FLOAT_DTYPES if name != "float16"),
    ]
    for row in found.rows:
        assert row.drift is not None
        assert row.drift.kl < (0.05 if "bfloat16" in row.label else 0.01)
        assert not row.drift.flips or row.drift.close
    assert found.rows[0].drift is not None
    assert found.rows[0].drift.max_abs > 0


def test_the_curves_of_the_default_model_part(far: Stepper) -> None:
    before = far.backend.pool_state()
    found = measure_curves(far, far.cursor)
    assert found.lengths == (16, 24, 32, 48, 64, 80)
    assert found.cache == "blocks of 16"
    assert found.without_ms[-1] > found.with_ms[-1]
    after = far.backend.pool_state()
    assert before is not None
    assert after is not None
    assert after.used_bytes == before.used_bytes
    assert far.step().timing.steady
