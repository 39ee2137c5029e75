"""Every form of the proximal step is of first order; at twice the speed the claims on the order are false."""

import jax
import pytest

from haarflow.experiments.proximal import FORMS, Proximal
from haarflow.runs.experiment import power_law

KEY = jax.random.key(3)


@pytest.mark.parametrize(("fault", "right"), [("none", True), ("double speed", False)])
def test_the_closed_form_is_of_first_order_and_rests_at_its_fixed_point(fault, right):
    found = Proximal(fault=fault).follow(KEY, "Gaussian")
    assert (0.85 < power_law(found["errors"], along="tau").value < 1.15) == right
    assert found["fixed"] < 1e-14
    assert found["rise"] < 0


@pytest.mark.parametrize("fault", ["none", "double speed"])
def test_the_claims_hold_and_see_what_is_planted(fault, rehearse):
    rehearsal = rehearse(Proximal, KEY, steps=(8, 16, 32), quantiles=32, cells=200, atoms=10, fault=fault)
    orders = {f"{form}, error at the end: slope in tau between 0.85 and 1.15" for form in FORMS}
    assert orders <= rehearsal.lost() if fault == "double speed" else not rehearsal.lost()
    assert rehearsal.shown()
