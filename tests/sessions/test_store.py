"""A run goes into a session file and comes back as it was, to the last bit."""

from __future__ import annotations

import dataclasses
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.records.events import (
    DenseLogits,
    EngineError,
    LoadProgress,
    Record,
    RunState,
    Setting,
    SettingsChanged,
    StateChanged,
)
from engine.records.prompt import Origin, PrefillChunk, PrefillRecord, PromptRecord
from engine.records.step import Draw, How, StepRecord, TopTable
from engine.records.vocabulary import KINDS, Token, TokenKind
from engine.run.step_tree import StepTree
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.state.view import RunLog
from sessions import SessionError, SessionWriter, open_session
from sessions.recording import first_records, record
from tests import fakes

TEXT = "the cat sat on the mat and the dog sat on the cat by the door of the old house"


def stepper(*, spec: str = "", seed: int = 1, text: str = TEXT, **dials: float) -> Stepper:
    backend = ScriptedBackend.from_text(text)
    return Stepper(backend, effective("guide", dials, spec=spec), seed=seed, max_tokens=40)


def forked_run() -> list[Record]:
    """A run with a forced token, a fork with other dice, and a change of settings."""
    one = stepper(temperature=1.5)
    records: list[Record] = list(first_records(one, "the cat"))
    records += [one.extend(one.cursor) for _ in range(4)]
    records.append(one.extend(2, force=5))
    records.append(one.extend(2, seed=(1 << 64) - 1))
    one.settings = effective("guide", {"temperature": 0.0})
    records.append(SettingsChanged("guide", one.settings.spec, 1, one.settings.dials))
    records += [one.extend(one.cursor) for _ in range(3)]
    records.append(EngineError("the engine ended: killed by SIGKILL", fatal=True))
    return records


def save(path: Path, records: list[Record], **options: Any) -> Path:
    with SessionWriter(path, **options) as writer:
        for one in records:
            writer.add(one)
    return path


def test_c4_a_step_is_few_calls_to_sqlite_however_many_candidates_it_has(tmp_path: Path) -> None:
    """Between two of them other threads have the interpreter, and keep it for milliseconds."""
    words = [f"w{number}" for number in range(100)]
    one = Stepper(ScriptedBackend.from_vectors([[0.0] * 100], words), effective("guide", {}))
    with SessionWriter(tmp_path / "run.llmi") as writer:
        writer.add_all([*first_records(one, "w0"), one.step(force=0)])
        step, calls = one.step(force=0), list[str]()
        writer._database.set_trace_callback(calls.append)
        writer.add(step)
        writer._database.set_trace_callback(None)
    assert len(step.top.tokens) > 40
    # BEGIN, the step, its stages, its candidates, COMMIT; no token that is there already.
    assert len(calls) == 4 + len(step.stages)
    with open_session(tmp_path / "run.llmi") as session:
        assert_same(session.steps[2], step)


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    """Equal in every field, type and bit."""
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, where
        np.testing.assert_array_equal(found, expected, where)
    elif dataclasses.is_dataclass(expected):
        assert isinstance(found, type(expected)), where
        for field in dataclasses.fields(expected):
            name = field.name
            assert_same(getattr(found, name), getattr(expected, name), f"{where}.{name}")
    elif isinstance(expected, tuple | list):
        assert len(found) == len(expected), where
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}[{index}]")
    else:
        assert type(found) is type(expected), where
        assert found == expected, where


# --- what comes back ------------------------------------------------------------------------------


def test_every_record_comes_back_as_it_was(tmp_path: Path) -> None:
    records = forked_run()
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        found = list(session.records())
        assert [type(one).__name__ for one in found if not isinstance(one, StepRecord)] == [
            *("ModelFacts", "SettingsChanged", "PromptRecord", "PrefillRecord"),
            *("SettingsChanged", "EngineError"),
        ]
        assert_same(found, records)


