"""``llm-inspect diff-engines``: one text through two engines, token by token.

The first engine writes, the second reads the same tokens: so every pair of distributions is of one
context. They run one after the other, and no more than one model is in memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.commands import Command, Configure, Open, Run, SendLogits, Step, Submit
from engine.records.arrays import FloatArray
from engine.records.events import DenseLogits
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from engine.text import quote, visible
from inspector.cli.engine_log import connect
from inspector.cli.option_values import number
from inspector.cli.options import UsageError, add_model_options, load_config, open_command
from inspector.cli.run import Progress
from inspector.exit_codes import EXIT_CHECK, EXIT_ENGINE, EXIT_OK
from inspector.state.answers import Answers, EngineFailedError
from sessions.compare.diff import Side
from sessions.compare.engines import EnginesDiff, compare_engines
from sessions.compare.engines_text import lines, to_json
from sessions.export.jsonl import dumps

DEFAULT_TOKENS = 32
_MOST_BYTES = 1 << 30
"""Memory for one engine's whole vocabularies."""
_ENGINE = "--engine"
_SHARED = (
    *("prompt", "prompt_flag", "file", "chat", "raw", "system"),
    *("format", "max_tokens", "exact"),
)
"""Options that are not those of one engine."""


@dataclass(frozen=True, eq=False)
class Part:
    """One engine's records of the text."""

    facts: ModelFacts
    prompt: PromptRecord
    steps: tuple[StepRecord, ...]
    dense: Mapping[int, FloatArray]
    untold: str = ""
    """The reason for which whole vectors are missing."""

    def side(self, label: str) -> Side:
        """The part as a side to compare."""
        find: Callable[[int], FloatArray | None] = self.dense.get
        return Side(label, self.steps, self.facts, self.prompt, None, find)


def engine_commands(
    words: Sequence[str], parser: Callable[[], argparse.ArgumentParser]
) -> tuple[argparse.Namespace, tuple[Open, Open]]:
    """The options of both, and the command that opens each engine. Raises UsageError.

    ``--engine`` begins the options of one engine; what stands before the first counts for both.
    """
    starts = [at for at, word in enumerate(words) if word.partition("=")[0] == _ENGINE]
    if len(starts) != 2:
        raise UsageError(
            "diff-engines takes two engines, each with its own options behind it: "
            'llm-inspect diff-engines "PROMPT" --engine hf --engine llamacpp'
        )
    first, second = starts
    common = words[:first]
    groups = (words[first:second], words[second:])
    made = parser()
    args, other = (made.parse_args([*common, *group]) for group in groups)
    opens = open_command(args, load_config(args)), open_command(other, load_config(other))
    for name in _SHARED:
        # They may stand behind either engine.
        if getattr(args, name) == made.get_default(name):
            setattr(args, name, getattr(other, name))
    return args, opens


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options beside those of the prompt."""
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--max-tokens",
        type=number("max_tokens"),
        default=DEFAULT_TOKENS,
        metavar="N",
        help="default %(default)s",
    )
    parser.add_argument(
        "--exact",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare whole vocabularies where the engines tell them (default), or the leading "
        "candidates alone, which is faster",
    )
    add_model_options(parser)


def diff_engines(args: argparse.Namespace, submit: Submit, opens: tuple[Open, Open]) -> int:
    """Run both engines on the prompt and print the comparison."""
    try:
        a = _part(opens[0], submit, args.max_tokens, exact=args.exact)
        ids = tuple(step.token.id for step in a.steps)
        b = _part(opens[1], submit, args.max_tokens, exact=args.exact, force=ids, prompt=a.prompt)
    except EngineFailedError as error:
        print(f"llm-inspect: {visible(str(error))}", file=sys.stderr)
        return EXIT_ENGINE
    except UnlikeError as error:
        print(f"llm-inspect: {visible(str(error))}", file=sys.stderr)
        return EXIT_CHECK
    for opening, part in zip(opens, (a, b), strict=True):
        if part.untold:
            why = f"{opening.backend} does not tell whole vocabularies, so figures are bounds"
            print(f"llm-inspect: {visible(f'{why}: {part.untold}')}", file=sys.stderr)
    found = compare_engines(a.side(_label(opens[0], a)), b.side(_label(opens[1], b)))
    _print(found, args.format)
    return EXIT_OK


class UnlikeError(Exception):
    """The engines cannot be compared on this text; one line says why."""


def _part(
    opening: Open,
    submit: Submit,
    tokens: int,
    *,
    exact: bool,
    force: tuple[int, ...] = (),
    prompt: PromptRecord | None = None,
) -> Part:
    """Run one engine: the likeliest tokens, or ``force``, behind the prompt that they follow."""
    client = connect()
    try:
        answers = Answers(client, Progress(sys.stderr))
        facts = answers.ask(opening, ModelFacts)
        if exact and 4 * facts.vocab_size * tokens > _MOST_BYTES:
            raise UsageError(
                f"whole vocabularies of {tokens:,} tokens are more than "
                f"{_MOST_BYTES >> 30} GiB: fewer --max-tokens, or --no-exact"
            )
        # The likeliest token, but not by temperature 0, at which an engine may go on ahead: one
        # that writes would then be faster than one that reads.
        likeliest = {"temperature": 1.0, "top_k": 1, "top_p": 1.0}
        answers.tell(Configure(preset="guide", dials=likeliest, max_tokens=tokens))
        read = answers.ask(submit, PromptRecord)
        if prompt is not None:
            check_prompts(prompt, read)
        asked: Command = Step(ROOT, force=force) if force else Run(ROOT, count=tokens)
        for _ in answers.carried_out(asked):
            pass
        log = answers.log
        steps = tuple(log.path(max(log.nodes, default=ROOT)))
        dense: dict[int, FloatArray] = {}
        untold = ""
        for step in steps if exact else ():
            try:
                dense[step.node] = answers.ask(SendLogits(step.node), DenseLogits).logits
            except EngineFailedError as error:
                untold = str(error)
                break
        return Part(facts, read, steps, dense, untold)
    finally:
        client.close()


def check_prompts(prompt: PromptRecord, read: PromptRecord) -> None:
    """Check that two engines read the prompt as the same tokens. Raises UnlikeError."""
    for at, (one, other) in enumerate(zip(prompt.tokens, read.tokens, strict=False)):
        if one.id != other.id:
            names = [quote(token.bytes.decode("utf-8", "replace"), 20) for token in (one, other)]
            raise UnlikeError(
                f"the engines read the prompt as other tokens: at position {at} {names[0]} "
                f"(id {one.id}) and {names[1]} (id {other.id}); are they of one model?"
            )
    if len(prompt.tokens) != len(read.tokens):
        raise UnlikeError(
            f"the engines read the prompt as {len(prompt.tokens):,} and {len(read.tokens):,} "
            "tokens; are they of one model?"
        )


def _label(opening: Open, part: Part) -> str:
    where = opening.options.get("url")
    return f"{opening.backend}: {part.facts.name}{f' at {where}' if where else ''}"


def _print(found: EnginesDiff, form: str) -> None:
    if form == "json":
        print(dumps(to_json(found)))
        return
    for line in lines(found):
        print(visible(line))
