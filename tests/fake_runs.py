"""Runs of a scripted model by the real Stepper, as the panes see them, and an app for one pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from textual.app import App, ComposeResult
from textual.message import Message
from textual.theme import Theme

import themes
from engine.backends.scripted import ScriptedBackend
from engine.records.events import DenseLogits, SettingsChanged
from engine.records.vocabulary import Token
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.messages import GoTo, NeedDense
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Rows

EIGHTHS = (0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125)
"""Probabilities that are easy to add up in the head."""


def logits(probabilities: Sequence[float]) -> np.ndarray:
    """Logits of which the softmax is ``probabilities``; 0 is ruled out."""
    with np.errstate(divide="ignore"):
        return np.log(np.array(probabilities)).astype(np.float32)


def run(
    tokens: Iterable[str | bytes | Token],
    probabilities: Sequence[float] = EIGHTHS,
    *,
    spec: str = "temperature=1 > top_k=0 > top_p=1",
    prompt: str | Sequence[int] = (0,),
    forces: Sequence[int | None] = (None,),
    forks: Sequence[tuple[int, int]] = (),
    seed: int = 0,
    dense: bool = False,
    max_tokens: int = 1000,
) -> View:
    """A look at the end of a run whose every step has the same distribution.

    ``forces`` has an entry a step: the token to take, or None to draw one. ``forks`` are
    (parent, token) of steps elsewhere, after them.
    """
    backend = ScriptedBackend.from_vectors([list(logits(probabilities))], list(tokens))
    settings = effective("guide", {}, spec=spec)
    stepper = Stepper(backend, settings, seed=seed, max_tokens=max_tokens)
    log = RunLog()
    log.add(backend.facts)
    log.add(SettingsChanged("guide", settings.spec, seed, settings.dials))
    log.add(stepper.submit(prompt) if isinstance(prompt, str) else stepper.submit_ids(prompt))
    for record in stepper.prefill():
        log.add(record)
    for force in forces:
        log.add(stepper.step(force=force))
    for parent, token in forks:
        log.add(stepper.extend(parent, force=token))
    if dense:
        log.add(backend.vocabulary())
        log.add(DenseLogits(stepper.cursor, stepper.dense(stepper.cursor)))
    return View(log, stepper.cursor)


def picture(rows: Rows) -> str:
    """All lines as text, without what trails."""
    return "\n".join(rows[index].plain.rstrip() for index in range(len(rows)))


def styles_at(rows: Rows, line: int, text: str) -> str:
    """The styles on the first character of ``text`` in a line, joined."""
    content = rows[line]
    at = content.plain.index(text)
    return " ".join(str(span.style) for span in content.spans if span.start <= at < span.end)


class Themed(App[None]):
    """An app of one pane, with the real themes."""

    def __init__(self, pane: Pane, theme: str = "dark") -> None:
        super().__init__()
        self.pane = pane
        for name in themes.names():
            self.register_theme(Theme(**themes.load(name).textual_kwargs()))
        self.theme = theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.fallback_variables()

    def compose(self) -> ComposeResult:
        yield self.pane


class Host(Themed):
    """A themed pane that shows a view; the messages that it posts are kept."""

    CSS = "Pane { height: 1fr; }"

    def __init__(self, pane: Pane, view: View, theme: str = "dark") -> None:
        super().__init__(pane, theme)
        self._view = view
        self.posted: list[Message] = []

    def on_mount(self) -> None:
        self.pane.show(self._view)
        self.pane.focus()

    def on_pane_chosen(self, message: Pane.Chosen) -> None:
        self.posted.append(message)

    def on_go_to(self, message: GoTo) -> None:
        self.posted.append(message)

    def on_need_dense(self, message: NeedDense) -> None:
        self.posted.append(message)

    def screen_lines(self) -> list[str]:
        """Lines that the pane paints."""
        height = self.pane.scrollable_content_region.height
        return [self.pane.render_line(y).text for y in range(height)]
