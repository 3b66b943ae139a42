"""``llm-inspect sessions`` and ``replay``: their options, and which function each one means."""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from engine.commands import Configure, Open, Submit
from engine.text import visible
from inspector.cli.config import Config
from inspector.cli.options import (
    OneLineParser,
    UsageError,
    add_break_options,
    add_model_options,
    add_save_options,
    breakpoints_command,
    load_config,
    open_command,
    save_choice,
)
from inspector.cli.terminal import is_terminal, require_terminal, run_in_terminal
from inspector.cli.web.options import add_web_options, check_web_options, web_server
from inspector.state.request import Request
from sessions import Session, SessionError, open_session
from sessions.examples import EXAMPLES, example
from sessions.export.formats import FORMS
from sessions.file.format import SUFFIX
from sessions.library import Library

_FORMS = ("text", "json")


def replay(parser: OneLineParser, words: Sequence[str]) -> int:
    """``llm-inspect replay FILE``."""
    parser.add_argument("file", help="a session file, a session's name, or an example's")
    parser.add_argument(
        "--end", action="store_true", help="begin at the end of the run, not at its prompt"
    )
    parser.add_argument(
        "--speed", type=_speed, metavar="X", help="c plays the run X times as fast as it was"
    )
    parser.add_argument(
        "--no-stream", action="store_true", help="with --speed: all text when the last token came"
    )
    args = _replay_options(parser).parse_args(words)
    if args.no_stream and args.speed is None:
        raise UsageError("--no-stream needs --speed: --speed 1 plays the run at its own tempo")
    return _replayed(args, words)


def tour(parser: OneLineParser, words: Sequence[str]) -> int:
    """``llm-inspect tour``: a recorded example with a guide."""
    parser.set_defaults(file="tour", speed=None, no_stream=False, end=False)
    return _replayed(_replay_options(parser).parse_args(words), words, tour=True)


def _replay_options(parser: OneLineParser) -> OneLineParser:
    parser.add_argument("--live", action="store_true", help="attach the model, and go on with it")
    parser.add_argument("--theme", metavar="T", help="a theme's name, or a .toml file")
    add_web_options(parser)
    add_model_options(parser)
    add_break_options(parser, screen=True)
    add_save_options(parser, screen=True)
    return parser


def _replayed(args: argparse.Namespace, words: Sequence[str], *, tour: bool = False) -> int:
    check_web_options(args)
    if not args.live and (args.save or args.full_logits):
        raise UsageError("--save and --full-logits need --live: a recording is kept already")
    config = load_config(args)
    if args.web and not args.tab:
        return _served(args, words, tour=tour)
    from inspector.cli.open import Opener

    # Checking a long session takes as long as importing the screen: one core for each.
    importing = threading.Thread(target=import_module, args=("inspector.app",), daemon=True)
    importing.start()
    try:
        session = open_session(example("tour") if tour else find(args.file))
        asked = replay_request(args, config, session)
        if not args.tab:
            require_terminal("tour" if tour else "replay", "llm-inspect sessions show FILE")
        # Two threads that import what imports itself in a circle find half of it.
        importing.join()
        from inspector.actions.player import Playing

        opener = Opener(asked, config, config.pick("theme", args.theme))
        playing = Playing(args.speed, streaming=not args.no_stream)
        how = {"live": args.live, "tour": tour, "read_only": args.tab, "at_end": args.end}
        return opener.run(opener.replay(session, playing=playing, **how), in_tab=args.tab)
    except SessionError as error:
        raise UsageError(str(error)) from None


def _served(args: argparse.Namespace, words: Sequence[str], *, tour: bool) -> int:
    """Have browsers show what the same words show in a terminal, once it is known to be there."""
    serve = web_server()
    try:
        path = example("tour") if tour else find(args.file)
        open_session(path).close()
    except SessionError as error:
        raise UsageError(str(error)) from None
    return serve(["tour" if tour else "replay", *words], path.stem, args.port)


def replay_request(args: argparse.Namespace, config: Config, session: Session | None) -> Request:
    """The request that goes on with a session; its settings and prompt follow when it is opened."""
    return Request(
        live_open(args, config, session),
        Configure(),
        Submit(""),
        breakpoints_command(args),
        save_choice(args, config),
    )


