"""The app in one tab of a browser (``--tab``): read-only, and at its end when the tab is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

from textual import messages
from textual.app import App
from textual.drivers.web_driver import WebDriver


class TabDriver(WebDriver):
    """Textual's driver below a web server, which hands nothing to the browser but the screen."""

    def run_input_thread(self) -> None:
        super().run_input_thread()
        # The server has gone, by whatever way: nobody would ever end this process.
        with contextlib.suppress(RuntimeError):  # the app's loop has ended first
            self._loop.call_soon_threadsafe(self._app.post_message, messages.ExitApp())

    def open_url(self, url: str, new_tab: bool = True) -> None:
        """Open nothing: an address may come from the session."""

    def deliver_binary(
        self,
        binary: BinaryIO | TextIO,
        *,
        delivery_key: str,
        save_path: Path,
        open_method: Literal["browser", "download"] = "download",
        encoding: str | None = None,
        mime_type: str | None = None,
        name: str | None = None,
    ) -> None:
        """Deliver nothing: what is recorded is shown, and no more."""
        binary.close()


def run_in_tab(app: App[Any]) -> Any:
    """Run ``app`` to its end below a web server; what it returns."""
    app.driver_class = TabDriver
    return app.run()