def test_the_tree_is_known_without_reading_steps(tmp_path: Path) -> None:
    records = forked_run()
    steps = [one for one in records if isinstance(one, StepRecord)]
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        assert session.node_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
        assert list(session.tree.parents.values()) == [0, 1, 2, 3, 2, 2, 6, 7, 8]
        assert session.token_ids.tolist() == [step.token.id for step in steps]
        assert session.tree.children[2] == [3, 5, 6]
        assert session.tips == [4, 5, 9]
        assert session.tip == 9
        assert session.path_nodes(9) == [1, 2, 6, 7, 8, 9]
        assert [step.node for step in session.branch(4)] == [1, 2, 3, 4]
        assert len(session) == 9
        assert session.title == ""
        assert session.closed is not None
        assert session.full_logits is False
        assert session.errors[0].fatal
        assert "prompt='the cat'" in repr(session)
        with pytest.raises(KeyError):
            session.step(10)


def test_a_run_log_takes_the_steps_as_they_are(tmp_path: Path) -> None:
    records = forked_run()
    live = RunLog()
    for one in records:
        live.add(one)
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        log = RunLog(
            facts=session.facts,
            prompt=session.prompt,
            prefill=session.prefill,
            settings=session.settings,
            tree=StepTree(session.steps, session.tree),
        )
        assert log.tree.children == live.tree.children
        assert_same([*log.path(9)], [*live.path(9)])
        assert_same(log.settings, live.settings)
        added = dataclasses.replace(session.step(9), node=10, parent=9)
        log.add(added)
        assert log.nodes[10] is added
        assert log.tip(9, {}) == 10
        assert len(session.steps) == 10
        assert sorted(session.steps) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        assert len(session) == 9, "the file is as it was"


def test_a_step_can_cross_a_pipe(tmp_path: Path) -> None:
    records = forked_run()
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        sent = pickle.loads(pickle.dumps(dict(session.steps)))
    assert all(type(step) is StepRecord for step in sent.values())
    assert_same(list(sent.values()), [one for one in records if isinstance(one, StepRecord)])


def test_a_restored_stepper_goes_on_with_the_same_token(tmp_path: Path) -> None:
    first = stepper(temperature=1.2, seed=7)
    record(first, tmp_path / "run.llmi", "the", steps=5)
    expected = first.extend(first.cursor)
    with open_session(tmp_path / "run.llmi") as session:
        assert session.prompt
        again = stepper(temperature=1.2, seed=7)
        again.restore(session.prompt, session.prefill, session.steps, session.tip)
        found = again.extend(again.cursor)
    assert (found.token, found.draw.u) == (expected.token, expected.draw.u)


@pytest.mark.parametrize(
    "spec",
    ["", "temperature=0", "temperature=1", "top_k=3", "temperature=0.01", "temperature=100"],
)
def test_probabilities_after_each_stage_are_exact(tmp_path: Path, spec: str) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.normal(0, 6, (12, 300)).astype(np.float32)
    vectors[3] = vectors[3].astype(np.float16)
    vectors[4, :250] = vectors[4, 0]
    vectors[5, 10:] = -np.inf
    vectors[6] *= 1e4
    backend = ScriptedBackend.from_vectors(vectors.tolist())
    one = Stepper(backend, effective("guide", {}, spec=spec), max_tokens=100)
    records: list[Record] = list(first_records(one, "a"))
    records += [one.extend(one.cursor) for _ in range(12)]
    # A token that the model itself rules out: logit and log-probability are minus infinity.
    records.append(one.extend(5, force=200))
    assert isinstance(records[-1], StepRecord)
    assert records[-1].raw_logprob == -np.inf
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        assert_same(list(session.records()), records)


