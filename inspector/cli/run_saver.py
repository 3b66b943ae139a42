"""``run --save``: keeps a run without a screen, step by step; a failure never ends the run."""

from __future__ import annotations

import sys
import time
from typing import Any

from engine.commands import SendLogits, SendVocabulary
from engine.records.events import DenseLogits, EngineError, Record
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.text import visible
from inspector.state.client import Client
from inspector.state.request import Save
from sessions.file.format import SessionError
from sessions.writer import SessionWriter

_LAST_LOGITS_S = 30.0


class RunSaver:
    """Writes each record when it comes. Nothing is kept where no file was named."""

    def __init__(self, save: Save) -> None:
        self.error = ""
        """The reason for which the run is not being saved; empty while it is, or was not to be."""
        self._save = save
        self._writer: SessionWriter | None = None
        self._waits_for: int | None = None
        if save.path is not None:
            try:
                self._writer = SessionWriter(save.path, full_logits=save.full_logits)
            except SessionError as error:
                self._fail(error)

    def keep(self, record: Record, client: Client) -> None:
        """Keep one record, and ask for what is to be kept beside it."""
        if self._writer is None:
            return
        try:
            self._writer.add(record)
        except SessionError as error:
            self._fail(error)
            return
        if not self._save.full_logits:
            return
        match record:
            case PromptRecord():
                client.send(SendVocabulary())
            case StepRecord(node=node):
                client.send(SendLogits(node))
                self._waits_for = node
            case DenseLogits(node=node) if node == self._waits_for:
                self._waits_for = None

    def finish(self, client: Client) -> None:
        """Wait for the last logits that were asked for; not for ever."""
        until = time.monotonic() + _LAST_LOGITS_S
        while self._writer is not None and self._waits_for is not None:
            left = until - time.monotonic()
            if left <= 0:
                return
            for record in client.take(timeout=left):
                if isinstance(record, EngineError):
                    return
                if isinstance(record, DenseLogits):
                    self.keep(record, client)

    def close(self) -> None:
        """Finish the file, and say where it is."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except SessionError as error:
                self._fail(error)
            else:
                print(f"llm-inspect: saved as {visible(str(writer.path))}", file=sys.stderr)

    def fields(self) -> dict[str, Any]:
        """Fields of the ``end`` line about saving; none where nothing was to be saved."""
        if self._save.path is None:
            return {}
        return {"saved": not self.error, "save_error": visible(self.error) or None}

    def _fail(self, error: SessionError) -> None:
        self._writer, self.error = None, str(error)
        print(f"llm-inspect: not saved: {visible(self.error)}", file=sys.stderr)