def live_open(args: argparse.Namespace, config: Config, session: Session | None) -> Open:
    """The model to attach: as it was when recorded, unless something else is asked for."""
    command = open_command(args, config)
    facts = session.facts if session is not None else None
    if facts is None:
        return command
    options, kept = dict(command.options), facts.kv_storage
    if args.dtype is None and options.get("dtype") == "auto":
        options["dtype"] = facts.dtype
    if kept is not None and "cache" in options and args.cache is None and args.kv_dtype is None:
        options["cache"] = kept.cached
        options["kv_dtype"] = "int8" if kept.dtype == "int8" else "auto"
    return replace(command, options=options)


def _speed(text: str) -> float:
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes a number, not {text!r}") from None
    if not 0.0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return value


def sessions(parser: OneLineParser, words: Sequence[str]) -> int:
    """``llm-inspect sessions``; without a further word, the browser."""
    _subcommands(parser)
    args = parser.parse_args(words)
    from inspector.cli import sessions_print

    library = Library()
    try:
        match args.act:
            case "list":
                return sessions_print.show_list(library, args.search, args.format)
            case "show":
                return sessions_print.show(find(args.file, library), args.format)
            case "diff":
                files = find(args.a, library), find(args.b, library)
                return sessions_print.show_diff(files, (args.tip_a, args.tip_b), args.format)
            case "export":
                source = find(args.file, library)
                return sessions_print.export(source, args.out, args.form, args.tip, args.force)
            case "check":
                path = find(args.file, library)
                if not args.live:
                    return sessions_print.check(path, args.format)
                config = load_config(args)
                with open_session(path) as session:
                    command = live_open(args, config, session)
                    return sessions_print.check_live(session, command, args.format)
            case "rename":
                print(visible(str(library.rename(find(args.file, library), args.name))))
            case "delete":
                deleted = library.delete(find(args.file, library))
                print(f"in the trash for 30 days: {visible(str(deleted.path))}")
            case _:
                return _browse(args, library)
    except SessionError as error:
        raise UsageError(str(error)) from None
    return 0


def _subcommands(parser: OneLineParser) -> None:
    acts = parser.add_subparsers(dest="act", metavar="what", title="what to do")

    def act(name: str, summary: str, *arguments: str, form: bool = True) -> argparse.ArgumentParser:
        made = acts.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        for argument in arguments:
            made.add_argument(argument)
        if form:
            made.add_argument("--format", choices=_FORMS, default="text")
        return made

    listing = act("list", "all sessions, the newest first")
    listing.add_argument("--search", default="", metavar="WORDS", help="in names and texts")
    act("show", "what a session holds", "file")
    compared = act("diff", "what differs between two sessions, or two branches of one", "a", "b")
    for side in "ab":
        compared.add_argument(
            f"--tip-{side}", type=int, metavar="NODE", help="the last node of the branch"
        )
    exported = act("export", "as HTML, Markdown, JSONL or CSV", "file", form=False)
    exported.add_argument("-o", "--out", default="-", metavar="OUT", help="- is standard output")
    exported.add_argument("--format", dest="form", choices=tuple(FORMS))
    exported.add_argument("--tip", type=int, metavar="NODE", help="the last node of the branch")
    exported.add_argument("--force", action="store_true", help="replace a file that is there")
    checked = act("check", "is the file whole; with --live, is the run reproduced", "file")
    checked.add_argument("--live", action="store_true", help="run it again, token by token")
    add_model_options(checked)
    act("rename", "give a session another name", "file", "name", form=False)
    act("delete", "put a session into the trash", "file", form=False)


def _browse(args: argparse.Namespace, library: Library) -> int:
    if not is_terminal():
        from inspector.cli.sessions_print import show_list

        return show_list(library, "", "text")
    from inspector.browser import Browser
    from inspector.cli.open import Opener, theme_name

    config = load_config(args)
    theme = config.pick("theme", None)
    browser = Browser(library, theme_name(theme))
    path: Path | None = run_in_terminal(browser)
    if path is None:
        return browser.return_code or 0
    asked = Request(Open(), Configure(), Submit(""))
    return Opener(asked, config, theme).open(path)


def find(name: str, library: Library | None = None) -> Path:
    """A session by its path, by its name in the library, or one of the examples.

    Raises SessionError where there is none.
    """
    path = Path(name)
    if path.exists():
        return path
    if os.sep in name:
        raise SessionError(f"there is no file {name}: see `llm-inspect sessions list`")
    library = library or Library()
    for folder in (library.folder, library.autosaves):
        kept = folder / f"{name.removesuffix(SUFFIX)}{SUFFIX}"
        if kept.exists():
            return kept
    if name not in EXAMPLES:
        raise SessionError(f"there is no session {name}: see `llm-inspect sessions list`")
    return example(name)
