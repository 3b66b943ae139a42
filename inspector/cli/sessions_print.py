"""The output of ``llm-inspect sessions``: lists, one session, comparisons, exports and checks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.commands import Open
from engine.run.tree import ROOT
from engine.text import plural, visible
from inspector.cli.options import UsageError
from inspector.cli.own_prices import own_prices
from inspector.cli.run import Progress
from inspector.exit_codes import EXIT_CHECK, EXIT_ENGINE, EXIT_OK
from sessions import Session, SessionError, open_session, verify
from sessions.compare import text as diff_text
from sessions.compare.diff import diff, model_changes, side_of
from sessions.export.formats import FORMS, pieces, write
from sessions.export.jsonl import dumps, plain
from sessions.export.source import Source
from sessions.export.words import about, output_text, speeds
from sessions.file.live import is_being_written
from sessions.library import Library
from sessions.preview import Preview
from sessions.whole import read_everything

_NAME, _PROMPT = 44, 40
_BRANCHES = 20
"""Branches that are printed; of the others how many there are."""


def show_list(library: Library, words: str, form: str) -> int:
    """All sessions, or those that hold ``words``."""
    found = library.search(words) if words else library.previews()
    if form == "json":
        print(dumps({"sessions": [_preview_json(one) for one in found]}))
        return EXIT_OK
    if not found:
        where = f"no session in {visible(str(library.folder))}"
        print(f"{where} holds {words!r}" if words else where, file=sys.stderr)
    for one in found:
        print(_preview_line(one))
    return EXIT_OK


def _preview_line(one: Preview) -> str:
    when = datetime.fromtimestamp(one.modified).strftime("%Y-%m-%d %H:%M")
    name = visible(one.name)
    if one.error:
        return f"{name:<{_NAME}}  {'—':>6}  {when}  {visible(one.error)}"
    prompt = visible(one.prompt)
    short = prompt if len(prompt) <= _PROMPT else f"{prompt[: _PROMPT - 1]}…"
    left = f"  ({one.state})" if one.state else ""
    deleted = f"  ({one.deleted:,} deleted)" if one.deleted else ""
    return f"{name:<{_NAME}}  {one.steps:>6,}  {when}  {visible(one.model)}  {short}{deleted}{left}"


def _preview_json(one: Preview) -> dict[str, Any]:
    return {
        "name": plain(one.name),
        "path": plain(str(one.path)),
        "title": plain(one.title),
        "model": plain(one.model),
        "prompt": plain(one.prompt),
        "steps": one.steps,
        "deleted_steps": one.deleted,
        "bytes": one.size,
        "created": one.created,
        "closed": one.closed,
        "interrupted": one.interrupted,
        "error": plain(one.error) or None,
    }


def show(path: Path, form: str) -> int:
    """Print a session: its facts, and the text of every branch."""
    with open_session(path) as session:
        source = Source.of_session(session)
        facts = [*about(source), *speeds(source)]
        if session.closed is None:
            writing = is_being_written(path)
            facts.append(("file", "being written" if writing else "interrupted: never closed"))
        if session.told:
            facts.append(("recovered", session.told))
        tips = source.tips() if session.tips else []
        texts = [(tip, output_text(source.branch(tip))) for tip in tips[:_BRANCHES]]
        titles = {tip: source.branch_title(tip) for tip, _ in texts}
        left_out = len(tips) - len(texts)
        prompt = session.prompt.text if session.prompt else ""
        errors = [error.message for error in session.errors]
        if form == "json":
            line = {
                "path": plain(str(path)),
                "title": plain(session.title),
                "created": session.created,
                "closed": session.closed,
                "writer": plain(session.writer),
                "steps": len(session) - len(session.tree.deleted),
                "deleted_steps": len(session.tree.deleted),
                "full_logits": session.full_logits,
                "facts": {name: plain(value) for name, value in facts},
                "prompt": plain(prompt),
                "branches": [
                    {"tip": tip, "name": plain(source.name(tip)) or None, "text": plain(text)}
                    for tip, text in texts
                ],
                "branches_left_out": left_out,
                "errors": [plain(error) for error in errors],
            }
            print(dumps(line))
            return EXIT_OK
        print(visible(session.title or path.stem))
        width = max((len(name) for name, _ in facts), default=0)
        for name, value in facts:
            print(f"  {visible(name):<{width}}  {visible(value)}")
        print(f"\nprompt\n{_block(prompt)}")
        for tip, text in texts:
            print(f"\n{visible(titles[tip])}\n{_block(text)}")
        if left_out:
            print(f"\n{left_out:,} more branches; `sessions export` takes any with --tip NODE")
        for error in errors:
            print(f"\nerror: {visible(error)}")
    return EXIT_OK


def _block(text: str) -> str:
    return "\n".join(f"  {line}" for line in visible(text, newline="\n").splitlines())


def show_diff(files: tuple[Path, Path], tips: tuple[int | None, int | None], form: str) -> int:
    """Print the differences of two sessions, or two branches of one."""
    with open_session(files[0]) as a, open_session(files[1]) as b:
        for session, tip in zip((a, b), tips, strict=True):
            _require_node(session, tip)
        found = diff(side_of(a, tips[0]), side_of(b, tips[1]))
        if form == "json":
            print(dumps(diff_text.to_json(found)))
        else:
            print(*diff_text.lines(found), sep="\n")
    return EXIT_OK


def _require_node(session: Session, tip: int | None) -> None:
    if tip is None or (tip != ROOT and tip in session.tree):
        return
    ends = session.tips
    tips = ", ".join(str(node) for node in ends[:_BRANCHES])
    tips += f" and {len(ends) - _BRANCHES:,} more" if len(ends) > _BRANCHES else ""
    what = f"node {tip} was deleted" if tip in session.tree.deleted else f"there is no node {tip}"
    raise UsageError(f"{session.path}: {what}; its branches end at {tips}")


def export(path: Path, out: str, form: str | None, tip: int | None, force: bool) -> int:
    """Write a session in another form; ``-`` is standard output."""
    with open_session(path) as session:
        _require_node(session, tip)
        source = replace(Source.of_session(session, tip), prices=own_prices())
        if out != "-":
            write(source, out, form, overwrite=force)
            print(visible(out))
            return EXIT_OK
        if form is None:
            raise UsageError(f"give a file with -o, or --format {'|'.join(FORMS)}")
        # As in a file: UTF-8, whatever the terminal's encoding is.
        sys.stdout.flush()
        sys.stdout.buffer.writelines(piece.encode() for piece in pieces(source, form))
        sys.stdout.buffer.flush()
    return EXIT_OK


def check(path: Path, form: str) -> int:
    """Check that a file is whole: every page, every value, every step's candidates."""
    try:
        with open_session(path) as session:
            read_everything(session)
            count, branches = len(session), len(session.tips)
            deleted, told = len(session.tree.deleted), session.told
    except SessionError as error:
        _print_check(form, {"path": str(path), "whole": False, "error": str(error)}, [str(error)])
        return EXIT_CHECK
    fields = {"path": str(path), "whole": True, "steps": count, "branches": branches}
    fields |= {"deleted_steps": deleted, "recovered": told or None}
    gone = f" ({deleted:,} of the steps deleted)" if deleted else ""
    line = f"whole: {plural(count, 'step')}, {plural(branches, 'branch', 'branches')}{gone}"
    _print_check(form, fields, [line, told] if told else [line])
    return EXIT_OK


