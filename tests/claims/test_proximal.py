"""Every form of the proximal step is of first order; at twice the speed the verdicts on the order are false."""

import jax
import pytest

from haarflow.experiments.proximal import FORMS, Proximal
from haarflow.runs.statistics import slope

KEY = jax.random.key(3)


@pytest.mark.parametrize(("fault", "right"), [("none", True), ("double speed", False)])
def test_the_closed_form_is_of_first_order_and_rests_at_its_fixed_point(fault, right):
    experiment = Proximal(fault=fault)
    data = experiment.gaussian(KEY)
    order = -slope(experiment.steps, data["errors"]).value
    assert (0.85 < order < 1.15) == right
    assert data["fixed"] < 1e-14
    assert data["rise"] < 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "double speed"])
def test_the_verdicts_hold_and_see_what_is_planted(fault, rehearse):
    rehearsal = rehearse(Proximal, KEY, steps=(8, 16, 32), quantiles=32, cells=200, atoms=10, fault=fault)
    orders = {f"{form}: order in tau between 0.85 and 1.15" for form in FORMS}
    assert orders <= rehearsal.lost() if fault == "double speed" else not rehearsal.lost()
    assert rehearsal.shown()
