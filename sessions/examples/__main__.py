"""Record the examples anew: ``python -m sessions.examples [--model MODEL] [--backend NAME]``."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.backends import open_backend
from engine.run.stepper import Stepper
from sessions.examples import EXAMPLES, FOLDER, record_example
from sessions.file.format import SUFFIX


def main() -> None:
    """Record every example with one model into one folder."""
    parser = argparse.ArgumentParser(prog="python -m sessions.examples", description=__doc__)
    parser.add_argument("--model", help="the default model where none is given")
    parser.add_argument("--backend", default="hf")
    parser.add_argument("--only", choices=EXAMPLES, help="one of them")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args()
    options = {"model": args.model} if args.model else {}
    stepper = Stepper(open_backend(args.backend, options))
    for name in [args.only] if args.only else EXAMPLES:
        path = args.folder / f"{name}{SUFFIX}"
        record_example(name, stepper, path)
        print(f"{path}: {path.stat().st_size:,} bytes")
    stepper.backend.close()


if __name__ == "__main__":
    main()
