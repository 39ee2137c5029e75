"""Functionals beside their laws (test_members.py): blocks, folded samples, sums, precision, and what is refused."""

import contextlib
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.errors import Refusal
from haarflow.fast import tuning
from haarflow.learning.data import Sample, Stream, Teacher
from haarflow.learning.functionals import Functional, Penalty
from haarflow.learning.orbit_samples import fold
from haarflow.learning.risks import Risk
from haarflow.learning.symmetry import average, orbit_closure
from haarflow.measures.clouds import Cloud
from haarflow.members import members
from haarflow.models.kernels import Scaled
from haarflow.models.networks import network
from haarflow.models.units import Bump, Custom, Dense, Perceptron

KEY = jax.random.key(0)


@functools.cache
def weighted_cloud(n=6, p=4, seed=5):
    draw = np.random.default_rng(seed)
    return Cloud(draw.normal(size=(n, p)), draw.dirichlet(np.ones(n)))


def compiled(function, *given):
    """What a function returns, by one program of its own rather than one for every operation."""
    return eqx.filter_jit(lambda *given: function(*given))(*given)


def value_and_variation(functional, cloud):
    return functional(cloud), functional.variation(cloud)


def shown(member):
    return type(member).__name__


@pytest.mark.slow
def test_blocks_of_particles_change_nothing(monkeypatch):
    """Seven atoms, three inputs, two outputs: in blocks of 1, 3 and 5 particles, uneven ends and averages included."""
    swap = natural_rep(Cyclic(2))
    risk = Risk.examples()[0]
    for functional in (risk, Risk(average(risk.unit, swap, swap), risk.data)):
        value, whole = compiled(value_and_variation, functional, weighted_cloud(n=7))
        for size in (1, 3, 5):
            monkeypatch.setattr(tuning, "SUMMED", 8 * 6 * size)
            monkeypatch.setattr(tuning, "AT_ONCE", 8 * 6 * size)
            again, parts = compiled(value_and_variation, functional, weighted_cloud(n=7))
            np.testing.assert_allclose(again, value, rtol=1e-14)
            np.testing.assert_allclose(parts.potential, whole.potential, rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(parts.velocity, whole.velocity, rtol=1e-13, atol=1e-15)
            monkeypatch.undo()


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_samples_that_are_folded_are_told_apart_at_every_scale(size):
    """Inputs far smaller or larger than their labels: a tolerance for both together would see one of them only."""
    swap, xs = natural_rep(Cyclic(2)), size * np.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1]])
    still = trivial_rep(swap.group, 2)
    unit = average(Scaled(Dense(2, 2, "tanh"), 2.0), swap, still)
    risk = Risk(unit, orbit_closure(Sample(xs, np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.5]])), swap, still))
    cloud = Cloud(weighted_cloud().atoms / size, weighted_cloud().weights)
    folded: Any = fold(risk, swap, still)
    assert len(folded.xs) == 3
    np.testing.assert_allclose(folded(cloud), risk(cloud), rtol=1e-12)


def test_an_atom_without_mass_feels_the_potential_of_the_others():
    risk = Risk.examples()[0]
    cloud = weighted_cloud()
    guest, weights = np.concatenate([cloud.atoms, np.full((1, 4), 0.3)]), np.asarray(cloud.weights)
    shares = np.append(weights, 0.0), np.append(weights * (1 - 1e-9), 1e-9)
    velocity = eqx.filter_jit(lambda cloud: risk.variation(cloud).velocity)
    light, nearly = (np.asarray(velocity(Cloud(guest, share)))[-1] for share in shares)
    np.testing.assert_allclose(light, nearly, rtol=1e-6)
    assert np.abs(light).max() > 1e-3


def test_a_restricted_field_stays_in_its_subspace():
    projector = np.diag([1.0, 0, 0, 1.0])
    tangent = restrict(Descend.examples()[0], projector)(KEY, weighted_cloud())
    np.testing.assert_allclose(tangent.velocity @ (np.eye(4) - projector), 0, atol=1e-16)


@pytest.mark.parametrize("functional", members(Functional), ids=shown)
def test_a_functional_refuses_atoms_of_another_size_or_takes_every_size(functional):
    """Those that say a size are of R^4; those that say none are finite for every size, or refuse all but one."""
    taken = []
    for p in (1, 2, 3, 5, 8):
        for ask in (functional, functional.variation):
            with contextlib.suppress(Refusal):
                taken += [np.isfinite(leaf).all() for leaf in jax.tree.leaves(compiled(ask, weighted_cloud(p=p)))]
    assert functional.dim in (None, 4)
    assert all(taken)
    assert len(taken) in ((0, 15) if functional.dim is None else (0,))


