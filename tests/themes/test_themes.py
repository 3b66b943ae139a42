"""The themes: complete, readable, told apart, and accepted by Textual."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from textual.app import App, ComposeResult
from textual.color import Color
from textual.theme import Theme
from textual.widgets import Static

import themes
from inspector.theming import use_theme

SHIPPED = themes.names()
TRUECOLOR = [name for name in SHIPPED if not themes.load(name).ansi]
SHADES = [f"surprisal-{level}" for level in range(themes.SURPRISAL_LEVELS)]

TEXT = {"dark": 4.5, "light": 4.5, "mono": 4.5, "high-contrast": 7.0}
"""WCAG 2: AA for text is 4.5 to 1, AAA is 7 to 1."""
CUT = {"dark": 3.0, "light": 3.0, "mono": 3.0, "high-contrast": 4.5}
MARK = 3.0
"""WCAG 2: what is not text, but says something."""


def linear(color: str) -> tuple[float, float, float]:
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio, 1 to 21."""

    def luminance(color: str) -> float:
        red, green, blue = linear(color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def oklab(color: str) -> tuple[float, float, float]:
    """Ottosson's OKLab, in which equal distances look about equally large."""
    r, g, b = linear(color)
    l_ = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    m_ = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    s_ = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * l_ + 0.7936177850 * m_ - 0.0040720468 * s_,
        1.9779984951 * l_ - 2.4285922050 * m_ + 0.4505937099 * s_,
        0.0259040371 * l_ + 0.7827717662 * m_ - 0.8086757660 * s_,
    )


def distance(one: str, other: str) -> float:
    return math.dist(oklab(one), oklab(other))


def test_contrast_is_wcags():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_the_shipped_themes_the_default_first():
    assert SHIPPED[0] == themes.DEFAULT == "dark"
    assert set(SHIPPED) == {"dark", "light", "mono", "high-contrast", "ansi-dark"}
    assert not themes.load("light").dark
    assert [name for name in SHIPPED if themes.load(name).ansi] == ["ansi-dark"]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_theme_defines_everything(name):
    spec = themes.load(name)
    assert spec.name == name
    assert spec.description
    assert tuple(spec.colors) == themes.COLORS
    assert tuple(spec.variables) == tuple(themes.VARIABLES)
    assert tuple(spec.styles) == tuple(themes.STYLES)


@pytest.mark.parametrize("name", TRUECOLOR)
def test_text_is_readable_where_it_stands(name):
    spec = themes.load(name)
    grounds = {key: spec.colors[key] for key in ("background", "surface", "panel")}
    shades = {key: spec.variables[key] for key in SHADES}
    letters = {
        key: spec.variables[key]
        for key, variable in themes.VARIABLES.items()
        if variable.role == "text" and key not in ("cut", "cursor-token-text")
    }
    pairs = [
        *itertools.product([("foreground", spec.colors["foreground"])], (grounds | shades).items()),
        *itertools.product(
            [*letters.items(), ("bar-drawn", spec.variables["bar-drawn"])],
            [(key, grounds[key]) for key in ("background", "surface")],
        ),
        (
            ("cursor-token-text", spec.variables["cursor-token-text"]),
            ("cursor-token", spec.variables["cursor-token"]),
        ),
    ]
    too_faint = [
        f"{key} on {ground}: {contrast(color, behind):.2f}"
        for (key, color), (ground, behind) in pairs
        if contrast(color, behind) < TEXT[name]
    ]
    assert not too_faint


@pytest.mark.parametrize("name", TRUECOLOR)
def test_cut_rows_are_greyed_but_readable(name):
    spec = themes.load(name)
    for ground in ("background", "surface"):
        cut = contrast(spec.variables["cut"], spec.colors[ground])
        assert CUT[name] <= cut < contrast(spec.variables["survivor"], spec.colors[ground]) / 2


@pytest.mark.parametrize("name", TRUECOLOR)
def test_kinds_of_token_show_on_every_shade(name):
    variables = themes.load(name).variables
    for kind, shade in itertools.product(("special-token", "byte-token", "added-token"), SHADES):
        assert contrast(variables[kind], variables[shade]) >= 3.0, (kind, shade)


