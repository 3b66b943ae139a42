"""``llm-inspect`` in processes of its own, as a shell starts it, less the seconds of its imports.

Most of a short run on a real model is the import of torch and transformers, and reading the
weights. The launcher does both once and forks itself for each command; its engine is forked in
turn. Arguments, streams, exit code, pipe and both processes are as ever. Tests of what is imported
when, and one run of each kind, start Python afresh instead.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from multiprocessing.context import BaseContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.progress import Progress
from tests.folders import ROOT

PRELOADED = (
    "engine.server_process",
    "engine.backends.hf.backend",
    "inspector.cli.run",
    "transformers.models.llama.modeling_llama",
    "transformers.models.llama.tokenization_llama",
    "transformers.generation",
)


class Launcher:
    """Runs ``llm-inspect`` with the given words, one command at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.launcher"],
            cwd=ROOT,
            # Threads do not outlive a fork.
            env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *words: str, given: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Output of the command, and its exit code. ``given``: what it reads from its input.

        ``environment``: variables beside those that there are.
        """
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        with TemporaryDirectory(prefix="llm-inspect-tests-") as folder:
            Path(folder, "in").write_text(given, "utf-8")
            asked = json.dumps([folder, dict(environment or {}), *words])
            print(asked, file=pipes.stdin, flush=True)
            code = int(pipes.stdout.readline())
            out, err = (Path(folder, name).read_text("utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(words, code, out, err)

    def close(self) -> None:
        self._process.communicate()


def _carry_out(folder: str, words: list[str]) -> int:
    """Carry out a command in this process, a fork, with streams of its own."""
    from inspector.cli import main as cli

    flags = os.O_WRONLY | os.O_CREAT
    os.dup2(os.open(os.path.join(folder, "in"), os.O_RDONLY), 0)
    os.dup2(os.open(os.path.join(folder, "out"), flags), 1)
    os.dup2(os.open(os.path.join(folder, "err"), flags), 2)
    return cli.main(words)


def _keep_loaded() -> Callable[[list[str]], None]:
    """Have forks find a model here that was loaded before; what loads that of a command's words."""
    from engine.models import resolve as models

    @functools.cache
    def loaded(folder: Path, dtype: str) -> tuple[Any, Any]:
        return load(models.resolve(str(folder)), dtype, "cpu")

    load, kept = models.load, set[tuple[Path, str]]()

    def look(resolved: Any, dtype: str, device: str, **others: Any) -> tuple[Any, Any]:
        if (resolved.path, dtype) in kept and device == "cpu":
            return loaded(resolved.path, dtype)
        return load(resolved, dtype, device, **others)

    def keep(words: list[str]) -> None:
        given = dict(pairwise(words))
        if "--model" in given and "--dtype" in given:
            which = Path(given["--model"]), given["--dtype"]
            loaded(*which)
            kept.add(which)

    models.load = look
    return keep


def _keep_opened() -> Callable[[list[str]], None]:
    """Have forks find the backend here that ``run`` with the same options has opened before."""
    from engine.backends.hf import load
    from engine.progress import silent
    from inspector.cli import options as cli
    from inspector.cli.config import Config

    parser = cli.OneLineParser(allow_abbrev=False)
    cli.add_prompt_options(parser)
    cli.add_model_options(parser)
    open_backend, kept = load.open_backend, dict[str, Any]()

    def look(options: Mapping[str, Any], progress: Progress) -> Any:
        return kept.get(repr(sorted(options.items()))) or open_backend(options, progress)

    def keep(words: list[str]) -> None:
        if words[0] != "run" or not {"--model", "--dtype"} <= {*words}:
            return
        known, _ = parser.parse_known_args(words[1:])
        options = dict(cli.open_command(known, Config()).options)
        name = repr(sorted(options.items()))
        if name not in kept:
            kept.clear()
            # What cannot be opened is the command's own to say.
            with contextlib.suppress(Exception):
                kept[name] = open_backend(options, silent)

    load.open_backend = look  # type: ignore[assignment]
    return keep


def _serve() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    keep, keep_opened = _keep_loaded(), _keep_opened()
    forks = multiprocessing.get_context("fork")

    def context(method: str | None = None) -> BaseContext:
        return forks

    replaced: Any = multiprocessing
    replaced.get_context = context
    for line in sys.stdin:
        folder, environment, *words = json.loads(line)
        keep(words)
        keep_opened(words)
        pid = os.fork()
        if pid == 0:
            code = 70  # nothing that a command ends with
            os.environ.update(environment)
            try:
                code = _carry_out(folder, words)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
