"""Exit codes of the program; a signal that ends it gives 128 + its number (inspector.signals)."""

from __future__ import annotations

EXIT_OK = 0
EXIT_CHECK = 1
"""An assertion, a check or a comparison failed."""
EXIT_USAGE = 2
EXIT_ENGINE = 3
"""The model or the engine failed."""
EXIT_UNSAVED = 4
"""The run itself went well, but could not be saved."""
EXIT_INTERRUPTED = 130
