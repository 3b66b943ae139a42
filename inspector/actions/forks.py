"""The app's keys for the tree: fork, switch, name, delete, and begin with another prompt."""

from __future__ import annotations

from dataclasses import replace

from textual.app import App
from textual.content import Content

from engine.commands import Step, Submit
from engine.records.step import StepRecord, TopTable
from engine.sampling.chain import Chain
from inspector.draw.cells import token_text
from inspector.draw.numbers import plural
from inspector.panes.tree.pane import TreePane
from inspector.screens.dialog import Dialog
from inspector.screens.forks import DeleteMenu, ForkMenu, NameAsk, SeedAsk, SettingsAsk
from inspector.screens.prompt import PromptScreen
from inspector.screens.token_ask import Ids, TokenAsk
from inspector.state.controller import Controller
from inspector.state.request import Request
from inspector.state.whatif import recorded_chain

_BUSY = "a pass is running: space pauses it"


def _other_place(after: bool) -> str:
    return "instead of the token at the cursor" if after else "after the token at the cursor"


class BranchingApp(App[None]):
    """Opens the dialogs, and has the controller do what they answer."""

    controller: Controller
    _asked: Request

    def paint(self) -> None:
        """Show the run as it is now."""
        raise NotImplementedError

    def action_apply(self, here: bool) -> None:
        """Go on with the chain that is tried."""
        raise NotImplementedError

    @property
    def kept(self) -> bool:
        """Whether a file holds what is on screen."""
        raise NotImplementedError

    def tell_dialogs(self) -> None:
        """Let open dialogs see what the engine has said."""
        for screen in self.screen_stack:
            if isinstance(screen, Dialog):
                screen.heard(self.controller.log)

    def _tell(self, text: str) -> None:
        self.notify(text, severity="warning", markup=False)

    # --- forking --------------------------------------------------------------------------------

    def action_fork(self) -> None:
        """Ask what to do differently at the cursor."""
        if self.controller.log.prompt is None:
            self._tell("there is no prompt yet")
        elif self.controller.busy:
            self._tell(_BUSY)
        else:
            self._fork(after=self.controller.view.step is None)

    def _fork(self, *, after: bool) -> None:
        view = self.controller.view
        step, parent = view.step, self._fork_parent(after)
        seed = self.controller.unused_seed(parent)
        details = {
            "redraw": "with the run's own seed" if seed is None else f"with seed {seed}",
            "token": "a text, or the id of a token",
            "settings": "for this token and all new ones",
            "where": "" if step is None else _other_place(after),
            "prompt": "a new run, which reads again only what differs",
        }
        muted = {name: Content.styled(text, "$title") for name, text in details.items()}

        def chosen(name: str | None) -> None:
            match name:
                case "redraw":
                    self._carry_out(Step(parent, seed=seed))
                case "seed":
                    self.push_screen(SeedAsk(self._place(after)), drawn)
                case "token":
                    self._ask_token(after)
                case "settings":
                    self._ask_settings(after)
                case "where":
                    self._fork(after=not after or step is None)
                case "prompt":
                    self.action_prompt()

        def drawn(seed: int | None) -> None:
            if seed is not None:
                self._carry_out(Step(parent, seed=seed))

        self.push_screen(ForkMenu(self._place(after), muted), chosen)

    def _fork_parent(self, after: bool) -> int:
        step = self.controller.view.step
        return step.parent if step is not None and not after else self.controller.cursor

    def _place(self, after: bool) -> Content:
        """Where the new branch begins, in words."""
        step = self.controller.view.step
        if step is None:
            return Content("Fork: after the prompt")
        word = "after" if after else "instead of"
        return Content(f"Fork: {word} token {step.position}, ") + token_text(step.token)

    def _carry_out(self, step: Step) -> None:
        if self.controller.busy:
            self._tell(_BUSY)
        self.controller.fork(step)
        self.paint()

    def _ask_token(self, after: bool) -> None:
        parent = self._fork_parent(after)

        def taken(ids: Ids | None) -> None:
            if ids is not None:
                self._carry_out(Step(parent, force=ids))

        controller = self.controller
        controller.need_vocabulary()
        asked = TokenAsk(self._place(after), controller.log, self._top(parent), controller.tokenize)
        self.push_screen(asked, taken)

    def _top(self, parent: int) -> TopTable | None:
        """The candidates after a node, where a token was drawn from them."""
        children = self.controller.log.children.get(parent)
        return self.controller.log.nodes[children[-1]].top if children else None

    def _ask_settings(self, after: bool) -> None:
        chain = recorded_chain(self.controller.view)
        if chain is None:
            self._tell("these settings hold a stage that only the engine can run")
            return

        def given(wanted: Chain | None) -> None:
            if wanted is None:
                return
            at_tip = not self.controller.log.children.get(self.controller.cursor)
            self.controller.what_if = wanted
            self.action_apply(not after)
            if after and at_tip:
                # Nothing is there that the settings could fork: the next token is drawn with them.
                self.controller.step()
            self.paint()

        self.push_screen(SettingsAsk(self._place(after), chain), given)

    # --- the branches there are -----------------------------------------------------------------

    def action_sibling(self, by: int) -> None:
        """To the next or the previous branch at the nearest fork above."""
        if not self.controller.sibling(by):
            self._tell("there is no fork above: f makes one")
        self.paint()

    def _branch(self) -> StepRecord | None:
        """The first token of the branch that is meant: the tree's selected row, or the cursor's."""
        focused, log = self.focused, self.controller.log
        node = focused.head if isinstance(focused, TreePane) else self.controller.cursor
        head = log.branch(node)
        if head is None:
            self._tell("this is the prompt: a branch begins after it")
            return None
        return log.nodes[head]

    def action_name_branch(self) -> None:
        """Ask what to call a branch."""
        step = self._branch()
        if step is None:
            return

        def named(name: str | None) -> None:
            if name is not None:
                self.controller.name(step.node, name)

        title = Content("Name the branch that begins with ") + token_text(step.token)
        known = self.controller.log.names.get(step.node, "")
        self.push_screen(NameAsk(title, known, "no name: the one it has is taken away"), named)

    def action_delete_branch(self) -> None:
        """Ask whether to delete a branch."""
        step = self._branch()
        if step is None:
            return
        if self.controller.busy:
            self._tell(_BUSY)
            return

        def answered(name: str | None) -> None:
            if name == "yes":
                self.controller.delete(step.node)

        count = len(self.controller.log.below(step.node))
        more = f"{plural(count, 'token')}; until the next new token, u brings it back"
        title = Content("Delete the branch that begins with ") + token_text(step.token)
        self.push_screen(DeleteMenu(title, {"yes": Content.styled(more, "$title")}), answered)

    def action_undo_delete(self) -> None:
        """Bring back the branch that was deleted last."""
        if self.controller.can_undo:
            self.controller.undo()
        else:
            self._tell("no branch was deleted since the last new token")

    # --- another prompt -------------------------------------------------------------------------

    def action_prompt(self) -> None:
        """Edit the prompt, and begin a new run with it."""

        def submit(prompt: Submit) -> None:
            # What a new engine, after a restart, begins with; and what is edited the next time.
            self._asked = replace(self._asked, submit=prompt)
            self.controller.submit(prompt)

        if self.controller.log.facts is None:
            self._tell("no model is loaded yet")
        else:
            log, last = self.controller.log, self._asked.submit
            self.push_screen(PromptScreen(log, last, submit, kept=self.kept))