LABORATORY: dict[str, tuple[str, dict[str, float], str]] = {
    "hf": ("hf", {}, ""),
    "vllm": ("vllm", {"top_p": 0.9, "min_p": 0.05}, ""),
    "llamacpp": ("llamacpp", {}, ""),
    "sglang": ("sglang", {"top_k": 40, "top_p": 0.95, "min_p": 0.05}, ""),
    "cuts": ("guide", {"typical_p": 0.9, "epsilon_cutoff": 1e-3, "eta_cutoff": 1e-3}, ""),
    "penalties": (
        "guide",
        {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "dry_multiplier": 0.8},
        "",
    ),
    "top_p first": ("guide", {}, "top_p=0.95 > temperature=0.5 > top_k=10"),
    "mirostat": ("llamacpp", {"mirostat_tau": 3.0}, ""),
    "xtc": ("llamacpp", {"xtc_probability": 1.0, "xtc_threshold": 0.02}, ""),
    "dynamic": ("llamacpp", {"dynatemp_range": 0.5}, ""),
}


@pytest.mark.parametrize("name", LABORATORY)
def test_every_stage_comes_back_exactly(tmp_path: Path, name: str) -> None:
    preset, dials, spec = LABORATORY[name]
    vectors = np.random.default_rng(8).normal(0, 4, (6, 400)).astype(np.float32)
    backend = ScriptedBackend(
        lambda ids: vectors[len(ids) % 6], [chr(0x4E00 + n) for n in range(400)]
    )
    one = Stepper(backend, effective(preset, dials, spec=spec), seed=3, max_tokens=12)
    records: list[Record] = list(first_records(one, chr(0x4E00)))
    records += list(one.run())
    assert len(one.nodes) == 12
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        assert_same(list(session.records()), records)


def odd_step(node: int = 1) -> StepRecord:
    """Figures that do not follow from one another, as a backend with half the facts may give."""
    tokens = tuple(Token(one, bytes([65 + one])) for one in range(4))
    stages = forked_steps()[0].stages[:2]
    top = TopTable(
        ids=np.array([0, 1, 2, 3], np.int32),
        raw_logits=np.array([3.0, 2.0, 1.0, -np.inf], np.float32),
        raw_logprobs=np.array([-0.25, -1.5, -2.5, -np.inf]),
        probs=np.array([[0.5, 0.25, 0.1, 0.0], [0.7, 0.3, 0.0, 0.0], [0.7, 0.3, 0.0, 0.0]]),
        cut_by=np.array([-1, -1, 0, -2], np.int8),
        ranks=np.array([1, 2, 5, 9], np.int32),
        tokens=tokens,
    )
    draw = Draw(1, How.SAMPLED, 0.8, 0.7, 1.0)
    return fakes.step(
        *(node, fakes.timing(1.0), fakes.kv(5)),
        token=tokens[1],
        draw=draw,
        stages=stages,
        top=top,
    )


def forked_steps() -> list[StepRecord]:
    return [one for one in forked_run() if isinstance(one, StepRecord)]


def test_figures_that_do_not_follow_are_kept_as_they_are(tmp_path: Path) -> None:
    steps: list[Record] = [odd_step(1), fakes.step(2, fakes.timing(2.0), fakes.kv(6))]
    with open_session(save(tmp_path / "run.llmi", steps)) as session:
        assert_same(list(session.records()), steps)
        assert session.prompt is None
        assert session.facts is None


@dataclasses.dataclass(frozen=True, eq=False)
class _LaterStep(StepRecord):
    blocks: tuple[int, ...] = ()


def test_fields_that_a_later_version_adds_do_not_get_in_the_way(tmp_path: Path) -> None:
    plain = odd_step()
    values = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    save(tmp_path / "run.llmi", [_LaterStep(**values, blocks=(3, 4))])
    with closing(sqlite3.connect(tmp_path / "run.llmi")) as database:
        assert database.execute("SELECT extra FROM step").fetchone() == (
            '{"step":{"blocks":[3,4]}}',
        )
    with open_session(tmp_path / "run.llmi") as session:
        assert_same(session.step(1), plain)


