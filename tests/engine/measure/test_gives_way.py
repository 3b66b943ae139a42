"""E7: ceilings that are measured unasked make way for whatever comes, and change no run."""

from __future__ import annotations

import pytest

from engine.commands import MeasureCeilings, Step
from engine.measure import ceilings, contest
from engine.measure.ceilings import PutOff, measure_ceilings
from engine.records.events import LoadProgress
from engine.records.measured import MEASURING_CEILINGS, Ceilings, Measured
from tests.direct import DirectClient, script


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> DirectClient:
    monkeypatch.setattr(ceilings, "CPU_READ_BYTES", 1 << 20)
    monkeypatch.setattr(ceilings, "CPU_PRODUCTS", (16, 32))
    one = DirectClient()
    for command in script(facts={"device": "cpu"}):
        one.send(command)
    one.take()
    return one


def test_the_next_command_ends_it_at_once_and_is_carried_out(client: DirectClient) -> None:
    client._inbox.waiting.append(Step(0))
    client.send(MeasureCeilings(seconds=60.0, gives_way=True))
    found = client.take()
    assert found[-1] == LoadProgress(MEASURING_CEILINGS, 1.0, "put off")
    assert list(client._engine._inbox._waiting) == [Step(0)]


def test_asked_for_it_is_finished(client: DirectClient) -> None:
    client._inbox.waiting.append(Step(0))
    client.send(MeasureCeilings(seconds=0.001))
    assert isinstance(client.take()[-1], Measured)


def test_undisturbed_it_answers(client: DirectClient) -> None:
    client.send(MeasureCeilings(seconds=0.001, gives_way=True))
    (*_, found) = client.take()
    assert isinstance(found, Measured)
    assert found.ceilings.read_bytes_per_second > 0


def test_unasked_no_error_is_shown(client: DirectClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object, **__: object) -> Ceilings:
        raise RuntimeError("not enough memory")

    monkeypatch.setattr(contest, "measure_ceilings", short)
    client.send(MeasureCeilings(gives_way=True))
    assert client.take()[-1] == LoadProgress(MEASURING_CEILINGS, 1.0, "put off")


def test_it_is_asked_between_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "CPU_READ_BYTES", 1 << 20)
    asked = iter([False, False, False, True])
    with pytest.raises(PutOff):
        measure_ceilings(seconds=60.0, stop=lambda: next(asked))
