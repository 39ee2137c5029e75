"""The energy's identities hold, and each planted mistake is seen by its own verdict."""

import jax
import pytest

from haarflow.experiments.energy import Energy, units

KEY = jax.random.key(1)
SEEN = {
    "none": set(),
    "printed lemma": {"static lemma: M draws", "static lemma by sampling: measured"},
    "double speed": {"dissipation identity"},
    "no growth": {"weak continuity equation, growth", "weak continuity equation, both"},
}


@pytest.fixture(scope="module")
def rest():
    experiment = Energy(cells=31)
    return {part: dict(experiment.run(KEY, part)) for part in ("along a flow", "minimiser")}


@pytest.mark.parametrize("fault", SEEN)
def test_the_verdicts_hold_and_see_what_is_planted(fault, rest):
    experiment = Energy(atoms=5, samples=4, clouds=2, tests=3, fault=fault)
    data = experiment.gather({"dense": experiment.identities(KEY, units()["dense"]), **rest})
    lost = {claim for claim, check in experiment.verdict(data).items() if not check.holds}
    assert all(claim.startswith(tuple(SEEN[fault])) for claim in lost)
    assert all(any(claim.startswith(seen) for claim in lost) for seen in SEEN[fault])


def test_the_record_draws_itself(rest):
    from matplotlib.figure import Figure

    experiment = Energy(atoms=5, samples=4, clouds=2, tests=3)
    data = experiment.gather({"dense": experiment.identities(KEY, units()["dense"]), **rest})
    for panel in experiment.panels(data):
        panel.draw(Figure())
