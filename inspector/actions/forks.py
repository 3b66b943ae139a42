"""The keys for the tree: fork, switch, name, delete, and begin with another prompt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.content import Content

from engine.commands import Step, Submit
from engine.records.events import RunState
from engine.records.step import StepRecord
from inspector.actions.host import Host
from inspector.actions.keeping import Keeping
from inspector.actions.trying import Trying
from inspector.draw.cells import token_text
from inspector.draw.numbers import plural
from inspector.panes.tree.pane import TreePane
from inspector.screens.forks import DeleteMenu, ForkMenu, NameAsk, SeedAsk, SettingsAsk
from inspector.state.view import View
from inspector.state.whatif import recorded_chain

_BUSY = "a pass is running: space pauses it"
_LOADING = "the model is still being loaded: that can be done once it is there"


@dataclass(frozen=True, slots=True)
class Place:
    """Parent of a new branch: the cursor's token, or the one before it."""

    view: View
    after: bool

    @property
    def parent(self) -> int:
        """The node that the branch begins after."""
        step = self.view.step
        return step.parent if step is not None and not self.after else self.view.cursor

    @property
    def title(self) -> Content:
        step = self.view.step
        if step is None:
            return Content("Fork: after the prompt")
        word = "after" if self.after else "instead of"
        return Content(f"Fork: {word} token {step.position}, ") + token_text(step.token)

    @property
    def step(self) -> StepRecord | None:
        """The one that was drawn there last."""
        log = self.view.log
        children = log.tree.children.get(self.parent)
        return log.nodes[children[-1]] if children else None

    @property
    def other(self) -> Place:
        """The other place at the cursor; at the prompt there is none."""
        return Place(self.view, not self.after or self.view.step is None)


