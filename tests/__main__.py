"""Every check of this project: ``python tests``. Arguments go to pytest: ``python tests -k kv``.

All of them run, even after one has failed, so that one run shows everything there is to mend.
pytest is last: its closing line closes the output. The exit status is 1 if any of them failed.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest",),
)


def main(pytest_arguments: list[str]) -> int:
    failed = []
    for check in CHECKS:
        name = " ".join(check)
        print(f"── {name}", flush=True)
        extra = pytest_arguments if check == ("pytest",) else []
        start = time.perf_counter()
        code = subprocess.run([sys.executable, "-m", *check, *extra], cwd=ROOT).returncode
        if code != 0:
            failed.append(name)
        if check != ("pytest",):
            print(f"   {'failed' if code else 'ok'}, {time.perf_counter() - start:.1f} s")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
