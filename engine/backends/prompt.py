"""A prompt as token ids, each with who put it there: the user, the template or the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.backends.base import BackendError, Encoded
from engine.models import chat_template
from engine.models.checks import first_line
from engine.records.prompt import Origin
from engine.text import quote
from engine.timing import now_ms

_USER, _SYSTEM = "\ue000prompt\ue001", "\ue000system\ue001"
"""Stand-ins of the private use area: no template cuts, trims or rewrites them."""

Span = tuple[int, int]


def encode(
    tokenizer: Any, text: str, *, chat: bool, system: str | None, is_special: Callable[[int], bool]
) -> Encoded:
    """Ids, origins and notes of ``text``, with ``chat`` inside the model's own template.

    A model without a template reads the text as it is, and a note says so. Raises BackendError
    when the template refuses what it was given.
    """
    notes: list[str] = []
    template_ms = None
    if chat and not has_template(tokenizer):
        notes.append("this model has no chat template: the prompt is read as it is")
        chat = False
    if chat:
        started = now_ms()
        rendered, spans = _rendered(tokenizer, text, system, notes)
        template_ms = now_ms() - started
        ids, origins = _in_template(tokenizer, rendered, spans)
    else:
        if system:
            notes.append("the system text is left out: it needs the chat template (--chat)")
        ids, origins = _raw(tokenizer, text)
    bos = tokenizer.bos_token_id
    if len(ids) > 1 and bos is not None and ids[0] == ids[1] == bos:
        notes.append(f"the prompt begins with {quote(tokenizer.bos_token, 20)} twice")
    own = [i for i, origin in zip(ids, origins, strict=True) if origin is Origin.USER]
    if found := [token_id for token_id in own if is_special(token_id)]:
        word = quote(tokenizer.convert_ids_to_tokens(found[0]), 20)
        notes.append(f"the text itself holds special tokens ({word}), and the model obeys them")
    return Encoded(tuple(ids), tuple(origins), tuple(notes), template_ms)


def has_template(tokenizer: Any) -> bool:
    """True if the tokenizer brings a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def template_text(tokenizer: Any) -> str:
    """Source of the chat template, or of all there are by name; "" without one."""
    found = getattr(tokenizer, "chat_template", None) or ""
    return "\n".join(map(str, found.values())) if isinstance(found, dict) else str(found)


def _raw(tokenizer: Any, text: str) -> tuple[list[int], list[Origin]]:
    """The text as it is, with the special tokens that the tokenizer puts around it."""
    ids = list(tokenizer(text, add_special_tokens=True)["input_ids"])
    bare = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    places = range(len(ids) - len(bare) + 1)
    start = next((at for at in places if ids[at : at + len(bare)] == bare), None)
    inside = range(len(ids)) if start is None else range(start, start + len(bare))
    return ids, [Origin.USER if at in inside else Origin.TOKENIZER for at in range(len(ids))]


def _rendered(
    tokenizer: Any, text: str, system: str | None, notes: list[str]
) -> tuple[str, list[Span]]:
    """The text inside the template, and where in it the user's own stands."""
    rendered = _render(tokenizer, text, system)
    frame = _frame(tokenizer, system)
    spans = _spans(frame, {_USER: text, _SYSTEM: system or ""}, rendered)
    if spans is None:
        notes.append("the template rewrites the prompt, so all of it counts as the template's")
        spans = []
    if system is None and (inserted := _inserted_system(tokenizer, frame)):
        notes.append(f"the template inserts a system message of its own: {quote(inserted, 100)}")
    return rendered, spans


def _in_template(
    tokenizer: Any, rendered: str, spans: list[Span]
) -> tuple[list[int], list[Origin]]:
    # The template has written every special token already: no second BOS.
    ids, offsets = _with_offsets(tokenizer, rendered, spans)
    origins = [
        Origin.USER
        if any(first < end and last > start for start, end in spans) and last > first
        else Origin.TEMPLATE
        for first, last in offsets
    ]
    return ids, origins


def _render(tokenizer: Any, text: str, system: str | None) -> str:
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    # What tokenizer.apply_chat_template gives to a template.
    variables = {
        **tokenizer.special_tokens_map,
        "messages": messages,
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
    }
    try:
        return chat_template.render(str(tokenizer.get_chat_template()), variables)
    except (chat_template.TemplateError, ValueError) as error:
        hint = "; leave --system out" if system is not None else "; use the prompt as it is (--raw)"
        raise BackendError(
            f"the model's chat template refuses this: {first_line(error)}{hint}"
        ) from error


def _frame(tokenizer: Any, system: str | None) -> list[str]:
    """The template around stand-ins: what it writes, and between that the stand-ins."""
    rendered = _render(tokenizer, _USER, None if system is None else _SYSTEM)
    pieces = [rendered]
    for name in (_USER, _SYSTEM):
        pieces = [part for piece in pieces for part in _split(piece, name)]
    return pieces


def _split(piece: str, name: str) -> list[str]:
    before, found, after = piece.partition(name)
    return [before, found, after] if found else [piece]


def _spans(frame: Sequence[str], values: dict[str, str], rendered: str) -> list[Span] | None:
    """Spans of the stand-ins' values in ``rendered``; None where the template changed them."""
    for change in (lambda value: value, str.strip):  # many templates trim what they are given
        at, spans, parts = 0, [], []
        for piece in frame:
            part = change(values[piece]) if piece in values else piece
            if piece in values:
                spans.append((at, at + len(part)))
            parts.append(part)
            at += len(part)
        if "".join(parts) == rendered:
            return spans
    return None


def _inserted_system(tokenizer: Any, frame: Sequence[str]) -> str | None:
    """The system message that the template writes when it is given none."""
    try:
        given = _frame(tokenizer, "")
    except BackendError:  # it takes no system message at all
        return None
    if [piece for piece in given if piece in (_USER, _SYSTEM)] != [_SYSTEM, _USER]:
        return None
    before, _, between = given[:3]
    opening = frame[0]
    if len(opening) <= len(before) + len(between):
        return None
    if not (opening.startswith(before) and opening.endswith(between)):
        return None
    return opening[len(before) : len(opening) - len(between)].strip() or None


def _with_offsets(
    tokenizer: Any, rendered: str, spans: Sequence[Span]
) -> tuple[list[int], list[Span]]:
    """Ids of ``rendered`` and the characters that each stands for."""
    if getattr(tokenizer, "is_fast", False):
        batch = tokenizer(rendered, add_special_tokens=False, return_offsets_mapping=True)
        return list(batch["input_ids"]), list(batch["offset_mapping"])
    # A tokenizer that keeps no offsets: what is the same as in the part before and in the part
    # after the user's text is the template's.
    ids = list(tokenizer(rendered, add_special_tokens=False)["input_ids"])
    if not spans:
        return ids, [(0, 0)] * len(ids)
    start, end = spans[0][0], spans[-1][1]
    before = list(tokenizer(rendered[:start], add_special_tokens=False)["input_ids"])
    after = list(tokenizer(rendered[end:], add_special_tokens=False)["input_ids"])
    first = _common(ids, before)
    last = len(ids) - _common(ids[first:][::-1], after[::-1])
    return ids, [spans[0] if first <= at < last else (0, 0) for at in range(len(ids))]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common beginning of two sequences."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
