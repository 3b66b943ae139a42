"""Facts of the model, the device, and how K and V are kept: a record, settled at load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.records.engine import Probed

KV_DTYPES = ("auto", "int8")
"""Dtypes that K and V can be kept in; auto is the one that the model computes them in."""


FEW_ROWS = 4
"""Texts of a pass by which dtypes are timed for several: columns, and drafts that are verified."""


@dataclass(frozen=True, slots=True)
class DtypeTrial:
    """One dtype tried at load: how fast, whether its answer can be trusted, or why not.

    ``step_ms`` is the median of whole decode steps, ``rows_ms`` the fastest pass over ``FEW_ROWS``
    texts at once; None where it was not measured.
    """

    dtype: str
    agrees: bool | None
    note: str
    step_ms: float | None = None
    rows_ms: float | None = None


def best_of_rows(trials: Sequence[DtypeTrial]) -> DtypeTrial | None:
    """The trial that was fastest with several texts at once; None where none was timed so."""
    timed = [one for one in trials if one.rows_ms is not None]
    return min(timed, key=lambda one: one.rows_ms or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class KVStorage:
    """Storage of K and V, settled when the model is loaded.

    Without ``cached`` every pass reads the whole text again. ``dtype`` is what K and V are kept in
    ("" where there are none or the model's own cache decides). In a pool, ``block_size`` positions
    make a block and ``pool_bytes`` are reserved for ``blocks`` of them (one number for each group
    of layers with the same window); these are None and empty without a pool.
    """

    cached: bool = True
    dtype: str = ""
    block_size: int | None = None
    blocks: tuple[int, ...] = ()
    pool_bytes: int | None = None

    @property
    def unusual(self) -> str:
        """The options that are not the default: ``no cache``, ``int8 KV``, or nothing."""
        if not self.cached:
            return "no cache"
        return "int8 KV" if self.dtype == "int8" else ""


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """Facts of the loaded model and its device. ``None`` means not known, and a note says why."""

    name: str
    identity: str
    architecture: str
    device: str
    device_name: str
    dtype: str
    dtype_reason: str
    dtype_trials: tuple[DtypeTrial, ...]
    backend: str
    vocab_size: int
    tokenizer_size: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    context_length: int | None
    parameters: int
    weight_bytes: int
    kv_bytes_per_token_expected: int | None
    kv_note: str
    cache_kind: str
    can_rewind: bool
    stop_ids: dict[int, str] = field(default_factory=dict)
    """Stop token id -> who declares it (tokenizer, config, generation config)."""
    generation_config: dict[str, Any] = field(default_factory=dict)
    has_chat_template: bool = False
    load_ms: float = 0.0
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    threads: int = 0
    kv_storage: KVStorage | None = None
    """None where it is not known: a script, and recordings from before it was noted."""
    top: int | None = None
    """Number of leading log-probabilities that a pass yields; None for the whole vocabulary's."""

    probed: tuple[Probed, ...] = ()
    """Findings on an engine that is asked by token ids: what it tells, what not, with reasons."""

    @property
    def tells_all(self) -> bool:
        """True if the whole vocabulary's distribution can be had, with a pass or on demand."""
        return self.top is None or any(
            one.name == "candidates" and one.value == "any number" for one in self.probed
        )

    @property
    def remote(self) -> bool:
        """True if the model runs behind a URL: that machine cannot be measured from here."""
        return self.device == "server"

    @property
    def kv_by_formula(self) -> bool:
        """True if bytes of K and V are the formula's: an engine of its own does not tell them."""
        return self.top is not None

    def kv_bytes(self, positions: int) -> int | None:
        """Bytes of K and V by the formula; None where it does not hold, or they are measured."""
        each = self.kv_bytes_per_token_expected if self.kv_by_formula else None
        return None if each is None else round(each * positions)

    @property
    def keeps_cache(self) -> bool:
        """True if a pass goes on with what was read before; else each reads everything again."""
        return self.kv_storage is None or self.kv_storage.cached
