"""The claims about sparse ReLU learning hold at a small size, and see what is planted."""

import jax
import pytest

from haarflow.experiments.sparse_relu import CASES, SparseRelu

KEY = jax.random.key(1)
SMALL = {"samples": 12, "pairs": 8, "width": 30, "steps": 100_000, "pieces": (2, 20)}


@pytest.mark.parametrize(("fault", "right"), [("none", True), ("forgotten ends", False)])
def test_the_least_norm_is_its_closed_form(fault, right):
    assert (SparseRelu(fault=fault).interpolation(KEY)["norm_error"] < 1e-9) == right


@pytest.mark.parametrize(("fault", "right"), [("none", True), ("stale certificate", False)])
def test_a_gap_computed_anew_is_small(fault, right):
    found = SparseRelu(**SMALL, fault=fault).certified(KEY, CASES[2])
    assert (found["gap"] < 1e-6) == right
    assert found["neurons"] <= 9


def test_the_claims_hold_and_see_what_is_planted(rehearse):
    rehearsal = rehearse(SparseRelu, KEY, **SMALL)
    assert not rehearsal.lost()
    assert any("last objective" in claim for claim in rehearsal.lost("double decay", ["descent"]))
    assert any("closed form" in claim for claim in rehearsal.lost("forgotten ends", ["interpolation"]))
    assert len(rehearsal.lost("stale certificate", ["certified"])) == len(CASES)
    assert rehearsal.shown()
