"""One row of the tree: a stretch of tokens, how its first one came about, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.records.step import How, StepRecord, StopKind
from engine.text import visible, visible_bytes
from inspector.draw.cells import clip, left, token_parts
from inspector.draw.numbers import FAINT, percent, plural
from inspector.panes.tokens import Column, fitting
from inspector.state.branches import Branches, Graph, Row
from inspector.state.view import View
from inspector.state.whatif import turned_between

CURSOR = "●"
OTHER = "≠"
"""Beside how a token was chosen: with other settings than the token before it."""
_MUTED = "$title"
_AHEAD = FAINT
_TEXT_AT_LEAST = 12

HOW = Column("how", 10)
PROB = Column("prob", 6, True)
COUNT = Column("tokens", 9, True)
END = Column("end", 9)
SETTINGS = Column("other settings", 22)

_BY_WORTH = (HOW, PROB, COUNT, END, SETTINGS)
"""Columns to keep where not all have room, the most telling first."""
_IN_ORDER = (PROB, HOW, COUNT, END, SETTINGS)
_STOPS = {StopKind.STOP_TOKEN: "■ stop", StopKind.LENGTH: "■ length", StopKind.CONTEXT: "■ context"}


def graph_width(branches: Branches, width: int) -> int:
    """Cells for the lines: two a column, but a third of the pane at most."""
    return min(2 * (branches.depth + 1), max(2, width // 3))


def columns(view: View, width: int, graph: int) -> tuple[Column, ...]:
    """The columns that fit between the lines and the text, and have something to say."""
    by_worth = _BY_WORTH if len(view.log.all_settings) > 1 else _BY_WORTH[:-1]
    kept, _ = fitting(by_worth, width - 2 - graph - _TEXT_AT_LEAST)
    return tuple(column for column in _IN_ORDER if column in kept)


def heading(view: View, branches: Branches, width: int) -> Content:
    """The columns' titles."""
    graph = graph_width(branches, width)
    titles = "".join(column.cell(column.title) for column in columns(view, width, graph))
    line = f" {' ' * graph} {titles}text"
    return Content.styled(line, _MUTED).truncate(width, ellipsis=True)


# --- what is said of a stretch ----------------------------------------------------------------


def how(step: StepRecord) -> str:
    """The way a token was chosen, in a word or two."""
    return f"seed {step.seed}" if step.draw.how is How.SAMPLED else step.draw.how.value


def _end(view: View, row: Row, nodes: Sequence[int]) -> str:
    """End of a stretch: a fork, a stop, or nothing yet."""
    if row.forks > 1:
        return f"{row.forks} ways"
    last = view.log.nodes.get(nodes[-1])
    return _STOPS[last.stop.kind] if last is not None and last.stop is not None else ""


def other_settings(view: View, head: int) -> tuple[str, ...]:
    """Dials that were turned before a token was chosen, each with both its values."""
    log = view.log
    step = log.nodes.get(head)
    if step is None:
        return ()
    # Before the first token there is no other to compare with; what was there first will do.
    before = log.nodes.get(step.parent) or log.nodes[log.tree.children[step.parent][0]]
    return turned_between(before.chain_spec, before.preset, step.chain_spec, step.preset)


def details(view: View, branches: Branches, row: Row) -> str:
    """All there is to say about a stretch, for the line at the bottom."""
    nodes = branches.stretch(row.head)
    step, last = view.log.nodes.get(row.head), view.log.nodes.get(nodes[-1])
    if step is None or last is None:
        return f"the prompt, {plural(view.prompt_length, 'token')}"
    u = "" if step.draw.u is None else f", u = {step.draw.u:.5f}"
    parts = [
        f"token {step.position} (node {step.node}): {how(step)}{u}",
        f"{percent(step.final_prob)} after the chain, raw rank {step.rank:,}",
        plural(len(nodes), "token"),
    ]
    if turned := other_settings(view, row.head):
        parts.append(f"{OTHER} {', '.join(turned)}")
    if last.stop is not None:
        parts.append(visible(last.stop.detail))
    return " · ".join(parts)