@pytest.mark.parametrize("name", TRUECOLOR)
def test_marks_stand_out_from_the_background(name):
    spec = themes.load(name)
    for key, variable in themes.VARIABLES.items():
        if variable.role == "mark":
            # A free block holds nothing: it is there, but quiet.
            least = 1.5 if key == "kv-free" else MARK
            assert contrast(spec.variables[key], spec.colors["background"]) >= least, key


@pytest.mark.parametrize("name", TRUECOLOR)
def test_surprisal_rises_in_equal_steps_away_from_the_background(name):
    spec = themes.load(name)
    shades = [spec.variables[key] for key in SHADES]
    steps = list(itertools.starmap(distance, itertools.pairwise(shades)))
    mean = sum(steps) / len(steps)
    assert mean > 0.02  # what is just seen is about 0.02
    assert all(abs(step - mean) < 0.25 * mean for step in steps), steps
    away = [contrast(shade, spec.colors["background"]) for shade in shades]
    assert away == sorted(away)


SYSTEMS = {256: ColorSystem.EIGHT_BIT, 16: ColorSystem.STANDARD}


def quantised(color: str, depth: int) -> str:
    """The colour that Rich, and so Textual, has such a terminal show."""
    shown = RichColor.parse(color).downgrade(SYSTEMS[depth])
    return "#{:02x}{:02x}{:02x}".format(*shown.get_truecolor())


@pytest.mark.parametrize("depth", themes.DEPTHS)
@pytest.mark.parametrize("name", TRUECOLOR)
def test_d3_surprisal_levels_stay_apart_in_fewer_colours(name, depth):
    spec = themes.load(name).in_colors(depth)
    shades = [quantised(spec.variables[key], depth) for key in SHADES]
    ground = quantised(spec.colors["background"], depth)
    text = quantised(spec.colors["foreground"], depth)
    assert len({ground, *shades}) == len(SHADES) + 1
    # What is just seen is about 0.02.
    assert all(distance(*pair) > 0.03 for pair in itertools.pairwise([ground, *shades]))
    least = TEXT[name] - 0.5 if depth == 256 else 3.0
    assert all(contrast(text, shade) >= least for shade in shades)
    cursor = quantised(spec.variables["cursor-token"], depth)
    assert cursor not in shades


def test_d3_the_terminals_own_colours_stay_apart_too():
    spec = themes.load("ansi-dark")
    shades = [spec.variables[key] for key in SHADES]
    assert len({spec.colors["background"], "ansi_black", *shades}) == len(SHADES) + 2


@pytest.mark.parametrize(("system", "depth"), [("256", 256), ("standard", 16), ("truecolor", None)])
def test_d3_an_app_takes_the_colours_that_its_terminal_has(system, depth):
    app = App()
    app.console._color_system = COLOR_SYSTEMS[system]
    use_theme(app, "dark")
    shown = app.available_themes["dark"].variables["surprisal-6"]
    assert shown == themes.load("dark").in_colors(depth).variables["surprisal-6"]


@pytest.mark.parametrize("name", TRUECOLOR)
@pytest.mark.parametrize(
    "together",
    [
        ("bar", "bar-drawn"),
        ("survivor", "cut"),
        ("kv-full", "kv-partial", "kv-free", "kv-shared", "kv-evicted"),
        ("attention", "mlp"),
        ("phase-tokenize", "phase-prefill", "phase-sample", "phase-detokenize"),
        ("measured", "derived", "estimated"),
        ("accept", "reject"),
        ("title", "title-active"),
        ("cursor-token", *SHADES),
    ],
    ids=lambda together: together[0],
)
def test_what_stands_side_by_side_looks_different(name, together):
    variables = themes.load(name).variables
    pairs = itertools.combinations(together, 2)
    if together[0] == "cursor-token":
        pairs = ((together[0], shade) for shade in SHADES)
    alike = [pair for pair in pairs if distance(*(variables[key] for key in pair)) < 0.06]
    assert not alike


def test_mono_has_no_hue():
    spec = themes.load("mono")
    values = [*spec.colors.values(), *spec.css_variables().values(), *spec.textual.values()]
    colors = [value for value in values if value.startswith("#")]
    assert all(color[1:3] == color[3:5] == color[5:7] for color in colors)


