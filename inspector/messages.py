"""Messages between the engine's reader thread, the panes and the app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.message import Message

from engine.records.round import DraftSettings
from engine.sampling.chain import Chain

if TYPE_CHECKING:
    from inspector.state.controller import Controller


class RecordsArrived(Message):
    """The engine client holds new records. Carries nothing, so that many become one."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RecordsArrived)


class GoTo(Message):
    """Move the cursor to a node (a click on a token)."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self.node = node


class Force(Message):
    """Take this token instead of the cursor's, or ``after`` it: a new branch where one is there."""

    def __init__(self, token_id: int, *, after: bool = False) -> None:
        super().__init__()
        self.token_id, self.after = token_id, after


class NeedDense(Message):
    """A pane wants the whole logit vector of a node."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self.node = node

    def ask(self, controller: Controller) -> None:
        """Have it asked for."""
        controller.need_dense(self.node)


class NeedCheck(NeedDense):
    """A pane wants a preset held against the engine's own sampler, with these dials set."""

    def __init__(self, node: int, dials: Mapping[str, Any]) -> None:
        super().__init__(node)
        self.dials = dials

    def ask(self, controller: Controller) -> None:
        controller.check_sampler(self.node, self.dials)


class NeedNext(NeedDense):
    """A pane wants what the token after the cursor will be drawn from."""

    def ask(self, controller: Controller) -> None:
        controller.need_next(self.node)


class Try(Message):
    """Try this chain on the cursor's distribution; None: look at the record alone again."""

    def __init__(self, chain: Chain | None) -> None:
        super().__init__()
        self.chain = chain
        self.taken = False
        """True if it is tried by now."""


class Draft(Message):
    """Draft so from the next speculative round on."""

    def __init__(self, settings: DraftSettings) -> None:
        super().__init__()
        self.settings = settings