def test_sums_are_flat():
    risk, one, two = Risk.examples()[0], Penalty(0.1), Penalty(0.2)
    for nested in (risk + one + two + one, (risk + one) + (two + one), risk + (one + (two + one))):
        assert nested.parts == (risk, one, two, one)
        np.testing.assert_allclose(nested(weighted_cloud()), sum(part(weighted_cloud()) for part in nested.parts))
    assert risk.parts == (risk,)


@pytest.mark.parametrize("add", [lambda risk: risk + 3, lambda risk: 3 + risk, lambda risk: risk + "penalty"])
def test_only_functionals_are_added(add):
    with pytest.raises(Refusal, match=r"A functional is added to functionals only; got \w+\. Write risk \+ Penalty"):
        add(Risk.examples()[0])


def test_a_sum_is_one_of_clouds_in_one_space():
    risk, other = Risk.examples()[0], Risk(Perceptron(2, 2), Risk.examples()[0].data)
    assert (risk + Penalty(0.1)).dim == 4
    with pytest.raises(Refusal, match=r"clouds in one R\^p; got a Risk in R\^4 and a Risk in R\^5"):
        _ = risk + Penalty(0.1) + other


def drawn(functional, cloud, truth):
    """On one batch: the value and the variation at a cloud, and the value at the cloud that it is a copy of."""
    batch = functional.sample(KEY)
    return *value_and_variation(batch, cloud), batch(truth)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [Perceptron(2, 1, "tanh"), Dense(2, 1), Bump(2), Scaled(Dense(2, 1), np.float64(2))])
def test_the_cloud_decides_the_precision(unit, kind):
    """Data of the other precision, drawn or not: what comes back is of the cloud's, and nearly the same."""
    other = np.float64 if kind == np.float32 else np.float32
    xs, truth = np.array([[0.3, -1.0], [0.5, 0.2]]), weighted_cloud(p=unit.dim)
    cloud, labels = (Cloud(*(np.asarray(part, t) for part in (truth.atoms, truth.weights))) for t in (kind, other))
    teacher = Teacher(unit, labels, 3)
    for data in (Sample(xs.astype(other), np.sin(xs[:, :1]).astype(other)), teacher):
        value, variation, wanted = compiled(drawn, Risk(unit, data) + Penalty(np.float64(0.1)), cloud, truth)
        assert {value.dtype, *(part.dtype for part in variation)} == {np.dtype(kind)}
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
    assert network(unit, cloud, xs.astype(other)).dtype == kind


def test_numbers_of_every_type_make_one_penalty():
    made = [Penalty(tau).tau for tau in (1, 1.0, np.float32(1), np.float64(1), np.int64(1), jnp.asarray(1))]
    assert {(tau.dtype, tau.weak_type, float(tau)) for tau in made} == {(np.dtype(float), True, 1.0)}
    lanes = [Descend(Risk.examples()[0] + Penalty(tau)) for tau in (0, 0.01, np.float32(0.1))]
    flow(lanes, Euler(), weighted_cloud(), key=jax.random.split(KEY, 3), dt=0.1, steps=2)


def test_functions_made_again_are_the_same():
    def made():
        unit = Custom(lambda theta, x: jnp.tanh(theta[:1] * x[:1]), 4, 2, 1, lambda on_x, on_y: on_x)
        law = Stream(lambda key, size: (jax.random.normal(key, (size, 2)), jnp.ones((size, 1))), 4)
        return Risk(unit, law) + Penalty(0.1, lambda theta: jnp.sum(theta**4))

    count = eqx.filter_jit(eqx.debug.assert_max_traces(lambda f, cloud: f.sample(KEY)(cloud), max_traces=1))
    assert count(made(), weighted_cloud()) == count(made(), weighted_cloud())


def test_refusals():
    risk = Risk(Teacher.examples()[0].unit, Teacher.examples()[0])
    with pytest.raises(Refusal, match=r"exact value over a whole Sample only; .* Write risk.sample\(key\)\(cloud\)"):
        risk(weighted_cloud())
    with pytest.raises(Refusal, match="A Risk's loss is one of absolute, cross-entropy, exponential, .*; got 'hinges'"):
        Risk(risk.unit, risk.data, "hinges")
    with pytest.raises(Refusal, match=r"A Descend's growth is a finite number >= 0; got -1"):
        Descend(risk, growth=-1.0)
    with pytest.raises(Refusal, match=r"A Dense has 4 parameters; got atoms in R\^3"):
        risk.sample(KEY).variation(weighted_cloud(p=3))
