"""Chat templates, rendered under limits of time, memory and size in a process that can be ended.

The process is started with the first prompt that needs a template (about a tenth of a second, no
torch), stays for the next ones, and ends with the engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 4_000_000
"""Of one rendered text; the longest context of today's models is less."""
LARGEST_TEMPLATE = 1_000_000
"""Characters of a template; the longest known one has some 20,000."""
SECONDS = 2
"""Processor time for one prompt; templates of models take a thousandth."""
_WALL_SECONDS = 120.0
"""For a machine that is too busy to give it that time."""
_MEMORY = 512 << 20

_TOO_MUCH = {
    "size": f"it writes more than {MOST_CHARACTERS:,} characters",
    "memory": f"it takes more than {_MEMORY >> 20} MB of memory",
}


class TemplateError(Exception):
    """A chat template refuses what it was given, or goes beyond a limit; one line says which."""


class TemplateProcess:
    """The process that renders; started when it is first needed, and anew where it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """The text that a template makes of the variables. Raises TemplateError."""
        if len(template) > LARGEST_TEMPLATE:
            raise TemplateError(f"it has {len(template):,} characters, more than any template")
        request = {
            "template": template,
            "variables": variables,
            "most": MOST_CHARACTERS,
            "seconds": SECONDS,
            "memory": _MEMORY,
        }
        answer = self._ask(json.dumps(request, default=str).encode("ascii") + b"\n")
        if "text" in answer:
            return str(answer["text"])
        if "limit" in answer:
            raise TemplateError(_TOO_MUCH[answer["limit"]])
        raise TemplateError(str(answer["refused"]))

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(self, line: bytes) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        # Ending the process is what ends the waiting for its answer.
        timer = threading.Timer(_WALL_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            found = process.stdout.readline()
        except OSError:
            found = b""
        finally:
            timer.cancel()
        if not found.endswith(b"\n"):
            self.close()
            raise TemplateError(f"it did not end within {SECONDS} s and was stopped")
        answer: dict[str, Any] = json.loads(found)
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            script = Path(__file__).with_name("template_child.py")
            self._process = subprocess.Popen(
                # -P: the modules beside the script are not for import by their short names.
                [sys.executable, "-P", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


_PROCESS = TemplateProcess()


def render(template: str, variables: Mapping[str, Any]) -> str:
    """Render a chat template in the engine's one process for it; see ``TemplateProcess.render``."""
    return _PROCESS.render(template, variables)
