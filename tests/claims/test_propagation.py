"""Particles and steps are as near to the limit as stated, and each planted mistake is seen by its own verdict."""

import jax
import pytest

from haarflow.experiments.propagation import Propagation

KEY = jax.random.key(1)
SMALL = {"widths": (100, 400, 1600), "steps": (0.0005, 0.002), "repetitions": 400, "passes": 300}
SEEN = {
    "square loss": {"one-pass: sup |R", "multi-pass: sup |R", "one-pass, M = ratio / s: sup ‖f"},
    "wide start": {"sup |R_M − R|, in M", "sup ‖f_M − f‖, in M", "sample, then flow deviates"},
}
AGAIN = {"square loss": "descents", "wide start": "width"}


@pytest.fixture(scope="module")
def pieces():
    experiment = Propagation(**SMALL)
    return {part: dict(experiment.run(KEY, part)) for part in experiment.parts()}


def _lost(experiment, pieces):
    data = dict(experiment.gather({part: dict(piece) for part, piece in pieces.items()}))
    return data, {claim for claim, check in experiment.verdict(data).items() if not check.holds}


def test_the_verdicts_hold_and_the_record_draws_itself(pieces):
    from matplotlib.figure import Figure

    experiment = Propagation(**SMALL)
    data, lost = _lost(experiment, pieces)
    assert not lost
    assert all(number == number for number in experiment.figures(data).values())
    for panel in experiment.panels(data):
        panel.draw(Figure())


@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_mistake_is_seen(fault, pieces):
    experiment = Propagation(**SMALL, fault=fault)
    _, lost = _lost(experiment, pieces | {AGAIN[fault]: dict(experiment.run(KEY, AGAIN[fault]))})
    assert all(any(claim.startswith(seen) for claim in lost) for seen in SEEN[fault])
