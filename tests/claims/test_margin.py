"""The claims about implicit bias hold at a small size, and see what is planted."""

import jax
import pytest

from haarflow.experiments.margin import Margin
from haarflow.experiments.margin_bound import MarginBound
from haarflow.experiments.margin_rates import MarginRates

KEY = jax.random.key(3)


@pytest.mark.parametrize(("fault", "right"), [("none", True), ("lost turn", False)])
def test_three_programs_agree(fault, right):
    found = Margin(fault=fault).references(KEY, "C4")
    assert (found["equality"].values.max() < 1e-9) == right
    assert found["skew_cosine"] < 0.9


def test_digits_one_and_seven_meet_when_averaged():
    found = Margin().infeasible(KEY)
    assert found["averaged_margin"] == 0
    assert found["proof"] < 1e-10


@pytest.mark.slow
def test_the_networks_end_where_they_should_and_the_faults_are_seen(rehearse):
    rehearsal = rehearse(Margin, KEY)
    assert not rehearsal.lost()
    sums = rehearsal.lost("orbit sums", ["training group=C4, network=steerable, depth=2"])
    assert any(claim.startswith("steerable, 2 layers") for claim in sums)
    intercept = rehearsal.lost("intercept", ["training group=D4, network=augmented, depth=2"])
    assert any(claim.startswith("fully connected, 2 layers") for claim in intercept)
    assert any("augmented data, to" in claim for claim in rehearsal.lost("lost turn", ["references"]))
    assert rehearsal.shown()


@pytest.mark.slow
def test_the_rates_are_logarithmic_and_the_faults_are_seen(rehearse):
    rehearsal = rehearse(MarginRates, KEY)
    assert not rehearsal.lost()
    assert any("falling: 1 − cos" in claim for claim in rehearsal.lost("no decay", ["fast step=falling"]))
    assert any("falling: 1 − cos" in claim for claim in rehearsal.lost("raw margin", ["fast step=falling"]))
    assert rehearsal.shown()


@pytest.mark.slow
def test_the_bounds_are_kept_and_the_fault_is_seen(rehearse):
    rehearsal = rehearse(MarginBound, KEY, runs=3, tests=2000)
    assert not rehearsal.lost()
    assert any(claim.startswith("synthetic, invariant") for claim in rehearsal.lost("shuffled labels", ["errors"]))
    assert rehearsal.shown()
