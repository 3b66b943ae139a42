"""A model and a machine to type, and what the one costs on the other, worked out as it is typed."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from engine.napkin.figures import DEFAULT_CONTEXT
from engine.napkin.library import Library, NapkinError
from engine.napkin.notation import EXAMPLE, parse, written
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.draw.napkin import napkin_lines
from inspector.draw.numbers import muted, wrapped
from inspector.modal import is_closed
from inspector.screens.dialog import Dialog
from inspector.widgets.lines import Lines
from inspector.widgets.one_line import OneLine


def line_of(facts: ModelFacts | None, ceilings: Ceilings | None) -> str:
    """The line for the model that is loaded, on this machine where that was measured."""
    if facts is None or not (facts.parameters and facts.layers and facts.kv_heads):
        return EXAMPLE
    return written(
        facts.parameters,
        facts.layers,
        facts.hidden_size,
        facts.query_heads,
        facts.kv_heads,
        facts.head_dim,
        facts.weight_bytes * 8 / facts.parameters,
        ceilings.read_bytes_per_second if ceilings is not None else 0.0,
        ceilings.flops_per_second if ceilings is not None else 0.0,
    )


class NapkinScreen(Dialog[None]):
    """Closes without an answer: nothing of the run is touched."""

    DEFAULT_CSS = """
    NapkinScreen #box { width: 100; }
    NapkinScreen #line { margin-bottom: 1; }
    """

    def __init__(self, library: Library, text: str) -> None:
        super().__init__(Content("Another model, another machine"))
        self._library = library
        self._text = text

    def body(self) -> Iterable[Widget]:
        # Control characters could only be pasted; they would reach the terminal.
        yield OneLine(self._text, id="line", restrict=r"[^\x00-\x1f\x7f-\x9f]*", compact=True)
        yield Lines(self._worked)

    def on_mount(self) -> None:
        if not is_closed(self):
            self.query_one(Input).focus()
            self.query_one("#box").border_subtitle = muted("model @ machine · esc closes")

    def on_input_changed(self, message: Input.Changed) -> None:
        self._text = message.value
        self.query_one(Lines).refresh(layout=True)

    def _worked(self, width: int) -> list[Content]:
        """The figures, or why there are none."""
        try:
            shape, machine = parse(self._text, self._library)
        except NapkinError as error:
            names = ", ".join([*self._library.models, *self._library.machines])
            refused = [
                Content.styled(line.plain, "$error")
                for line in wrapped("", 0, width, visible(str(error)))
            ]
            return [*refused, *wrapped("", 0, width, f"names: {visible(names)}")]
        return list(napkin_lines(shape, machine, DEFAULT_CONTEXT, width))
