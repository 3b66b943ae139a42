"""Opening a draft source by its name, for a target that is loaded."""

from __future__ import annotations

from engine.backends import open_backend
from engine.backends.base import Backend
from engine.commands import Open
from engine.drafts.early_exit import EarlyExit
from engine.drafts.model import DraftModel
from engine.drafts.ngram import LONGEST, PromptLookup
from engine.progress import Progress
from engine.records.round import parsed_source
from engine.run.draft import DraftSource

_MODEL_OPTION = {"hf": "model", "scripted": "file"}
"""Option of a backend that names the model."""


def open_draft(name: str, target: Backend, opened: Open, progress: Progress) -> DraftSource:
    """The source ``name``; another model is opened as ``opened``, the target's own, was.

    Raises ModelError or BackendError, each one line.
    """
    kind, number = parsed_source(name)
    if kind == "ngram":
        return PromptLookup(number or LONGEST)
    if kind == "self":
        return EarlyExit(number or 1, target)
    option = _MODEL_OPTION[opened.backend]
    own = opened.options if opened.backend == "hf" else {}
    backend = open_backend(opened.backend, {**own, option: name}, progress)
    try:
        return DraftModel(name, backend, target)
    except BaseException:
        backend.close()
        raise
