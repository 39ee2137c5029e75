"""The three errors and their sum; with a fixed penalty, or with two neurons, the matching claims are false."""

import equinox as eqx
import jax
import numpy as np
import pytest

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.experiments.generalisation import UNIT, Generalisation
from haarflow.learning.sphere import relu_distance, relu_split
from haarflow.measures.clouds import uniform

KEY = jax.random.key(4)
SMALL = {"sizes": (36, 400), "widths": (2, 20), "repetitions": 2, "steps": 500}
SEEN = {
    "fixed penalty": ("excess risk of the empirical minimiser in L", "excess risk of √L neurons in L"),
    "two neurons": ("excess risk of √L neurons in L", "√L neurons: mean excess risk"),
}


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Generalisation, KEY, **SMALL)


@pytest.mark.slow
def test_a_small_sample_obeys_every_inequality():
    data = Generalisation(repetitions=2, steps=400).split(KEY, 64)
    np.testing.assert_allclose(data["pieces"].sum("piece"), data["total"], atol=1e-10)
    assert (data["left"] < data["right"]).all()
    assert (data["gap"] < data["draws"]).all()
    two = Generalisation(repetitions=2, steps=400, fault="two neurons").split(KEY, 64)
    assert (two["gap"] > data["gap"] + 0.02).all()


@pytest.mark.slow
def test_the_claims_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.slow
@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_mistake_is_seen(fault, rehearsal):
    lost = rehearsal.lost(fault, ("split",))
    assert all(any(claim.startswith(seen) for claim in lost) for seen in SEEN[fault]), lost


def test_the_pieces_are_differences_of_risks():
    draw, distance = np.random.default_rng(0), eqx.filter_jit(relu_distance)
    teacher, *laws = (uniform(draw.normal(size=(n, 4))) for n in (3, 3, 3, 3))
    split = relu_split(teacher, population=laws[0], empirical=laws[1], trained=laws[2])
    risks = np.array([0.0, *(float(distance(law, teacher)) / 2 for law in laws)])
    np.testing.assert_allclose(split, np.diff(risks), rtol=1e-12)


def test_its_neuron_is_moved_by_its_declared_action():
    turns = natural_rep(PlanarRotations(3))
    assert UNIT.action(turns, trivial_rep(turns.group)).dim == UNIT.dim
