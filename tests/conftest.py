"""Fixtures that several test files share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.launcher import Launcher

# Each of the processes that tests start would compile all of the program again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers share the cores as well; a small model's pass does not gain by a second thread.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Textual reads these when it is imported; a test must look the same on every machine.
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["COLORTERM"] = "truecolor"
os.environ.pop("NO_COLOR", None)

from tests import settling

settling.install()
sys.dont_write_bytecode = False
# Collecting makes millions of objects, all of which stay: see ``pytest_collection_finish``.
gc.disable()


# How long an example takes says more about what else this machine does.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Begin each worker's share with files that take long, so that what is left last is short.

    Files that use the launcher go to the first worker: each has to start one of its own.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    files: dict[Path, list[pytest.Function]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def takes_long(file: list[pytest.Function]) -> bool:
        return any(item.get_closest_marker(name) for item in file for name in ("slow", "model"))

    long = [file for file in files.values() if takes_long(file)]
    short = [item for file in files.values() if not takes_long(file) for item in file]
    launching = [file for file in long if any("launcher" in item.fixturenames for item in file)]
    others = [file for file in long if file not in launching]
    # As worksteal deals them out at first.
    dealt = [launching + others[workers - 1 :: workers]]
    dealt += [others[at::workers] for at in range(workers - 1)]
    shares = [[item for file in share for item in file] for share in dealt]
    for left, share in zip(range(workers, 0, -1), shares, strict=True):
        count = max(len(short) // left if left == 1 else len(items) // workers - len(share), 0)
        share += short[:count]
        del short[:count]
    items[:] = [item for share in shares for item in share]


def pytest_collection_finish() -> None:
    """Spare Python's garbage collector the modules and the tests themselves.

    A full collection looks at every object of torch's and transformers' too: a fifth of the time
    of the tests of the screen, before.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders of this process for what a test writes without being told where.

    The cache, where the default model is, stays the user's own.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(scope="session")
def default_model_dir() -> Path:
    """The folder of the default model, fetched and converted first where that is still to do."""
    from engine.models.resolve import resolve

    def quiet(phase: str, fraction: float | None, detail: str = "") -> None:
        pass

    return Path(str(resolve(None, quiet).path))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Threads only get into each other's way with models as small as the tests'."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """Starts ``llm-inspect`` without the seconds that its imports take."""
    started = Launcher()
    yield started
    started.close()
