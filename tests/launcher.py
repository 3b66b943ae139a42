"""``llm-inspect`` in processes of its own, as a shell starts it, less the seconds of its imports.

Half of a short run on a real model is the import of torch and transformers. The launcher imports
them once and forks itself for each command; its engine is forked in turn. Arguments, streams, exit
code, pipe and both processes are as ever. Tests of what is imported when, and one run of each kind,
start Python afresh instead.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.context import BaseContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Output of the command, and its exit code."""
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        with TemporaryDirectory(prefix="llm-inspect-tests-") as folder:
            print(json.dumps([folder, *words]), file=pipes.stdin, flush=True)
            code = int(pipes.stdout.readline())
            out, err = (Path(folder, name).read_text("utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(words, code, out, err)

    def close(self) -> None:
        self._process.communicate()


def _carry_out(folder: str, words: list[str]) -> int:
    """Carry out a command in this process, a fork, with streams of its own."""
    from inspector.cli import main as cli

    flags = os.O_WRONLY | os.O_CREAT
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(os.path.join(folder, "out"), flags), 1)
    os.dup2(os.open(os.path.join(folder, "err"), flags), 2)
    return cli.main(words)


def _serve() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    forks = multiprocessing.get_context("fork")

    def context(method: str | None = None) -> BaseContext:
        return forks

    replaced: Any = multiprocessing
    replaced.get_context = context
    for line in sys.stdin:
        folder, *words = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 70  # nothing that a command ends with
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
