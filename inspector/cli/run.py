"""``llm-inspect run``: the engine without a screen, as text or as one JSON object a step."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from engine.acceptance import acceptance, brief_words
from engine.commands import Run
from engine.records.events import BreakpointsSet
from engine.records.prompt import PrefillRecord
from engine.records.round import RoundRecord
from engine.records.step import StepRecord, StopKind
from engine.run.tree import ROOT
from engine.safe_output import unguarded
from engine.sampling.settings import FLAG, in_vain
from engine.text import IncrementalDecoder, plural, visible
from engine.timing import speed
from inspector.cli.engine_log import connect
from inspector.cli.own_prices import own_prices
from inspector.cli.run_breakpoints import BreakpointChecker
from inspector.cli.run_saver import RunSaver
from inspector.exit_codes import EXIT_CHECK, EXIT_ENGINE, EXIT_OK, EXIT_UNSAVED
from inspector.signals import Signalled
from inspector.state.account import account_of
from inspector.state.answers import Answers, EngineFailedError
from inspector.state.request import Request
from inspector.state.view import RunLog
from sessions.export.bill import bill_fields
from sessions.export.jsonl import dumps, end_line, run_line, step_line
from sessions.export.rounds import acceptance_fields, round_line

_WIDTH = 30
BREAKPOINT = "breakpoint"
"""The reason of an end that a breakpoint or a failed assertion made."""


class TextOutput:
    """The generated text as it comes; a line about speed on standard error at the end."""

    def __init__(self, out: TextIO, saver: RunSaver) -> None:
        self._out = out
        self._saver = saver
        self._decoder = IncrementalDecoder()
        # A pipe gets what hides as it is; what acts on a terminal is made visible there too, as it
        # may end in one. The exact bytes are in the other form.
        self._terminal = out.isatty()

    def begin(self, log: RunLog) -> None:
        dials = log.settings.dials if log.settings is not None else {}
        asked = {name: one for name, one in in_vain(dials).items() if one.source.startswith(FLAG)}
        _say(f"{name}={one.value}: {one.source}" for name, one in asked.items())

    def step(self, record: StepRecord) -> None:
        if record.stop is None or record.stop.kind is not StopKind.STOP_TOKEN:
            self._write(self._decoder.feed(record.token.bytes))

    def round(self, record: RoundRecord) -> None:
        """Nothing: what the rounds came to is said at the end."""

    def end(self, log: RunLog, reason: str, detail: str, checker: BreakpointChecker) -> None:
        self._write(self._decoder.flush())
        self._out.write("\n")
        self._out.flush()
        path = log.path(max(log.nodes, default=ROOT))
        figures = speed(log.prompt, log.prefill, path)
        words = [plural(len(path), "token")]
        if figures.ttft_ms is not None:
            words.append(f"TTFT {figures.ttft_ms:.0f} ms ƒ")
        if figures.tps is not None:
            words.append(f"{figures.tps:.1f} tokens/s ƒ")
        if log.rounds:
            words.append(brief_words(acceptance(log.rounds.values())))
        kept = log.facts.kv_storage if log.facts is not None else None
        if kept is not None and kept.unusual:
            words.append(kept.unusual)
        if self._saver.error:
            words.append("NOT SAVED")
        print(f"[{', '.join(words)}; {visible(detail or reason)}]", file=sys.stderr)
        if reason == BREAKPOINT:
            print(*checker.lines(), sep="\n", file=sys.stderr)

    def _write(self, text: str) -> None:
        self._out.write(visible(text, newline="\n", tab="\t") if self._terminal else text)
        self._out.flush()


class JsonOutput:
    """The contract for programs: one ``run`` line, one ``step`` line a token, one ``end`` line."""

    def __init__(self, out: TextIO, saver: RunSaver) -> None:
        self._out = out
        self._saver = saver
        self._prices = own_prices()
        self._decoder = IncrementalDecoder()

    def begin(self, log: RunLog) -> None:
        assert log.prompt is not None, "a step comes after its prompt"
        self._line(run_line(log.facts, log.prompt, log.settings))

    def step(self, record: StepRecord) -> None:
        self._line(step_line(record, text=self._decoder.feed(record.token.bytes)))

    def round(self, record: RoundRecord) -> None:
        self._line(round_line(record))

    def end(self, log: RunLog, reason: str, detail: str, checker: BreakpointChecker) -> None:
        path = log.path(max(log.nodes, default=ROOT))
        figures = speed(log.prompt, log.prefill, path)
        line = end_line(reason, detail, figures, len(path), prefill=log.prefill)
        if log.rounds:
            line["speculation"] = acceptance_fields(acceptance(log.rounds.values()))
        line["bill"] = bill_fields(account_of(log, path, self._prices))
        self._line(line | checker.fields() | self._saver.fields())

    def _line(self, value: dict[str, Any]) -> None:
        self._out.write(dumps(value) + "\n")
        self._out.flush()


class Progress:
    """One line on standard error that tells how loading and reading go; gone when done."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._codes = unguarded(out)
        self.live = out.isatty()
        """True if the line is drawn over and over, in one place."""
        self._phase = ""

    def show(self, phase: str, fraction: float | None, detail: str) -> None:
        phase, detail = visible(phase), visible(detail)
        if self.live:
            filled = round(_WIDTH * (fraction or 0.0))
            bar = "█" * filled + "░" * (_WIDTH - filled)
            self._codes.write("\r\x1b[K")
            self._out.write(f"{phase} {bar} {detail}")
        elif phase != self._phase:
            self._out.write(f"{phase}: {detail}\n" if detail else f"{phase}\n")
        self._phase = phase
        self._out.flush()

    def clear(self) -> None:
        if self.live and self._phase:
            self._codes.write("\r\x1b[K")
            self._codes.flush()
        self._phase = ""