def test_in_dark_and_light_only_the_drawn_token_is_warm():
    """Yellow and orange, in a pane, mean: this one was drawn."""
    for name in ("dark", "light"):
        variables = themes.load(name).variables
        warm = set()
        for key, value in variables.items():
            _, a, b = oklab(value)
            hue = math.degrees(math.atan2(b, a)) % 360
            if math.hypot(a, b) > 0.05 and 40 < hue < 100:
                warm.add(key)
        assert warm == {"bar-drawn", "phase-sample"}


def test_without_colour_the_styles_still_tell_the_kinds_apart():
    """NO_COLOR takes an ANSI theme's colours away: what must be seen then has its own style."""
    styles = themes.load("ansi-dark").styles
    kinds = [key for key in styles if key.endswith("-token-style")]
    assert len({styles[key] for key in kinds}) == len(kinds)
    assert "none" not in styles.values()


class Everything(App[None]):
    """Uses every variable in a stylesheet."""

    CSS = "\n".join(
        [f".{key} {{ background: ${key}; color: ${key}; }}" for key in themes.VARIABLES]
        + [f".{key} {{ text-style: ${key}; }}" for key in themes.STYLES]
    )

    def __init__(self, theme: str, spec: themes.ThemeSpec | None) -> None:
        self.spec = spec
        super().__init__()
        if spec:
            self.register_theme(Theme(**spec.textual_kwargs()))
        self.theme = theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.fallback_variables()

    def compose(self) -> ComposeResult:
        for key in (*themes.VARIABLES, *themes.STYLES):
            yield Static("x", classes=key)


@pytest.mark.parametrize("name", SHIPPED)
async def test_textual_takes_the_theme_and_all_its_variables(name):
    spec = themes.load(name)
    app = Everything(name, spec)
    async with app.run_test():
        assert app.current_theme.name == name
        assert app.current_theme.ansi == spec.ansi
        for key, value in spec.css_variables().items():
            assert app.theme_variables[key] == value
            widget = app.query_one(f".{key}")
            if key in themes.VARIABLES:
                assert widget.styles.background == Color.parse(value)


async def test_textuals_own_theme_works_with_the_fallback():
    app = Everything("nord", None)
    async with app.run_test():
        assert app.theme_variables["bar"] == themes.load("dark").variables["bar"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [({}, "dark"), ({"dark": False}, "light"), ({"ansi": True}, "ansi-dark")],
)
def test_fallback_fits_the_kind_of_theme(kind, name):
    assert themes.fallback_variables(**kind) == themes.load(name).css_variables()


@pytest.mark.parametrize("name", SHIPPED)
def test_our_variables_and_textuals_do_not_collide(name):
    spec = themes.load(name)
    theme = Theme(**{**spec.textual_kwargs(), "variables": {}})
    theirs = set(theme.to_color_system().generate())
    assert theirs.isdisjoint(spec.css_variables())
    assert set(spec.textual) - {"ansi-background", "ansi-foreground"} <= theirs


def test_themes_do_not_import_textual():
    code = "import sys, themes; themes.load('dark'); print('textual' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(themes.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


# A user's own file


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_users_theme_changes_only_what_it_says(tmp_path):
    path = write(
        tmp_path,
        """
        extends = "light"
        [variables]
        bar = "#ABC"
        [styles]
        cut-style = "italic dim"
        [textual]
        text-muted = "auto 50%"
        """,
    )
    spec, light = themes.load_file(path), themes.load("light")
    assert spec.name == "mine"
    assert not spec.dark
    assert spec.colors == light.colors
    assert spec.variables == {**light.variables, "bar": "#abc"}
    assert spec.styles == {**light.styles, "cut-style": "italic dim"}
    assert spec.textual == {**light.textual, "text-muted": "auto 50%"}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file_is_a_fine_start_for_ones_own(name, tmp_path):
    shipped = Path(themes.__file__).parent / f"{name}.toml"
    assert themes.load_file(write(tmp_path, shipped.read_text("utf-8"))) == themes.load(name)


