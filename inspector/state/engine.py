"""The engine behind the screen: its client, and a new one that goes on with the same run."""

from __future__ import annotations

from collections.abc import Callable

from engine.commands import Command, Open
from inspector.state.client import Client
from inspector.state.controller import Controller
from inspector.state.replay_client import ReplayClient
from inspector.state.request import Request


class Engine:
    """Holds the client. ``connect`` makes another one, with a new engine behind it."""

    def __init__(
        self,
        client: Client,
        connect: Callable[[], Client],
        tell: Callable[[], object],
        pace: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """``tell`` is called for new records; ``pace`` holds up the thread that brings them, where
        they come too fast to be kept; ``warn`` gets what is refused.
        """
        self.client = client
        self._connect = connect
        self._tell = tell
        self._pace = pace
        self._warn = warn

    @property
    def can_run(self) -> bool:
        """True if there is an engine with a model, and not only a recording."""
        return self.client.can_run

    def send(self, command: Command) -> None:
        self.client.send(command)

    def listen(self) -> None:
        """Be told of records from now on, and of those that nobody has taken yet."""
        self.client.notify = self._notify
        if isinstance(self.client, ReplayClient):
            self.client.say = self._warn
        self._tell()

    def _notify(self) -> None:
        """In the client's thread."""
        self._tell()
        self._pace()

    def use(self, client: Client, *, grace: float = 1.0) -> None:
        """Close the client within ``grace`` seconds, and go on with this one."""
        self.close(grace)
        self.client = client
        self.listen()

    def another(self) -> Client:
        """A client of one more engine, for who closes it."""
        return self._connect()

    def opening(self, controller: Controller, asked: Request) -> Open:
        """The command that opens the run's model once more, in the same dtype."""
        facts, wanted = controller.log.facts, asked.open
        if facts is not None and "dtype" in wanted.options:
            # Measured again, another might win.
            return Open(wanted.backend, {**wanted.options, "dtype": facts.dtype})
        return wanted

    def restart(self, controller: Controller, asked: Request) -> None:
        self.client.kill()
        wanted = self.opening(controller, asked)
        restore = controller.restore_command()
        self.use(self._connect(), grace=0.0)
        for command in (wanted, asked.configure, restore or asked.submit):
            self.send(command)
        controller.tell_breakpoints()

    def close(self, grace: float = 1.0) -> None:
        """Listen no more, and end the engine."""
        self.client.notify = lambda: None
        self.client.close(grace)
