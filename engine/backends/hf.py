"""The backend for real models: torch and transformers, one forward pass at a time."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from engine import models
from engine.backends import hf_cache, hf_dtype, hf_facts, hf_fresh, hf_pool, hf_prompt
from engine.backends.base import (
    BackendError,
    Encoded,
    ForwardPass,
    prefix_report,
    seek_by_rollback,
)
from engine.backends.hf_layers import LayerTimer, find_layers, stopwatch
from engine.backends.hf_wide import ROWS, widened_of
from engine.causal import first_line
from engine.kv.branch import OutOfBlocks
from engine.kv.cache import PooledCache
from engine.kv.prefix import PrefixReport
from engine.kv.state import PoolState
from engine.records import DtypeTrial, FloatArray, ModelFacts, Token, TokenKind, Vocabulary
from engine.text import TokenTable
from engine.timing import now_ms

_READING = (
    *("_pool", "_options", "_argument", "_keywords", "_cache", "_keeps_cache"),
    *("_own_ids", "_seen"),
)
"""The attributes that say what is being read, and how."""
_ALIKE = {"float32": 0.01, "float16": 0.1}
"""How far two ways to the same logits may lie apart, in their standard deviations."""


class HFBackend:
    """A transformers causal language model over a pool of K/V blocks, or with its own cache.

    A pass that fails leaves ``length`` as it was. With a pool nothing is lost; a half-written cache
    of the model's own is dropped, and the next pass reads everything again.
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
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._device = model.get_input_embeddings().weight.device
        self._synchronize = _synchronizer(self._device.type)
        self._rows = int(model.get_input_embeddings().weight.shape[0])
        self._position_rows = hf_facts.position_rows(model)
        self._options = kv or hf_pool.KVOptions()
        self._argument = hf_cache.argument_of(model) if self._options.cached else None
        self._pool: PooledCache | None = None
        known = inspect.signature(model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self._keywords: dict[str, Any] = {
            "use_cache": self._options.cached,
            "return_dict": True,
        }
        self._one = torch.zeros((1, 1), dtype=torch.long, device=self._device)
        self._own_ids: list[int] = []
        self._positions = "position_ids" in known
        self._cache: Any = None
        self._seen: set[tuple[str, int]] = set()
        self._keeps_cache = True
        self._singly = False
        self._tokens: dict[int, Token] = {}
        self._layers = find_layers(model, hf_facts.shape_of(hf_facts.decoder_config(model)).layers)
        self._widened = widened_of(model)
        tried = self._try_out(identity)
        self._table = TokenTable.from_tokenizer(tokenizer, tried["vocab_size"])
        self._facts = self._gather(
            name=name,
            identity=identity,
            dtype_reason=dtype_reason or f"{models.loaded_dtype(model)}: as given",
            dtype_trials=trials,
            notes=(*notes, *tried.pop("notes")),
            load_ms=now_ms() - started,
            **tried,
        )

    # --- what it is ---------------------------------------------------------------------------

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    def _gather(self, *, name: str, **more: Any) -> ModelFacts:
        """All facts: ``more``, and what the model, its files and the machine say."""
        model, tokenizer = self._model, self._tokenizer
        config, device = hf_facts.decoder_config(model), str(self._device)
        shape = hf_facts.shape_of(config)
        parameters, weight_bytes = hf_facts.weights_of(model)
        return ModelFacts(
            name=name or str(getattr(config, "name_or_path", "") or type(model).__name__),
            architecture=type(model).__name__,
            device=device,
            device_name=hf_facts.device_name(device),
            dtype=models.loaded_dtype(model),
            backend="hf",
            tokenizer_size=len(tokenizer),
            layers=shape.layers,
            query_heads=shape.query_heads,
            hidden_size=shape.hidden_size,
            context_length=hf_facts.context_length(config),
            parameters=parameters,
            weight_bytes=weight_bytes,
            stop_ids=hf_facts.stop_ids(tokenizer, model),
            generation_config=hf_facts.generation_settings(model),
            has_chat_template=hf_prompt.has_template(tokenizer),
            versions=hf_facts.versions(),
            threads=torch.get_num_threads(),
            **more,
        )

    def _try_out(self, identity: str) -> dict[str, Any]:
        """Facts that only the running model tells: its cache, its width, whether it rewinds."""
        shape = hf_facts.shape_of(hf_facts.decoder_config(self._model))
        ids = hf_facts.probe_ids(self._model, self._tokenizer, 5)
        whole = self._read(ids).logits
        own, self._keeps_cache = self._cache, self._cache is not None
        kind = hf_cache.kind_of(own, self._argument)
        kv_heads, head_dim = hf_cache.head_shape(own) or (shape.kv_heads, shape.head_dim)
        pool_note = self._put_in_pool(own, identity, ids, whole)
        self._forget()
        self._read(ids[:4])
        before = self.kv()[1]
        stepped = self._read(ids[4:]).logits
        after = self.kv()[1]
        growth = None if after is None or before is None else after - before
        pooled = self._pool is not None
        rewinds = (pooled or kind.always_rewinds) and self._rewinds(ids, stepped)
        if not rewinds:
            self._forget()
            self._read(ids[:2])
            # Some recurrent layers take up their state for one position at a time only.
            self._singly = not self._alike(stepped, self._read(ids[2:]).logits)
        notes = (*self._notes(kind, whole, stepped, rewinds), *filter(None, (pool_note,)))
        self._forget()
        self._seen.clear()
        expected = 2 * shape.layers * kv_heads * head_dim * int(self._model.dtype.itemsize)
        kv_note = _kv_note(kind, growth, expected, pooled=pooled and rewinds)
        if not self._options.cached:
            kv_note = "no cache is kept, as was asked for (--no-cache)"
        return {
            "vocab_size": int(whole.size),
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "kv_bytes_per_token_expected": None if kv_note else expected,
            "kv_note": kv_note,
            "cache_kind": kind.name,
            "can_rewind": rewinds,
            "kv_storage": hf_pool.storage_of(self._pool, cached=self._keeps_cache),
            "notes": notes,
        }

    def _put_in_pool(self, own: Any, identity: str, ids: Sequence[int], whole: FloatArray) -> str:
        """Go over to a pool if that can be, and gives the same logits; what there is to say."""
        opened = hf_pool.open_pool(self._model, own, identity, self._options)
        self._forget()
        self._pool = opened.pool
        if self._pool is None or self._options.eight_bits:
            return opened.note
        try:
            alike = self._alike(whole, self._read(ids).logits)
        except BackendError:
            alike = False
        if alike:
            return opened.note
        self._pool = None
        hf_pool.close_pool(self._model)
        return "no pool of KV blocks: the model's answer was another one with it"

    def _rewinds(self, ids: Sequence[int], logits: FloatArray) -> bool:
        """Whether taking positions out and reading them again gives the same ``logits``."""
        try:
            self.rollback(3)
        except BackendError:
            return False
        return self._alike(logits, self._read(ids[2:]).logits)

    def _alike(self, left: FloatArray, right: FloatArray) -> bool:
        tolerance = _ALIKE.get(models.loaded_dtype(self._model), 0.5)
        finite = np.isfinite(left)
        distance = np.abs(left[finite] - right[finite]).max()
        return bool(distance <= tolerance * left[finite].std())

    def _notes(
        self, kind: hf_cache.CacheKind, whole: FloatArray, stepped: FloatArray, rewinds: bool
    ) -> tuple[str, ...]:
        """What the user should know about how this model is run."""
        found = {
            "the model keeps no cache between passes: each step reads the whole text again": (
                self._options.cached and not self._keeps_cache
            ),
            "no cache is kept (--no-cache): each step reads the whole text again": (
                not self._options.cached
            ),
            "with its cache the model gives other logits than reading the same text at once "
            "does: this is how transformers runs it": not self._alike(whole, stepped),
            "taking positions out of its cache changes its answer: the text is read again": (
                kind.always_rewinds and not rewinds
            ),
            f"passes of {ROWS} positions or more multiply in float32, faster on this CPU": (
                self._widened is not None
            ),
        }
        return tuple(note for note, holds in found.items() if holds)

    # --- tokens -------------------------------------------------------------------------------

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        """Ids of ``text``; with ``chat``, of the model's own template around it.

        Raises BackendError when the template refuses the messages.
        """
        return hf_prompt.encode(
            self._tokenizer,
            text,
            chat=chat,
            system=system,
            is_special=lambda token_id: self.token(token_id).kind is TokenKind.SPECIAL,
        )

    def token(self, token_id: int) -> Token:
        """The token of any id below ``facts.vocab_size``. Raises IndexError for others."""
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
    def _ids(self) -> list[int]:
        """What was read and not taken back."""
        return self._own_ids if self._pool is None else self._pool.current.ids

    @property
    def length(self) -> int:
        return len(self._ids)

    def seek(self, ids: Sequence[int]) -> int:
        """Go to where ``ids``, short of the last one, were read; how many of them that is."""
        if self._pool is not None:
            return self._pool.seek(list(ids))
        if not self._keeps_cache:
            # Where nothing is kept, to be at a place is only to know what stands before it.
            self._own_ids[:] = ids[:-1]
            return len(self._own_ids)
        return seek_by_rollback(self, self._own_ids, ids)

    def start(self, ids: Sequence[int]) -> PrefixReport:
        """As ``seek``, for a new prompt: full blocks only, and why not more."""
        if self._pool is not None:
            return self._pool.start(list(ids))
        if not self._keeps_cache:
            self._own_ids.clear()
            report = prefix_report(ids, (), 0)
            return replace(report, reason="no cache is kept: each pass reads everything")
        held = list(self._own_ids)
        return prefix_report(ids, held, self.seek(ids), can_rewind=self._facts.can_rewind)

    def pool_state(self) -> PoolState | None:
        """The pool as a record; None where K and V are in the model's own cache."""
        return None if self._pool is None else self._pool.state()

    @property
    def branch(self) -> int | None:
        """The number of the pool's branch that the next pass goes on with; None without a pool."""
        return None if self._pool is None else self._pool.current.number

    @property
    def block_size(self) -> int:
        """Positions of a block."""
        return self._options.block_size

    def forget(self, branch: int, keep: int) -> None:
        """A branch of the pool is needed for its first ``keep`` positions at most."""
        if self._pool is not None:
            self._pool.forget(branch, keep)

    def prefill(self, ids: Sequence[int], *, profile: bool = True) -> ForwardPass:
        """Read ``ids`` (at least one) after what the cache holds; logits of the last one.

        Layers are timed by hooks that are there for this pass only. Raises BackendError.
        """
        given = [int(token_id) for token_id in ids]
        self._check(given)
        if self._singly and self._ids and len(given) > 1:
            return self._read_singly(given)
        if not profile:
            return self._read(given)
        if not self._layers:
            note = "the model's layers could not be found"
            return _with(self._read(given), note=note)
        watch = stopwatch(self._device.type, self._synchronize)
        with LayerTimer(self._layers, watch) as timer:
            result = self._read(given)
        return _with(result, timer=timer)

    def decode(self, token_id: int) -> ForwardPass:
        """Read one id after what the cache holds; no hooks. Raises BackendError."""
        self._check((token_id,))
        return self._read((token_id,))

    def _check(self, ids: Sequence[int]) -> None:
        if not ids:
            raise BackendError("there is nothing to read: a pass needs at least one token")
        low, high = min(ids), max(ids)
        if low < 0 or high >= self._rows:
            raise BackendError(
                f"token id {low if low < 0 else high} has no embedding: ids run from 0 to "
                f"{self._rows - 1}"
            )
        limit = self._position_rows
        if limit is not None and len(self._ids) + len(ids) > limit:
            raise BackendError(f"the context is full: the model has {limit:,} learned positions")

    def _read_singly(self, ids: Sequence[int]) -> ForwardPass:
        before = len(self._ids)
        try:
            passes = [self._read((token_id,)) for token_id in ids]
        except BaseException:
            self._drop_cache()
            del self._own_ids[before:]
            raise
        return ForwardPass(
            logits=passes[-1].logits,
            ms=sum(one.ms for one in passes),
            warmup=passes[0].warmup,
            layers_note="its recurrent state is continued one position at a time",
        )

    def _read(self, ids: Sequence[int]) -> ForwardPass:
        """One pass over ``ids``; over all before them too, where there is no cache of those."""
        again = self._own_ids if self._cache is None and self._pool is None else []
        count = len(again) + len(ids)
        # After a failed pass, a step is no ordinary one.
        warmup = self._first_of_its_kind(count) or (bool(again) and self._keeps_cache)
        before = self._blocks_moved()
        self._synchronize()
        start = now_ms()
        try:
            with torch.inference_mode(), self._reading(ids) as more:
                logits = self._logits([*again, *ids] if again else ids, count, more)
                ms = now_ms() - start
                self._check_finite(logits)
        except BaseException as error:
            # Some layers may have read the ids and others not.
            self._drop_cache()
            if not isinstance(error, Exception):
                raise
            raise _explained(error, count) from error
        if self._pool is None:
            self._own_ids.extend(ids)
        moved = zip(self._blocks_moved(), before, strict=True)
        copied, evicted = (now - then for now, then in moved)
        return ForwardPass(logits, ms, warmup, copied_blocks=copied, evicted_blocks=evicted)

    def _blocks_moved(self) -> tuple[int, int]:
        """Blocks copied and evicted since the pool was made."""
        if self._pool is None:
            return 0, 0
        counters = self._pool.pool.counters
        return counters.copied_blocks, counters.evicted_blocks

    @contextlib.contextmanager
    def _reading(self, ids: Sequence[int]) -> Iterator[dict[str, Any]]:
        """One pass over the pool, if there is one; what the model must be given for it."""
        if self._pool is None or self._argument is None:
            yield {}
            return
        with self._pool.reading(ids) as positions:
            given = {"position_ids": positions} if self._positions else {}
            yield {self._argument: self._pool, **given}

    def _check_finite(self, logits: FloatArray) -> None:
        # The largest is NaN if any is, and infinite if one is; minus infinity is a fair logit.
        if not np.isfinite(logits.max()):
            dtype = models.loaded_dtype(self._model)
            hint = "" if dtype == "float32" else ": try --dtype float32"
            raise BackendError(f"the model's logits are not finite in {dtype}{hint}")

    def _logits(self, ids: Sequence[int], count: int, more: dict[str, Any]) -> FloatArray:
        """float32 logits of the last of ``ids`` in main memory; the cache now holds them all."""
        if count == 1:
            output = self._model(self._one.fill_(ids[0]), **self._keywords, **more)
            last = output.logits[0, -1]
        else:
            given = torch.tensor([ids], device=self._device)
            wide = self._widened if count >= ROWS and self._widened else contextlib.nullcontext()
            with wide:
                output = self._model(given, **self._keywords, **self._last_only, **more)
            # Cloned, or one row would keep the rows of a whole prompt in memory.
            last = output.logits[0, -1].clone()
        if self._pool is not None:
            pass
        elif self._cache is None and self._argument is not None:
            self._cache = getattr(output, self._argument, None)
            if self._cache is not None:
                self._keywords[self._argument] = self._cache
        elif self._argument == "state":  # a new one comes out of every pass
            self._cache = self._keywords["state"] = output.state
        logits: FloatArray = last.float().cpu().numpy()
        return logits

    def _first_of_its_kind(self, count: int) -> bool:
        """Whether no pass of this kind (one position, or about as many) has run before."""
        kind = ("decode", 1) if self._ids and count == 1 else ("prefill", count.bit_length())
        first = kind not in self._seen
        self._seen.add(kind)
        return first

    # --- beside the run -----------------------------------------------------------------------

    @contextlib.contextmanager
    def aside(self, *, cached: bool, positions: int = 0) -> Iterator[None]:
        """Inside ``with``, read another text; behind it all is as it was, down to what is warm.

        ``cached``: in a pool of its own for ``positions`` where the run's K and V lie in one or
        could, else in the model's own cache. Without, each pass reads all again with the model's
        own attention. Raises BackendError where there is no room.
        """
        kept = {name: getattr(self, name) for name in _READING}
        pooled = self._pool is not None or (self._options.pooled and not self._options.cached)
        self._options = replace(
            self._options, cached=cached, pooled=pooled, budget=None, positions=positions
        )
        self._pool, self._cache, self._keeps_cache = None, None, False
        self._own_ids, self._seen = [], set()
        self._argument = hf_cache.argument_of(self._model) if cached else None
        self._keywords = {"use_cache": cached, "return_dict": True}
        hf_pool.close_pool(self._model)
        try:
            if cached:
                ids = hf_facts.probe_ids(self._model, self._tokenizer, 5)
                whole = self._read(ids).logits
                self._keeps_cache = self._cache is not None
                self._put_in_pool(self._cache, self._facts.identity, ids, whole)
                self._forget()
                self._seen.clear()
            yield
        finally:
            hf_pool.close_pool(self._model)
            for name, value in kept.items():
                setattr(self, name, value)
            if self._pool is not None:
                hf_pool.attend(self._model)

    def fresh(self, ids: Sequence[int], *, rows: int = 1, dtype: str | None = None) -> FloatArray:
        """The logits after ``ids`` in one pass without a cache, by the model's own attention.

        See ``Backend.fresh``. Raises BackendError.
        """
        given = [int(token_id) for token_id in ids]
        with self.aside(cached=False):
            self._check(given)
            other = dtype is not None and dtype != models.loaded_dtype(self._model)
            if rows == 1 and not other:
                return self._read(given).logits
            try:
                return hf_fresh.read(
                    self._model,
                    given,
                    rows=rows,
                    dtype=dtype if other else None,
                    more={**self._keywords, **self._last_only},
                )
            except Exception as error:
                raise _explained(error, rows * len(given)) from error

    # --- the cache ----------------------------------------------------------------------------

    def rollback(self, count: int) -> None:
        """Forget the last ``count`` positions; all of them is always possible.

        Raises BackendError, and changes nothing, for more than there are and where the cache no
        longer holds what it would have to go back to.
        """
        length = self.length
        if not 0 <= count <= length:
            raise BackendError(f"cannot take back {count} of {length} positions")
        if count == 0:
            return
        if self._pool is not None:
            try:
                self._pool.truncate(length - count)
            except ValueError as error:
                raise BackendError(str(error)) from error
            return
        if count == length:
            self._forget()
            return
        if self._cache is not None:
            try:
                hf_cache.crop(self._cache, count, length)
            except BackendError:
                raise
            except Exception as error:
                self._drop_cache()
                raise BackendError(f"the cache cannot be rewound: {first_line(error)}") from error
        del self._own_ids[-count:]

    def kv(self) -> tuple[int, int | None]:
        """(positions stored, of the layer that stores most; bytes that they take in all layers)."""
        if self._pool is not None:
            return self._pool.stored, self._pool.branch_bytes
        return hf_cache.stored(self._cache), hf_cache.nbytes(self._cache)

    def _drop_cache(self) -> None:
        self._cache = None
        if self._argument is not None:
            self._keywords.pop(self._argument, None)

    def _forget(self) -> None:
        self._drop_cache()
        self._own_ids.clear()
        if self._pool is not None:
            self._pool.clear()

    def close(self) -> None:
        """Free the model and its cache; the backend cannot be used afterwards."""
        self._forget()
        self._model = self._widened = self._pool = None
        self._layers = ()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def _with(result: ForwardPass, timer: LayerTimer | None = None, note: str = "") -> ForwardPass:
    return replace(result, layers=timer.times() if timer else (), layers_note=note)


def _synchronizer(device: str) -> Callable[[], None]:
    """What waits until a device type has done all its work."""
    if device == "cuda":
        return torch.cuda.synchronize
    if device == "mps":
        return torch.mps.synchronize
    return lambda: None


def _explained(error: Exception, count: int) -> BackendError:
    if isinstance(error, BackendError):
        return error
    if isinstance(error, OutOfBlocks):
        return BackendError(str(error))
    text = str(error)
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    if memory or "out of memory" in text or "can't allocate memory" in text:
        return BackendError(
            f"out of memory in a pass of {count:,} positions: shorten the prompt, or use a "
            "smaller model or --dtype"
        )
    return BackendError(f"the forward pass failed: {first_line(error)} ({type(error).__name__})")


def _kv_note(kind: hf_cache.CacheKind, growth: int | None, expected: int, *, pooled: bool) -> str:
    """Why bytes per token are not the simple formula's; empty where they are."""
    if kind.sliding and kind.window and not pooled:
        return (
            f"{kind.sliding} of {kind.layers} layers keep at most {kind.window - 1:,} positions, "
            "so a token's share is not constant"
        )
    if kind.recurrent and not kind.full:
        return "recurrent state, constant size: there is no KV cache"
    if kind.recurrent:
        return f"{kind.recurrent} of {kind.layers} layers keep a recurrent state of constant size"
    if growth is None:
        return "the model has no KV cache that can be measured"
    if growth != expected:
        return f"measured {growth:,} bytes a token, which the usual formula does not give"
    return ""
