"""The ready requests as they would be answered: made-up times that are easily added up."""

from __future__ import annotations

from dataclasses import replace

from engine.bill.account import account
from engine.bill.prices import example
from engine.records.events import Record
from engine.records.thinking import ThinkingSettings
from engine.records.vocabulary import Token
from engine.timing import speed
from inspector.state.shapes.carry_out import Answered, Carried, Failed, spent_of
from inspector.state.shapes.requests import Shape, requests
from inspector.state.shapes.serial_parallel import Way
from tests.fakes import SMOLLM2, case_36, chunk, kv, prefill, prompt, step, timing, view

TAGS = ThinkingSettings("<t>", "</t>", "test")
WAYS = (
    Way("serial", 1, 96, 96, 8, 103, 4000.0, ()),
    Way("parallel", 4, 24, 96, 32, 31, 2000.0, (("7", 3),)),
)


def answered(shape: Shape, *records: Record, tags: ThinkingSettings | None = None) -> Answered:
    """The request with these records for its run."""
    seen = view(*records)
    log, path = seen.log, seen.path
    tags = tags or ThinkingSettings()
    found = account(log.facts, log.prompt, log.prefill, path, log.rounds, tags, example())
    spent, chunks = spent_of(log, path, found.thinking), log.prefill.chunks  # type: ignore[union-attr]
    return Answered(
        shape, found, speed(log.prompt, log.prefill, path), spent, chunks, "text", records
    )


def reusing(shape: Shape) -> Answered:
    """8 of 10 prompt tokens cached: 100 ms of reading, and one step as long."""
    steps = [step(1, timing(0.0), kv(10, computed=10)), step(2, timing(100.0), kv(11))]
    read = prefill(chunk(8, 2, 100.0, warmup=True), cached=8)
    return answered(shape, SMOLLM2, prompt(10), read, *steps)


def thinking(shape: Shape) -> Answered:
    """10 ms of tokenizing, 4 of them the template's; a lookup of 1 ms; 105 ms of reading, of which
    5 lie between its chunk, 80 ms, and the head, 20 ms; then steps of 4, 30 and 50 ms, the first
    one's sampling 2 ms, and the first two of thinking."""
    tokens = [Token(1, b"<t>hm"), Token(2, b"</t>"), Token(3, b" 7")]
    times = [timing(0.0, 2.0, 1.0, 1.0), timing(30.0), timing(50.0)]
    steps = [
        step(at, time, kv(3 + at), token=token)
        for at, (time, token) in enumerate(zip(times, tokens, strict=True), 1)
    ]
    read = prefill(replace(chunk(0, 4, 100.0), head_ms=20.0))
    read = replace(read, total_ms=105.0, lookup_ms=1.0)
    asked = replace(prompt(4, tokenize_ms=10.0), template_ms=4.0)
    return answered(shape, SMOLLM2, asked, read, *steps, tags=TAGS)


def all_carried() -> Carried:
    """All of them, of which the short question has failed."""
    shapes = requests(600, 5, 24)
    plain = case_36()
    done = (
        answered(shapes[0], *plain),
        answered(shapes[1], *plain),
        reusing(shapes[2]),
        thinking(shapes[3]),
        Failed(shapes[4], "the context holds 5 tokens"),
    )
    return Carried(shapes, SMOLLM2, done, WAYS)
