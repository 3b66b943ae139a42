"""The rule by which tests find a figure on a screen that does not say how it is known.

A figure is a number with a unit: of time, of memory, of information, a rate, a share, a factor.
It is measured •, derived ƒ or estimated ~. The mark stands behind it in its line, where one may
stand for several figures before it; or behind the unit in the heading of its column; or in the
title of the table or chart that it is part of; or in the lower border of its pane. Words do as
well: "measured", "derived", "estimated".

These are no figures, and carry no mark: counts (of tokens, positions, blocks, steps), which are
exact; ids and ranks; what somebody set (dials, budgets, thresholds of a scale); a random number,
which is drawn; versions and times of day; formulas; the ends of an axis; progress, which is of the
moment; the value of an expression that somebody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

UNITS = r"ns|µs|ms|s|min|tok/s|tokens/s|GB/s|[MGTP]?FLOP/[sB]|B|[kMGT]B|[KMGT]iB|nats|×|%"
FIGURE = re.compile(
    rf"(?<![\w.,×])(?<!× )(?<!read )\d[\d,]*(?:\.\d+)? ?({UNITS})"
    r"(?![\w/(]| \d| parameters| active)(?!(?<=×) [a-z])"
)
"""Not the factors of a formula, billions of parameters, or how much a measurement reads."""
HEADING = re.compile(r"(?<!\S)(?<!in )(?<!\d )(?<!— )(nats|ms|tok/s)(?!\S)")
"""A unit in a heading: not in a sentence, and not behind a number."""
MARK = re.compile(r"[•ƒ~]|\b(?:measured|derived|estimated)\b")
AXIS = re.compile(r"[\d.,]+ ?\S*[┤┴]|0 ─.*|^ *ms +step$")
"""The end of an axis, or its name."""
COVER = re.compile(r"(%|all) ƒ")
"""In the border below a pane, the mark of all of its figures, or of those with that unit."""


def unmarked(lines: Iterable[str], border: str = "") -> Iterator[str]:
    """Lines with a figure that nothing marks. ``border`` is what stands in the pane's border."""
    covered = set(COVER.findall(border))
    titled = "all" in covered
    for text, below in pairwise([*lines, ""]):
        line = AXIS.sub("", text.rstrip())
        found = [one.end() for one in FIGURE.finditer(line) if one[1] not in covered]
        # Where each figure of the column has a mark of its own, the heading needs none.
        if not MARK.search(below):
            found += [one.end() for one in HEADING.finditer(line)]
        has_mark = MARK.search(line) is not None
        if "all" not in covered and ("──" in line or (has_mark and not found)):
            titled = has_mark
        if found and not titled and not MARK.search(line, max(found)):
            yield text