def test_text_and_bytes_survive(tmp_path: Path) -> None:
    pieces = (b"\xf0\x9f", b"\x98", b"\x8a", b"\x00", b"\x1b[2J", b"", b"' --", b"\xff\xfe")
    tokens = tuple(Token(n, data, TokenKind.BYTE) for n, data in enumerate(pieces))
    # The same id with and without the space before a first word.
    tokens += (Token(0, b" \xf0\x9f", TokenKind.BYTE), Token(1, b"", TokenKind.UNUSED))
    prompt = PromptRecord(
        "a\x00b \udcff 😊 \u202e", tokens, (Origin.USER,) * len(tokens), True, 0.5, ("note ⏎",)
    )
    with open_session(save(tmp_path / "run.llmi", [prompt])) as session:
        assert_same(session.prompt, prompt)


def test_numbers_that_json_cannot_hold_survive(tmp_path: Path) -> None:
    dials = {
        "mirostat": Setting(float("inf"), "flag"),
        "top_k": Setting(40, "flag"),
        "top_p": Setting(1.0, "flag"),
        "on": Setting(True, "flag"),
        "off": Setting(None, "off"),
        "grammar": Setting("root ::= 'a'", "flag"),
    }
    facts = dataclasses.replace(
        fakes.SMOLLM2,
        stop_ids={0: "tokenizer", 2: "config"},
        generation_config={"eos_token_id": [0, 2], "temperature": float("nan"), "x": {"y": None}},
    )
    settings = SettingsChanged("guide", "x", 1 << 70, dials)
    with open_session(save(tmp_path / "run.llmi", [facts, settings])) as session:
        assert_same(session.settings, settings)
        assert session.facts
        config = dict(session.facts.generation_config)
        assert np.isnan(config.pop("temperature"))
        assert config == {"eos_token_id": [0, 2], "x": {"y": None}}
        assert session.facts.stop_ids == {0: "tokenizer", 2: "config"}
    with closing(sqlite3.connect(tmp_path / "run.llmi")) as database:
        bodies = [row[0] for row in database.execute("SELECT body FROM event")]
    assert not any("NaN" in body or "Infinity" in body for body in bodies)


def test_the_order_of_token_kinds_is_part_of_the_format() -> None:
    assert KINDS == ("normal", "special", "added", "byte", "unused")


# --- what is written when -------------------------------------------------------------------------


def test_a_step_is_there_as_soon_as_it_is_added(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "run.llmi")
    for count, step in enumerate(forked_steps(), start=1):
        writer.add(step)
        with open_session(tmp_path / "run.llmi") as session:
            assert len(session) == count
            assert session.closed is None
    writer.close()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.llmi"]


def test_an_unfinished_prefill_is_kept_once(tmp_path: Path) -> None:
    first = fakes.prefill(fakes.chunk(0, 5, 1.0), done=False)
    second = fakes.prefill(fakes.chunk(0, 5, 1.0), fakes.chunk(5, 5, 1.0))
    save(tmp_path / "done.llmi", [fakes.prompt(10), first, second])
    with open_session(tmp_path / "done.llmi") as session:
        assert_same([record for _, record in session.events], [second])
    save(tmp_path / "paused.llmi", [fakes.prompt(10), first])
    with open_session(tmp_path / "paused.llmi") as session:
        assert_same(session.prefill, first)


def test_what_tells_only_of_the_moment_is_not_kept(tmp_path: Path) -> None:
    passing: list[Record] = [
        StateChanged(RunState.RUNNING),
        LoadProgress("load", 0.5),
        DenseLogits(1, np.zeros(3, np.float32)),
        ScriptedBackend.uniform("abc").vocabulary(),
    ]
    with open_session(save(tmp_path / "run.llmi", passing)) as session:
        assert list(session.records()) == []
        assert session.dense(1) is None
        assert session.vocabulary is None


