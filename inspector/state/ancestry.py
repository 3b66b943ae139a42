"""Who is above whom in the tree of a run, without walking a branch of ten thousand tokens.

Each node knows one far ancestor besides its parent, chosen as in E. Myers, "An applicative
random-access stack" (1983): every question below then takes about as many steps as the depth has
binary digits, and a new node is taken in at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

ROOT = 0


class Ancestry:
    """Depths and ancestors over ``parents``, a mapping that may grow and is never changed else.

    With ``token``, which gives a node's token id, nodes that end the same text are one: the first
    of them that was asked for stands for all.
    """

    def __init__(
        self, parents: Mapping[int, int], token: Callable[[int], int] | None = None
    ) -> None:
        self.parents = parents
        self._token = token
        self._stands_for = {ROOT: ROOT}
        self._depth = {ROOT: 0}
        self._up = {ROOT: ROOT}
        self._jump = {ROOT: ROOT}
        self._texts: dict[tuple[int, int], int] = {}

    def depth(self, node: int) -> int | None:
        """How many tokens lead to ``node``, itself included; None for one that is not known."""
        known = self._known(node)
        return None if known is None else self._depth[known]

    def above(self, node: int, depth: int) -> int | None:
        """The node at ``depth`` on the way to ``node``; None where there is none."""
        known = self._known(node)
        if known is None or not 0 <= depth <= self._depth[known]:
            return None
        return self._climb(known, depth)

    def common(self, one: int, other: int) -> int | None:
        """The depth down to which the ways to both are the same; None for an unknown node."""
        here, there = self._known(one), self._known(other)
        if here is None or there is None:
            return None
        depth = min(self._depth[here], self._depth[there])
        here, there = self._climb(here, depth), self._climb(there, depth)
        # At equal depths the far ancestors are at equal depths too.
        while here != there:
            if self._jump[here] != self._jump[there]:
                here, there = self._jump[here], self._jump[there]
            else:
                here, there = self._up[here], self._up[there]
        return self._depth[here]

    def _climb(self, node: int, depth: int) -> int:
        while self._depth[node] > depth:
            far = self._jump[node]
            node = far if self._depth[far] >= depth else self._up[node]
        return node

    def _known(self, node: int) -> int | None:
        """What stands for ``node``; None for one in a loop, or whose parent is not there."""
        if node not in self._stands_for:
            self._take_in(node)
        return self._stands_for.get(node)

    def _take_in(self, node: int) -> None:
        new: dict[int, None] = {}
        while node not in self._stands_for:
            if node in new or node not in self.parents:
                return
            new[node] = None
            node = self.parents[node]
        for one in reversed(new):
            up = self._stands_for[self.parents[one]]
            same = (
                one if self._token is None else self._texts.setdefault((up, self._token(one)), one)
            )
            self._stands_for[one] = same
            if same == one:
                far = self._jump[up]
                farther = self._jump[far]
                even = self._depth[up] - self._depth[far] == self._depth[far] - self._depth[farther]
                self._depth[one] = self._depth[up] + 1
                self._up[one] = up
                self._jump[one] = farther if even else up
