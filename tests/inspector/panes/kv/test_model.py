"""The KV pane over the default model's real pool: figures, a fork, a deletion, another prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import Stepper, open_model
from engine.backends.hf.backend import HFBackend
from engine.sampling.chain import effective
from inspector.draw.numbers import size
from inspector.panes.kv.pool import PoolLook, pool_look
from inspector.state.view import RunLog, View
from tests.fake_pools import kv_lines
from tests.fakes import texts

pytestmark = pytest.mark.model

PROMPT = (
    "The capital of France is Paris, and it has been so for a long time. The river that runs "
    "through it is called the Seine."
)


class Watched:
    """A stepper whose records go to a log, as the engine sends them."""

    def __init__(self, backend: HFBackend) -> None:
        self.stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
        self.log = RunLog()
        self.log.add(backend.facts)

    def submit(self, text: str) -> View:
        self.log.add(self.stepper.submit(text))
        for record in self.stepper.prefill():
            self.log.add(record)
        return self.look()

    def step(self, count: int = 1) -> View:
        for _ in range(count):
            self.log.add(self.stepper.step())
        return self.look()

    def force(self, parent: int, token: int) -> View:
        self.log.add(self.stepper.extend(parent, force=token))
        return self.look()

    def look(self) -> View:
        state = self.stepper.pool_state()
        assert state is not None
        self.log.add(state)
        return View(self.log, self.stepper.cursor)


@pytest.fixture(scope="module")
def backend(default_model_dir: Path) -> HFBackend:
    found = open_model(str(default_model_dir), dtype="float16")
    assert isinstance(found, HFBackend)
    return found


@pytest.fixture
def run(backend: HFBackend) -> Watched:
    backend.rollback(backend.length)
    pool = backend.pool
    assert pool is not None
    pool.clear()
    return Watched(backend)


def looked(view: View) -> PoolLook:
    found = pool_look(view)
    assert isinstance(found, PoolLook)
    return found


def test_its_sizes_are_sums_of_the_real_tensors(run: Watched, backend: HFBackend) -> None:
    shown = texts(kv_lines(run.submit(PROMPT), 75, 40))
    assert run.log.prompt is not None
    count = len(run.log.prompt.tokens)
    pool = backend.pool
    assert pool is not None
    tensors = [tensor for layer in pool.layers for tensor in layer.store.tensors()]
    whole = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert whole == pool.nbytes == looked(run.look()).pool.reserved_bytes
    assert f"reserved    {size(whole)} •" in shown
    assert f"cache now   {size(count * 23_040)} •   {count} positions" in shown
    assert backend.kv() == (count, count * 23_040)
    blocks = -(-count // 16)
    assert f"  used      {size(blocks * 16 * 23_040)} •" in shown
    assert f"  wasted    {size((blocks * 16 - count) * 23_040)} •" in shown
    assert f"  unpaged   {size((8192 - count) * 23_040)} ƒ" in shown
    assert "in one piece: read as a view, no copy" in shown


def test_a_fork_shares_its_blocks_and_a_deletion_gives_them_back(run: Watched) -> None:
    run.submit(PROMPT)
    assert run.log.prompt is not None
    count = len(run.log.prompt.tokens)
    before = looked(run.step(12))
    assert before.cursor.wanted == count + 11
    assert before.cursor.covered == before.cursor.wanted
    assert not (before.groups[0].group.refs > 1).any()

    run.force(6, 11)
    forked = run.step(2)
    look = looked(forked)
    full = (count + 6) // 16
    assert int((look.groups[0].group.refs == 2).sum()) == full
    assert look.pool.copied_blocks - before.pool.copied_blocks <= 1
    assert look.cursor.branch is not None
    assert look.cursor.branch.number == look.pool.branch
    assert look.cursor.covered == look.cursor.wanted
    assert " 2" in texts(kv_lines(forked, 49, 9)[3:6])
    # The other line is still all there.
    there = looked(View(run.log, 12))
    assert (there.cursor.covered, there.cursor.wanted) == (before.cursor.wanted,) * 2

    run.stepper.cursor = 12
    run.log.add(run.stepper.delete(13))
    after = looked(run.look())
    # The branch is cut back to where it left the other one.
    assert {one.node for one in after.pool.branches} == {6, 11}
    assert after.pool.filled_bytes < look.pool.filled_bytes
    assert after.cursor.covered == after.cursor.wanted == count + 11


def test_an_edited_prompt_says_what_it_found(run: Watched) -> None:
    run.submit(PROMPT)
    run.step(3)
    again = run.submit(PROMPT.replace("the Seine", "a Seine"))
    report = again.prefill.prefix if again.prefill is not None else None
    assert report is not None
    assert report.cached + report.computed == report.prompt
    assert report.hit_blocks == report.cached // 16 >= 1
    shown = texts(kv_lines(again, 156, 40))
    assert f"{report.cached} cached + {report.computed} computed = {report.prompt}" in shown
    assert f'differs     position {report.differs_at}: " a" here' in shown
    shared = looked(again).groups[0].group.refs
    assert int((shared == 2).sum()) == report.hit_blocks
    assert "an earlier prompt" in shown
    full = run.submit(PROMPT)
    assert full.prefill is not None
    assert full.prefill.prefix is not None
    assert full.prefill.prefix.hit_blocks == full.prefill.prefix.prompt // 16
