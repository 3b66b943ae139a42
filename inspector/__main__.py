"""``python -m inspector`` is the same program as ``llm-inspect``."""

import sys

from inspector.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
