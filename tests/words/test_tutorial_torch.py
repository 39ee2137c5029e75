"""The tutorial about PyTorch runs, and says what it promises."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "tutorials" / "torch_invariant.py"


@pytest.mark.slow
def test_the_tutorial_runs_and_ends_invariant_to_rounding(capsys, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("The model is not invariant under a group of 2")
    assert "in float32" in told[-2]
    assert "in float64" in told[-1]
