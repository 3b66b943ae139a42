"""Logits from files, and the report that ``sample --format json`` prints."""

from __future__ import annotations

import json
import pickle
import tracemalloc

import numpy as np
import pytest

from engine.records.vocabulary import Token
from engine.sampling.chain import effective
from engine.sampling.logits_file import LogitsFileError, load_logits
from engine.sampling.report import sample_report
from engine.sampling.stages import StageContext

STEP = {
    "type": "step",
    "token_id": 5,
    "top": [
        {"id": 5, "raw_logprob": float(np.log(0.5)), "final_prob": 1.0, "cut_by": None},
        {"id": 2, "raw_logprob": float(np.log(0.25)), "final_prob": 0.0, "cut_by": "top_k"},
        {"id": 9, "raw_logprob": None, "final_prob": 0.0, "cut_by": "model"},
    ],
}


class TestReading:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
    def test_npy(self, tmp_path, dtype):
        path = tmp_path / "logits.npy"
        np.save(path, np.array([1, 2, 3], dtype=dtype))
        found = load_logits(path)
        assert found.logits.tolist() == [1, 2, 3]
        assert found.logits.dtype == np.float32
        assert (found.missing_mass, found.partial) == (0.0, False)

    def test_a_batch_of_one_is_a_vector(self, tmp_path):
        np.save(tmp_path / "a.npy", np.zeros((1, 1, 4)))
        assert load_logits(tmp_path / "a.npy").logits.shape == (4,)

    def test_json_list(self, tmp_path):
        path = tmp_path / "logits.json"
        path.write_text("[1.5, null, -Infinity, 2]")
        assert load_logits(path).logits.tolist() == [1.5, -np.inf, -np.inf, 2.0]
        path.write_text('{"logits": [[0, 1]]}')
        assert load_logits(path).logits.tolist() == [0.0, 1.0]

    def test_a_step_of_a_run_file_says_what_it_does_not_know(self, tmp_path):
        path = tmp_path / "run.jsonl"
        path.write_text("\n".join(map(json.dumps, [{"type": "run"}, STEP, STEP | {"top": []}])))
        found = load_logits(path)
        assert found.source == "run.jsonl line 2"
        assert found.known == 2
        assert found.partial
        assert found.missing_mass == pytest.approx(0.25, rel=1e-6)
        assert np.flatnonzero(np.isfinite(found.logits)).tolist() == [2, 5]
        assert load_logits(path, line=2).logits.tolist() == found.logits.tolist()

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.txt", b"1 2", "a logits file ends in .npy, .json, .jsonl"),
            ("a.npz", b"", "a logits file ends in"),
            ("a.npy", b"not numpy", "a.npy is not a .npy file of numbers"),
            ("a.npy", pickle.dumps([1]), "a.npy is not a .npy file of numbers"),
            ("a.npy", np.array([1.0, np.nan, np.nan]), "holds 2 NaN, the first at index 1"),
            ("a.npy", np.array([1.0, np.inf]), "holds 1 values of infinity"),
            ("a.npy", np.array([1e300, 0.0]), "past float32"),
            ("a.npy", np.array([-np.inf]), "minus infinity alone"),
            ("a.npy", np.zeros((2, 5)), r"has shape (2, 5): expected one vector"),
            ("a.npy", np.zeros(0), r"has shape (0,)"),
            ("a.npy", np.float64(3), r"has shape ()"),
            ("a.npy", np.array([True]), "holds bool, not real numbers"),
            ("a.npy", np.array([1j]), "holds complex128, not real numbers"),
            ("a.npy", np.array(["x"]), "not real numbers"),
            ("a.json", b"[1, 2", "a.json is not JSON"),
            ("a.json", b"\xff", "not UTF-8"),
            ("a.json", b"3", "holds a number: expected a list"),
            ("a.json", b'{"x": 1}', "holds an object: expected a list"),
            ("a.json", b'[1, "2"]', "holds text at index 1, not a number"),
            ("a.json", b"[1, true]", "holds true or false at index 1"),
            ("a.json", b"[1, NaN]", "holds 1 NaN"),
            ("a.json", b"[[1], [2]]", "holds a list at index 0"),
            ("a.json", b"[]", "has shape (0,)"),
            ("a.jsonl", b'{"type": "run"}', 'no line of "type": "step"'),
            ("a.jsonl", b"{", "line 1 is not JSON"),
            ("a.jsonl", b'{"type": "step", "top": [{"id": 1}]}', "lacks id or raw_logprob"),
            ("a.jsonl", b'{"type": "step", "top": []}', "no token with a raw_logprob"),
            ("a.jsonl", b'{"type": "step", "top": [{"id": -1, "raw_logprob": 0}]}', "token -1"),
            (
                "a.jsonl",
                b'{"type":"step","top":[{"id":1,"raw_logprob":0},{"id":2,"raw_logprob":0}]}',
                "add up to 2, more than 1",
            ),
            (
                "a.jsonl",
                b'{"type":"step","top":[{"id":99999999999,"raw_logprob":0}]}',
                "line 1: token 99999999999 is no id: those are whole numbers from 0 to 16,777,215",
            ),
            ("a.json", b'{"top":[{"id":16777216,"raw_logprob":0}]}', "token 16777216 is no id"),
            ("a.json", b'{"top":[{"id":1e300,"raw_logprob":0}]}', "token 1e+300 is no id"),
            ("a.json", b'{"top":[{"id":Infinity,"raw_logprob":0}]}', "token Infinity is no id"),
            ("a.json", b'{"top":[{"id":"\\u001b[2J","raw_logprob":0}]}', "no id"),
            ("a.json", b'{"top":[{"id":true,"raw_logprob":0}]}', "token true is no id"),
            ("a.json", b'{"top":[{"id":1,"raw_logprob":1e300}]}', "infinity (or past float32)"),
            ("a.json", b'{"top":[{"id":1,"raw_logprob":900}]}', "more than 1"),
            (
                "a.json",
                b'{"top":[{"id":1,"raw_logprob":1' + b"0" * 400 + b"}]}",
                "raw_logprob of token 1 is a whole number past any float",
            ),
            ("a.json", b'{"log_z_raw":"x","top":[{"id":1,"raw_logprob":0}]}', "log_z_raw is "),
            ("a.json", b'{"log_z_raw":1e999,"top":[{"id":1,"raw_logprob":0}]}', "infinity"),
            ("a.json", b"[1" + b"0" * 400 + b"]", "a whole number past any float"),
            ("a.json", b"[" * 100_000, "lists in lists"),
            ("a.npy", np.zeros((1 << 24) + 1, np.int8), "16,777,217 numbers: no vocabulary has"),
        ],
    )
    def test_what_is_wrong_is_said_in_one_line(self, tmp_path, name, content, message):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content)
        with pytest.raises(LogitsFileError) as error:
            load_logits(path)
        assert message in str(error.value)
        assert "\n" not in str(error.value)

    def test_a_large_id_takes_no_memory(self, tmp_path):
        """A line of a hundred bytes must not ask for terabytes."""
        path = tmp_path / "a.jsonl"
        path.write_text('{"type":"step","top":[{"id":16777215,"raw_logprob":0}]}')
        assert load_logits(path).logits.nbytes == 4 << 24
        path.write_text('{"type":"step","top":[{"id":1000000000000,"raw_logprob":0}]}')
        tracemalloc.start()
        with pytest.raises(LogitsFileError):
            load_logits(path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 20

    def test_with_log_z_the_logits_are_the_models_own(self, tmp_path):
        path = tmp_path / "a.json"
        logits = np.array([3.5, -1.25, 2.0], np.float32)
        log_z = float(np.logaddexp.reduce(logits.astype(np.float64)))
        rows = [{"id": at, "raw_logprob": float(one) - log_z} for at, one in enumerate(logits)]
        path.write_text(json.dumps({"log_z_raw": log_z, "top": rows}))
        read = load_logits(path)
        assert read.logits.tolist() == logits.tolist()
        assert read.missing_mass == 0.0

    def test_a_pickle_inside_npy_is_never_run(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([object()], dtype=object), allow_pickle=True)
        with pytest.raises(LogitsFileError, match=r"not a \.npy file of numbers"):
            load_logits(tmp_path / "a.npy")

    def test_a_missing_file_and_a_missing_line(self, tmp_path):
        with pytest.raises(LogitsFileError, match="No such file"):
            load_logits(tmp_path / "gone.npy")
        (tmp_path / "run.jsonl").write_text(json.dumps(STEP))
        with pytest.raises(LogitsFileError, match="has 1 lines, no line 2"):
            load_logits(tmp_path / "run.jsonl", line=2)
        np.save(tmp_path / "a.npy", np.zeros(3))
        with pytest.raises(LogitsFileError, match=r"only a \.jsonl file has lines"):
            load_logits(tmp_path / "a.npy", line=1)


class TestReport:
    def report(self, tmp_path, logits, spec="", **options):
        np.save(tmp_path / "a.npy", logits)
        read = load_logits(tmp_path / "a.npy")
        found = sample_report(
            effective("guide", {}, spec=spec), read, StageContext(seed=3), **options
        )
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        return found

    def test_holds_stages_top_and_kept_ids(self, tmp_path):
        found = self.report(tmp_path, np.log([0.1, 0.4, 0.2, 0.3]), "top_k=2 > temperature=1")
        assert found["kept_ids"] == [1, 3]
        assert [stage["name"] for stage in found["stages"]] == ["top_k", "temperature"]
        assert found["stages"][0]["survivors"] == 2
        assert found["stages"][0]["params"] == {"top_k": 2}
        assert found["stages"][0]["mass_removed"] == pytest.approx(0.3, rel=1e-6)
        assert [row["id"] for row in found["top"]] == [1, 3, 2, 0]
        assert [row["cut_by"] for row in found["top"]] == [None, None, "top_k", "top_k"]
        assert found["top"][0]["final_prob"] == pytest.approx(4 / 7, rel=1e-6)
        assert found["top"][0]["raw_logprob"] == pytest.approx(np.log(0.4), rel=1e-6)
        assert found["settings"]["top_k"] == {"value": 2, "source": "flag"}
        assert found["token_id"] in found["kept_ids"]
        assert 0 <= found["low"] <= found["u"] < found["high"] <= 1

    def test_the_chosen_token_has_its_row(self, tmp_path):
        found = self.report(tmp_path, np.zeros(500), "temperature=1 > top_k=0", count=3)
        assert len(found["top"]) == 4
        assert found["top"][3]["id"] == found["token_id"]

    def test_greedy_has_no_u_and_says_why(self, tmp_path):
        found = self.report(tmp_path, np.array([1.0, 2.0]), "temperature=0")
        assert found["u"] is None
        assert found["u_reason"] == "no randomness was used: greedy"

    def test_minus_infinity_is_never_written(self, tmp_path):
        logits = np.array([0.0, -np.inf, 1.0])
        found = self.report(tmp_path, logits, "logit_bias='0:-inf' > temperature=1")
        assert found["kept_ids"] == [2]
        assert found["stages"][0]["params"] == {"logit_bias": "0:-inf"}

    def test_names_tokens_when_it_can(self, tmp_path):
        found = self.report(tmp_path, np.zeros(2), token=lambda i: Token(i, b"x%d" % i))
        assert found["top"][1]["token_bytes"] == b"x1".hex()

    def test_a_partial_vocabulary_is_said(self, tmp_path):
        path = tmp_path / "run.jsonl"
        path.write_text(json.dumps(STEP))
        found = sample_report(effective("guide", {}), load_logits(path), StageContext())
        assert found["missing_mass"] == pytest.approx(0.25, rel=1e-6)
        assert found["known"] == 2
        assert any("2 tokens are known" in note for note in found["notes"])
