"""``llm-inspect sample``: vectors from files through the chain of the inspector."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.models.tokenizer_file import Names
from engine.records.events import SettingsChanged
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.draw import uniform
from inspector.cli import main as cli
from inspector.cli.run_file import run_step
from sessions.export.jsonl import dumps, run_line, step_line

PROBS = [0.42, 0.21, 0.13, 0.09, 0.06, 0.04, 0.03, 0.02]
"""u of seed 0 at position 0 is 0.01155: it falls on the first of them."""
LETTERS = "abcdefgh"
Run = Callable[..., str]


@pytest.fixture
def vector(tmp_path: Path) -> str:
    path = tmp_path / "logits.npy"
    np.save(path, np.log(PROBS))
    return str(path)


@pytest.fixture
def sample(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``sample`` and return what it prints; the exit code must be 0."""

    def run(*words: str, width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        assert cli.main(["sample", *words]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return run


@pytest.fixture
def read(sample: Run) -> Callable[..., dict[str, Any]]:
    """The JSON object that ``sample --format json`` prints, strictly read."""

    def run(*words: str) -> dict[str, Any]:
        (line,) = sample(*words, "--format", "json").splitlines()
        value: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
        return value

    return run


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """A tokenizer of one letter a token, of which ``c`` is an escape sequence and ``d`` special."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    names = ["a", "b", "\x1b[2J", "<end>", "Ġ", *"fgh", *"ijk"]
    made = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, unk_token="k"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<end>", special=True)])
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return str(path)


# --- JSON -----------------------------------------------------------------------------------


def test_stages_top_kept_ids_and_the_draw(read: Callable[..., dict[str, Any]], vector: str) -> None:
    found = read(vector, "-s", "top_k=2 > temperature=1", "--top", "3")
    assert [(one["name"], one["params"], one["survivors"]) for one in found["stages"]] == [
        ("top_k", {"top_k": 2}, 2),
        ("temperature", {"temperature": 1.0, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0}, 2),
    ]
    assert found["stages"][0]["mass_removed"] == pytest.approx(0.37, rel=1e-6)
    # -(2/3 log 2/3 + 1/3 log 1/3)
    assert found["stages"][0]["entropy"] == pytest.approx(0.636514, abs=1e-6)
    assert [(one["id"], one["rank"], one["cut_by"]) for one in found["top"]] == [
        (0, 1, None),
        (1, 2, None),
        (2, 3, "top_k"),
    ]
    assert [one["final_prob"] for one in found["top"]] == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert found["top"][0]["raw_logprob"] == pytest.approx(np.log(0.42), rel=1e-6)
    assert found["kept_ids"] == [0, 1]
    assert found["draw"]["token_id"] == 0
    assert found["draw"]["how"] == "sampled"
    assert found["draw"]["u"] == pytest.approx(0.01155, abs=1e-5)
    assert (found["draw"]["low"], found["draw"]["high"]) == (0.0, pytest.approx(2 / 3))
    assert (found["seed"], found["position"], found["vocab_size"]) == (0, 0, 8)
    assert found["settings"]["top_k"] == {"value": 2, "source": "flag"}


def test_flags_and_presets_are_those_of_a_run(
    read: Callable[..., dict[str, Any]], vector: str
) -> None:
    found = read(vector, "--preset", "llamacpp", "--min-p", "0.2", "--top-k", "3")
    assert found["chain"] == "top_k=3 > top_p=0.95 > min_p=0.2 > temperature=0.8"
    # 0.13 / 0.42 is above 0.2
    assert found["kept_ids"] == [0, 1, 2]
    assert read(vector, "--preset", "llamacpp", "--min-p", "0.4")["kept_ids"] == [0, 1]


def test_the_dice_are_keyed_by_seed_and_position(
    read: Callable[..., dict[str, Any]], vector: str
) -> None:
    assert read(vector, "--seed", "3", "--position", "5")["u"] == uniform(3, 5)
    assert read(vector, "--prompt-ids", "1,2", "--output-ids", "4-6")["u"] == uniform(0, 5)


def test_penalties_know_what_was_said(read: Callable[..., dict[str, Any]], vector: str) -> None:
    words = ("-s", "frequency_penalty=1 > temperature=1", "--output-ids", "0,0")
    found = {row["id"]: row["final_prob"] for row in read(vector, *words)["top"]}
    # 0.42 / e² among what is left of 1
    share = 0.42 * np.exp(-2)
    assert found[0] == pytest.approx(share / (0.58 + share), rel=1e-6)


def test_min_new_tokens_forbids_the_stop_tokens(
    read: Callable[..., dict[str, Any]], vector: str
) -> None:
    words = ("-s", "min_new_tokens=2 > temperature=1", "--stop-ids", "0-5")
    assert read(vector, *words)["kept_ids"] == [6, 7]
    assert len(read(vector, *words, "--output-ids", "1,1")["kept_ids"]) == 8


def test_a_greedy_choice_has_no_u(read: Callable[..., dict[str, Any]], vector: str) -> None:
    found = read(vector, "--temperature", "0")
    assert found["draw"] == {
        "token_id": 0,
        "how": "greedy",
        "u": None,
        "low": 0.0,
        "high": found["draw"]["high"],
    }
    assert found["u_reason"] == "no randomness was used: greedy"


# --- the same code as the engine --------------------------------------------------------------


def scripted_run(count: int, **dials: float) -> tuple[Stepper, list[StepRecord]]:
    """``count`` steps after the prompt ``ab`` of a run whose every step has PROBS."""
    backend = ScriptedBackend.from_vectors([np.log(PROBS).tolist()])
    stepper = Stepper(backend, effective("guide", dials), seed=7)
    stepper.submit("ab")
    return stepper, [stepper.step() for _ in range(count)]


def run_file(path: Path, stepper: Stepper, steps: list[StepRecord]) -> Path:
    settings = SettingsChanged("guide", stepper.settings.spec, 7, stepper.settings.dials)
    assert stepper.prompt is not None
    lines = [run_line(stepper.backend.facts, stepper.prompt, settings), *map(step_line, steps)]
    path.write_text("\n".join(map(dumps, lines)))
    return path


def test_a_vector_gives_what_the_run_gave(read: Callable[..., dict[str, Any]], vector: str) -> None:
    _, (step, *_) = scripted_run(1, temperature=0.7, top_k=5, top_p=0.8)
    spec = ("-s", "temperature=0.7 top_k=5 top_p=0.8", "--seed", "7", "--prompt-ids", "0,1")
    found = read(vector, *spec)
    theirs = step_line(step)
    for name in ("stages", "chain", "token_id", "how", "u", "low", "high", "position"):
        assert found[name] == theirs[name], name
    for ours, row in zip(found["top"], theirs["top"], strict=True):
        assert ours == {name: row[name] for name in ours}


def test_a_line_of_a_run_file_brings_its_place_with_it(
    tmp_path: Path, read: Callable[..., dict[str, Any]]
) -> None:
    dials = {"temperature": 1.3, "frequency_penalty": 0.9}
    stepper, steps = scripted_run(6, **dials)
    path = run_file(tmp_path / "run.jsonl", stepper, steps)
    for line, step in enumerate(steps, 2):
        found = read(f"{path}:{line}", "-s", "frequency_penalty=0.9 temperature=1.3")
        assert (found["seed"], found["position"]) == (7, step.position)
        assert found["u"] == step.draw.u
        assert found["token_id"] == step.token.id
        assert found["high"] == pytest.approx(step.draw.high, abs=1e-6)
    assert read(str(path), "--line", "4")["source"] == "run.jsonl line 4"
    assert read(str(path))["source"] == "run.jsonl line 2"
    # What is asked for wins over what the file says.
    found = read(f"{path}:3", "--seed", "1", "--position", "9", "--prompt-ids", "")
    assert found["u"] == uniform(1, 9)


def test_a_run_files_logits_are_the_models_own(
    tmp_path: Path, read: Callable[..., dict[str, Any]]
) -> None:
    """A repetition penalty divides what is above 0 and multiplies the rest: a shift would tell."""
    backend = ScriptedBackend.from_vectors([[4.0, 3.0, 2.0, -1.0, -2.0]])
    stepper = Stepper(backend, effective("guide", {"repetition_penalty": 1.8}), seed=7)
    stepper.submit("ab")
    steps = [stepper.step() for _ in range(3)]
    path = run_file(tmp_path / "run.jsonl", stepper, steps)
    for line, step in enumerate(steps, 2):
        found = read(f"{path}:{line}", "-s", "repetition_penalty=1.8")
        theirs = step_line(step)
        assert found["token_id"] == theirs["token_id"]
        assert [one["mass_removed"] for one in found["stages"]] == [
            one["mass_removed"] for one in theirs["stages"]
        ]
        assert [one["entropy"] for one in found["stages"]] == pytest.approx(
            [one["entropy"] for one in theirs["stages"]]
        )
        assert not [one for one in found["notes"] if "repetition_penalty" in one]


def test_a_run_file_names_its_tokens(tmp_path: Path, read: Callable[..., dict[str, Any]]) -> None:
    path = run_file(tmp_path / "run.jsonl", *scripted_run(2))
    assert read(str(path))["top"][1]["token_bytes"] == b"b".hex()


def test_the_branch_that_a_step_lies_on(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "run", "prompt_ids": [9], "stop_ids": {"2": "script"}, "vocab_size": 30},
        {"type": "step", "node": 1, "parent": 0, "token_id": 5},
        {"type": "step", "node": 2, "parent": 1, "token_id": 6},
        {"type": "step", "node": 3, "parent": 1, "token_id": 7},
        {"type": "step", "node": 4, "parent": 3, "position": 3, "seed": 11},
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    found = run_step(path, 5)
    assert (found.prompt_ids, found.output_ids) == ((9,), (5, 7))
    assert (found.position, found.seed, found.vocab_size) == (3, 11, 30)
    assert found.stop_ids == {2}


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "3",
        "{",
        '{"type": "step"}',
        '{"type": "step", "node": 1, "parent": 1, "token_id": 1}',
        '{"type": "step", "seed": -1, "position": "x", "top": 3}',
        '{"type": "step", "top": [3, {"id": 1}, {"id": -1, "token_bytes": "61"}]}',
        '{"type": "step", "top": [{"id": 1, "token_bytes": "xyz"}]}',
        '{"type": "step", "top": [{"id": 99999999999999999999, "token_bytes": "61"}]}',
        f'{{"type": "step", "position": {1 << 64}}}',
        "[" * 100_000,
    ],
)
def test_a_line_that_says_nothing_else_is_a_vector_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"type": "run", "prompt_ids": [1, "x"]}}\n{line}')
    found = run_step(path, 2)
    assert found.prompt_ids == found.output_ids == ()
    assert (found.position, found.seed, found.names) == (None, None, {})


def test_what_a_run_file_cannot_tell_is_said(
    tmp_path: Path, read: Callable[..., dict[str, Any]]
) -> None:
    step = {
        "type": "step",
        "position": 7,
        "top": [{"id": 3, "raw_logprob": float(np.log(0.75)), "token_bytes": "61"}],
    }
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"type": "run", "prompt_ids": [1, 2]}, step])))
    notes = " ".join(read(str(path), "--repetition-penalty", "1.2")["notes"])
    assert "the rest, of probability 0.25, is left out" in notes
    assert "2 of the 7 tokens before this one are known." in notes
    assert "repetition_penalty divides logits" in notes


# --- which tokens ---------------------------------------------------------------------------


def test_ids_say_what_the_entries_stand_for(
    read: Callable[..., dict[str, Any]], vector: str
) -> None:
    found = read(vector, "-s", "top_k=3 > temperature=1", "--ids", "40-46,7")
    assert found["kept_ids"] == [40, 41, 42]
    assert [row["id"] for row in found["top"]] == [40, 41, 42, 43, 44, 45, 46, 7]
    assert (found["vocab_size"], found["known"]) == (47, 8)
    assert "8 tokens are known; all others are taken as impossible." in found["notes"]
    # Penalties go by the real ids.
    words = ("-s", "suppress='40' > temperature=1", "--ids", "40-46,7")
    assert read(vector, *words)["kept_ids"] == [7, 41, 42, 43, 44, 45, 46]


def test_ids_may_lie_in_a_file(
    tmp_path: Path, read: Callable[..., dict[str, Any]], vector: str
) -> None:
    path = tmp_path / "ids.json"
    path.write_text("[10, 20, 30, 40, 50, 60, 70, 80]")
    assert read(vector, "--ids", str(path), "--top-k", "1")["kept_ids"] == [10]


def test_a_tokenizer_names_tokens(
    read: Callable[..., dict[str, Any]], vector: str, tokenizer: str
) -> None:
    found = read(vector, "--tokenizer", tokenizer)
    names = [bytes.fromhex(row["token_bytes"]) for row in found["top"]]
    assert names == [b"a", b"b", b"\x1b[2J", b"<end>", b" ", b"f", b"g", b"h"]
    assert (
        "The vector has 8 logits and the tokenizer 11 tokens: are they of one model?"
        in (found["notes"])
    )
    folder = str(Path(tokenizer).parent)
    assert read(vector, "--tokenizer", folder)["top"] == found["top"]


def test_a_tokenizer_turns_the_text_of_a_dial_into_ids(
    read: Callable[..., dict[str, Any]], vector: str, tokenizer: str
) -> None:
    found = read(vector, "-s", "suppress=\"'a','b'\" > temperature=1", "--tokenizer", tokenizer)
    assert found["kept_ids"] == [2, 3, 4, 5, 6, 7]


def test_a_tokenizer_lets_a_grammar_read(
    read: Callable[..., dict[str, Any]], vector: str, tokenizer: str
) -> None:
    pytest.importorskip("llguidance")
    words = ("-s", 'regex="[bg]+" > temperature=1', "--tokenizer", tokenizer, "--stop-ids", "3")
    assert read(vector, *words)["kept_ids"] == [1, 6]
    assert read(vector, *words, "--output-ids", "1")["kept_ids"] == [1, 3, 6]


def test_ids_beyond_a_tokenizer_are_unused(tokenizer: str) -> None:
    names = Names(Path(tokenizer), 20)
    assert (names.size, len(names.vocabulary())) == (11, 20)
    assert [names.token(at).kind.value for at in (0, 3, 19)] == ["normal", "special", "unused"]
    assert names.ids("ab") == [0, 1]


@pytest.mark.model
def test_names_are_those_of_the_engine(default_model_dir: Path) -> None:
    from transformers import AutoTokenizer

    from engine.models.token_table import TokenTable

    theirs = TokenTable.from_tokenizer(AutoTokenizer.from_pretrained(default_model_dir), 49_152)
    ours = Names(default_model_dir / "tokenizer.json", 49_152)
    for row in theirs:
        token = ours.token(row.id)
        assert (token.bytes, token.kind.value) == (row.data, row.kind)


# --- text -----------------------------------------------------------------------------------


def test_the_ladder_at_80_columns(sample: Run, vector: str) -> None:
    out = sample(vector, "-s", "temperature=0.7 top_k=6 top_p=0.9")
    assert out == (
        """\
source    logits.npy
chain     guide: temperature=0.7 > top_k=6 > top_p=0.9
settings  temperature=0.7 (flag), top_k=6 (flag), top_p=0.9 (flag)

 rank   id     raw model          temp     top_k    top_p          drawn
           logprob raw p          0.7      6        0.9            final p
       tokens left 8              8        6        4
      mass removed                0        −2.00%   −5.48%
     entropy, nats 1.66           1.34     1.26     1.07
    1    0   −0.87 42.0% █████▋   55.5%██▊ 56.6%██▉ 59.9% ████████ ● 59.9%
    2    1   −1.56 21.0% ██▊      20.6%█   21.0%█   22.3% ███        22.3%
    3    2   −2.04 13.0% █▊       10.4%▌   10.6%▌   11.2% █▌         11.2%
    4    3   −2.41 9.00% █▎       6.14%▎   6.27%▍   6.63% ▉          6.63%
    5    4   −2.81 6.00% ▊        3.44%▏   3.51%▏   ✂ top_p
    6    5   −3.22 4.00% ▌        1.93%▏   1.97%▏   ✂ top_p
    7    6   −3.51 3.00% ▍        1.28%▏   ✂ top_k
    8    7   −3.91 2.00% ▎        0.72%    ✂ top_k
 all 8 ids

       ▼ u 0.01155 in [0.00000, 0.59899)
 draw 0███████████████████████████████████████████▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▆▆▆▆▆▆▆▆▃▃▃▃▃1

figures   derived from the logits; u is drawn
note      Rules are those of transformers.
"""
    )


def test_stages_that_do_not_fit_come_below(sample: Run, vector: str) -> None:
    out = sample(vector, "-s", "typical_p=0.3 > top_k=1 > temperature=2", "--top", "3", width=60)
    ladders = out.split("\n\n")[1:3]
    assert ladders == [
        """\
 rank   id     raw model     typical  top_k     drawn
           logprob raw p     0.3      1         final p
       tokens left 8         2        1
      mass removed           −66.0%   −38.2%
     entropy, nats 1.66      0.67     0.00
        worked out           H±0.3852
    1    0   −0.87 42.0% █▎  ✂ typi
    2    1   −1.56 21.0% ▋   61.8%█▉   100% ███ ●  100%
    3    2   −2.04 13.0% ▍   38.2%█▏  ✂ top_k""",
        """\
 rank   id     raw model     top_k    temp      drawn
           logprob raw p     1        2         final p
       tokens left 8         1        1
      mass removed           −38.2%   0
     entropy, nats 1.66      0.00     0.00
        worked out
    1    0   −0.87 42.0% █▎                     ✂ typi
    2    1   −1.56 21.0% ▋    100%███  100% ███ ●  100%
    3    2   −2.04 13.0% ▍   ✂ top_k
 5 more tokens: 24.0% raw mass, 0% final mass""",
    ]


def test_the_drawn_token_is_shown_wherever_it_stands(sample: Run, vector: str) -> None:
    out = sample(vector, "--seed", "3", "-s", "temperature=1 > top_k=0", "--top", "1")
    # u of seed 3 is 0.934, past the first five and short of the first six.
    assert 0.91 < uniform(3, 0) < 0.95
    rows = [line.split() for line in out.splitlines() if line[:5].strip().isdecimal()]
    assert [row[1] for row in rows] == ["0", "5"]
    assert rows[-1][-2] == "●"


def test_what_is_not_shown_is_summed_up(sample: Run, vector: str) -> None:
    out = sample(vector, "-s", "top_k=4 > temperature=1", "--top", "3")
    # 0.09 + 0.06 + 0.04 + 0.03 + 0.02 raw; 0.09 of 0.85 final
    assert " 5 more tokens: 24.0% raw mass, 10.6% final mass" in out.splitlines()


def test_tokens_that_are_not_known_are_no_rows(sample: Run, vector: str) -> None:
    out = sample(vector, "--ids", "40-46,7", "--top", "100")
    assert "✂ model" not in out
    assert " all 8 ids" in out.splitlines()


def test_names_cannot_act_on_the_terminal(sample: Run, vector: str, tokenizer: str) -> None:
    out = sample(vector, "--tokenizer", tokenizer)
    assert "\x1b" not in out
    assert any(line.endswith('"␛[2J"') for line in out.splitlines())
    assert any(line.endswith(" <end>") for line in out.splitlines())


def test_greedy_says_that_there_were_no_dice(sample: Run, vector: str) -> None:
    assert "greedy: no dice, the most likely is taken" in sample(vector, "--temperature", "0")


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "the following arguments are required: LOGITS (see llm-inspect sample --help)"),
        (["a.txt"], "a.txt: cannot tell what this is by its name; a logits file ends in .npy, .json, .jsonl"),
        (["gone.npy"], "cannot read gone.npy: No such file or directory"),
        (["nan.json"], "nan.json holds 1 NaN, the first at index 1"),
        (["square.json"], "square.json holds a list at index 0, not a number"),
        (["v.json", "--line", "2"], "v.json: only a .jsonl file has lines to choose from"),
        (["r.jsonl:2", "--line", "2"], "the line is given twice: r.jsonl:2 and --line 2"),
        (["r.jsonl:9"], "r.jsonl has 1 lines, no line 9"),
        (["r.jsonl:1"], "r.jsonl line 1 is 'run': expected a step, with a \"top\" table"),
        (["v.json", "-s", "temprature=1"], "unknown dial 'temprature'; did you mean temperature?"),
        (["v.json", "--top-p", "3"], "--top-p: top_p=3 is out of range: 0 to 1"),
        (["v.json", "--preset", "vlm"], "unknown preset 'vlm'; did you mean vllm?"),
        (["v.json", "-s", "suppress='0,1'"], 'stage suppress="0, 1": no token is left'),
        (["v.json", "--ids", "1"], "--ids names 1 ids for the 2 of v.json"),
        (["v.json", "--ids", "1,1"], "--ids names 1 twice"),
        (["v.json", "--ids", "1,x"], "--ids: 'x' is no token id: write ids such as 1,2,5-9"),
        (["v.json", "--ids", "9-7"], "--ids: '9-7' is no token id: write ids such as 1,2,5-9"),
        (["v.json", "--ids", "1,99999999"], "--ids: '99999999' is no token id: write ids such as 1,2,5-9"),
        (["v.json", "--ids", "gone.json"], "--ids: cannot read gone.json: No such file or directory"),
        (["v.json", "--output-ids", "nan.json"], "--output-ids: nan.json must hold a list of token ids"),
        (["s.jsonl", "--ids", "1"], "--ids: a run file names its own ids"),
        (["v.json", "--tokenizer", "."], ". has no tokenizer.json: give a folder that has one, or the file"),
        (["v.json", "--tokenizer", "v.json"], "v.json is not a tokenizer: "),
        (["v.json", "--top", "0"], "argument --top: must be 1 or more, not 0 (see llm-inspect sample --help)"),
        (["v.json", "--position", "-1"], "argument --position: takes a whole number from 0 on, not '-1' (see llm-inspect sample --help)"),
        (["v.json", "--max-tokens", "3"], "unrecognized arguments: --max-tokens 3 (see llm-inspect sample --help)"),
    ],
)  # fmt: skip
def test_one_line_that_says_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "nan.json": "[1, NaN]",
        "square.json": "[[1, 2], [3, 4]]",
        "v.json": "[1, 2]",
        "r.jsonl": '{"type": "run"}',
        "s.jsonl": '{"type": "step", "top": [{"id": 1, "raw_logprob": 0}]}',
    }.items():
        (tmp_path / name).write_text(text)
    assert cli.main(["sample", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (said,) = captured.err.splitlines()
    said = said.removeprefix("llm-inspect: ")
    assert said == line or (line.endswith(": ") and said.startswith(line))


def test_a_model_that_is_not_here_is_not_fetched(
    vector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLM_INSPECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert cli.main(["sample", vector, "--tokenizer", "nobody/nothing"]) == 2
    assert "--tokenizer: offline, and nobody/nothing is not in the hub's cache" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("more", [[], ["--format", "json"], ["--tokenizer"]])
def test_torch_is_never_imported(vector: str, tokenizer: str, more: list[str]) -> None:
    words = ["sample", vector, *more, *([tokenizer] if "--tokenizer" in more else [])]
    code = (
        "import sys; from inspector.cli import main as cli; "
        f"code = cli.main({words!r}); heavy = ('torch', 'transformers', 'tokenizers'); "
        "print(code, [name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = ["tokenizers"] if "--tokenizer" in more else []
    assert done.stderr.splitlines()[-1] == f"0 {expected}"