class Forks:
    """Opens the dialogs about branches, and has the controller do what they answer."""

    def __init__(self, host: Host, trying: Trying, keeping: Keeping) -> None:
        self._host = host
        self._trying = trying
        self._keeping = keeping

    def _warn(self, line: str) -> None:
        self._host.say(line, warn=True)

    def _refused(self) -> bool:
        """Say why no branch can be made or deleted now, if so."""
        controller = self._host.controller
        if controller.busy:
            loading = controller.log.state.state in (RunState.STARTING, RunState.LOADING)
            self._warn(_LOADING if loading else _BUSY)
        return controller.busy

    # --- forking --------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Draw the cursor's token again, with another seed."""
        if self._host.controller.view.step is None:
            self._warn("this is the prompt: n draws the first token")
        elif not self._refused():
            self._host.controller.redraw()
            self._host.paint()

    async def fork(self) -> None:
        """Ask what to do differently at the cursor."""
        controller = self._host.controller
        if controller.log.prompt is None:
            self._warn("there is no prompt yet")
            return
        if self._refused():
            return
        place = Place(controller.view, after=controller.view.step is None)
        while (chosen := await self._host.ask(self._menu(place))) == "where":
            place = place.other
        match chosen:
            case "redraw":
                self._carry_out(Step(place.parent, seed=controller.unused_seed(place.parent)))
            case "seed":
                seed = await self._host.ask(SeedAsk(place.title))
                if seed is not None:
                    self._carry_out(Step(place.parent, seed=seed))
            case "token":
                await self._token(place)
            case "settings":
                await self._settings(place)
            case "prompt":
                await self.prompt()

    def _menu(self, place: Place) -> ForkMenu:
        seed = self._host.controller.unused_seed(place.parent)
        other = "instead of" if place.after else "after"
        details = {
            "redraw": "with the run's own seed" if seed is None else f"with seed {seed}",
            "token": "a text, or the id of a token",
            "settings": "for this token and all new ones",
            "where": "" if place.view.step is None else f"{other} the token at the cursor",
            "prompt": "a new run, which reads again only what differs",
        }
        muted = {name: Content.styled(text, "$title") for name, text in details.items()}
        return ForkMenu(place.title, muted)

    def force(self, token_id: int, *, after: bool) -> None:
        """Take a token instead of the one at the cursor or after it; say how that is undone."""
        host = self._host
        step = None if after else host.controller.view.step
        if step is not None and step.token.id == token_id:
            host.say("this is the token that stands here already: nothing to force")
        elif self._refused():
            pass
        elif host.controller.force(token_id, after=after) and host.engine.can_run:
            host.say("forced, on a branch of its own: b and h go back")
        host.paint()

    def _carry_out(self, step: Step) -> None:
        if not self._refused():
            self._host.controller.fork(step)
        self._host.paint()

    async def _token(self, place: Place) -> None:
        from inspector.screens.token_ask import TokenAsk

        controller = self._host.controller
        controller.need_vocabulary()
        ids = await self._host.ask(
            TokenAsk(place.title, controller.log, place.step, controller.tokenize)
        )
        if ids is not None:
            self._carry_out(Step(place.parent, force=ids))

    async def _settings(self, place: Place) -> None:
        controller = self._host.controller
        chain = recorded_chain(place.view)
        if chain is None:
            self._warn("these settings hold a stage that only the engine can run")
            return
        wanted = await self._host.ask(SettingsAsk(place.title, chain))
        if wanted is None:
            return
        at_tip = controller.cursor.at_tip
        controller.cursor.what_if = wanted
        self._trying.apply(here=not place.after)
        if place.after and at_tip:
            # Nothing is there that the settings could fork: the next token is drawn with them.
            controller.step()
        self._host.paint()

    # --- the branches there are -----------------------------------------------------------------

    def sibling(self, by: int) -> None:
        """To the next or the previous branch at the nearest fork above."""
        if not self._host.controller.cursor.sibling(by):
            self._warn("there is no fork above: f makes one")
        self._host.paint()

    def _branch(self) -> StepRecord | None:
        """The first token of the branch that is meant: the tree's selected row, or the cursor's."""
        focused, controller = self._host.focused, self._host.controller
        node = focused.head if isinstance(focused, TreePane) else controller.cursor.node
        head = controller.log.branch(node)
        if head is None:
            self._warn("this is the prompt: a branch begins after it")
            return None
        return controller.log.nodes[head]

    async def name(self) -> None:
        step = self._branch()
        if step is None:
            return
        controller = self._host.controller
        title = Content("Name the branch that begins with ") + token_text(step.token)
        known = controller.log.names.get(step.node, "")
        name = await self._host.ask(NameAsk(title, known, "no name: the one it has is taken away"))
        if name is not None:
            controller.name_branch(step.node, name)

    async def delete(self) -> None:
        controller, step = self._host.controller, self._branch()
        if step is None:
            return
        if self._refused():
            return
        count = len(controller.log.tree.below(step.node))
        more = f"{plural(count, 'token')}; until the next new token, u brings it back"
        title = Content("Delete the branch that begins with ") + token_text(step.token)
        details = {"yes": Content.styled(more, "$title")}
        if await self._host.ask(DeleteMenu(title, details)) == "yes":
            controller.delete(step.node)

    def undo(self) -> None:
        if not self._host.controller.can_undo:
            self._warn("no branch was deleted since the last new token")
        elif not self._refused():
            self._host.controller.undo()

    # --- another prompt -------------------------------------------------------------------------

    async def prompt(self) -> None:
        # Only here: it takes longer to import than any other dialog.
        from inspector.screens.prompt import PromptScreen

        host, controller = self._host, self._host.controller

        def submit(prompt: Submit) -> None:
            # What a new engine, after a restart, begins with; and what is edited the next time.
            host.asked = replace(host.asked, submit=prompt)
            controller.submit(prompt)

        if controller.log.facts is None:
            self._warn("no model is loaded yet")
        else:
            await host.ask(
                PromptScreen(controller.log, host.asked.submit, submit, kept=self._keeping.kept)
            )