# --- a row ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TreeRows:
    """The rows of the tree, made one by one when they are asked for."""

    view: View
    branches: Branches
    width: int
    graph: int
    columns: tuple[Column, ...]
    lines: Graph
    path: frozenset[int]
    """The rows from the prompt to the cursor's."""
    names: Mapping[int, str]
    """Names of the branches that begin in a stretch, by its head."""

    def __len__(self) -> int:
        return len(self.branches.rows)

    def __getitem__(self, index: int) -> Content:
        row = self.branches.rows[index]
        nodes = self.branches.stretch(row.head)
        on_path = index in self.path
        # Which of its tokens the cursor is at.
        at = nodes.index(self.view.cursor) if self._is_at(row) else None
        cells = self._cells(row, nodes, at)
        fixed = "".join(column.cell(cells[column.title]) for column in self.columns)
        style = "" if on_path else _MUTED
        line = Content.assemble(
            (CURSOR if at is not None else " ", "$bar-drawn"),
            (f"{left(self._lines(index), self.graph)} {fixed}", style),
            *self._text(row, nodes, at, style),
        )
        return line.stylize_before("bold") if on_path else line

    def _is_at(self, row: Row) -> bool:
        return self.branches.head(self.view.cursor) == row.head

    def _lines(self, index: int) -> str:
        lines = self.lines.line(index)
        return lines if len(lines) <= self.graph else f"…{lines[1 - self.graph :]}"

    def _cells(self, row: Row, nodes: Sequence[int], at: int | None) -> dict[str, str]:
        step = self.view.log.nodes.get(row.head)
        ending = _end(self.view, row, nodes)
        if step is None:
            count = self.view.prompt_length
            return dict.fromkeys((one.title for one in _IN_ORDER), "") | {
                "how": "prompt",
                "tokens": f"{count:,}",
                "end": ending,
            }
        turned, every = other_settings(self.view, row.head), f"{len(nodes):,}"
        mark = f" {OTHER}" if turned else ""
        return {
            "prob": percent(step.final_prob),
            "how": clip(how(step), HOW.cells - len(mark)) + mark,
            "tokens": every if at is None or at + 1 == len(nodes) else f"{at + 1:,}/{every}",
            "end": ending,
            "other settings": ", ".join(turned),
        }

    def _text(
        self, row: Row, nodes: Sequence[int], at: int | None, style: str
    ) -> Iterable[tuple[str, str]]:
        name = self.names.get(row.head)
        if name:
            yield f"{name}: ", "$title-active $title-active-style"
        step = self.view.log.nodes.get(row.head)
        if step is None:
            yield _prompt_text(self.view, self.width), style
            return
        yield from token_parts(step.token)
        cursor = len(nodes) - 1 if at is None else at
        # Where the cursor is far down, the text that leads to it.
        start = max(1, cursor - self.width // 8) if at is not None else 1
        if start > 1:
            yield "…", FAINT
        yield self._words(nodes[start : cursor + 1]), style
        yield self._words(nodes[max(start, cursor + 1) :]), _AHEAD

    def _words(self, nodes: Sequence[int]) -> str:
        """The text of nodes, as far as there can be room for it."""
        data = bytearray()
        for node in nodes:
            if len(data) > 4 * self.width:
                break
            data += self.view.log.nodes[node].token.bytes
        return visible_bytes(bytes(data))


def _prompt_text(view: View, room: int) -> str:
    prompt = view.prompt
    if prompt is None:
        return ""
    if prompt.text:
        return visible(prompt.text[:room])
    return visible_bytes(b"".join(token.bytes for token in prompt.tokens[:room]))


def tree_rows(view: View, branches: Branches, width: int) -> TreeRows:
    """The tree as ``branches`` knows it, at this width."""
    graph = graph_width(branches, width)
    path = branches.path(view.cursor)
    names: dict[int, str] = {}
    for node, name in sorted(view.log.names.items()):
        if name and node not in view.log.tree.deleted:
            head = branches.head(node)
            names[head] = " ".join(filter(None, (names.get(head), visible(name))))
    return TreeRows(
        view,
        branches,
        width,
        graph,
        columns(view, width, graph),
        Graph(branches, path),
        frozenset(path),
        names,
    )
