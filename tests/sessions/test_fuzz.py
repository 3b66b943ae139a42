"""Thousands of mutated session files: each is read or refused in one line, and none is changed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions import SessionWriter
from tests.sessions.test_guard import refusal_of, sample_bytes
from tests.sessions.test_store import forked_run

FUZZED = 1600
"""``bench/sessions.py --fuzz 10000`` reads more of them."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return sample_bytes(tmp_path_factory.mktemp("sample"))


Mutation = Callable[[random.Random, bytearray], None]


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 2, 8, 64, 512))):
        data[rng.randrange(len(data))] = rng.randrange(256)


def _flip_near_a_page_start(rng: random.Random, data: bytearray) -> None:
    """Where the B-tree's own figures are."""
    page = rng.randrange(len(data) // 4096) * 4096
    for _ in range(rng.choice((1, 3, 9))):
        data[page + rng.randrange(120)] = rng.randrange(256)


def _flip_in_a_header(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(100)] = rng.randrange(256)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _cut_to_pages(rng: random.Random, data: bytearray) -> None:
    pages = rng.randrange(1, len(data) // 4096)
    del data[pages * 4096 :]
    data[28:32] = pages.to_bytes(4)


def _swap_pages(rng: random.Random, data: bytearray) -> None:
    one, other = (rng.randrange(len(data) // 4096) * 4096 for _ in range(2))
    page = data[one : one + 4096]
    data[one : one + 4096] = data[other : other + 4096]
    data[other : other + 4096] = page


def _blank_a_region(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    size = min(rng.choice((8, 512, 4096)), len(data) - start)
    data[start : start + size] = bytes([rng.choice((0, 0xFF))]) * size


def _append(rng: random.Random, data: bytearray) -> None:
    data += rng.randbytes(rng.choice((1, 4096, 10_000)))


MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _flip, _flip_near_a_page_start, _flip_near_a_page_start, _flip_in_a_header),
    *(_cut, _cut_to_pages, _swap_pages, _blank_a_region, _append),
)


def fuzz(path: Path, sample: bytes, count: int, seed: int) -> tuple[int, int]:
    """Read ``count`` mutated files; how many were read and how many refused."""
    rng = random.Random(seed)
    read = 0
    for number in range(count):
        data = bytearray(sample)
        MUTATIONS[number % len(MUTATIONS)](rng, data)
        path.write_bytes(data)
        line = refusal_of(path)
        read += line is None
        assert line is None or ("\n" not in line and str(path) in line)
        assert path.read_bytes() == data
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    return read, count - read


@pytest.mark.slow
def test_mutated_files(tmp_path: Path, sample: bytes) -> None:
    read, refusals = fuzz(tmp_path / "run.llmi", sample, FUZZED, seed=0)
    assert refusals > FUZZED / 2
    assert read > 10, "some mutations hit nothing that matters"


def test_mutated_logs(tmp_path: Path) -> None:
    """A crash can leave anything in the log; what it does not prove whole is not read."""
    writer = SessionWriter(tmp_path / "live.llmi")
    records = forked_run()
    for one in records:
        writer.add(one)
    main, log = ((tmp_path / f"live.llmi{end}").read_bytes() for end in ("", "-wal"))
    writer.close()
    rng = random.Random(2)
    folder = tmp_path / "crashed"
    folder.mkdir()
    for number in range(40):
        data = bytearray(log)
        (_cut, _flip, _blank_a_region)[number % 3](rng, data)
        (folder / "run.llmi").write_bytes(main)
        (folder / "run.llmi-wal").write_bytes(data)
        line = refusal_of(folder / "run.llmi")
        assert line is None or "is empty" in line, "each transaction is whole or absent"
        assert (folder / "run.llmi").read_bytes() == main
        assert (folder / "run.llmi-wal").read_bytes() == data
