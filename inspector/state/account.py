"""Thinking spans and the bill of a branch of the log, kept while nothing of it changes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.bill.account import Account, account
from engine.bill.prices import PriceList
from engine.records.step_table import StepPath
from engine.records.thinking import ThinkingSettings
from engine.thinking import thinking_mask
from inspector.state.view import RunLog, View

NOT_THINKING: NDArray[np.bool_] = np.zeros(0, np.bool_)
"""The mask where nothing is known to be thinking."""


def tags_of(log: RunLog) -> ThinkingSettings:
    """The thinking tags of the run."""
    return log.settings.thinking if log.settings is not None else ThinkingSettings()


def account_of(log: RunLog, path: StepPath, prices: PriceList | None = None) -> Account:
    """The account of a path; prices by the log's list unless another is given."""
    found = log.prices if prices is None else prices
    return account(log.facts, log.prompt, log.prefill, path, log.rounds, tags_of(log), found)


def account_at(view: View) -> Account:
    """The account of the branch up to the cursor."""
    log = view.log
    known = (len(log.nodes), tags_of(log), id(log.prices), log.prefill, log.facts)
    return _kept(log, view.cursor, known)


@lru_cache(maxsize=4)
def _kept(log: RunLog, cursor: int, _: object) -> Account:
    return account_of(log, log.path(cursor))


def thinking_of(view: View) -> NDArray[np.bool_]:
    """Mask of the tokens of the cursor's whole branch that are thinking; empty without tags."""
    tags, branch = tags_of(view.log), view.branch
    if not tags.known or not len(branch):
        return NOT_THINKING
    return _mask(view.log, branch.node(-1), len(branch), tags)


@lru_cache(maxsize=4)
def _mask(log: RunLog, tip: int, length: int, tags: ThinkingSettings) -> NDArray[np.bool_]:
    return thinking_mask(log.prompt, log.path(tip).tokens, tags)
