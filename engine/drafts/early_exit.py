"""Drafts of the target's own first layers, read out with its own norm and head."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backends.abilities import Shallow, missing
from engine.backends.base import Backend, BackendError
from engine.run.draft import Drawer, Proposal
from engine.sampling.candidates import SamplingError


class EarlyExit:
    """Self-speculation without training (LayerSkip, arXiv:2404.16710, has the trained form).

    It reads the run's own K and V of its layers, and keeps none of its own. The later layers have
    not seen what it drafts, so all of that is taken back and read by the target's pass.
    """

    def __init__(self, layers: int, target: Backend) -> None:
        """Raises BackendError where ``target`` cannot end a pass there."""
        if not isinstance(target, Shallow):
            raise BackendError(missing(target.facts, Shallow))
        self.layers = layers
        self._target = target
        self._shallow: Shallow = target
        self._written = 0
        with self._shallow.shallow(layers):
            pass  # or it says why not

    @property
    def name(self) -> str:
        return f"self:{self.layers}"

    def propose(self, ids: Sequence[int], count: int, drawer: Drawer) -> Proposal:
        """Each draft is one pass through the layers; see ``DraftSource``."""
        feed = list(ids[self._target.seek(ids) :])
        self._written = 0
        with self._shallow.shallow(self.layers) as read:
            try:
                for _ in range(count):
                    logits = read(feed)
                    self._written += len(feed)
                    feed = [drawer.draw(logits)]
            except SamplingError:
                pass  # the stages leave nothing: the target goes on alone
        return drawer.proposal(self._written)

    def keep(self, ids: Sequence[int]) -> int:
        """All that it wrote: it is gone already, for the target to write anew."""
        return self._written

    def close(self) -> None:
        """Nothing to free: the model is the target's."""
