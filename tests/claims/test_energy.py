"""The energy's identities hold, and each planted mistake is seen by its own claim."""

import jax
import pytest

from haarflow.experiments import energy
from haarflow.models.units import Dense

SEEN = {
    "printed lemma": {"static lemma: M draws", "static lemma by sampling: measured"},
    "double speed": {"dissipation identity"},
    "no growth": {"weak continuity equation, growth", "weak continuity equation, both"},
}


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    """One unit stands for the five."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy, "units", lambda: {"dense": Dense(2, 2, "sigmoid")})
        small = {"atoms": 5, "samples": 4, "clouds": 2, "tests": 3}
        yield rehearse(energy.Energy, jax.random.key(1), **small)


def test_the_claims_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_mistake_is_seen(fault, rehearsal):
    lost = rehearsal.lost(fault, ("identities",))
    assert all(claim.startswith(tuple(SEEN[fault])) for claim in lost)
    assert all(any(claim.startswith(seen) for claim in lost) for seen in SEEN[fault])
