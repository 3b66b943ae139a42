"""The HTML page as a browser lays it out: nothing scrolls sideways; a forced token is marked."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.records.step import How
from sessions import open_session
from sessions.examples import EXAMPLES, example
from sessions.export.page import html_lines
from sessions.export.source import Source

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FRAME = """<iframe id=f style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe>
<script>f.onload = () => {{
  const page = f.contentDocument, box = page.getElementById("ladder"), whole = page.scrollingElement;
  const inner = box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft);
  document.title = "R" + JSON.stringify([whole.scrollWidth - whole.clientWidth,
    box.querySelector("table").scrollWidth - inner]);
}}</script>"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_of_the_page_scrolls_sideways(name: str, tmp_path: Path) -> None:
    page = "".join(html_lines(Source.of_session(open_session(example(name)))))
    for width in (1280, 390):
        frame = tmp_path / f"{width}.html"
        frame.write_text(FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        options = [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000"]
        shown = subprocess.run(
            [*map(str, command), *options, f"file://{frame}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        found = re.search(r"<title>R(.*?)</title>", shown)
        assert found is not None
        assert max(json.loads(found[1])) <= 0, width


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
