"""What survives depth survives, what is lost is lost, and lost data are seen."""

import jax
import pytest

from haarflow.experiments._training import STATEMENTS
from haarflow.experiments.units import KEPT, LINEAR, Units

SMALL = {"atoms": 3, "samples": 3, "steps": 30, "sizes": (16, 32, 64), "repetitions": 6, "horizon": 3.0}


@pytest.mark.slow
def test_the_claims_hold_and_draw_themselves():
    from matplotlib.figure import Figure

    experiment = Units(**{**SMALL, "repetitions": 16, "horizon": 15.0, "steps": 300, "sizes": (16, 64, 256)})
    data = dict(experiment.gather({part: dict(experiment.run(jax.random.key(2), part)) for part in experiment.parts()}))
    verdicts = experiment.verdict(data)
    assert all(check.holds for check in verdicts.values()), [
        claim for claim, check in verdicts.items() if not check.holds
    ]
    assert len(experiment.figures(data)) > 40
    for panel in experiment.panels(data):
        panel.draw(Figure())


@pytest.mark.parametrize("fault", ["none", "unclosed data"])
def test_a_residual_network_keeps_invariance_and_loses_linearity(fault):
    found = Units(**SMALL, fault=fault).run(jax.random.key(2), "statements, residual")
    broken = {KEPT[1], KEPT[2], STATEMENTS[0], STATEMENTS[1]} if fault == "unclosed data" else set()
    assert all(float(found[what]) < 1e-12 for what in (*KEPT, *STATEMENTS) if what not in broken)
    assert all(float(found[what]) > 1e-4 for what in broken)
    assert all(float(found[what]) > 1e-3 for what in LINEAR)
