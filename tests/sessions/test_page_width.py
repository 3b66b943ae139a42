"""The HTML page as a browser lays it out: nothing scrolls sideways; a forced token is marked."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

from engine.records.step import How
from sessions import open_session
from sessions.examples import EXAMPLES, example
from sessions.export.page import html_lines
from sessions.export.source import Source

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (1280, 390)
FRAME = """<iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe>"""
MEASURE = """<script>addEventListener("load", () => {
  const beyond = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument, box = page.getElementById("ladder");
    const inner = box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft);
    const whole = page.scrollingElement;
    return [whole.scrollWidth - whole.clientWidth,
      box.querySelector("table").scrollWidth - inner];
  });
  document.title = "R" + JSON.stringify(beyond);
});</script>"""


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], list[float]]:
    """Pixels by which an example's page, and its table, are wider than their place."""
    folder = tmp_path_factory.mktemp("pages")
    cases = [(name, width) for name in EXAMPLES for width in WIDTHS]
    frames = [
        FRAME.format(
            width=width,
            page=html.escape("".join(html_lines(Source.of_session(open_session(example(name)))))),
        )
        for name, width in cases
    ]
    (folder / "all.html").write_text("".join([*frames, MEASURE]), encoding="utf-8")
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    options = [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000"]
    shown = subprocess.run(
        [*map(str, command), *options, f"file://{folder / 'all.html'}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    found = re.search(r"<title>R(.*?)</title>", shown)
    assert found is not None
    return dict(zip(cases, json.loads(found[1]), strict=True))


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_of_the_page_scrolls_sideways(
    name: str, width: int, beyond: dict[tuple[str, int], list[float]]
) -> None:
    assert max(beyond[name, width]) <= 0


def test_f22_a_forced_token_is_marked_in_the_page() -> None:
    source = Source.of_session(open_session(example("capital")))
    forced = [
        one.node
        for tip in source.tips()
        for one in source.branch(tip)
        if one.draw.how is How.FORCED
    ]
    page = "".join(html_lines(source))
    marked = re.findall(r'class="t s\d forced"[^>]*data-node="(\d+)"', page)
    assert forced
    assert sorted(map(int, marked)) == sorted(forced)
