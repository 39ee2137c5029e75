"""The tutorials run as they stand and say what they promise; their pages are those that `make tutorials` makes."""

import importlib.util
import re
from pathlib import Path

import jax
import pytest

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = DOCS / "tutorials"
SAID = {
    "first_hour": ["risk falls: True", "Q_G f = f of mu^G: True", "DA and FA stay together: True", "constant: True"],
    "flip_or_not": ["same answer for mirror images: 1.0", "Cannot tell for an", "minus plain it is -"],
    "torch_invariant": ["The model is not invariant", "most of it architectural", "in float32).", "in float64)."],
    "find_tied_weights": ["These data have a symmetry", "a b\nb a", "holds"],
    "sweep_in_pandas": ["exit code 0", "minimiser 0.08"],
}
DRAWN = {name: f"{name}.png" for name in SAID}
FAST = ("first_hour",)


def maker():
    spec = importlib.util.spec_from_file_location("make_tutorials", DOCS / "make_tutorials.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in SAID])
def test_a_tutorial_runs(name, tmp_path, monkeypatch, capsys):
    if name == "torch_invariant":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    code = (TUTORIALS / f"{name}.py").read_text(encoding="utf-8")
    with jax.numpy_rank_promotion("allow"):
        exec(compile(code, f"{name}.py", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert not [words for words in SAID[name] if words not in printed], printed
    assert (tmp_path / DRAWN[name]).stat().st_size > 1000
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    lost = [line for line in map(unnumbered, printed.splitlines()) if line not in unnumbered(page)]
    assert not lost, f"{name}.md says something else: make tutorials"


def unnumbered(text):
    """A text without its numbers, which differ by rounding and by the clock."""
    return re.sub(r"[ \d.e+-]+", " ", text).strip()


@pytest.mark.parametrize("name", SAID)
def test_the_page_of_a_tutorial_is_that_of_its_script(name):
    """Seen failing with a word changed in a script."""
    made = maker()
    assert set(made.NAMES) == set(SAID) == {path.stem for path in TUTORIALS.glob("*.py")}
    title, introduction, cells = made.cells((TUTORIALS / f"{name}.py").read_text(encoding="utf-8"))
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    at = 0
    for part in [made.head(name, title, introduction), *map(made.source, cells)]:
        assert part in page[at:], f"{name}.md is not that of its script: make tutorials"
        at = page.index(part, at) + len(part)
    shown = re.findall(r"\]\((\w+\.png)\)", page)
    assert DRAWN[name] in shown
    assert all((TUTORIALS / one).exists() for one in shown)
