"""The tutorials run as they stand, and say what their pages promise."""

from pathlib import Path

import jax
import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
SAID = {
    "first_hour": ["risk falls: True", "Q_G f = f of mu^G: True", "DA and FA stay together: True", "constant: True"],
    "flip_or_not": ["same answer for mirror images: 1.0", "Cannot tell for an", "minus plain it is -"],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["first_hour", pytest.param("flip_or_not", marks=pytest.mark.slow)])
def test_a_tutorial_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = (TUTORIALS / f"{name}.py").read_text(encoding="utf-8")
    with jax.numpy_rank_promotion("allow"):
        exec(compile(code, f"{name}.py", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert not [words for words in SAID[name] if words not in printed], printed