@pytest.mark.parametrize("half", [True, False])
def test_full_logits(tmp_path: Path, half: bool) -> None:
    vectors = np.random.default_rng(1).normal(0, 3, (8, 200)).astype(np.float32)
    if half:
        vectors = vectors.astype(np.float16).astype(np.float32)
    one = Stepper(ScriptedBackend.from_vectors(vectors.tolist()), max_tokens=5)
    record(one, tmp_path / "run.llmi", "a", full_logits=True)
    with open_session(tmp_path / "run.llmi") as session:
        assert session.full_logits
        for index, node in enumerate(session.node_ids.tolist()):
            dense = session.dense(node)
            assert dense
            assert_same(dense.logits, vectors[index])
        assert session.vocabulary
        assert [session.vocabulary.token(n) for n in range(200)] == [
            one.backend.token(n) for n in range(200)
        ]
    with closing(sqlite3.connect(tmp_path / "run.llmi")) as database:
        assert database.execute("SELECT DISTINCT width FROM logits").fetchall() == [
            (2 if half else 4,)
        ]


def test_a_second_prompt_needs_another_session(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "run.llmi")
    writer.add(fakes.prompt(3))
    with pytest.raises(SessionError, match="holds one prompt already: begin another session"):
        writer.add(fakes.prompt(4))
    writer.add(fakes.step(1, fakes.timing(1.0), fakes.kv(3)))
    writer.close()
    with open_session(tmp_path / "run.llmi") as session:
        assert len(session) == 1


def test_many_records_at_once(tmp_path: Path) -> None:
    records = forked_run()
    with SessionWriter(tmp_path / "run.llmi", title="all of it") as writer:
        writer.add_all(records)
    with open_session(tmp_path / "run.llmi") as session:
        assert session.title == "all of it"
        assert_same(list(session.records()), records)


def test_a_replayed_run_can_be_saved_again(tmp_path: Path) -> None:
    records = forked_run()
    with open_session(save(tmp_path / "one.llmi", records)) as session:
        save(tmp_path / "two.llmi", list(session.records()))
    with open_session(tmp_path / "two.llmi") as session:
        assert_same(list(session.records()), records)


def test_the_size_of_a_step(tmp_path: Path) -> None:
    """64 candidates a step, other ones at every step, their likelihoods like a language's."""
    count, width = 300, 5000
    rng = np.random.default_rng(0)
    likely = -2.0 * np.log(np.arange(1, width + 1))
    vectors = np.array([rng.permutation(likely) for _ in range(count)], np.float32)
    backend = ScriptedBackend(lambda ids: vectors[len(ids) - 1], [f"word{n}" for n in range(width)])
    one = Stepper(backend, effective("guide", {}), max_tokens=count)
    record(one, tmp_path / "run.llmi", "word0")
    assert len(one.nodes) == count
    assert (tmp_path / "run.llmi").stat().st_size / count < 2500


def test_draws_and_stops_of_every_kind(tmp_path: Path) -> None:
    greedy = stepper(temperature=0.0)
    records: list[Record] = list(first_records(greedy, "the"))
    records += list(greedy.run())
    records.append(greedy.extend(0, force=3))
    steps = [one for one in records if isinstance(one, StepRecord)]
    assert {one.draw.how for one in steps} == {How.GREEDY, How.FORCED}
    assert steps[-2].stop is not None
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        assert_same(list(session.records()), records)
        assert_same(session.steps[1].draw, Draw(steps[0].token.id, How.GREEDY, None, 0.0, 1.0))


def test_a_prefill_with_layers(tmp_path: Path) -> None:
    from engine.records.prompt import LayerTime

    layers = (LayerTime(0.5, None, 1.25), LayerTime(None, 0.1, 0.3))
    prefill: PrefillRecord = dataclasses.replace(
        fakes.prefill(PrefillChunk(0, 3, 2.0, layers, True, "why")), reason="node 3 again"
    )
    with open_session(save(tmp_path / "run.llmi", [fakes.prompt(3), prefill])) as session:
        assert_same(session.prefill, prefill)
