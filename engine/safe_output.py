"""Standard output and error that pass nothing a terminal acts on, and can write every character."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO

from engine.text import safe

_ERRORS = "llm-inspect.look-alike"
"""The name of the codec error handler for characters that an encoding lacks."""

_BLANK_BRAILLE = 0x2800
_LOOK_ALIKES = str.maketrans(
    {
        # Charts, by what they are made of; then lines, bars and marks one by one.
        **dict.fromkeys(map(chr, range(0x2500, 0x2580)), "+"),  # corners and crossings
        **dict.fromkeys(map(chr, range(0x2580, 0x25A0)), "#"),  # blocks
        **dict.fromkeys(map(chr, range(_BLANK_BRAILLE, 0x2900)), "."),
        chr(_BLANK_BRAILLE): " ",
        **dict.fromkeys("─━═╌╍┄┅┈┉╴╶╸╺–—−‐‑", "-"),
        **dict.fromkeys("│┃║╎╏┆┇┊┋╵╷╹╻▏▎▍▌▐▕‖▮", "|"),
        **dict.fromkeys("░▒·⋅•◌", "."),
        **dict.fromkeys("●○◉■□◆◇✓", "*"),
        **dict.fromkeys("×✗✂", "x"),
        **dict.fromkeys("→⇥▸▶≥", ">"),
        **dict.fromkeys("←◂◀≤", "<"),
        **dict.fromkeys("↑▲", "^"),
        **dict.fromkeys("↓▼", "v"),
        **dict.fromkeys("“”„", '"'),
        **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("…≈", "~"),
        **dict(zip("ƒµΔχ≠∅∞⏎↻", "fuDx!0o\\@", strict=True)),
        **{chr(0x2400 + code): "^" for code in (*range(0x20), 0x21)},  # control pictures
    }
)
"""Signs that this program draws with, each as one of ASCII of the same width."""


def _look_alike(error: UnicodeError) -> tuple[str, int]:
    """The codec error handler: our own signs by look-alikes, other characters by their numbers."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = error.object[error.start : error.end].translate(_LOOK_ALIKES)
    return "".join(one if one.isascii() else f"<U+{ord(one):04X}>" for one in shown), error.end


codecs.register_error(_ERRORS, _look_alike)


class SafeStream(io.TextIOBase):
    """A text stream that makes visible what would act on a terminal; newlines and tabs pass.

    Only ``stream``, the one below, lets our own colours and cursor movements through.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, /) -> int:
        self.stream.write(safe(text))
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        # What libraries may ask of a stream besides, such as its name or its buffer.
        if name == "stream":
            raise AttributeError(name)
        return getattr(self.stream, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.stream.errors


def unguarded(stream: TextIO) -> TextIO:
    """The stream below, for our own control sequences: text goes through ``safe`` before it."""
    return stream.stream if isinstance(stream, SafeStream) else stream


@contextmanager
def _encodes_all(stream: TextIO) -> Iterator[None]:
    """Have ``stream`` replace what its encoding lacks, unless it does so in a way of its own."""
    if not isinstance(stream, io.TextIOWrapper) or stream.errors not in (
        "strict",
        "surrogateescape",  # Python's own choice in the C locale; it writes raw bytes
        "backslashreplace",  # ... and for standard error
    ):
        yield
        return
    before = stream.errors
    stream.reconfigure(errors=_ERRORS)
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # it is closed, or nobody reads it any more
            stream.reconfigure(errors=before)


@contextmanager
def safe_output() -> Iterator[None]:
    """Guard ``sys.stdout`` and ``sys.stderr``, whoever prints there.

    What a library's compiled code writes to the file descriptors themselves does not pass here.
    """
    before = sys.stdout, sys.stderr
    with ExitStack() as stack:
        for stream in map(unguarded, before):
            stack.enter_context(_encodes_all(stream))
        sys.stdout, sys.stderr = (SafeStream(unguarded(one)) for one in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def discard_output() -> None:
    """Send what is still to be written nowhere, where the reader or the terminal has gone.

    Python would end with code 120 for what it cannot write, whatever code it was given.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
