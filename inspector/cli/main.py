"""The command line: which command is meant, and one clear line for everything that goes wrong.

Nothing heavy is imported until a command needs it: the first screen must be up at once.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import traceback
from collections.abc import Callable, Sequence

from engine.commands import Submit
from engine.records.measured import RIVALS
from engine.safe_output import discard_output, safe_output
from engine.text import visible
from inspector.cli.option_values import positive
from inspector.cli.options import (
    OneLineParser,
    UsageError,
    add_break_options,
    add_chain_options,
    add_model_options,
    add_prompt_options,
    add_sampler_options,
    add_save_options,
    has_prompt,
    load_config,
    open_command,
    prompt_command,
    request,
)
from inspector.exit_codes import EXIT_ENGINE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from inspector.signals import Signalled, raising

PROGRAM = "llm-inspect"
Handler = Callable[[Sequence[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``llm-inspect`` with ``argv`` (default: the process's own) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    name = words[0] if words else ""
    handler = COMMANDS[name][0] if name in COMMANDS else _inspect
    with safe_output():
        return _guarded(lambda: handler(words[1:] if name in COMMANDS else words), debug)


def _guarded(work: Callable[[], int], debug: bool) -> int:
    """The exit code of ``work``, with one line on standard error for what went wrong."""
    try:
        with raising():
            code = work()
            sys.stdout.flush()
            return code
    except Signalled as ended:
        return ended.exit_code
    except UsageError as error:
        print(f"{PROGRAM}: {visible(str(error))}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone.
        discard_output()
        return EXIT_INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            what = visible(f"{type(error).__name__}: {error}")
            print(f"{PROGRAM}: {what} (--debug shows more)", file=sys.stderr)
        return EXIT_ENGINE


def _inspect(words: Sequence[str]) -> int:
    parser = _parser(PROGRAM, _main_help())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("--theme", metavar="T", help="a theme's name, or a .toml file")
    add_prompt_options(parser)
    add_model_options(parser)
    add_sampler_options(parser)
    add_break_options(parser, screen=True)
    add_save_options(parser, screen=True)
    args, unknown = parser.parse_known_args(words)
    if unknown and not any(word.startswith("-") for word in unknown):
        raise UsageError(_several_words(args.prompt, unknown))
    if unknown:
        parser.refuse(unknown)
    if args.version:
        print(f"{PROGRAM} {_version()}")
        return EXIT_OK
    config = load_config(args)
    from inspector.cli.terminal import is_terminal

    starts = not has_prompt(args) and is_terminal()
    asked = request(args, config, submit=Submit("", chat=args.chat) if starts else None)
    from inspector.cli.open import open_inspector

    return open_inspector(asked, config, theme=config.pick("theme", args.theme), starts=starts)


def _several_words(first: str, more: Sequence[str]) -> str:
    """Answer to words that follow the prompt: a command misspelled, or no quotes."""
    near = difflib.get_close_matches(first, COMMANDS, 1)
    if near:
        return f"there is no command {first}; did you mean {near[0]}? (see {PROGRAM} --help)"
    prompt = " ".join((first, *more))
    return f'a prompt of several words stands in quotes: {PROGRAM} "{prompt}"'


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("llm-inspect-tui")
    except PackageNotFoundError:
        return "(not installed: run from its source tree)"


def _run(words: Sequence[str]) -> int:
    parser = _parser(f"{PROGRAM} run", "The same engine without a screen.")
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="text has control characters in visible forms, jsonl the exact bytes of each token",
    )
    add_prompt_options(parser)
    add_model_options(parser)
    add_sampler_options(parser)
    add_break_options(parser)
    add_save_options(parser)
    args = parser.parse_args(words)
    if args.full_logits and not args.save:
        raise UsageError("--full-logits needs --save FILE: that is where they are kept")
    asked = request(args, load_config(args))
    from inspector.cli.run import run

    return run(asked, args.format)


def _replay(words: Sequence[str]) -> int:
    from inspector.cli.sessions import replay

    return replay(_parser(f"{PROGRAM} replay", "A saved session, on the same screen."), words)


def _tour(words: Sequence[str]) -> int:
    from inspector.cli.sessions import tour

    return tour(_parser(f"{PROGRAM} tour", "A guided tour of a recorded run."), words)


def _sessions(words: Sequence[str]) -> int:
    from inspector.cli.sessions import sessions

    return sessions(_parser(f"{PROGRAM} sessions", "The saved sessions."), words)


def _sample(words: Sequence[str]) -> int:
    from inspector.cli.against import FLAG

    if any(word.partition("=")[0] == FLAG for word in words):
        return _against(words)
    from inspector.cli.sample import DEFAULT_TOP, sample
    from inspector.cli.sample_input import add_input_options

    parser = _parser(f"{PROGRAM} sample", "A vector of logits through the sampler, stage by stage.")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--top", type=positive, default=DEFAULT_TOP, metavar="N", help="candidates to show"
    )
    add_input_options(parser)
    add_chain_options(parser)
    args = parser.parse_args(words)
    return sample(args, load_config(args))


def _against(words: Sequence[str]) -> int:
    from inspector.cli.against import FLAG, STACKS, against

    parser = _parser(f"{PROGRAM} sample", "Our preset of a stack against the stack's own sampler.")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(FLAG, dest="stack", choices=STACKS, required=True, help="the stack")
    add_prompt_options(parser)
    add_model_options(parser)
    add_chain_options(parser)
    args = parser.parse_args(words)
    config, args.engine = load_config(args), args.stack
    return against(args, config, open_command(args, config), prompt_command(args))


def _bench(words: Sequence[str]) -> int:
    from inspector.cli.bench import DEFAULT_TOKENS, LEAST_TOKENS, bench
    from inspector.cli.bench_lossless import (
        DEFAULT_DRAWS,
        add_lossless_options,
        lossless,
        lossless_draft,
    )
    from inspector.cli.bench_sweep import add_sweep_options, sweep, sweep_plan

    parser = _parser(f"{PROGRAM} bench", "This machine's ceilings, and the engine's speed.")
    parser.add_argument("--format", choices=("text", "json", "md"), default="text")
    parser.add_argument(
        "--tokens", type=positive, default=DEFAULT_TOKENS, metavar="N", help="tokens to decode"
    )
    parser.add_argument(
        "--vs", choices=RIVALS, help="take turns with transformers' generate(), or with llama.cpp"
    )
    add_sweep_options(parser)
    add_lossless_options(parser)
    add_model_options(parser)
    args = parser.parse_args(words)
    if args.tokens < LEAST_TOKENS:
        raise UsageError(f"--tokens must be {LEAST_TOKENS} or more: fewer have no speed")
    config = load_config(args)
    command, draft, plan = (
        open_command(args, config),
        lossless_draft(args, config),
        sweep_plan(args),
    )
    if plan is not None:
        return sweep(command, plan, args.format)
    if draft is not None:
        return lossless(command, draft, draws=args.draws or DEFAULT_DRAWS, form=args.format)
    return bench(command, tokens=args.tokens, rival=args.vs, form=args.format)


def _napkin(words: Sequence[str]) -> int:
    from inspector.cli.napkin import add_napkin_options, napkin

    parser = _parser(f"{PROGRAM} napkin", "What another model costs on another machine.")
    add_napkin_options(parser)
    return napkin(parser.parse_args(words))


def _shapes(words: Sequence[str]) -> int:
    from inspector.cli.shapes import add_shapes_options, shapes

    parser = _parser(f"{PROGRAM} shapes", "Four shapes of request: where each one's time goes.")
    add_shapes_options(parser)
    add_model_options(parser)
    args = parser.parse_args(words)
    config = load_config(args)
    args.theme = config.pick("theme", args.theme)
    return shapes(open_command(args, config), args)


def _doctor(words: Sequence[str]) -> int:
    parser = _parser(f"{PROGRAM} doctor", "What is installed, and what it can do here.")
    parser.add_argument("--no-load", action="store_true", help="do not load the model")
    add_model_options(parser)
    args = parser.parse_args(words)
    from inspector.cli.doctor import doctor

    return doctor(open_command(args, load_config(args)), load=not args.no_load)


def _diff_engines(words: Sequence[str]) -> int:
    from inspector.cli.diff_engines import add_options, diff_engines, engine_commands

    def parser() -> OneLineParser:
        found = _parser(f"{PROGRAM} diff-engines", "One text through two engines, token by token.")
        add_prompt_options(found)
        add_options(found)
        return found

    if {"-h", "--help"} & set(words):
        parser().parse_args(["--help"])
    args, opens = engine_commands(words, parser)
    return diff_engines(args, prompt_command(args), opens)


def _compare(words: Sequence[str]) -> int:
    from inspector.cli.compare_command import compare_command

    return compare_command(
        _parser(f"{PROGRAM} compare", "Columns of one prompt, side by side."), words
    )


COMMANDS: dict[str, tuple[Handler, str]] = {
    "run": (_run, "the same engine without a screen: text, or one JSON object a step"),
    "tour": (_tour, "what happens when a model writes, stop by stop; needs no model"),
    "replay": (_replay, "open a saved session; needs no model"),
    "sessions": (_sessions, "browse, list, show, diff, export and check saved sessions"),
    "compare": (_compare, "settings, seeds or stacks side by side, decoded in shared passes"),
    "sample": (_sample, "the sampler's ladder on a vector of logits from a file"),
    "bench": (_bench, "this machine's ceilings, the engine's speed against them"),
    "diff-engines": (_diff_engines, "one text through two engines: how far apart they are"),
    "shapes": (_shapes, "four shapes of request on the model, where each one's time and bill go"),
    "napkin": (_napkin, "bytes, ceilings and batch of another model on another machine"),
    "doctor": (_doctor, "what is installed, which device, what the terminal can do"),
}


def _parser(prog: str, description: str) -> OneLineParser:
    parser = OneLineParser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("--config", metavar="F", help="configuration file")
    return parser


def _main_help() -> str:
    lines = [
        "A debugger for text generation: runs a language model one forward pass at a time.",
        "",
        "other commands:",
        *(f"  {PROGRAM} {name:<12} {summary}" for name, (_, summary) in COMMANDS.items()),
    ]
    return "\n".join(lines)
