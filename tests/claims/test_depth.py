"""Depth separation at a small size; a target that does not oscillate loses the claims on its energies."""

import jax
import pytest

from haarflow.experiments.depth import Depth

KEY = jax.random.key(3)
SMALL = {"dims": (2, 3, 8), "searches": 1, "particles": 60, "steps": 60, "batch": 40, "depths": (2, 3), "targets": 2}


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Depth, KEY, widths=(8, 32), **SMALL)


def test_all_but_the_trained_networks_hold_at_a_small_size(rehearsal):
    assert all(claim.startswith("Shallow: error after training in the fewest") for claim in rehearsal.lost())
    assert rehearsal.shown()


def test_without_a_phase_every_direction_holds_everything(rehearsal):
    lost = rehearsal.lost("no phase", ("energies",))
    assert {claim for claim in lost if claim.startswith("Energy of the")} == {
        f"Energy of the {direction}: factor for each further dimension between 0.2 and 0.5"
        for direction in ("one coordinate", "sum of all", "best direction found")
    }
