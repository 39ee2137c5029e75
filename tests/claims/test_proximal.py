"""Every form of the proximal step is of first order; at twice the speed the verdicts on the order are false."""

import jax
import pytest

from haarflow.experiments.proximal import FORMS, Proximal

KEY = jax.random.key(3)


@pytest.mark.parametrize("fault", ["none", "double speed"])
def test_the_verdicts_hold_and_see_what_is_planted(fault):
    from matplotlib.figure import Figure

    experiment = Proximal(steps=(8, 16, 32), quantiles=32, cells=200, atoms=10, fault=fault)
    data = dict(experiment.gather({part: dict(experiment.run(KEY, part)) for part in experiment.parts()}))
    lost = {claim for claim, check in experiment.verdict(data).items() if not check.holds}
    orders = {f"{form}: order in tau between 0.85 and 1.15" for form in FORMS}
    if fault == "none":
        assert not lost
    else:
        assert orders <= lost
    for panel in experiment.panels(data):
        panel.draw(Figure())
