"""The scripted backend: figures that can be worked out in the head, faults on demand."""

from __future__ import annotations

import json
import math
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.backends.faults import Fault, FaultKind
from engine.backends.scripted import UNSEEN, ScriptedBackend
from engine.backends.scripted_tokens import END
from engine.records.arrays import FloatArray
from engine.records.prompt import Origin
from engine.records.vocabulary import Token, TokenKind


def probs(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def likely(backend: ScriptedBackend, logits: FloatArray) -> dict[str, float]:
    """Text -> probability of every token that has more than a thousandth."""
    found = probs(logits)
    return {
        backend.token(int(i)).bytes.decode(): round(float(found[i]), 4)
        for i in np.flatnonzero(found > 1e-3)
    }


def test_uniform_is_one_over_n() -> None:
    backend = ScriptedBackend.uniform("abcd")
    logits = backend.prefill(backend.ids_of("ab")).logits
    assert probs(logits).tolist() == [0.25] * 4
    assert backend.facts.vocab_size == 4
    assert math.log(4) == pytest.approx(-float(np.log(probs(logits)) @ probs(logits)))


def test_uniform_over_padded_rows_too() -> None:
    backend = ScriptedBackend.uniform("abcd", vocab_size=8)
    assert probs(backend.decode(0).logits).tolist() == [0.125] * 8
    assert (backend.facts.vocab_size, backend.facts.tokenizer_size) == (8, 4)


def test_a_text_goes_on_as_it_does_there() -> None:
    backend = ScriptedBackend.from_text("the cat sat on the mat")

    def after(prompt: str) -> dict[str, float]:
        backend.rollback(backend.length)
        return likely(backend, backend.prefill(backend.ids_of(prompt)).logits)

    assert after("the") == {" cat": 0.5, " mat": 0.5}
    assert after("on the") == {" cat": 0.5, " mat": 0.5}
    assert after("the cat") == {" sat": 1.0}
    assert after("the cat sat") == {" on": 1.0}
    assert after("a mat") == {END: 1.0}
    # What the text never goes on from is followed by any of its six words.
    assert after("x") == {
        "the": 0.1667, " cat": 0.1667, " sat": 0.1667, " on": 0.1667, " the": 0.1667, " mat": 0.1667,
    }  # fmt: skip


def test_every_token_stays_possible_and_any_prompt_can_be_read() -> None:
    backend = ScriptedBackend.from_text("a b")
    text = "é😊 \x1b[2J"
    encoded = backend.tokenize(text, chat=False, system=None)
    assert b"".join(backend.token(i).bytes for i in encoded.ids).decode() == text
    logits = backend.prefill(encoded.ids).logits
    assert logits.min() == np.float32(UNSEEN)
    kinds = {backend.token(i).kind for i in encoded.ids}
    assert TokenKind.BYTE in kinds


def test_the_end_stops_a_run() -> None:
    backend = ScriptedBackend.from_text("a b")
    (end,) = backend.facts.stop_ids
    assert backend.token(end) == Token(end, END.encode(), TokenKind.SPECIAL)
    assert backend.facts.stop_ids[end] == "script"


def test_vectors_go_by_how_much_was_read() -> None:
    backend = ScriptedBackend.from_vectors([[1, 2, 3], [3, 2, 1]])
    assert backend.prefill(backend.ids_of("a")).logits.tolist() == [1, 2, 3]
    assert backend.decode(1).logits.tolist() == [3, 2, 1]
    assert backend.decode(2).logits.tolist() == [3, 2, 1]
    backend.rollback(3)
    assert backend.decode(2).logits.tolist() == [1, 2, 3]
    assert [backend.token(i).bytes for i in range(3)] == [b"a", b"b", b"c"]


def test_minus_infinity_is_a_fair_logit() -> None:
    backend = ScriptedBackend.from_vectors([[0.0, -np.inf]])
    assert backend.decode(0).logits.tolist() == [0.0, -np.inf]


def test_longest_tokens_first() -> None:
    backend = ScriptedBackend.uniform(["a", "ab", "abc", "b", "c"])
    assert backend.ids_of("abcab") == [2, 1]
    with pytest.raises(BackendError, match=r"no token of this vocabulary begins b'x'"):
        backend.ids_of("abx")


def test_tokens_of_every_kind() -> None:
    backend = ScriptedBackend.uniform(
        ["a", b"\xf0\x9f", END, Token(99, b"+", TokenKind.ADDED)], vocab_size=5
    )
    kinds = [backend.token(i).kind for i in range(5)]
    assert kinds == [
        TokenKind.NORMAL,
        TokenKind.BYTE,
        TokenKind.SPECIAL,
        TokenKind.ADDED,
        TokenKind.UNUSED,
    ]
    assert backend.token(3).id == 3


def test_a_template_marks_who_wrote_what() -> None:
    backend = ScriptedBackend.uniform("abcdxy<>", template=("<x", "y>"))
    assert backend.facts.has_chat_template
    encoded = backend.tokenize("ab", chat=True, system="c")
    assert b"".join(backend.token(i).bytes for i in encoded.ids) == b"<xcaby>"
    template, user = Origin.TEMPLATE, Origin.USER
    assert encoded.origins == (template, template, user, user, user, template, template)
    assert backend.tokenize("ab", chat=False, system=None).origins == (user, user)


def test_any_function_of_the_ids() -> None:
    seen: list[list[int]] = []

    def logits_of(ids: Sequence[int]) -> list[float]:
        seen.append(list(ids))
        return [float(len(ids)), 0.0]

    backend = ScriptedBackend(logits_of, "ab")
    backend.prefill([0, 1])
    assert backend.decode(0).logits.tolist() == [3.0, 0.0]
    backend.rollback(2)
    backend.decode(1)
    assert seen == [[0, 1], [0, 1, 0], [0, 1]]


def test_logits_of_the_wrong_width_are_named() -> None:
    with pytest.raises(BackendError, match=r"shape \(3,\) for 2 tokens"):
        ScriptedBackend(lambda ids: [0.0] * 3, "ab").decode(0)


def test_the_figures_say_that_they_are_scripted() -> None:
    facts = ScriptedBackend.uniform().facts
    assert (facts.name, facts.backend, facts.cache_kind) == ("scripted",) * 3
    assert facts.kv_bytes_per_token_expected is None
    assert "scripted" in facts.kv_note
    assert ScriptedBackend.uniform(facts={"can_rewind": False, "layers": 7}).facts.layers == 7


def test_a_pass_takes_as_long_as_it_is_told() -> None:
    backend = ScriptedBackend.uniform(delay_ms=30)
    assert backend.decode(0).ms >= 30


def test_a_fault_strikes_in_its_pass_and_changes_nothing() -> None:
    backend = ScriptedBackend.uniform(fault=Fault(FaultKind.RAISE, 2))
    backend.prefill([0, 1])
    with pytest.raises(BackendError, match="scripted fault in pass 2"):
        backend.decode(0)
    assert backend.length == 2
    backend.decode(0)
    bug = ScriptedBackend.uniform(fault=Fault(FaultKind.BUG, 1))
    with pytest.raises(ZeroDivisionError):
        bug.decode(0)


# --- opening by name, as the engine process does -------------------------------------------------


def logits_from_here(ids: Sequence[int]) -> list[float]:
    return [float(ids[-1]), 0.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.0] * 8),
        ({"tokens": ["a", "b"]}, [0.0, 0.0]),
        ({"vectors": [[1, 2]]}, [1, 2]),
        ({"function": f"{__name__}:logits_from_here", "tokens": ["a", "b"]}, [0.0, 0.0]),
        ({"vectors": [[1, 2]], "vocab_size": None, "template": ["a", "b"]}, [1, 2]),
    ],
)
def test_plain_options(options: dict[str, Any], expected: list[float]) -> None:
    progress: list[tuple[str, float | None, str]] = []
    backend = open_backend("scripted", options, lambda *told: progress.append(told))
    assert backend.decode(0).logits.tolist() == expected
    assert progress[-1][:2] == ("load", 1.0)
    json.dumps(options)