def run(asked: Request, form: str) -> int:
    """Carry out the request to its end and print it. Returns the exit code."""
    saver = RunSaver(asked.save)
    output: TextOutput | JsonOutput
    output = (JsonOutput if form == "jsonl" else TextOutput)(sys.stdout, saver)
    client, progress = connect(), Progress(sys.stderr)
    answers = Answers(client, progress, lambda record: saver.keep(record, client))
    for command in (asked.open, asked.configure, asked.breakpoints, asked.submit, Run(ROOT)):
        answers.tell(command)
    checker, watches = BreakpointChecker(asked.breakpoints), asked.breakpoints.watches
    if checker.points or watches:
        saver.keep(BreakpointsSet(checker.points, watches), client)
    try:
        code = _follow(answers, output, progress, checker)
        if any(one.told or one.untold for one in checker.points):
            saver.keep(BreakpointsSet(checker.points, watches), client)
        saver.finish(client)
    except (KeyboardInterrupt, Signalled):
        client.kill()
        raise
    finally:
        client.close()
        saver.close()
    return EXIT_UNSAVED if code == EXIT_OK and saver.error else code


def _follow(
    answers: Answers,
    output: TextOutput | JsonOutput,
    progress: Progress,
    checker: BreakpointChecker,
) -> int:
    log, begun = answers.log, False
    try:
        for record in answers.records():
            match record:
                case PrefillRecord():
                    show_reading(progress, log, record)
                case RoundRecord():
                    output.round(record)
                case StepRecord():
                    progress.clear()
                    if not begun:
                        output.begin(log)
                        begun = True
                    output.step(record)
                    verdict = checker.look(log, record)
                    _say(verdict.news)
                    if verdict.stops:
                        output.end(log, BREAKPOINT, verdict.reason, checker)
                        return EXIT_CHECK
                    if record.stop is not None:
                        output.end(log, record.stop.kind.value, record.stop.detail, checker)
                        _say(checker.never_told)
                        return EXIT_CHECK if checker.never_told else EXIT_OK
    except EngineFailedError as error:
        if begun:
            output.end(log, "error", str(error), checker)
        _say([str(error)])
    return EXIT_ENGINE


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"llm-inspect: {visible(line)}", file=sys.stderr)


def show_reading(progress: Progress, log: RunLog, record: PrefillRecord) -> None:
    """Show how far the prompt has been read."""
    total = len(log.prompt.tokens) if log.prompt else 0
    read = record.cached + record.computed
    if not record.done and total:
        progress.show("reading the prompt", read / total, f"{read:,} of {plural(total, 'token')}")
