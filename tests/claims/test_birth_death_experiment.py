"""Growth agrees with its closed forms in every discretisation, and each planted mistake is seen by its own verdict."""

import jax
import pytest

from haarflow.experiments.birth_death import BirthDeathDynamics, replicator_excess

KEY = jax.random.key(1)
SMALL = {
    "particles": 500,
    "repetitions": 1,
    "horizon": 1.0,
    "d": 6,
    "units": 2,
    "width": 8,
    "lessons": 2,
    "lesson": 2.0,
}
CLOSED = ("Gaussian", "replicator", "growth alone")


@pytest.mark.slow
def test_the_replicator_holds_and_a_rate_a_tenth_too_high_is_seen():
    for fault, holds in (("none", True), ("fast growth", False)):
        found = BirthDeathDynamics(**SMALL, fault=fault).run(KEY, "replicator")
        score = replicator_excess({f"replicator/{name}": array for name, array in found.items()}).max()
        assert (score < 4) == holds
        assert (found["weights"] < 1e-12) == holds


@pytest.fixture(scope="module")
def pieces():
    experiment = BirthDeathDynamics(**SMALL)
    return {part: dict(experiment.run(KEY, part)) for part in experiment.parts()}


def _lost(experiment, pieces):
    data = dict(experiment.gather({part: dict(piece) for part, piece in pieces.items()}))
    return data, {claim for claim, check in experiment.verdict(data).items() if not check.holds}


@pytest.mark.slow
def test_the_closed_forms_hold_and_the_record_draws_itself(pieces):
    """The mixture and the students are too short here to be judged."""
    from matplotlib.figure import Figure

    experiment = BirthDeathDynamics(**SMALL)
    data, lost = _lost(experiment, pieces)
    assert not [claim for claim in lost if claim.startswith(CLOSED)]
    assert len(experiment.figures(data)) > 10
    for panel in experiment.panels(data):
        panel.draw(Figure())


@pytest.mark.slow
def test_half_the_growth_is_seen(pieces):
    experiment = BirthDeathDynamics(**SMALL, fault="half growth")
    again = {part: dict(experiment.run(KEY, part)) for part in ("Gaussian", "replicator", "rate")}
    _, lost = _lost(experiment, pieces | again)
    assert all(any(claim.startswith(seen) for claim in lost) for seen in CLOSED)
