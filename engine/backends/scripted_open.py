"""Open a scripted backend from plain values, as the engine process is given them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.backends.base import BackendError
from engine.backends.faults import Fault, FaultKind
from engine.backends.scripted import ScriptedBackend

_OPTIONS = (
    *("text", "tokens", "vectors", "file", "function", "vocab_size", "template"),
    *("delay_ms", "load_ms", "fault", "fault_at", "facts"),
)


def open_backend(
    options: Mapping[str, Any], progress: Callable[[str, float | None, str], None]
) -> ScriptedBackend:
    """Open a script from plain values. Raises BackendError.

    One of ``text``, ``vectors``, ``file`` (JSON) or ``function`` ("module:name" of a LogitsOf, with
    ``tokens``) says what comes next; with none of them every token is as likely as any other.
    ``tokens``, ``vocab_size``, ``template`` (two strings), ``delay_ms`` and ``facts`` are the
    backend's own. ``load_ms`` is how long opening takes. ``fault`` (raise, bug, hang, crash)
    strikes in pass ``fault_at`` (1 is the first, 0 is while opening).
    """
    steps = 5
    for step in range(steps):
        progress("load", step / steps, "a script")
        time.sleep(float(options.get("load_ms") or 0.0) / 1000 / steps)
    backend = _from_options(options)
    if backend.fault:
        backend.fault.strike(0)
    progress("load", 1.0, "a script")
    return backend


def _fields_of(path: str | Path) -> dict[str, Any]:
    """The options in a JSON file, such as ``{"vectors": [[1, 0]], "tokens": ["a", "b"]}``."""
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BackendError(f"{path} is not a script: {error}") from error
    if not isinstance(read, dict):
        raise BackendError(f"{path} is not a script: it must hold a JSON object")
    return read


def _from_options(options: Mapping[str, Any]) -> ScriptedBackend:
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise BackendError(f"unknown option {unknown[0]!r}; known: {', '.join(_OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    if path := given.pop("file", None):
        return _from_options({**_fields_of(path), **given})
    given.pop("load_ms", None)
    if kind := given.pop("fault", None):
        if kind not in tuple(FaultKind):
            raise BackendError(f"unknown fault {kind!r}; known: {', '.join(FaultKind)}")
        given["fault"] = Fault(FaultKind(kind), int(given.pop("fault_at", 1)))
    if "template" in given:
        before, after = given["template"]
        given["template"] = (before, after)
    if "text" in given:
        return ScriptedBackend.from_text(given.pop("text"), **given)
    if "vectors" in given:
        return ScriptedBackend.from_vectors(given.pop("vectors"), **given)
    if "function" in given:
        module, _, name = given.pop("function").partition(":")
        return ScriptedBackend(getattr(import_module(module), name), **given)
    return ScriptedBackend.uniform(**given)
