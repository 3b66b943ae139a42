"""Facts of a model behind a server: little of what a loaded one tells is known."""

from __future__ import annotations

from collections.abc import Mapping

from engine.records.model import ModelFacts


def facts_of(
    *,
    backend: str,
    name: str,
    identity: str,
    url: str,
    vocab_size: int,
    tokenizer_size: int | None = None,
    context: int | None,
    ends: Mapping[int, str],
    template: bool,
    versions: Mapping[str, str],
    parameters: int = 0,
    weight_bytes: int = 0,
    hidden_size: int = 0,
    notes: tuple[str, ...] = (),
) -> ModelFacts:
    """Facts as far as they are known; numbers that a server does not tell are 0."""
    return ModelFacts(
        name=name,
        identity=identity,
        architecture="not told by the server",
        device="server",
        device_name=url,
        dtype="own dtype",
        dtype_reason="own dtype: the server does not tell it",
        dtype_trials=(),
        backend=backend,
        vocab_size=vocab_size,
        tokenizer_size=vocab_size if tokenizer_size is None else tokenizer_size,
        layers=0,
        query_heads=0,
        kv_heads=0,
        head_dim=0,
        hidden_size=hidden_size,
        context_length=context,
        parameters=parameters,
        weight_bytes=weight_bytes,
        kv_bytes_per_token_expected=None,
        kv_note=f"the cache is the server's, which tells its counts alone ({url})",
        cache_kind="the server's own",
        can_rewind=True,
        stop_ids=dict(ends),
        has_chat_template=template,
        notes=notes,
        versions=dict(versions),
    )


def identity_note(url: str, now: str, before: str) -> str:
    """The line for a server that has another model than the one attached to."""
    return (
        f"{url} was started anew with another model: {now}, and not {before}; "
        "start it with that one, or begin a new run"
    )
