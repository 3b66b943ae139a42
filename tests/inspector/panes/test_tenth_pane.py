"""E3: an eleventh pane and later ones need a row in the registry, and can then be reached."""

from __future__ import annotations

import json
import subprocess
import sys

from inspector.keys import pane_key
from tests.folders import ROOT


def test_e3_keys_go_on_after_the_nine_digits() -> None:
    assert [pane_key(number) for number in (1, 9, 10, 12)] == ["1", "9", "f10", "f12"]


def test_e3_one_more_pane_is_placed_and_reached_by_key_tab_mouse_and_palette() -> None:
    """In a process of its own: the registry is read when the screens are imported."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.tenth_pane"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    for way in ("key", "tab", "palette"):
        assert found[way] == ["toy", True, 6], way
    assert found["second key"] == ["twelfth", True, 6]
    assert found["title"]
    assert found["around"] == ["transcript", True, 6]
    assert found["back"] == ["twelfth", True, 6]
    assert found["mouse"] == ["toy", True, 2]
    assert found["small"] == ["twelfth", True, 2]
    assert all(used <= width + 1 for width, used in enumerate(found["widths"], start=40))
