"""The backend for real models: torch and transformers, one forward pass at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from engine.backends import prompt as prompts
from engine.backends.base import Encoded, ForwardPass, Row, TokenSequence
from engine.backends.hf import early_exit
from engine.backends.hf import facts as hf_facts
from engine.backends.hf import pool as hf_pool
from engine.backends.hf import reference as hf_fresh
from engine.backends.hf.parts import parts_of
from engine.backends.hf.probe import reader_for, try_out
from engine.backends.hf.reader import Reader
from engine.backends.hf.results import explained
from engine.backends.hf.rows import fork, read_rows
from engine.backends.hf.upcast import upcast_of
from engine.kv import attention
from engine.kv.branch import Branch
from engine.kv.cache import PooledCache
from engine.models.token_table import TokenTable
from engine.records.arrays import FloatArray
from engine.records.cache import PoolState, PrefixReport
from engine.records.model import DtypeTrial, ModelFacts
from engine.records.vocabulary import Token, TokenKind, Vocabulary
from engine.timing import now_ms


class HFBackend:
    """A transformers causal language model over a pool of K/V blocks, or with its own cache.

    A pass that fails leaves ``length`` as it was; see ``hf_reader.Reader``.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "",
        identity: str = "",
        dtype_reason: str = "",
        trials: tuple[DtypeTrial, ...] = (),
        notes: tuple[str, ...] = (),
        started: float | None = None,
        kv: hf_pool.KVOptions | None = None,
    ) -> None:
        """Take over a loaded model, try it out in a few short passes, and gather its facts.

        ``started`` is the moment on the clock of ``engine.timing`` at which loading began. Raises
        BackendError when the model cannot be run.
        """
        started = now_ms() if started is None else started
        self._parts = parts_of(model)
        self._tokenizer = tokenizer
        self._options = kv or hf_pool.KVOptions()
        self._tokens: dict[int, Token] = {}
        config = hf_facts.decoder_config(model)
        tried = try_out(self._parts, identity, self._probe_ids(), self._options)
        self._reader, self._cache_fails = tried.reader, tried.cache_fails
        self._table = TokenTable.from_tokenizer(tokenizer, tried.facts["vocab_size"])
        self._facts = self._gather(
            name=name,
            identity=identity,
            dtype_reason=dtype_reason or f"{self._parts.dtype}: as given",
            dtype_trials=trials,
            notes=(*notes, *tried.notes, *filter(None, (hf_facts.context_note(config),))),
            load_ms=now_ms() - started,
            **tried.facts,
        )

    def _probe_ids(self) -> list[int]:
        return hf_facts.probe_ids(self._parts.model, self._tokenizer, 5)

    # --- what it is ---------------------------------------------------------------------------

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    @property
    def model(self) -> Any:
        """The transformers model; while there is a pool it attends over that."""
        return self._parts.model

    @property
    def pool(self) -> PooledCache | None:
        """The pool of K/V blocks; None where there is no pool."""
        return self._reader.pool

    def _gather(self, *, name: str, **more: Any) -> ModelFacts:
        """All facts: ``more``, and what the model, its files and the machine say."""
        model, tokenizer = self._parts.model, self._tokenizer
        config, device = hf_facts.decoder_config(model), str(self._parts.device)
        shape = hf_facts.shape_of(config)
        parameters, weight_bytes = hf_facts.weights_of(model)
        stops, never = hf_facts.within(hf_facts.stop_ids(tokenizer, model), more["vocab_size"])
        more["notes"] += never
        return ModelFacts(
            name=name or str(getattr(config, "name_or_path", "") or type(model).__name__),
            architecture=type(model).__name__,
            device=device,
            device_name=hf_facts.device_name(device),
            dtype=self._parts.dtype,
            backend="hf",
            tokenizer_size=len(tokenizer),
            layers=shape.layers,
            query_heads=shape.query_heads,
            hidden_size=shape.hidden_size,
            context_length=hf_facts.context_length(config),
            parameters=parameters,
            weight_bytes=weight_bytes,
            stop_ids=stops,
            generation_config=hf_facts.generation_settings(model),
            has_chat_template=prompts.has_template(tokenizer),
            versions=hf_facts.versions(),
            threads=torch.get_num_threads(),
            **more,
        )

    # --- tokens -------------------------------------------------------------------------------

    @property
    def chat_template(self) -> str:
        """Source of the chat template."""
        return prompts.template_text(self._tokenizer)

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        """Ids of ``text``; with ``chat``, of the model's own template around it.

        Raises BackendError when the template refuses the messages.
        """
        return prompts.encode(
            self._tokenizer,
            text,
            chat=chat,
            system=system,
            is_special=lambda token_id: self.token(token_id).kind is TokenKind.SPECIAL,
        )

    def token(self, token_id: int) -> Token:
        token = self._tokens.get(token_id)
        if token is None:
            row = self._table[token_id]
            token = self._tokens[token_id] = Token(row.id, row.data, TokenKind(row.kind))
        return token

    def vocabulary(self) -> Vocabulary:
        """Every token of the model, the ids that its tokenizer does not know as unused ones."""
        return Vocabulary.pack(self.token(token_id) for token_id in range(len(self._table)))

    # --- passes -------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        return len(self._reader.ids)

    @property
    def sequence(self) -> TokenSequence:
        """The pool's current branch; without a pool the ids read so far."""
        return self._reader.sequence

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        return read_rows(self._reader, rows, all_positions=all_positions)

    def fork(self, sequence: TokenSequence, *, pinned: bool = True) -> TokenSequence:
        return fork(self._reader, sequence, pinned=pinned)

    def seek(self, ids: Sequence[int]) -> int:
        return self._reader.reuse(ids)

    def begin_prompt(self, ids: Sequence[int]) -> PrefixReport:
        return self._reader.reuse_for_prompt(ids)

    def prefill(
        self, ids: Sequence[int], *, profile: bool = True, modules: bool = False
    ) -> ForwardPass:
        """Read ``ids`` (at least one) after what the cache holds; logits of the last one.

        Layers are timed by hooks that are there for this pass only. Raises BackendError.
        """
        given = [int(token_id) for token_id in ids]
        return self._reader.prefill(given, profile=profile, modules=modules)

    def decode(self, token_id: int) -> ForwardPass:
        """Read one id after what the cache holds; no hooks. Raises BackendError."""
        self._reader.check((token_id,))
        return self._reader.read((token_id,))

    def rollback(self, count: int) -> None:
        self._reader.rollback(count)

    # --- beside the run -----------------------------------------------------------------------

    @contextlib.contextmanager
    def side_sequence(self, *, cached: bool, positions: int = 0) -> Iterator[None]:
        """Inside ``with``, read another text; behind it all is as it was, down to what is warm.

        ``cached``: in a pool of its own for ``positions`` where the run's K and V lie in one or
        could, else in the model's own cache. Without, each pass reads all again with the model's
        own attention. Raises BackendError where there is no room.
        """
        kept, options, singly = self._reader, self._options, self._reader.singly
        attention.uninstall(self._parts.model)
        try:
            if cached and not self._cache_fails:
                pooled = kept.pool is not None or (options.pooled and not options.cached)
                wanted = replace(
                    options, cached=True, pooled=pooled, budget=None, positions=positions
                )
                self._reader = reader_for(
                    self._parts, self._facts.identity, self._probe_ids(), wanted, singly=singly
                )
                self._reader.can_rewind = kept.can_rewind
            else:
                self._reader = Reader(self._parts, cached=False, singly=singly)
            yield
        finally:
            attention.uninstall(self._parts.model)
            self._reader = kept
            if kept.pool is not None:
                attention.install(self._parts.model)

    def reference_logits(
        self, ids: Sequence[int], *, rows: int = 1, dtype: str | None = None
    ) -> FloatArray:
        """The logits after ``ids`` in one pass without a cache, by the model's own attention.

        See ``Measurable.reference_logits``. Raises BackendError.
        """
        given = [int(token_id) for token_id in ids]
        parts = self._parts
        with self.side_sequence(cached=False):
            self._reader.check(given)
            other = dtype is not None and dtype != parts.dtype
            if rows == 1 and not other:
                return self._reader.read(given).logits
            try:
                with parts.rope.reading(len(given)) if parts.rope else contextlib.nullcontext():
                    return hf_fresh.read(
                        parts.model,
                        given,
                        rows=rows,
                        dtype=dtype if other else None,
                        wide=upcast_of(parts.model, dtype) if other else parts.widened,
                        positions=parts.takes_positions,
                        more={**self._reader.keywords, **parts.last_only},
                    )
            except Exception as error:
                raise explained(error, rows * len(given)) from error

    def shallow(self, layers: int) -> AbstractContextManager[Callable[[Sequence[int]], FloatArray]]:
        """Inside ``with``, read ids through the first ``layers`` alone; see ``Shallow.shallow``."""
        return early_exit.shallow(self._reader, layers)

    def lasting(self, length: int, most: int) -> int:
        rope = self._parts.rope
        return most if rope is None else rope.lasting(length, most)

    # --- the cache ----------------------------------------------------------------------------

    def kv(self, sequence: TokenSequence | None = None) -> tuple[int, int | None]:
        """(positions stored, of the layer that stores most; bytes that they take in all layers)."""
        if self.pool is not None and isinstance(sequence, Branch):
            return self.pool.size_of(sequence)
        if self.pool is None and sequence is not None and sequence is not self.sequence:
            return len(sequence), None  # of several texts the cache holds the last one
        return self._reader.kv()

    def pool_state(self) -> PoolState | None:
        return None if self.pool is None else self.pool.state()

    @property
    def branch(self) -> int | None:
        return None if self.pool is None else self.pool.current.number

    @property
    def block_size(self) -> int:
        return self._options.block_size

    def forget(self, branch: int, keep: int) -> None:
        if self.pool is not None:
            self.pool.forget(branch, keep)

    def clear(self) -> None:
        """Forget everything that was read; the pool's tensors stay."""
        self._reader.forget()

    def close(self) -> None:
        self._reader.forget()
        self._reader.pool = None
        self._parts.release()
