"""Command-line options that several commands share, and the engine commands they stand for."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from engine.backends import BACKENDS, DEFAULT_ENGINE
from engine.commands import Configure, Open, SetBreakpoints, Submit
from engine.conditions.breakpoints import Breakpoints
from engine.conditions.condition import Condition, ConditionError
from engine.sampling.chain import DEFAULT_PRESET, PRESETS, SpecError, effective, parse_spec
from engine.sampling.stages import DIALS
from inspector.cli.config import Config, ConfigError
from inspector.cli.draft_options import add_draft_options, draft_settings
from inspector.cli.engine_options import add_engine_options, engine_options
from inspector.cli.kv_options import add_kv_options, kv_options
from inspector.cli.option_values import DTYPES, engine, number
from inspector.cli.server_options import add_server_options, check_server, server_options
from inspector.cli.think_options import add_think_options, think_settings
from inspector.state.request import Request, Save

DEFAULT_MAX_TOKENS = 256


class UsageError(Exception):
    """A command line that cannot be carried out; one line says what to write instead."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage in front."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # From Python 3.14 on its help has colours, and no control sequence passes our output.
        self.color = False

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what nobody knows is refused by the command that it was given to."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._of(found).refuse(unknown)
        return found

    def _of(self, found: argparse.Namespace) -> OneLineParser:
        """The parser of the command that was chosen."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                chosen = action.choices.get(getattr(found, action.dest) or "")
                if isinstance(chosen, OneLineParser):
                    return chosen
        return self

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise UsageError for words that no option or argument takes."""
        word, _, _ = unknown[0].partition("=")
        near = self._meant(word) if word.startswith("-") else ""
        if near:
            see = f" (see {self.prog} --help)" if " " in near else ""
            raise UsageError(f"unknown option {word}; did you mean {near}?{see}")
        self.error(f"unrecognized arguments: {' '.join(unknown)}")

    def _meant(self, word: str) -> str:
        """The option that is spelled much like ``word``, or has it as a value: ``--format html``.

        Empty where there is none.
        """
        named = {name: action for action in self._actions for name in action.option_strings}
        near = difflib.get_close_matches(word, named, 1, 0.8)
        if near:
            return near[0]
        value = word.lstrip("-")
        takes = (name for name, action in named.items() if value in (action.choices or ()))
        return next((f"{name} {value}" for name in takes if value), "")

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong is not None:
            known = re.findall(r"[\w-]+", wrong.group(2))
            near = difflib.get_close_matches(wrong.group(1), known, 1)
            message += f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{message} (see {self.prog} --help)")


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """Add the prompt and where it comes from."""
    parser.add_argument("prompt", nargs="?", help="the prompt; - reads standard input")
    parser.add_argument("-p", "--prompt", dest="prompt_flag", metavar="PROMPT", help="the prompt")
    parser.add_argument(
        "--file", metavar="F", help="read the prompt from a file, without its final newline"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--chat", action="store_true", help="apply the model's chat template")
    mode.add_argument("--raw", action="store_true", help="the prompt as it stands (default)")
    parser.add_argument("--system", metavar="TEXT", help="system message (needs --chat)")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for loading a model."""
    group = parser.add_argument_group("model")
    group.add_argument("--engine", type=engine, metavar="E", help=f"{', '.join(BACKENDS)}")
    group.add_argument("--model", metavar="M", help="hub id, folder or .gguf file")
    group.add_argument("--device", metavar="D", help="auto, cpu, cuda, cuda:1, mps")
    group.add_argument("--dtype", choices=DTYPES, help="default: the fastest here, timed once")
    group.add_argument("--threads", type=number("threads"), help="CPU threads")
    group.add_argument(
        "--trust-remote-code", action="store_true", default=None, help="run the model's own code"
    )
    add_kv_options(parser)
    add_engine_options(parser)
    add_server_options(parser)


def add_sampler_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options for sampling a whole run; ``several``: of more than one chain."""
    group = add_chain_options(parser, several=several)
    group.add_argument("--max-tokens", type=number("max_tokens"), metavar="N")
    group.add_argument("--prefill-chunk", type=number("prefill_chunk"), metavar="N")
    add_draft_options(parser)
    add_think_options(parser)


def add_chain_options(
    parser: argparse.ArgumentParser, *, several: bool = False
) -> argparse._ArgumentGroup:
    """Add the options for choosing one token, without those that only a run has.

    With ``several``, ``-s`` may be given more than once: ``samplers`` are all of them.
    """
    group = parser.add_argument_group("sampler")
    group.add_argument("--preset", metavar="P", help=f"{', '.join(PRESETS)}")
    takes = '"temperature=0.8 top_k=40", or with >'
    if several:
        again = f"{takes}; once for each column"
        group.add_argument(
            *("-s", "--sampler"),
            dest="samplers",
            action="append",
            default=[],
            metavar="SPEC",
            help=again,
        )
        parser.set_defaults(sampler="")
    else:
        group.add_argument("-s", "--sampler", default="", metavar="SPEC", help=takes)
    group.add_argument("--seed", type=number("seed"), metavar="N", help="default 0")
    for name, (_, dial) in DIALS.items():
        group.add_argument(
            f"--{name.replace('_', '-')}", dest=f"dial_{name}", metavar="X", help=dial.summary
        )
    return group


def add_break_options(parser: argparse.ArgumentParser, *, screen: bool = False) -> None:
    """Add breakpoints; ``screen`` for the inspector, which asserts nothing but can watch."""
    group = parser.add_argument_group("breakpoints", 'such as "entropy > 3 and margin < 0.1"')
    group.add_argument(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="EXPR",
        help="stop where it holds (may be given more than once)",
    )
    if screen:
        group.add_argument(
            "--watch", dest="watches", action="append", default=[], metavar="EXPR", help="show it"
        )
    else:
        group.add_argument(
            "--assert",
            dest="asserts",
            action="append",
            default=[],
            metavar="EXPR",
            help="fail where it does not hold",
        )


def add_save_options(parser: argparse.ArgumentParser, *, screen: bool = False) -> None:
    """Add options for saving; ``screen`` for the inspector, which saves runs unasked."""
    group = parser.add_argument_group("saving")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--save", metavar="FILE", help="keep the run in this session file")
    if screen:
        where.add_argument("--no-save", action="store_true", help="keep this run nowhere")
    group.add_argument(
        "--full-logits", action="store_true", help="keep every step's whole logits too"
    )


def has_prompt(args: argparse.Namespace) -> bool:
    """True if any prompt is given, be it an empty one."""
    return any(one is not None for one in (args.prompt, args.prompt_flag, args.file, args.system))


def request(args: argparse.Namespace, config: Config, *, submit: Submit | None = None) -> Request:
    """The engine commands that parsed arguments stand for; flags win over the file.

    ``submit`` is what stands for a prompt that is not given yet.

    Raises UsageError, and does so before anything heavy is started.
    """
    return Request(
        open_command(args, config),
        configure_command(args, config),
        submit or prompt_command(args),
        breakpoints_command(args),
        save_choice(args, config),
    )


def save_choice(args: argparse.Namespace, config: Config) -> Save:
    """Read the options for saving; refuse what can be seen to fail before anything is loaded."""
    name, full_logits = getattr(args, "save", None), getattr(args, "full_logits", False)
    auto = config.pick("autosave", False if getattr(args, "no_save", False) else None, True)
    if name is None:
        if full_logits and not auto:
            raise UsageError("--full-logits and --no-save: there is nothing to keep them in")
        return Save(None, full_logits, auto)
    path = Path(name)
    if path.exists():
        raise UsageError(f"--save {path}: it is there already; choose another name")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--save {path}: there is no folder {path.parent}; make it first")
    return Save(path, full_logits, auto)


def breakpoints_command(args: argparse.Namespace) -> SetBreakpoints:
    """The conditions of the command line, each checked."""
    points = Breakpoints()
    given = [("--break", text) for text in getattr(args, "breaks", ())]
    given += [("--assert", text) for text in getattr(args, "asserts", ())]
    watches = getattr(args, "watches", ())
    for flag, text in (*given, *(("--watch", text) for text in watches)):
        try:
            if flag == "--watch":
                Condition(text)
            else:
                points.add(text, asserts=flag == "--assert")
        except ConditionError as error:
            raise UsageError(f"{flag} {text!r}: {error}") from None
    return SetBreakpoints(tuple(points), tuple(watches))


def open_command(args: argparse.Namespace, config: Config) -> Open:
    """The command that loads the model."""
    try:
        kv = kv_options(args, config)
    except ValueError as error:
        raise UsageError(str(error)) from None
    values = {
        "model": config.pick("model", args.model),
        "device": config.pick("device", args.device, "auto"),
        "dtype": config.pick("dtype", args.dtype, "auto"),
        "threads": config.pick("threads", args.threads),
        "trust_remote_code": bool(args.trust_remote_code),
        **kv,
        **engine_options(args, config),
        **server_options(args, config),
    }
    name = config.pick("engine", args.engine, DEFAULT_ENGINE)
    try:
        check_server(name, values["url"])
    except ValueError as error:
        raise UsageError(str(error)) from None
    own = BACKENDS[name].options
    for option in values:
        if option not in own and getattr(args, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            takes = " ".join(f"--{one.replace('_', '-')}" for one in own) or "none"
            raise UsageError(f"{flag}: no option of the engine {name}, which takes {takes}")
    options = {own[option]: value for option, value in values.items() if option in own}
    if "max_tokens" in own:
        # It makes room for a run when it is opened.
        options["max_tokens"] = config.pick("max_tokens", getattr(args, "max_tokens", None))
    return Open(name, options)


def chain_choice(args: argparse.Namespace, config: Config) -> tuple[str, dict[str, Any]]:
    """(preset, dials beside the specification), checked as far as they can be without a model."""
    preset = config.pick("preset", args.preset, DEFAULT_PRESET)
    try:
        _, named = parse_spec(args.sampler, preset)
        dials = dials_beside(args, config, named, args.sampler)
        effective(preset, dials, spec=args.sampler)
    except SpecError as error:
        raise UsageError(str(error)) from None
    return preset, dials


def configure_command(args: argparse.Namespace, config: Config) -> Configure:
    """The sampler settings of a run."""
    preset, dials = chain_choice(args, config)
    try:
        draft, thinking = draft_settings(args, config), think_settings(args, config)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Configure(
        preset=preset,
        dials=dials,
        spec=args.sampler,
        draft=draft,
        seed=config.pick("seed", args.seed, 0),
        max_tokens=config.pick("max_tokens", args.max_tokens, DEFAULT_MAX_TOKENS),
        chunk=config.pick("prefill_chunk", args.prefill_chunk),
        thinking=thinking,
    )


def dials_beside(
    args: argparse.Namespace, config: Config, named: dict[str, Any], spec: str
) -> dict[str, Any]:
    """Dials given by their own flags, then those of the file that nothing else has set.

    ``named`` are those of ``spec``. Raises UsageError.
    """
    dials: dict[str, Any] = {}
    for name, (_, dial) in DIALS.items():
        text = getattr(args, f"dial_{name}")
        if text is not None:
            try:
                dials[name] = dial.parse(text)
            except ValueError as error:
                raise UsageError(f"--{name.replace('_', '-')}: {error}") from None
            if name in named:
                raise UsageError(f"{name} is given by a flag and in -s: choose one")
    for name, value in config.dials.items():
        if name not in dials and name not in named and ">" not in spec:
            dials[name] = value
    return dials


def prompt_command(args: argparse.Namespace) -> Submit:
    """The command that gives the prompt."""
    text = prompt_text(args)
    if args.system is not None and not args.chat:
        raise UsageError("--system needs --chat: only a chat template has a place for it")
    if not text and not args.chat:
        raise UsageError('the prompt is empty: llm-inspect "The capital of France is"')
    return Submit(text, chat=args.chat, system=args.system)


def prompt_text(args: argparse.Namespace) -> str:
    """The prompt from wherever it was given; exactly one place is allowed."""
    given = [(args.prompt, "PROMPT"), (args.prompt_flag, "-p"), (args.file, "--file")]
    there = [(value, name) for value, name in given if value is not None]
    if not there:
        raise UsageError('no prompt given: llm-inspect "The capital of France is" (or --file F)')
    if len(there) > 1:
        raise UsageError(f"the prompt is given twice: {there[0][1]} and {there[1][1]}")
    value, name = there[0]
    if name == "--file":
        return _without_newline(_read_file(Path(value)))
    if name == "PROMPT" and value == "-":
        return _without_newline(_decode(sys.stdin.buffer.read(), "standard input"))
    # Bytes of the command line that are not UTF-8 arrive as lone surrogates.
    return _decode(value.encode("utf-8", "surrogateescape"), "the prompt")


def _without_newline(text: str) -> str:
    """``text`` without the one newline that editors and ``echo`` put at its end.

    As llama.cpp does with ``-f``: it would be a token that nobody has typed.
    """
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _read_file(path: Path) -> str:
    try:
        return _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 (byte {error.start})") from None


def load_config(args: argparse.Namespace) -> Config:
    """The configuration file named by ``--config``, or the user's own where it exists."""
    try:
        return Config.load(Path(args.config) if args.config else None)
    except ConfigError as error:
        raise UsageError(str(error)) from None