def test_a_script_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"vectors": [[1, 2], [2, 1]], "tokens": ["x", "y"]}))
    backend = open_backend("scripted", {"file": str(path), "delay_ms": 1})
    assert backend.tokenize("xy", chat=False, system=None).ids == (0, 1)
    assert backend.prefill([0, 1]).logits.tolist() == [2, 1]
    path.write_text("[]")
    with pytest.raises(BackendError, match="must hold a JSON object"):
        open_backend("scripted", {"file": str(path)})
    path.write_text("{")
    with pytest.raises(BackendError, match="is not a script"):
        open_backend("scripted", {"file": str(path)})
    with pytest.raises(BackendError, match="is not a script"):
        open_backend("scripted", {"file": str(tmp_path / "none.json")})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txet": "a"}, "unknown option 'txet'"),
        ({"fault": "explode"}, "unknown fault 'explode'; known: raise, bug, hang, crash"),
        ({"text": " "}, "at least one word"),
        ({"vectors": []}, "a list of logit vectors"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendError, match=message):
        open_backend("scripted", options)


def test_a_fault_while_opening() -> None:
    with pytest.raises(BackendError, match="scripted fault in pass 0"):
        open_backend("scripted", {"fault": "raise", "fault_at": 0})


def test_opening_takes_as_long_as_it_is_told() -> None:
    start = time.perf_counter()
    open_backend("scripted", {"load_ms": 50})
    assert time.perf_counter() - start >= 0.05


def _open_and_step(options: dict[str, Any], steps: int) -> None:
    backend = open_backend("scripted", options)
    for _ in range(steps):
        backend.decode(0)


def _ended(options: dict[str, Any], steps: int, timeout: float) -> int | None:
    """Exit code of a spawned process that takes so many steps; None if it hangs."""
    process = multiprocessing.get_context("spawn").Process(
        target=_open_and_step, args=(options, steps)
    )
    process.start()
    process.join(timeout)
    code = process.exitcode
    process.kill()
    process.join()
    return code


def test_a_spawned_process_can_open_it_crash_and_hang() -> None:
    assert _ended({"text": "a b"}, 3, 60) == 0
    assert _ended({"fault": "crash", "fault_at": 3}, 3, 60) == 70
    assert _ended({"fault": "hang", "fault_at": 1}, 1, 3) is None


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; from engine.backends import open_backend;"
        "open_backend('scripted', {'text': 'a b'}).decode(0);"
        "print([n for n in ('torch', 'transformers') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
