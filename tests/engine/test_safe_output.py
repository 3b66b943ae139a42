"""The door at the edge: streams, consoles and painted lines let nothing through that acts."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual.color import TRANSPARENT

from engine.safe_output import SafeStream, safe_output, unguarded
from engine.text import safe, visible
from inspector.cli import main as cli
from inspector.cli.run import Progress
from inspector.safe_console import console
from inspector.safe_screen import SAFE_TEXT, SafeApp, fit
from tests.hostile import LONE, MARKER, acting, acting_apart_from_style

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


# ------------------------------------------------------------------------ one text


@given(any_text)
def test_nothing_that_acts_is_left(text: str) -> None:
    shown = safe(text)
    assert acting(shown) == ""
    shown.encode()
    assert visible(shown, newline="\n", tab="\t") == visible(text, newline="\n", tab="\t")


def test_every_character_that_acts_has_a_form_and_no_other_is_touched() -> None:
    for code in range(sys.maxunicode + 1):
        one = chr(code)
        expected = one
        if acting(one) or code in (0xFFFE, 0xFFFF):
            expected = visible(one)
        assert safe(one) == expected, hex(code)


@pytest.mark.parametrize("text", ["", "é 你 👩‍💻 ❤️ a\u00a0b", "lines\n\tand tabs", "می‌خواهم"])
def test_what_does_not_act_stays(text: str) -> None:
    assert safe(text) == text


def test_the_forms() -> None:
    assert safe("\x1b[0m\x07\x7f\x9b\u202e\ud800\r\n") == "␛[0m␇␡\\x9b<U+202E><U+D800>␍\n"
    assert safe("a\n\tb", newline="⏎", tab="⇥") == "a⏎⇥b"


# ------------------------------------------------------------------------- streams


class Tape(io.TextIOWrapper):
    """Standard output in an encoding; ``text`` is what was written."""

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        super().__init__(io.BytesIO(), encoding, errors, write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined, no-any-return]

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def taped(encoding: str = "utf-8", errors: str = "strict") -> Iterator[Tape]:
    """Standard output and error on one tape, guarded as the command line guards them."""
    tape = Tape(encoding, errors)
    with contextlib.redirect_stdout(tape), contextlib.redirect_stderr(tape), safe_output():
        yield tape


def test_whoever_prints_is_guarded() -> None:
    with taped() as tape:
        print(LONE)
        sys.stdout.writelines([LONE, "\n"])
        sys.stderr.write(LONE)
        assert sys.stdout.encoding == "utf-8"
        assert sys.stdout.isatty()
        assert sys.stdout.buffer is tape.buffer
    assert acting(tape.text) == ""
    assert tape.text.count("␛]52;c;evil") == 3


def test_streams_are_themselves_again() -> None:
    before = sys.stdout, sys.stderr
    with safe_output(), safe_output():
        assert isinstance(sys.stdout, SafeStream)
        assert unguarded(sys.stdout) is before[0]
    assert (sys.stdout, sys.stderr) == before


def test_styles_pass_and_text_does_not() -> None:
    with taped() as tape:
        out = console()
        out._color_system = None
        out.print(Text(MARKER))
        plain = tape.text
        out = console()
        out.print(Text("a", style="bold") + Text(LONE, style="red"), style="bold")
    assert acting(plain) == ""
    assert "\x1b[1" in tape.text
    assert acting_apart_from_style(tape.text) == ""


def test_the_last_words_of_an_app_that_fails_b8() -> None:
    """B8: the traceback that Textual prints, with what the error says."""

    class Failing(SafeApp[None]):
        def on_mount(self) -> None:
            raise RuntimeError(LONE)

    with taped() as tape:
        Failing().run(headless=True)
    assert ";c;evil␛" in tape.text
    assert acting_apart_from_style(tape.text) == ""


def test_progress_of_a_model_folder_whose_name_acts_b6() -> None:
    """B6: the bar's own control sequences are there, and none of the name's."""
    with taped() as tape:
        progress = Progress(sys.stderr)
        progress.show("load", 0.5, f"name\n{LONE}")
        progress.clear()
    assert tape.text.startswith("\r\x1b[Kload ")
    assert "name⏎␛]52;c;evil" in tape.text
    assert acting(tape.text.replace("\r\x1b[K", "")) == ""


# ------------------------------------------------------------------------ encodings


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_what_an_encoding_lacks_is_replaced_d5(errors: str) -> None:
    """D5: signs of ours by look-alikes of the same width, others by their numbers."""
    with taped("ascii", errors) as tape:
        print("─│…→ é 你 \udc9b")
    assert tape.text == "-|~> <U+00E9> <U+4F60> <U+DC9B>\n"
    assert tape.errors == errors


def test_look_alikes_are_as_wide_as_what_they_stand_for_d5() -> None:
    from engine.safe_output import _LOOK_ALIKES

    for code, shown in _LOOK_ALIKES.items():
        assert unicodedata.east_asian_width(chr(code)) not in "WF"
        assert cell_len(chr(code)) == len(shown) == 1


def test_a_choice_of_the_user_s_stays_d5() -> None:
    with taped("ascii", "xmlcharrefreplace") as tape:
        print("é")
    assert tape.text == "&#233;\n"


_C_LOCALE = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHON"))},
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
}


@pytest.mark.parametrize(
    "words",
    [
        ["sample", "logits.json"],
        ["sample", "logits.json", "--format", "json"],
        ["sessions", "show", "bytes"],
        ["sessions", "diff", "capital", "bytes"],
        ["sessions", "export", "bytes", "--format", "html"],
        ["doctor", "--no-load"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_the_whole_output_in_the_c_locale_d5(
    words: list[str], tmp_path: object, request: pytest.FixtureRequest
) -> None:
    """D5: as many lines as in UTF-8, and code 0."""
    folder = request.getfixturevalue("tmp_path")
    (folder / "logits.json").write_text("[1.0, 2.0, 3.0, -1.0]")
    lines = []
    for environment in (_C_LOCALE, {**_C_LOCALE, "PYTHONUTF8": "1"}):
        done = subprocess.run(
            [sys.executable, "-m", "inspector", *words],
            capture_output=True,
            cwd=folder,
            env={**environment, "PYTHONPATH": str(request.config.rootpath)},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        lines.append(done.stdout.splitlines())
    assert len(lines[0]) == len(lines[1]) > 0
    if "export" in words:
        assert lines[0] == lines[1], "an export is UTF-8 wherever it goes"


# ------------------------------------------------------------------------ painted lines


def painted(*texts: str) -> list[str]:
    segments = [Segment(text) for text in texts]
    return [one.text for one in SAFE_TEXT.apply(segments, TRANSPARENT)]


def test_what_grows_takes_the_blanks_behind_it() -> None:
    assert painted("a\x9bb", "        ", "│") == ["a\\x9bb", "    ", "│"]
    assert painted("a\x9bb   ", "c", "│") == ["a\\x9b", "c", "│"]
    assert painted("x", "a\x1bb", "  c ", "│") == ["x", "a␛b", " c ", "│"]
    assert painted("a\x1b\nb", "c") == ["a␛", "c"]
    assert painted("\x1b", "c") == ["c"], "it has no cell of its own"


@given(st.lists(any_text, max_size=6))
def test_a_line_stays_as_wide_as_it_is(texts: list[str]) -> None:
    widths = [cell_len(one) for one in texts]
    shown = [safe(one, newline="⏎", tab="⇥") for one in texts]
    fit(shown, widths)
    assert sum(map(cell_len, shown)) == sum(widths)
    assert acting("".join(shown), allowed="") == ""


# ---------------------------------------------------------------------- command line


def test_errors_are_one_safe_line_b9(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: errors, and paths in them, from whichever library they come."""
    words = ["sessions", "export", "capital", "-o", f"{LONE}\n.xyz"]
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("llm-inspect: ␛]52;c;evil")
    assert error.count("\n") == 1
    assert acting(error) == ""

    def broken(*_: object) -> None:
        raise RuntimeError(LONE)

    monkeypatch.setattr(cli, "request", broken)
    for extra in ([], ["--debug"]):
        assert cli.main(["run", "a", *extra]) == 3
        assert acting(capsys.readouterr().err) == ""
