"""Networks on sets at a small size; sums in place of means lose repetition, a cut gradient loses the penalties."""

import jax
import pytest

from haarflow.experiments.sets import Sets

KEY = jax.random.key(3)
SMALL = {"dimension": 3, "sets": 20, "sizes": (2, 4, 5), "tests": 20, "neurons": 6, "inner": 3, "frozen": 8}


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Sets, KEY, outer=8, steps=100, runs=1, **SMALL)


def test_the_laws_hold_at_a_small_size(rehearsal):
    assert all(claim.startswith(("Neuron", "S1", "S2", "S3")) for claim in rehearsal.lost())
    assert rehearsal.shown()


def test_sums_know_how_often_a_set_is_repeated(rehearsal):
    found = rehearsal.lost("sum pooling", ("laws",)) - rehearsal.lost()
    assert found == {"The repetition of a set changes nothing, to 1e-12"}


@pytest.mark.slow
def test_a_penalty_without_a_gradient_does_not_act(rehearsal):
    parts = [f"errors target={target}" for target in ("neuron", "smooth neuron")]
    lost = rehearsal.lost("cut gradient", parts)
    assert {claim[:7] for claim in lost if "penalty" in claim} == {"S1: nor", "S2: nor", "S3: nor"}
