"""Function spaces at a small size; a ladder that counts the odd degrees is seen."""

import jax
import pytest

from haarflow.experiments.f1_f2 import F1F2

SMALL = {"dims": (4, 6), "curve_dim": 4, "curve_sizes": (16, 32), "repetitions": 1, "particles": 10, "steps": 20}
LEARNED = ("Kernel at", "Network at", "variation norm (F1)")


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(F1F2, jax.random.key(3), **SMALL)


def test_what_is_exact_holds_at_any_size_and_every_panel_is_drawn(rehearsal):
    assert all(claim.startswith(LEARNED) for claim in rehearsal.lost())
    assert rehearsal.shown()


def test_odd_degrees_in_the_ladder_are_seen(rehearsal):
    lost = {claim for claim in rehearsal.lost("full kernel", ("norms",)) if not claim.startswith(LEARNED)}
    assert "Ladder: squared F2 norm against the number of harmonics, relative error below 1e-09" in lost
