"""The engine's own sampler beside our preset of it: what was found when it was asked."""

from __future__ import annotations

from textual.content import Content

from engine.text import visible
from inspector.draw.numbers import cut, muted, plural
from inspector.state.view import View


def own_stack(view: View) -> str:
    """The preset of the engine's own sampler, where that tells what it leaves; else nothing."""
    facts = view.log.facts
    if facts is None or not any(one.name == "own sampler" and one.given for one in facts.probed):
        return ""
    return facts.backend


def engine_lines(view: View, width: int) -> list[Content]:
    """A line about the engine's own sampler; none for an engine that has none."""
    stack, found = own_stack(view), view.log.checks.get(view.cursor)
    if found is None:
        return [cut(muted(f" O: ask {stack} itself what it keeps"), width)] if stack else []
    if found.same:
        said = ("✓ keeps the same", "$success")
    else:
        parts = f"parts from ours on {plural(found.parted, 'token')}" if found.parted else "differs"
        said = (f"✗ {parts}, by {found.largest:.2g}", "$error")
    kept = f"{found.theirs:,}{'' if found.listed_all else '+'}"
    line = Content.assemble(
        (f" {found.stack} itself ", "bold"), said, (f" · {kept} kept at ", "$text-muted")
    )
    return [cut(line + muted(visible(found.spec)), width)]
