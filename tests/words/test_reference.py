"""The reference is complete, up to date, and its calls run."""

import re
import runpy
import sys
import warnings
from pathlib import Path

import jax
import pytest

from haarflow.contents import addresses
from haarflow.dynamics.flow import Diverged

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def made():
    """The page as it would be made now."""
    before = list(sys.path)
    page = runpy.run_path(str(DOCS / "make_reference.py"))["page"]()
    sys.path[:] = before
    return page


def test_every_public_name_stands_in_the_reference():
    shown = re.findall(r"^### `hf\.([\w.]+)", PAGE, re.M)
    assert sorted(shown) == sorted(addresses())


def test_the_reference_says_what_the_docstrings_say(made):
    assert made == PAGE, "run `make reference`"


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)], ids=["a twelfth", "all"])
def test_every_call_of_the_reference_runs(every):
    """A twelfth of the calls by default; all of them in the slow tier, as in the storm's."""
    small, *calls = BLOCKS
    space: dict = {}
    with jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore", Diverged)  # shown by a flow that diverges
        exec(compile(small, "reference.md", "exec"), space)
        for call in calls[::every]:
            exec(compile(call, "reference.md", "exec"), space)
    assert len(calls) == len(addresses())
