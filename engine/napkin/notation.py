"""A model and a machine in one line: ``70B 80 layers 8192 wide gqa8 16bit @ 3.35TB/s 989TFLOPs``.

Left of the @ a shape, right of it a machine; either may be a name, and figures behind a name
replace its own: ``llama-3.1-70b int4 @ 2x h100``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from engine.napkin.library import Library, NapkinError, checked
from engine.napkin.shapes import Machine, ModelShape

EXAMPLE = "70B 80 layers 8192 wide gqa8 16bit @ 3.35TB/s 989TFLOPs"
LONGEST = 400
_HEAD_DIM = 128
"""Assumed where heads are not given; most models of several billions have it."""
_END = r"(?=[\s,;]|$)"
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
_WHOLE = r"(\d{1,9})"
_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "p": 1e15}


def _patterns(**texts: str) -> dict[str, re.Pattern[str]]:
    return {name: re.compile(text + _END) for name, text in texts.items()}


_MODEL = _patterns(
    active=_NUMBER + r"\s*([kmbt])\s+active",
    parameters=_NUMBER + r"\s*([kmbt])(?:\s+param(?:eter)?s)?",
    layers=_WHOLE + r"\s*(?:layers?|l)",
    width=_WHOLE + r"\s*(?:wide|hidden)",
    kv_heads=_WHOLE + r"\s*(?:kv|k/v)[\s_-]*heads?",
    query_heads=_WHOLE + r"\s*(?:query[\s_-]*)?heads?",
    head_dim=r"(?:heads?\s+of|head[\s_-]?dim)\s*=?\s*" + _WHOLE,
    group=r"gqa[\s:-]?" + _WHOLE,
    latent=r"mla[\s:-]?" + _WHOLE,
    alone=r"(mha|mqa)",
    kv_bits=r"(?:(\d{1,2})\s*-?bits?|(?:int|fp|bf|float)(\d{1,2}))\s+(?:kv|k/v)",
    bits=r"(?:(\d{1,2})\s*-?bits?|(?:int|fp|bf|float)(\d{1,2}))",
)
_MACHINE = _patterns(
    bandwidth=_NUMBER + r"\s*([mgt])b/s",
    flops=_NUMBER + r"\s*([gtp])flops?(?:/s)?",
    memory=_NUMBER + r"\s*([gt])b",
    count=_WHOLE + r"\s*[x×]",
)
_WORD = re.compile(r"[^\s,;]+")


def parse(text: str, library: Library) -> tuple[ModelShape, Machine | None]:
    """The shape and the machine that ``text`` means. Raises NapkinError, one clear line."""
    if len(text) > LONGEST:
        raise NapkinError(f"that is too long: {LONGEST} characters are the most")
    left, at, right = text.lower().partition("@")
    if "@" in right:
        raise NapkinError("one @ parts the model from the machine; there are more")
    if not left.strip():
        raise NapkinError(f'say which model, such as "{EXAMPLE}"')
    if at and not right.strip():
        raise NapkinError("say which machine after the @, such as h100 or 3.35TB/s 989TFLOPs")
    return _model(left, library), _machine(right, library) if at else None


def written(
    parameters: float,
    layers: int,
    width: int,
    query_heads: int,
    kv_heads: int,
    head_dim: int,
    bits: float,
    bytes_per_second: float = 0.0,
    flops_per_second: float = 0.0,
) -> str:
    """The line that ``parse`` reads these figures from; rates of 0 are left out."""
    line = (
        f"{_plain(parameters / 1e6)}M {layers} layers {width} wide {query_heads} heads "
        f"{kv_heads} kv heads heads of {head_dim} {round(bits)}bit"
    )
    if bytes_per_second:
        line += f" @ {_plain(bytes_per_second / 1e9)}GB/s"
        line += f" {_plain(flops_per_second / 1e9)}GFLOPs" if flops_per_second else ""
    return line


def _plain(value: float) -> str:
    """About four digits, never in exponent form."""
    return f"{value:.{0 if value >= 1000 else 1 if value >= 10 else 4}f}"


def _scan(
    text: str, patterns: Mapping[str, re.Pattern[str]], names: Iterable[str], what: str
) -> tuple[str, dict[str, tuple[str, ...]]]:
    """(the name in ``text`` or nothing, kind of figure -> its parts). Raises NapkinError."""
    known, found, name, place = list(names), dict[str, tuple[str, ...]](), "", 0
    while place < len(text):
        if text[place] in " \t\r\n,;":
            place += 1
            continue
        word = _WORD.match(text, place)
        assert word is not None, "no separator stands here"
        if word[0] in known:
            if name:
                raise NapkinError(f"two names of a {what}: {name} and {word[0]}")
            name, place = word[0], word.end()
            continue
        hits = ((kind, pattern.match(text, place)) for kind, pattern in patterns.items())
        kind, hit = next(((kind, hit) for kind, hit in hits if hit is not None), ("", None))
        if hit is None:
            near = difflib.get_close_matches(word[0], known, 1)
            hint = f"did you mean {near[0]}?" if near else f'an example: "{EXAMPLE}"'
            raise NapkinError(f"cannot read {word[0]!r:.60} in the {what}; {hint}")
        if kind in found:
            raise NapkinError(f"{hit[0]!r:.60} gives a second {kind.replace('_', ' ')}")
        found[kind] = tuple(part for part in hit.groups() if part is not None)
        place = hit.end()
    return name, found


def _model(text: str, library: Library) -> ModelShape:
    name, found = _scan(text, _MODEL, library.models, "model")
    figures = {kind: _amount(parts) for kind, parts in found.items() if kind != "alone"}
    for kind, value in figures.items():
        if not value:
            raise NapkinError(f"{kind.replace('_', ' ')} must be above 0")
    known = library.models.get(name)
    base, notes = (known, ()) if known is not None else _blank(figures, found)
    changed = {
        kind: value if kind in ("parameters", "active") else int(value)
        for kind, value in figures.items()
        if kind not in ("group", "latent")
    }
    shape = replace(base, **changed, notes=notes)  # type: ignore[arg-type]
    return checked(_with_attention(shape, figures, found))


def _amount(parts: tuple[str, ...]) -> float:
    return float(parts[0]) * (_SCALE[parts[1]] if len(parts) > 1 else 1)


def _blank(
    figures: Mapping[str, float], found: Mapping[str, tuple[str, ...]]
) -> tuple[ModelShape, tuple[str, ...]]:
    """A shape of nothing but figures, and what was assumed. Raises NapkinError if one is short."""
    missing = {"parameters": "70B", "layers": "80 layers", "width": "8192 wide"}
    for kind, example in missing.items():
        if kind not in figures:
            raise NapkinError(f"the model's {kind} are missing: say for example {example}")
    width, notes = int(figures["width"]), []
    heads, dim = int(figures.get("query_heads", 0)), int(figures.get("head_dim", 0))
    if not heads and not dim:
        dim = _HEAD_DIM if width % _HEAD_DIM == 0 else width
        notes.append(f"heads of {dim} are assumed")
    heads = heads or max(1, width // dim)
    dim = dim or max(1, width // heads)
    if not {"group", "alone", "latent", "kv_heads"} & set(found):
        notes.append("a K/V head for each query head is assumed: say gqa8 for 8 that share one")
    shape = ModelShape("", figures["parameters"], int(figures["layers"]), width, heads, heads, dim)
    return shape, tuple(notes)


def _with_attention(
    shape: ModelShape, figures: Mapping[str, float], found: Mapping[str, tuple[str, ...]]
) -> ModelShape:
    """The shape with the kind of attention that was asked for. Raises NapkinError."""
    kinds = [kind for kind in ("group", "alone", "latent", "kv_heads") if kind in found]
    if len(kinds) > 1:
        raise NapkinError("say one of mha, mqa, gqaN, mlaN and N kv heads")
    if "group" in figures:
        group = int(figures["group"])
        if shape.query_heads % group:
            raise NapkinError(
                f"gqa{group}: {shape.query_heads} query heads are no multiple of {group}"
            )
        return replace(shape, kv_heads=shape.query_heads // group, latent=0, latent_values=0)
    if "alone" in found:
        kv_heads = 1 if found["alone"] == ("mqa",) else shape.query_heads
        return replace(shape, kv_heads=kv_heads, latent=0, latent_values=0)
    if "latent" in figures:
        latent = int(figures["latent"])
        return replace(shape, latent=latent, latent_values=latent)
    return replace(shape, latent=0, latent_values=0) if "kv_heads" in found else shape


def _machine(text: str, library: Library) -> Machine:
    name, found = _scan(text, _MACHINE, library.machines, "machine")
    figures = {kind: _amount(parts) for kind, parts in found.items()}
    for kind, value in figures.items():
        if not value:
            raise NapkinError(f"{kind} must be above 0")
    if not name and "bandwidth" not in figures:
        raise NapkinError("the machine's bandwidth is missing: say for example 3.35TB/s")
    base = library.machines[name] if name else Machine("", 0.0)
    count = int(figures.get("count", 1))
    if count > 100_000:
        raise NapkinError("100,000 machines are the most")
    notes = () if count == 1 else (f"{count} of them, as if nothing passed between them",)
    return Machine(
        f"{count}x {name}" if name and count > 1 else name,
        figures.get("bandwidth", base.bytes_per_second) * count,
        figures.get("flops", base.flops_per_second) * count,
        figures.get("memory", base.memory_bytes) * count,
        base.source,
        notes,
    )
