"""The draft sources of a running engine: the one in use, and changing it."""

from __future__ import annotations

from engine.backends.base import Backend, BackendError
from engine.commands import Open
from engine.drafts.open import open_draft
from engine.progress import Progress
from engine.records.round import DraftSettings
from engine.run.draft import DraftSource
from engine.run.speculation import Speculation


class Drafts:
    """Opens sources when they are first asked for, and closes those that nobody uses any more."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._target: tuple[Backend, Open] | None = None
        self._sources: dict[str, DraftSource] = {}
        self.settings = DraftSettings()
        """The run's own, unless a step says otherwise."""
        self.held: frozenset[str] = frozenset()
        """Sources that columns draft from, whatever the run itself does from now on."""

    def attach(self, target: Backend, opened: Open) -> None:
        """Draft for another target from now on."""
        self.close()
        self._target = target, opened

    @property
    def speculation(self) -> Speculation | None:
        """The run's drafting; None where it does not draft."""
        source = self._sources.get(self.settings.source)
        return None if source is None else _speculation(source, self.settings)

    def use(self, settings: DraftSettings | None) -> None:
        """Draft so from now on; None: as before. Raises BackendError and ModelError.

        After an error it is as before.
        """
        settings = self.settings if settings is None else settings
        self.opened(settings)
        self.settings = settings
        for name in self._sources.keys() - self.held - {settings.source}:
            self._sources.pop(name).close()

    def opened(self, settings: DraftSettings) -> Speculation | None:
        """Drafting by these settings; None for none. Raises BackendError and ModelError."""
        name = settings.source
        if not name or self._target is None:
            return None
        facts = self._target[0].facts
        if facts.top is not None:
            raise BackendError(
                "a draft is verified by whole distributions, and the engine "
                f"{facts.backend} tells the {facts.top:,} likeliest tokens: leave the draft out"
            )
        if name not in self._sources:
            self._sources[name] = open_draft(name, *self._target, self._progress)
        return _speculation(self._sources[name], settings)

    def close(self) -> None:
        """Close all sources."""
        while self._sources:
            self._sources.popitem()[1].close()


def _speculation(source: DraftSource, settings: DraftSettings) -> Speculation:
    return Speculation(source, settings.tokens, settings.accept)
