"""Every check of this project: ``python tests``. Arguments go to pytest: ``python tests -k kv``.

All of them run, even after one has failed, so that one run shows everything there is to mend.
pytest starts first, in several workers, and the others run beside it; what it says comes after what
they say: its closing line closes the output. The exit status is 1 if any of them failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STATIC_CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
)
# Two workers more than there are cores, as some wait for a process or a terminal; not more than
# four, as each holds a model or two. A file's tests stay together, for what they share, until a
# worker has nothing left to do.
WORKERS = min((os.cpu_count() or 1) + 2, 4)
PYTEST = ("pytest", "-n", str(WORKERS), "--dist", "worksteal")
COLLECT = ("pytest", "--collect-only", "-qq")


def main(pytest_arguments: list[str]) -> int:
    failed = []
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(start, pytest_arguments)
        failed += static_checks()
        tests = starting.result()
    print("── pytest", flush=True)
    assert tests.stdout is not None
    with tests.stdout:  # what it said so far, and then as it says it
        while said := tests.stdout.read1():
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()
    if tests.wait() != 0:
        failed.append("pytest")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start pytest. In a new clone the tests are compiled first, once for all workers."""
    if not (arguments or any(ROOT.glob("tests/**/__pycache__/*-pytest-*.pyc"))):
        subprocess.run([sys.executable, "-m", *COLLECT], cwd=ROOT, capture_output=True)
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    return subprocess.Popen(
        [sys.executable, "-m", *PYTEST, *colour, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def static_checks() -> list[str]:
    """Run them one after another. Returns those that failed."""
    failed = []
    for check in STATIC_CHECKS:
        name = " ".join(check)
        print(f"── {name}", flush=True)
        start = time.perf_counter()
        code = subprocess.run([sys.executable, "-m", *check], cwd=ROOT).returncode
        if code != 0:
            failed.append(name)
        print(f"   {'failed' if code else 'ok'}, {time.perf_counter() - start:.1f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
