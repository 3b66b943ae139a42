"""A place in a run's log: a node, the branch it goes on with, and a chain that is tried there.

Any number of cursors may look at one log; moving one changes nothing else, neither the log nor
another cursor.
"""

from __future__ import annotations

from engine.run.tree import ROOT
from engine.sampling.chain import Chain
from inspector.state.view import RunLog, View


class Cursor:
    """The node that somebody looks at, at first the prompt."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        self.what_if: Chain | None = None
        """A chain that is tried on whatever step the cursor is at; the run knows nothing of it."""
        self._node = ROOT
        # Node -> its child that the cursor was at last. The path to the cursor is always in it.
        self._visited: dict[int, int] = {}

    @property
    def view(self) -> View:
        """The log as seen from here, for the panes to draw."""
        return View(self.log, self._node, self.what_if, self._visited)

    @property
    def node(self) -> int:
        """The node it is at; assigning moves it to any node of the log."""
        return self._node

    @node.setter
    def node(self, node: int) -> None:
        parent = self.log.tree.parents.get(node)
        if parent is not None and parent == self._node:
            self._visited[parent] = node
        elif parent is not None and self._visited.get(node) != self._node:
            # A jump, not a step back: from wherever on this branch, steps come here from now on.
            nodes = self.log.path(node).nodes
            self._visited.update(zip([ROOT, *nodes], nodes, strict=False))
        self._node = node

    @property
    def tip(self) -> int:
        return self.log.tip(self._node, self._visited)

    @property
    def at_tip(self) -> bool:
        """True if nothing was drawn after its node yet."""
        return not self.log.tree.children.get(self._node)

    # --- moving -------------------------------------------------------------------------------

    def forward(self) -> bool:
        """Follow the recorded child that was visited last, else the newest; False at a tip."""
        following = self.log.tree.following(self._node, self._visited)
        if following is None:
            return False
        self.node = following
        return True

    def round_end(self) -> None:
        """On along this branch to the last token of the speculative round that its node is in."""
        found = self.log.nodes[self._node].round
        while found:
            following = self.log.tree.following(self._node, self._visited)
            if following is None or self.log.nodes[following].round != found:
                return
            self.node = following

    def back(self) -> None:
        self.node = self.log.tree.parents.get(self._node, ROOT)

    def first(self) -> None:
        self.node = ROOT

    def last(self) -> None:
        self.node = self.tip

    def go_to(self, node: int) -> None:
        """Move to a node that exists; anything else is ignored."""
        if node in self.log.tree:
            self.node = node

    def sibling(self, by: int) -> bool:
        """To the branch ``by`` places further at the nearest fork above; False if there is none."""
        fork = self.log.tree.fork_above(self._node)
        if fork is None:
            return False
        head, siblings = fork
        self.node = siblings[(siblings.index(head) + by) % len(siblings)]
        return True

    # --- when the log changes under it --------------------------------------------------------

    def restart(self) -> None:
        """To the prompt of a new tree, of which nothing has been visited."""
        self._visited.clear()
        self._node = ROOT

    def leave_deleted(self, head: int) -> None:
        """Out of the deleted branch that began with ``head``, if it is in there."""
        if self._node in self.log.tree.deleted:
            self.node = self.log.tree.parents[head]
