"""The most memory that this process has held since a moment, whatever it held before."""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from pathlib import Path


def begin() -> int:
    """Start looking anew where the system can; bytes held now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again: proc(5)
    return peak()


def peak() -> int:
    """The most bytes of main memory held at once since ``begin``, or since the process began."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        found = None
    if found:
        return int(found[1]) << 10
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
