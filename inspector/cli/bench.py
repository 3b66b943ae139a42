"""``llm-inspect bench``: this machine's ceilings, and how near to them the engine comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from engine.commands import Configure, Measure, Open, Step, Submit
from engine.process import EngineClient
from engine.records.measured import Measured
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from inspector.cli.bench_report import Circumstances, lines, markdown, report
from inspector.cli.engine_log import connect
from inspector.cli.printing import print_lines
from inspector.cli.run import Progress
from inspector.exit_codes import EXIT_ENGINE, EXIT_INTERRUPTED, EXIT_OK
from inspector.safe_console import console
from inspector.state import ceilings as ceilings_file
from inspector.state.answers import Answers, EngineFailedError
from inspector.state.shapes.requests import WARM_UP
from inspector.state.view import View
from sessions.export.jsonl import dumps

DEFAULT_TOKENS = 32
LEAST_TOKENS = 3
"""The first token's wait is TTFT, and a gap needs two more to have a spread."""

PROMPT = (
    "Once upon a time, in a small village by the sea, there lived an old man who mended nets. "
    "Every evening he sat on the harbour wall with the children around him and told them about "
    "the islands that he had seen when he was young, and"
)


def bench(
    command: Open,
    *,
    tokens: int,
    rival: str | None,
    form: str,
    connect: Callable[[], EngineClient] = connect,
) -> int:
    """Measure, keep the ceilings for the inspector, and print. Returns the exit code."""
    load = os.getloadavg()[0]

    def work(answers: Answers) -> int:
        found = measured(answers, command, tokens, rival)
        view, now = View(answers.log, max(answers.log.nodes)), datetime.now(UTC)
        path, why = _save(view, found, now)
        _print(view, found, form, Circumstances(now, load, os.cpu_count() or 1, path, why))
        return EXIT_OK

    return with_engine(connect, work)


def with_engine(connect: Callable[[], EngineClient], work: Callable[[Answers], int]) -> int:
    """Have an engine answer ``work``; its exit code, or that of what came in between."""
    client = connect()
    try:
        return work(Answers(client, Progress(sys.stderr)))
    except EngineFailedError as error:
        print(f"llm-inspect: {error}", file=sys.stderr)
        return EXIT_ENGINE
    except KeyboardInterrupt:
        client.kill()
        return EXIT_INTERRUPTED
    finally:
        client.close()


def measured(answers: Answers, command: Open, tokens: int, rival: str | None) -> Measured:
    """Load the model, decode ``tokens`` tokens greedily, and measure what they are held against.

    ``answers.log`` holds the run. Raises EngineFailedError.
    """
    if answers.ask(command, ModelFacts).remote:
        raise EngineFailedError(
            "bench holds an engine against the machine it runs on, and a server's cannot be "
            "measured from here: run --format jsonl tells its times, bench --prompts by length"
        )
    answers.tell(Configure(dials={"temperature": 0.0}, max_tokens=tokens))
    for prompt, count in ((WARM_UP, LEAST_TOKENS), (PROMPT, tokens)):
        answers.ask(Submit(prompt), PromptRecord)
        node = ROOT
        # One by one: a run would end at a stop token.
        for _ in range(count):
            node = answers.ask(Step(node), StepRecord).node
    return answers.ask(Measure(PROMPT, rival, tokens), Measured)


def _save(view: View, found: Measured, now: datetime) -> tuple[Path | None, str]:
    """(where the ceilings are kept, or None and why not)."""
    path = ceilings_file.default_path()
    if view.facts is None:
        return None, "no model"
    try:
        before = ceilings_file.find(view.facts, path, now)
        ceilings = ceilings_file.merged(found.ceilings, before)
        ceilings_file.save(view.facts, ceilings, path, now)
    except OSError as error:
        return None, f"{path}: {error.strerror or error}"
    return path, ""


def _print(view: View, found: Measured, form: str, about: Circumstances) -> None:
    if form == "json":
        print(dumps(report(view, found, about)))
        return
    if form == "md":
        print("\n".join(markdown(report(view, found, about))))
        return
    out = console()
    print_lines(out, lines(view, found, about, out.width))