def _print_check(form: str, fields: dict[str, Any], lines: Iterable[str]) -> None:
    if form == "json":
        print(dumps({name: plain(value) for name, value in fields.items()}))
    else:
        for line in lines:
            print(visible(line))


def check_live(session: Session, command: Open, form: str) -> int:
    """Check that a run is reproduced: once more on the model, in this process, token by token."""
    # The only command whose own process loads a model: nobody waits at a screen for it.
    from functools import partial

    from engine.backends import open_backend
    from engine.backends.base import BackendError
    from engine.drafts.open import open_draft
    from engine.models.checks import ModelError
    from engine.run.checks import StepperError
    from engine.run.stepper import Stepper
    from engine.sampling.candidates import SamplingError

    progress = Progress(sys.stderr)
    try:
        backend = open_backend(command.backend, dict(command.options), progress.show)
        checks, count = [], len(session.path_nodes(session.tip))
        opened = partial(open_draft, target=backend, opened=command, progress=progress.show)
        for done in verify.checking(session, Stepper(backend), drafts=opened):
            checks.append(done)
            progress.show(
                "checking", len(checks) / count, f"{len(checks):,} of {plural(count, 'token')}"
            )
        progress.clear()
        changes = tuple(model_changes(session.facts, backend.facts))
        found = verify.Verification(session.path.name, changes, tuple(checks))
        backend.close()
    except (BackendError, ModelError, SamplingError, StepperError) as error:
        progress.clear()
        print(f"llm-inspect: {visible(str(error))}", file=sys.stderr)
        return EXIT_ENGINE
    if form == "json":
        print(dumps(verify.to_json(found)))
    else:
        print(*verify.lines(found), sep="\n")
    return EXIT_OK if found.reproduced else EXIT_CHECK
