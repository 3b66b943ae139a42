"""Fetching models from the hub, into its client's own cache.

First one question that fails fast (what is there, how large), then the configuration,
then, if that is of a causal language model and the disk has room, the weights.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from engine.models.checks import ModelError, first_line
from engine.models.gguf import quiet
from engine.models.store import check_space, tree_bytes
from engine.progress import Progress

_TIMEOUT = 15.0  # seconds for the hub's first answer


class NotFound(ModelError):
    """Neither the hub nor its cache has a model of this name; it may be a mistyped path."""


class Found(NamedTuple):
    """A model of the hub on this machine; `notes` are for the screen."""

    folder: Path
    commit: str
    notes: tuple[str, ...] = ()


def hub_folder(
    repo: str, progress: Progress, *, offline: bool, accept: Callable[[Path], None]
) -> Found:
    """The local folder of a model on the hub, downloaded if it is not there.

    `accept(config.json)` may refuse the model before its weights are fetched. Where the
    hub does not answer, a copy in its cache is used. Raises ModelError.
    """
    quiet()
    if offline:
        return _cached(
            repo,
            accept,
            "offline: nothing was looked up on the network",
            f"offline, and {repo} is not in the hub's cache on this machine: run once with a "
            "network, or give a folder or a .gguf file",
        )
    progress("download", None, f"{repo}: asking the hub")
    with _one_line(repo):
        files = _listed(repo)
        if files is not None:
            return _fetched(repo, files, progress, accept)
    return _cached(
        repo,
        accept,
        "the hub did not answer: this is the copy in its cache",
        f"no network: the hub cannot be reached for {repo}, and it is not in its cache on this "
        "machine; try again online, or give a folder or a .gguf file",
    )


def _cached(repo: str, accept: Callable[[Path], None], note: str, otherwise: str) -> Found:
    # Not hf_hub_download(local_files_only=True): its client may go to the network even so.
    from huggingface_hub import try_to_load_from_cache

    with _one_line(repo):
        config = try_to_load_from_cache(repo, "config.json")
    if not isinstance(config, str):
        raise NotFound(otherwise)
    accept(Path(config))
    return Found(Path(config).parent, Path(config).parent.name, (note,))


def _listed(repo: str) -> dict[str, int] | None:
    """The files of a model that are worth fetching, with their sizes in bytes.

    None if the hub does not answer.
    """
    from huggingface_hub import HfApi, errors

    try:
        info = HfApi().model_info(repo, files_metadata=True, timeout=_TIMEOUT)
    except (errors.HfHubHTTPError, errors.HFValidationError):
        raise  # it did answer, or there is nothing to ask
    except Exception:  # whatever the client's transport raises
        return None
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    return wanted_files(sizes)


def _fetched(
    repo: str, files: Mapping[str, int], progress: Progress, accept: Callable[[Path], None]
) -> Found:
    from huggingface_hub import hf_hub_download, snapshot_download

    if "config.json" not in files:
        raise ModelError(
            f"{repo} has no config.json: it is not a model for transformers (of a repository "
            "of .gguf files, download one and give its path)"
        )
    # Without a revision, so that its cache remembers which commit is the newest.
    config = Path(hf_hub_download(repo, "config.json"))
    accept(config)
    folder, commit = config.parent, config.parent.name
    missing = {name: size for name, size in files.items() if not (folder / name).exists()}
    if missing:
        total, cache = sum(missing.values()), config.parents[2]
        check_space(cache, total, f"downloading {repo}")
        with _watched(cache, total, repo, progress):
            snapshot_download(repo, revision=commit, allow_patterns=sorted(missing))
    return Found(folder, commit)


@contextmanager
def _one_line(repo: str) -> Iterator[None]:
    """Turn what the hub's client raises into a ModelError."""
    from huggingface_hub import errors

    try:
        yield
    except ModelError:
        raise
    except errors.GatedRepoError as error:
        raise ModelError(
            f"{repo} is gated: accept its terms on its page on the hub, then `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise NotFound(
            f"the hub has no model {repo} that you may read, and no folder here has that name"
        ) from error
    except errors.HFValidationError as error:
        raise ModelError(f"{repo} is not a hub id: {first_line(error)}") from error
    except Exception as error:  # whatever the client's transport raises
        raise ModelError(f"{repo} could not be fetched: {first_line(error)}") from error


def wanted_files(sizes: Mapping[str, int]) -> dict[str, int]:
    """Of a repository's files the ones to fetch: text, and the weights in one format."""

    def named(pattern: str) -> dict[str, int]:
        return {name: size for name, size in sizes.items() if re.fullmatch(pattern, name)}

    shard = r"(-\d+-of-\d+)?"
    weights = named(rf"model{shard}\.safetensors") or named(rf"pytorch_model{shard}\.bin")
    return weights | named(r".*\.(json|txt|model|jinja|tiktoken|py)")


@contextmanager
def _watched(folder: Path, total: int, label: str, progress: Progress) -> Iterator[None]:
    """Report how much a folder has grown, from a thread, until the block ends."""
    before, done = tree_bytes(folder), threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            grown = min(tree_bytes(folder) - before, total)
            detail = f"{label}: {grown / 1e6:.0f} of {total / 1e6:.0f} MB"
            progress("download", grown / max(total, 1), detail)

    thread = threading.Thread(target=watch, name="download progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
