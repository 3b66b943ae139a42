"""The worked round of docs/speculation.md, computed again."""

from __future__ import annotations

import re

import numpy as np
import pytest

from engine.records.round import Accept
from engine.sampling.verification import TYPICAL_LIMIT, TYPICAL_SHARE, Probs, expected, residual
from inspector.cli.option_values import ACCEPT
from tests.folders import ROOT

PAGE = (ROOT / "docs" / "speculation.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([abcd]|sum) \|(.*)\|$", PAGE, re.MULTILINE)


def test_the_table_is_what_the_rule_gives() -> None:
    table = {name: [float(cell) for cell in cells.split("|")] for name, cells in ROWS}
    values = np.array([table[name] for name in "abcd"])
    p, q = (Probs(np.arange(4, dtype=np.int32), column) for column in values[:, :2].T)
    mass, left = residual(p, q)
    ids = np.arange(4)
    np.testing.assert_allclose(values[:, 2], np.minimum(p.values, q.values))
    np.testing.assert_allclose(values[:, 3], np.maximum(0, p.values - q.values))
    np.testing.assert_allclose(values[:, 4], left.at(ids), atol=5e-5)
    np.testing.assert_allclose(table["sum"], values.sum(axis=0), atol=2e-4)
    assert table["sum"][2] == pytest.approx(expected(Accept.EXACT, p, q, 0.0))
    assert table["sum"][3] == pytest.approx(mass)
    np.testing.assert_allclose(np.minimum(p.values, q.values) + mass * left.at(ids), p.values)
    assert f"{0.125 / 0.7:.4f}" in PAGE


def test_it_names_every_rule_with_its_figures() -> None:
    for name in ACCEPT:
        assert f"- `{name}`:" in PAGE
    assert f"min({TYPICAL_LIMIT}, {TYPICAL_SHARE} exp(-H))" in PAGE