async def test_an_ansi_theme_of_ones_own_needs_none_of_textuals_variables(tmp_path):
    base = (Path(themes.__file__).parent / "ansi-dark.toml").read_text("utf-8")
    spec = themes.load_file(write(tmp_path, base.partition("[textual]")[0]))
    async with Everything(spec.name, spec).run_test() as pilot:
        assert pilot.app.current_theme.ansi


def test_resolve_takes_a_name_or_a_file(tmp_path):
    path = write(tmp_path, 'extends = "mono"\nname = "own"')
    assert themes.resolve("mono") is themes.load("mono")
    assert themes.resolve(str(path)).name == "own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dark = ", "not valid TOML: Invalid value (at end of document)"),
        ("dark = 1", "dark: must be true or false, not 1"),
        ("name = 'x'", "dark: missing"),
        ("dark = true", "colors.primary: missing; or add: extends = 'dark'"),
        ("extends = 'drak'", "extends: no theme 'drak'; did you mean 'dark'?"),
        ("extends = 'dark'\nansi = true", "ansi: must be false, as in 'dark'"),
        (
            "extends = 'dark'\nname = 'a b'",
            "name: 'a b' may hold only a-z, 0-9, - and _",
        ),
        ("extends = 'dark'\nvariable = {}", "variable: unknown key; did you mean 'variables'?"),
        (
            "extends = 'dark'\n[variables]\nbra = '#fff'",
            "variables.bra: unknown key; did you mean 'bar'?",
        ),
        (
            "extends = 'dark'\n[variables]\nbar = '#ffff'",
            "variables.bar: '#ffff' is not a colour, such as '#84b2d9' or '#8bd'",
        ),
        (
            "extends = 'dark'\n[variables]\nbar = 'ansi_red'",
            "variables.bar: 'ansi_red' is not a colour, such as '#84b2d9' or '#8bd'",
        ),
        (
            "extends = 'ansi-dark'\n[variables]\nbar = '#fff'",
            "variables.bar: '#fff' is not a colour of the terminal's, such as 'ansi_blue'",
        ),
        (
            "extends = 'dark'\n[variables]\nbar = 3",
            "variables.bar: must be text in quotes, not 3",
        ),
        ("extends = 'dark'\ncolors = 'red'", "colors: must be a table, [colors], not 'red'"),
        (
            "extends = 'dark'\n[styles]\ncut-style = 'blink'",
            (
                "styles.cut-style: 'blink' is neither 'none' nor some of "
                "bold, dim, italic, reverse, strike, underline"
            ),
        ),
        ("extends = 'dark'\n[textual]\nbar = '#fff'", "textual.bar: belongs in [variables]"),
        (
            "extends = 'dark'\n[textual]\nborder = 'red; } Screen {'",
            (
                "textual.border: 'red; } Screen {' is not a colour, such as "
                "'#84b2d9', '#84b2d9 50%' or 'auto 60%'"
            ),
        ),
        (
            "extends = 'dark'\n[textual]\nlink-style = '#fff'",
            (
                "textual.link-style: '#fff' is neither 'none' nor some of "
                "bold, dim, italic, reverse, strike, underline"
            ),
        ),
        (
            'extends = "dark"\n"a\\u001b\\n" = 1',
            (
                "'a\\x1b\\n': unknown key; known: name, description, extends, dark, ansi, "
                "colors, variables, styles, textual, colors-256, colors-16"
            ),
        ),
    ],
)
def test_a_bad_file_gets_one_clear_line(text, message, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(themes.ThemeError) as caught:
        themes.load_file(path)
    assert str(caught.value) == f"{path}: {message}"
    assert "\n" not in message


def test_a_file_that_cannot_be_read(tmp_path):
    missing = tmp_path / "none.toml"
    with pytest.raises(themes.ThemeError, match=r"none\.toml: cannot be read: No such file"):
        themes.load_file(missing)
    with pytest.raises(themes.ThemeError, match="cannot be read: it is a folder"):
        themes.load_file(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(themes.ThemeError, match="not a text file in UTF-8"):
        themes.load_file(binary)


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(themes.ThemeError, match="no theme 'lihgt'; did you mean 'light'"):
        themes.load("lihgt")
    with pytest.raises(themes.ThemeError, match="no theme 'zzz'; known: dark, ansi-dark"):
        themes.resolve("zzz")
