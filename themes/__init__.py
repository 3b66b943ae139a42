"""Colour themes as plain data: one TOML file a theme, no import of Textual.

    spec = themes.load("dark")                     # or themes.load_file("mine.toml")
    app.register_theme(Theme(**spec.textual_kwargs()))
    app.theme = spec.name

Every theme defines every variable of ``VARIABLES`` and ``STYLES``, so that a pane may use any of
them without asking: as ``$bar`` in a stylesheet, as ``app.theme_variables["bar"]`` in Python. Read
the latter with ``textual.color.Color.parse``: it is ``#rrggbb``, or ``ansi_blue`` and the like in
a theme that leaves the colours to the terminal. Textual's own themes lack our variables; give it
``fallback_variables`` in ``App.get_theme_variable_defaults``, and those work as well.

A theme file::

    name = "mine"              # the file's name without .toml if left out
    description = "what it is"
    extends = "dark"           # take what is left out below from this theme that we ship
    dark = true                # dark background?
    ansi = false               # true: the terminal's 16 colours, ansi_red and the like

    [colors]                   # all of COLORS
    primary = "#84b2d9"

    [variables]                # all of VARIABLES
    bar = "#567fa1"

    [styles]                   # all of STYLES
    cut-style = "none"

    [textual]                  # optional: Textual's own variables
    border-blurred = "#292e35"

    [colors-256]               # optional, and [colors-16]: instead, where a terminal has only so
    surprisal-1 = "#262626"    # many colours: two shades might become one, or text too faint
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from engine.plain_files import read_text, reason

DEFAULT = "dark"

COLORS = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "success",
    "warning",
    "error",
)
"""The base colours: the arguments of ``textual.theme.Theme``."""


@dataclass(frozen=True)
class Variable:
    """A colour that means something in this program."""

    role: Literal["background", "text", "mark"]
    """``background``: text stands on it. ``text``: letters on ``background`` or ``surface``.
    ``mark``: bars, blocks and sparklines on them."""

    meaning: str


SURPRISAL_LEVELS = 7

VARIABLES: Mapping[str, Variable] = {
    **{
        f"surprisal-{level}": Variable(
            "background", f"behind a token, surprisal level {level}: 0 expected, 6 astonishing"
        )
        for level in range(SURPRISAL_LEVELS)
    },
    "cursor-token": Variable("background", "behind the token under the cursor"),
    "cursor-token-text": Variable("text", "letters on cursor-token, and only there"),
    "special-token": Variable("text", "special token, such as the end of the text"),
    "byte-token": Variable("text", "token that is a piece of a character"),
    "added-token": Variable("text", "token added to the tokenizer, or by the chat template"),
    "bar": Variable("mark", "probability bar"),
    "bar-drawn": Variable("mark", "the drawn token: its bar, its row, where u landed"),
    "survivor": Variable("text", "candidate that is still possible"),
    "cut": Variable("text", "candidate that a stage removed"),
    "kv-full": Variable("mark", "block whose positions are all filled"),
    "kv-partial": Variable("mark", "block that is partly filled"),
    "kv-free": Variable("mark", "block that nobody holds"),
    "kv-shared": Variable("mark", "block that several branches hold"),
    "kv-evicted": Variable("mark", "block that was given up for memory"),
    "attention": Variable("mark", "attention's share of the time"),
    "mlp": Variable("mark", "the MLP's share of the time"),
    "phase-tokenize": Variable("mark", "time spent on text to ids"),
    "phase-prefill": Variable("mark", "time spent reading the prompt"),
    "phase-sample": Variable("mark", "time spent choosing a token"),
    "phase-detokenize": Variable("mark", "time spent on ids to text"),
    "measured": Variable("text", "the sign at a measured figure"),
    "derived": Variable("text", "the sign at a figure derived from measured ones"),
    "estimated": Variable("text", "the sign at an estimated figure"),
    "accept": Variable("text", "drafted token that the target accepted"),
    "reject": Variable("text", "drafted token that the target rejected"),
    "title": Variable("text", "title of a pane"),
    "title-active": Variable("text", "title of the pane that has the focus"),
}

STYLES: Mapping[str, str] = {
    "cursor-token-style": "the token under the cursor",
    "special-token-style": "special token",
    "byte-token-style": "piece of a character",
    "added-token-style": "added token",
    "bar-drawn-style": "the drawn token's row",
    "cut-style": "candidate that a stage removed",
    "title-active-style": "title of the pane that has the focus",
}
"""Text styles that go with the colours, and all that is left of a theme without colour. Each is
``none`` or some of bold, dim, italic, underline, reverse and strike; usable as ``text-style:``."""

_TEXT_STYLES = frozenset({"bold", "dim", "italic", "underline", "reverse", "strike"})
_ANSI_HUES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_ANSI_COLORS = frozenset(
    {"ansi_default"}
    | {f"ansi_{hue}" for hue in _ANSI_HUES}
    | {f"ansi_bright_{hue}" for hue in _ANSI_HUES}
)
# Textual's stylesheet uses these two, but defines them only for themes that are not ANSI ones.
_ANSI_DEFAULTS = {"ansi-background": "ansi_black", "ansi-foreground": "ansi_white"}
_LARGEST = 1 << 20
"""Bytes of a theme's file."""
_HEX = re.compile(r"#[0-9a-f]{6}|#[0-9a-f]{3}", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_CSS_COLOR = re.compile(
    rf"({_HEX.pattern}|{'|'.join(_ANSI_COLORS)}|auto|transparent)( \d{{1,3}}%)?", re.IGNORECASE
)
_TOP_KEYS = ("name", "description", "extends", "dark", "ansi")
DEPTHS = (256, 16)
"""Numbers of colours that a terminal without truecolour may have."""
_TABLES = ("colors", "variables", "styles", "textual", *(f"colors-{depth}" for depth in DEPTHS))


_SHORT = 12


class ThemeError(ValueError):
    """A theme that cannot be used. The message is one line: which file, which key, what."""


@dataclass(frozen=True)
class ThemeSpec:
    """A checked theme."""

    name: str
    description: str
    dark: bool
    ansi: bool
    colors: Mapping[str, str]
    """A value for each of ``COLORS``."""
    variables: Mapping[str, str]
    """A value for each of ``VARIABLES``."""
    styles: Mapping[str, str]
    """A value for each of ``STYLES``."""
    textual: Mapping[str, str]
    """Some of Textual's own variables. A name with -style takes a text style, others a colour."""
    fewer: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By one of ``DEPTHS``: what replaces colours that would look alike, or faint, there."""

    def in_colors(self, depth: int | None) -> ThemeSpec:
        """The theme for a terminal with so many colours; None: with all of them."""
        other = self.fewer.get(depth or 0, {})
        colors = {name: other.get(name, value) for name, value in self.colors.items()}
        variables = {name: other.get(name, value) for name, value in self.variables.items()}
        textual = {name: other.get(name, value) for name, value in self.textual.items()}
        return replace(self, colors=colors, variables=variables, textual=textual)

    def css_variables(self) -> dict[str, str]:
        """Our own variables and styles, by name."""
        return {**self.variables, **self.styles}

    def textual_kwargs(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dark": self.dark,
            "ansi": self.ansi,
            **self.colors,
            "variables": {
                **(_ANSI_DEFAULTS if self.ansi else {}),
                **self.textual,
                **self.css_variables(),
            },
        }


def names() -> tuple[str, ...]:
    """The themes that we ship, the default first."""
    found = sorted(
        entry.name.removesuffix(".toml")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".toml")
    )
    return (DEFAULT, *(name for name in found if name != DEFAULT))


@cache
def load(name: str) -> ThemeSpec:
    """Load a theme that we ship. Raises ThemeError for a name that is none of ``names()``."""
    if name not in names():
        raise ThemeError(f"no theme {name!r}{_suggest(name, names())}")
    text = (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
    return _parse(text, source=f"{name}.toml", default_name=name)


def load_file(path: str | Path) -> ThemeSpec:
    """Load a user's own theme file. Raises ThemeError if it cannot be read or used."""
    path = Path(path)
    try:
        text = read_text(path, _LARGEST)
    except OSError as error:
        raise ThemeError(f"{path}: cannot be read: {reason(error)}") from None
    except ValueError:
        raise ThemeError(f"{path}: not a text file in UTF-8") from None
    return _parse(text, source=str(path), default_name=path.stem.lower().replace(" ", "-"))


def resolve(name_or_path: str) -> ThemeSpec:
    """Load the theme that ``--theme`` names: one that we ship, or a path that ends in .toml."""
    return load_file(name_or_path) if name_or_path.endswith(".toml") else load(name_or_path)


def fallback_variables(*, dark: bool = True, ansi: bool = False) -> dict[str, str]:
    """Our variables for a theme that does not define them, such as one of Textual's own."""
    name = "ansi-dark" if ansi else "dark" if dark else "light"
    return load(name).css_variables()


def _parse(text: str, *, source: str, default_name: str) -> ThemeSpec:
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ThemeError(f"{source}: not valid TOML: {error}".replace("\n", " ")) from None
    return _Reader(source, raw).theme(default_name)


class _Reader:
    """Reads one file's values; every complaint names the file and the key."""

    def __init__(self, source: str, raw: dict[str, Any]) -> None:
        self.source = source
        self.raw = raw

    def theme(self, default_name: str) -> ThemeSpec:
        self.check_known("", self.raw, (*_TOP_KEYS, *_TABLES))
        base = self.base()
        name = self.value("name", str, default_name)
        if not _NAME.fullmatch(name):
            raise self.error("name", f"{name!r} may hold only a-z, 0-9, - and _")
        ansi = self.value("ansi", bool, base.ansi if base else False)
        if base and base.ansi != ansi:
            raise self.error("ansi", f"must be {str(base.ansi).lower()}, as in {base.name!r}")
        return ThemeSpec(
            name=name,
            description=self.value("description", str, ""),
            dark=self.value("dark", bool, base.dark if base else None),
            ansi=ansi,
            colors=self.colors("colors", COLORS, base.colors if base else {}, ansi),
            variables=self.colors(
                "variables", tuple(VARIABLES), base.variables if base else {}, ansi
            ),
            styles=self.styles(base.styles if base else {}),
            textual=self.textual(base.textual if base else {}),
            fewer={depth: self.fewer(depth, base, ansi) for depth in DEPTHS},
        )

    def base(self) -> ThemeSpec | None:
        name = self.value("extends", str, "")
        if not name:
            return None
        try:
            return load(name)
        except ThemeError as error:
            raise self.error("extends", str(error)) from None

    def colors(
        self, table: str, keys: tuple[str, ...], base: Mapping[str, str], ansi: bool
    ) -> dict[str, str]:
        return self.checked(table, self.table(table, keys, base), ansi)

    def fewer(self, depth: int, base: ThemeSpec | None, ansi: bool) -> dict[str, str]:
        """Replacements for colours where there are few; any of them may be left out."""
        table = f"colors-{depth}"
        given = self.strings(table)
        textual = self.textual(base.textual if base else {})
        self.check_known(f"{table}.", given, (*COLORS, *VARIABLES, *textual))
        return {**(base.fewer[depth] if base else {}), **self.checked(table, given, ansi)}

    def checked(self, table: str, colors: dict[str, str], ansi: bool) -> dict[str, str]:
        for key, value in colors.items():
            if ansi and value not in _ANSI_COLORS:
                raise self.error(
                    f"{table}.{key}",
                    f"{value!r} is not a colour of the terminal's, such as 'ansi_blue'",
                )
            if not ansi and not _HEX.fullmatch(value):
                raise self.error(
                    f"{table}.{key}", f"{value!r} is not a colour, such as '#84b2d9' or '#8bd'"
                )
        return {key: value.lower() for key, value in colors.items()}

    def styles(self, base: Mapping[str, str]) -> dict[str, str]:
        styles = self.table("styles", tuple(STYLES), base)
        for key, value in styles.items():
            self.check_style(f"styles.{key}", value)
        return styles

    def textual(self, base: Mapping[str, str]) -> dict[str, str]:
        given = self.strings("textual")
        for key, value in given.items():
            if key in VARIABLES or key in STYLES:
                table = "variables" if key in VARIABLES else "styles"
                raise self.error(f"textual.{key}", f"belongs in [{table}]")
            if not _NAME.fullmatch(key):
                raise self.error(f"textual.{key}", "is no name of a variable")
            # A value that Textual cannot parse would end the program at start-up.
            if "-style" in key:
                self.check_style(f"textual.{key}", value)
            elif not _CSS_COLOR.fullmatch(value):
                what = f"{value!r} is not a colour, such as '#84b2d9', '#84b2d9 50%' or 'auto 60%'"
                raise self.error(f"textual.{key}", what)
        return {**base, **given}

    def table(self, table: str, keys: tuple[str, ...], base: Mapping[str, str]) -> dict[str, str]:
        """The table over ``base``, in the order of ``keys``, complete and with no other key."""
        given = self.strings(table)
        self.check_known(f"{table}.", given, keys)
        merged = {**base, **given}
        for key in keys:
            if key not in merged:
                raise self.error(f"{table}.{key}", f"missing; or add: extends = {DEFAULT!r}")
        return {key: merged[key] for key in keys}

    def strings(self, table: str) -> dict[str, str]:
        given: dict[str, str] = self.value(table, dict, {})
        for key, value in given.items():
            if not isinstance(value, str):
                raise self.error(f"{table}.{key}", f"must be text in quotes, not {value!r}")
        return given

    def value(self, key: str, kind: type, default: Any) -> Any:
        value = self.raw.get(key, default)
        if value is None:
            raise self.error(key, "missing")
        if not isinstance(value, kind):
            wanted = {str: "text in quotes", bool: "true or false", dict: f"a table, [{key}]"}[kind]
            raise self.error(key, f"must be {wanted}, not {value!r}")
        return value

    def check_known(self, prefix: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in given:
            if key not in known:
                raise self.error(f"{prefix}{key}", f"unknown key{_suggest(key, known)}")

    def check_style(self, key: str, value: str) -> None:
        words = value.split()
        if words != ["none"] and not (words and _TEXT_STYLES.issuperset(words)):
            known = ", ".join(sorted(_TEXT_STYLES))
            raise self.error(key, f"{value!r} is neither 'none' nor some of {known}")

    def error(self, key: str, what: str) -> ThemeError:
        # A quoted key may hold anything, also line ends and escape sequences.
        shown = key if re.fullmatch(r"[\w.-]+", key) else repr(key)
        return ThemeError(f"{self.source}: {shown}: {what}")


def _suggest(wrong: str, known: tuple[str, ...]) -> str:
    """ "; did you mean 'x'?", or the whole list if it is short."""
    close = difflib.get_close_matches(wrong, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if len(known) <= _SHORT else ""
