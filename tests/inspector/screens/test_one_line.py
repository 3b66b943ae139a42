"""D4: a box of one line says what it kept of several; and engines that share a log leave it whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.events import Paste
from textual.widgets import Input

from engine.server_process import _LONG_LOG, _open_log
from tests.inspector.actions.test_breakpoints_app import toasts
from tests.inspector.test_app import app, press

KEPT = "3 lines were pasted: this box holds one, the first was kept"


@pytest.mark.parametrize("keys", [("B",), ("m",), ("f", "t")], ids=["condition", "name", "token"])
@pytest.mark.parametrize("way", ["terminal", "ctrl+v"])
async def test_d4_a_paste_of_several_lines_is_said_to_be_cut(
    keys: tuple[str, ...], way: str
) -> None:
    one = app()
    async with one.run_test(size=(100, 36)) as pilot:
        await press(pilot, "n", *keys)
        box = one.screen.query_one(Input)
        box.focus()
        for text, said in (("a", []), ("b\nc\nd", [KEPT])):
            box.value = ""
            if way == "terminal":
                box.post_message(Paste(text))
            else:
                one.copy_to_clipboard(text)
                await pilot.press("ctrl+v")
            await pilot.pause()
            assert box.value == text[0]
            assert toasts(one) == said


def test_two_engines_write_one_log_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "engine.log"
    first = _open_log(path)
    os.write(first, b"one\n")
    second = _open_log(path)
    os.write(second, b"two\n")
    os.write(first, b"three\n")
    os.close(first)
    os.close(second)
    assert path.read_text() == "one\ntwo\nthree\n"
    path.write_bytes(b"x" * (_LONG_LOG + 1))
    os.close(_open_log(path))
    assert path.stat().st_size == 0
