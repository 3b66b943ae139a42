"""Columns of a comparison: their settings, and one batched pass over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.records.round import DraftSettings

MOST_COLUMNS = 64
"""Columns that one pass reads at most."""


@dataclass(frozen=True, slots=True)
class ColumnState:
    """One column: a branch of the tree that begins behind ``parent``, with settings of its own.

    ``column`` is its number, by which passes name it. ``error`` says why it cannot run.
    """

    column: int
    parent: int
    title: str = ""
    preset: str = ""
    chain_spec: str = ""
    seed: int = 0
    draft: DraftSettings = field(default_factory=DraftSettings)
    error: str = ""


@dataclass(frozen=True, slots=True)
class ColumnsSet:
    """The columns that run from now on. Raises ValueError for more than there can be."""

    columns: tuple[ColumnState, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) > MOST_COLUMNS:
            raise ValueError(f"there are at most {MOST_COLUMNS} columns")


class Part(StrEnum):
    """A column's part in a pass."""

    ROW = "row"
    """A row of the pass."""
    TWIN = "twin"
    """No row: its text was another column's so far, and one row served both."""
    KNOWN = "known"
    """Nothing was read: the distribution was there already, as behind the prompt."""
    ALONE = "alone"
    """Passes of its own: a speculative round, or a branch that had to be read again."""
    FAILED = "failed"
    """No token; the reason stands beside."""


@dataclass(frozen=True, slots=True)
class PassColumn:
    """Result of a pass in one column: new nodes behind ``parent``, one, or all of a round."""

    column: int
    parent: int
    part: Part
    nodes: tuple[int, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One step of several columns at once; it comes behind the steps that it added.

    ``rows`` of the columns went through the model together, in ``passes`` passes: one, or as many
    as rows where this model's cannot share one, for which ``note`` says why. ``forward_ms`` is the
    time of these passes, 0 where none ran; ``total_ms`` also has sampling, and what single columns
    needed beside them. Each step that read something waited for all of it, and its own time says
    so. ``weight_bytes`` are read once a pass. ``kv_bytes`` are those of K and V that the passes
    read, None where that is not known: ``shared_kv_bytes`` of them once for all rows, which begin
    with them, the rest row by row. A pass that gathers K and V row by row reads what rows have in
    common once a row, and shares none. Blocks that were copied or evicted for the pass are counted
    here, not in its steps. Raises ValueError where the figures do not fit each other.
    """

    columns: tuple[PassColumn, ...]
    rows: int
    passes: int
    forward_ms: float
    total_ms: float
    dtype: str = ""
    weight_bytes: int = 0
    kv_bytes: int | None = None
    copied_blocks: int = 0
    evicted_blocks: int = 0
    warmup: bool = False
    note: str = ""
    shared_kv_bytes: int = 0

    def __post_init__(self) -> None:
        counts = [self.rows, self.passes, self.weight_bytes, self.kv_bytes or 0]
        counts += [self.copied_blocks, self.evicted_blocks, self.shared_kv_bytes]
        if not all(0 <= one < 1 << 63 for one in counts):
            raise ValueError("a pass holds a count that cannot be")
        if not self.rows <= len(self.columns) <= MOST_COLUMNS:
            raise ValueError(f"{self.rows} rows do not fit {len(self.columns)} columns")

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes that came of it, column by column."""
        return tuple(node for one in self.columns for node in one.nodes)

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens for each time that the weights were read; None where they were not.

        Of columns that had a part in these passes alone.
        """
        shared = sum(one.part in (Part.ROW, Part.TWIN) for one in self.columns)
        return shared / self.passes if self.passes else None
