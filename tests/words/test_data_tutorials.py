"""The tutorials about data run from the first line to the last, and say what their pages promise."""

import runpy
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "said"), [("find_tied_weights", "holds"), ("sweep_in_pandas", "identities")])
def test_the_tutorial_runs(name, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(TUTORIALS / f"{name}.py"))
    assert said in capsys.readouterr().out
