"""The best weights on given atoms, against closed forms and against the first variation of the risk itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, PlanarRotations
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.functionals import Functional, Penalty
from haarflow.learning.optima import optimum, orbit_labels
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import ReluRisk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.members import members
from haarflow.models.networks import network
from haarflow.models.residual import Residual
from haarflow.models.units import Custom, Dense, Perceptron, Quadratic

DRAW = np.random.default_rng(3)


def problem(loss="half-square"):
    xs = 2 * DRAW.normal(size=(12, 2))
    return Risk(Dense(2, 2, "sigmoid"), Sample(xs, 0.5 + 0.4 * np.sin(xs)), loss), 2 * DRAW.normal(size=(30, 4))


def test_two_atoms_have_a_closed_form():
    xs = DRAW.normal(size=(9, 1))
    ys = 0.3 * xs**2
    best = optimum(Risk(Quadratic(1), Sample(xs, ys), "square"), np.array([[1.0], [0.0]]))
    np.testing.assert_allclose(best.cloud.weights, [0.3, 0.7], atol=1e-8)
    assert best.value < 1e-15
    costly = optimum(Risk(Quadratic(1), Sample(xs, ys)) + Penalty(0.2), np.array([[1.0], [0.0]]))
    np.testing.assert_allclose(costly.cloud.weights[0], 0.3 - 0.1 / np.mean(xs**4), atol=1e-8)


@pytest.mark.parametrize("loss", ["half-square", "square"])
@pytest.mark.parametrize("tau", [0.0, 0.05])
def test_the_support_of_an_optimum_is_where_the_first_variation_is_least(loss, tau):
    risk, atoms = problem(loss)
    functional = risk + Penalty(tau)
    best = optimum(functional, atoms)
    np.testing.assert_allclose(best.value, functional(best.cloud), rtol=1e-12)
    potential = np.asarray(functional.variation(best.cloud).potential)
    assert np.ptp(potential[np.asarray(best.cloud.weights) > 1e-6]) < 1e-8
    assert 0 <= best.gap < 1e-10
    for key in jax.random.split(jax.random.key(0), 5):
        other = uniform(atoms).resample(key, 20)
        assert functional(other) > best.value - best.gap


def test_invariant_weights_are_shared_along_orbits():
    swap = natural_rep(Cyclic(2))
    risk, atoms = problem()
    action = risk.unit.action(swap, swap)
    closed = np.asarray(uniform(atoms).orbit(action).atoms)
    best, free = optimum(risk, closed, invariant=action), optimum(risk, closed)
    weights = np.asarray(best.cloud.weights).reshape(2, -1)
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-15)
    assert best.value > free.value + 1e-5


def test_orbits_of_atoms():
    turn = natural_rep(PlanarRotations(4))
    atoms = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1], [0, 0]])
    labels = orbit_labels(turn, atoms)
    assert len(set(labels[:4])) == 1
    assert labels[4] != labels[0]
    with pytest.raises(Refusal, match=r"maps to each other, each atom once; got 4 atoms that it does not. Close"):
        orbit_labels(turn, atoms[[0, 1, 2, 4]])


def test_a_tall_program_is_solved_in_few_rows_with_the_same_answer():
    """200 samples on 5 atoms: the weights of nonnegative least squares, whose sum is one by an added heavy row."""
    from scipy.optimize import nnls

    xs = 2 * DRAW.normal(size=(200, 2))
    risk, atoms = Risk(Dense(2, 1, "tanh"), Sample(xs, np.sin(xs[:, :1]) / 2)), DRAW.normal(size=(5, 2))
    best = optimum(risk, atoms)
    features = np.tanh(xs @ atoms.T)
    rows, wanted = np.vstack([features, np.full((1, 5), 1e6)]), np.append(np.sin(xs[:, 0]) / 2, 1e6)
    np.testing.assert_allclose(best.cloud.weights, nnls(rows, wanted)[0], atol=1e-6)
    np.testing.assert_allclose(best.value, risk(best.cloud), rtol=1e-12)


def test_the_optimum_over_the_whole_sphere_is_that_of_a_ring_of_inputs():
    """On the circle of radius √2, 4096 equal angles integrate the units to 1e-6."""
    teacher = uniform(np.array([[1.5, 0.6, 0.8], [-1.0, -1.0, 0.3]]))
    turns = 2 * np.pi * (np.arange(4096) + 0.5) / 4096
    xs = np.sqrt(2) * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    relu = Custom(lambda theta, x: theta[:1] * jax.nn.relu(theta[1:] @ x), 3, 2, 1, lambda on_x, on_y: on_x)
    atoms, penalty = DRAW.normal(size=(12, 3)), Penalty(0.1)
    whole = optimum(ReluRisk(teacher) + penalty, atoms)
    ring = optimum(Risk(relu, Sample(xs, network(relu, teacher, jnp.asarray(xs)))) + penalty, atoms)
    np.testing.assert_allclose(whole.cloud.weights, ring.cloud.weights, atol=1e-4)
    np.testing.assert_allclose(whole.value, ring.value, rtol=1e-5)
    np.testing.assert_allclose(whole.value, (ReluRisk(teacher) + penalty)(whole.cloud), rtol=1e-10)


@pytest.mark.parametrize("invariant", [False, True])
def test_in_single_precision_the_gap_is_that_of_the_rounded_weights(invariant):
    """The law that is returned, number by number in float64, proves the same gap."""
    with jax.enable_x64(False):
        swap = natural_rep(Cyclic(2))
        risk, atoms = problem()
        action = risk.unit.action(swap, swap) if invariant else None
        atoms = np.asarray(uniform(atoms).orbit(action).atoms) if action else atoms
        best = optimum(risk + Penalty(0.01), atoms, invariant=action)
    assert best.cloud.weights.dtype == np.float32
    atoms, weights = np.asarray(best.cloud.atoms, float), np.asarray(best.cloud.weights, float)
    xs, ys = (np.asarray(part, float) for part in risk.data.batch(jax.random.key(0)))
    outputs = 1 / (1 + np.exp(-np.einsum("ncd,bd->nbc", atoms.reshape(-1, 2, 2), xs)))
    rest, costs = np.einsum("n,nbc->bc", weights, outputs) - ys, np.float64(np.float32(0.01)) * np.sum(atoms**2, 1) / 2
    potential = np.einsum("nbc,bc->n", outputs, rest) / len(xs) + costs
    least = np.min(potential if action is None else potential.reshape(2, -1).mean(axis=0))
    np.testing.assert_allclose(best.gap, weights @ potential - least, rtol=1e-4)
    np.testing.assert_allclose(best.value, np.sum(rest**2) / 2 / len(xs) + weights @ costs, rtol=1e-12)
    assert 1e-12 < best.gap < 1e-7


def test_atoms_and_actions_of_another_size_are_refused():
    anything: Any = optimum
    risk, atoms = problem()
    with pytest.raises(Refusal, match=r"A Dense has 4 parameters; got atoms in R\^3"):
        optimum(risk, atoms[:, :3])
    with pytest.raises(Refusal, match=r"are in R\^3, as those of its teacher; got atoms in R\^4"):
        optimum(ReluRisk(uniform(np.ones((1, 3)))), atoms)
    with pytest.raises(Refusal, match=r"got one of size 2 and atoms in R\^4. Write unit.action"):
        optimum(risk, atoms, invariant=natural_rep(Cyclic(2)))
    with pytest.raises(Refusal, match="optimum's functional is a Functional; got 'risk'. Write Risk"):
        anything("risk", atoms)
    with pytest.raises(Refusal, match=r"optimum's atoms holds finite numbers; got nan at \[1, 0\]"):
        anything(risk, [[1, 2, 3, 4], [np.nan, 0, 0, 0]])


def test_many_penalties_are_one():
    risk, atoms = problem()
    many, one = optimum(risk + Penalty(0.1) + Penalty(0.2) + Penalty(0.3), atoms), optimum(risk + Penalty(0.6), atoms)
    np.testing.assert_allclose(many.value, one.value, rtol=1e-9)
    np.testing.assert_allclose(many.cloud.weights, one.cloud.weights, atol=1e-6)


def test_square_risks_are_added():
    """Of two risks on the same atoms: the risk on both samples together; and against a teacher, by its value."""
    (one, atoms), other = problem(), problem("square")[0]
    together = Sample(*(np.concatenate([getattr(r.data, rows) for r in (one, other)]) for rows in ("xs", "ys")))
    best = optimum(one + Risk(one.unit, other.data) + Penalty(0.1), atoms)
    both = optimum(Risk(one.unit, together, "square") + Penalty(0.1), atoms)
    np.testing.assert_allclose(best.cloud.weights, both.cloud.weights, atol=1e-7)
    mixed = one + ReluRisk(uniform(np.ones((1, 4)))) + other
    best = optimum(mixed, atoms)
    np.testing.assert_allclose(best.value, mixed(best.cloud), rtol=1e-10)
    assert np.ptp(mixed.variation(best.cloud).potential[np.asarray(best.cloud.weights) > 1e-5]) < 1e-6


def asked(functional, atoms):
    """The form of a functional; None where it refuses in the words of an optimum."""
    try:
        return functional.quadratic_form(jnp.asarray(atoms))
    except Refusal as refusal:
        if not str(refusal).startswith("An optimum is that of"):
            raise
        return None


@pytest.mark.parametrize("functional", members(Functional), ids=lambda one: type(one).__name__)
def test_a_quadratic_form_is_the_functional_of_the_weights(functional):
    """Up to a constant, at random weights; a functional that has none says so."""
    atoms = np.random.default_rng(0).normal(size=(5, 4))
    form = asked(functional, atoms)
    if form is None:
        assert type(functional).__name__ in (
            "QuadraticEnergy",
            "Pairwise",
            "QuadraticRisk",
            "Risk",
            "SetPenalty",
            "LogExponential",
        )
        return
    shares = np.random.default_rng(1).dirichlet(np.ones(5), size=4)
    gaps = [float(functional(Cloud(atoms, share))) - form.value(share) for share in shares]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-12)
    potential = functional.variation(Cloud(atoms, shares[0])).potential
    off = form.slope(shares[0]) - np.asarray(potential)
    np.testing.assert_allclose(off, off[0], atol=1e-12)


class Lonely(Functional):
    """A functional that answers nothing but its value."""

    def __call__(self, cloud):
        return jnp.sum(cloud.weights**2)

    @classmethod
    def examples(cls):
        return []


def test_what_has_no_convex_program_is_refused():
    risk, atoms = problem("pseudo-huber")
    with pytest.raises(
        Refusal, match=r"a Risk with a square loss, plus penalties; got the loss 'pseudo-huber'\. Write"
    ):
        optimum(risk, atoms)
    with pytest.raises(Refusal, match=r"linear in its cloud, such as the mean of a unit; got a Residual\. Write Risk"):
        optimum(Risk(Residual((risk.unit,)), risk.data, "square"), atoms)
    with pytest.raises(Refusal, match="say so by `quadratic_form`; got a Lonely, which does not. Write Risk"):
        optimum(problem()[0] + Lonely(), atoms)
    with pytest.raises(Refusal, match="got Penalty"):
        optimum(Penalty(1.0), atoms)
    batches = Risk(Perceptron(2), Sample(np.ones((5, 2)), np.ones((5, 1)), size=2))
    with pytest.raises(Refusal, match="is that of a Risk over a whole Sample only; got random batches"):
        optimum(batches, np.ones((2, 4)))
    with pytest.raises(Refusal, match="each atom once"):
        optimum(
            Risk(Quadratic(2), Sample(np.ones((1, 2)), np.ones((1, 1)))),
            np.ones((2, 2)),
            invariant=trivial_rep(Cyclic(2), 2),
        )
