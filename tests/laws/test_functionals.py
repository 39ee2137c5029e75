"""Every functional and every field: variations are derivatives, and the energy falls at the rate the theory says."""

import contextlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend, Field
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, advance
from haarflow.errors import Refusal
from haarflow.fast import tuning
from haarflow.learning.data import Sample, Stream, Teacher
from haarflow.learning.functionals import Functional, Penalty
from haarflow.learning.losses import Loss
from haarflow.learning.orbit_samples import fold
from haarflow.learning.risks import Risk
from haarflow.learning.symmetry import average, orbit_closure
from haarflow.measures.clouds import Cloud
from haarflow.members import members
from haarflow.models.kernels import Scaled
from haarflow.models.units import Bump, Custom, Dense, Perceptron, network

KEY = jax.random.key(0)


def weighted_cloud(n=6, p=4, seed=5):
    keys = jax.random.split(jax.random.key(seed))
    return Cloud(jax.random.normal(keys[0], (n, p)), jax.nn.softmax(jax.random.normal(keys[1], (n,))))


def shown(member):
    return type(member).__name__


@eqx.filter_jit
def both(functional, cloud):
    """The variation as it is written, and by automatic differentiation."""
    return functional.variation(cloud), Functional.variation(functional, cloud)


@eqx.filter_jit
def asked(functional, cloud):
    return functional(cloud), functional.variation(cloud)


@pytest.mark.parametrize("functional", members(Functional), ids=shown)
def test_the_variation_is_the_derivative(functional):
    fast, slow = both(functional, weighted_cloud())
    np.testing.assert_allclose(fast.potential, slow.potential, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(fast.velocity, slow.velocity, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("loss", "ys"), members(Loss), ids=shown)
def test_the_variation_of_a_risk_is_the_derivative_for_every_loss(loss, ys):
    xs = np.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1]])
    unit = Perceptron(2, ys.shape[1], "tanh")
    risk, cloud = Risk(unit, Sample(xs, ys), loss), weighted_cloud(p=unit.dim)
    fast, slow = both(risk, cloud)
    np.testing.assert_allclose(fast.potential, slow.potential, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(fast.velocity, slow.velocity, rtol=1e-11, atol=1e-13)


def test_blocks_of_particles_change_nothing(monkeypatch):
    """Seven atoms, three inputs, two outputs: in blocks of 1, 3 and 5 particles, uneven ends and averages included."""
    swap = natural_rep(Cyclic(2))
    risk = Risk.examples()[0]
    for functional in (risk, Risk(average(risk.unit, swap, swap), risk.data)):
        cloud = weighted_cloud(n=7)
        value, whole = asked(functional, cloud)
        for size in (1, 3, 5):
            monkeypatch.setattr(tuning, "SUMMED", 8 * 6 * size)
            monkeypatch.setattr(tuning, "AT_ONCE", 8 * 6 * size)
            found, parts = eqx.filter_jit(lambda f, cloud: (f(cloud), f.variation(cloud)))(functional, cloud)
            np.testing.assert_allclose(found, value, rtol=1e-14)
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
    guest = jnp.concatenate([cloud.atoms, jnp.full((1, 4), 0.3)])
    light = risk.variation(Cloud(guest, jnp.append(cloud.weights, 0.0)))
    nearly = risk.variation(Cloud(guest, jnp.append(cloud.weights * (1 - 1e-9), 1e-9)))
    np.testing.assert_allclose(light.velocity[-1], nearly.velocity[-1], rtol=1e-6)
    assert float(jnp.abs(light.velocity[-1]).max()) > 1e-3


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("transport", "growth"), [(1.0, 0.0), (0.0, 1.7), (0.6, 1.7)])
def test_the_energy_dissipates_at_the_stated_rate(seed, transport, growth):
    """dE/dt = −transport ∫|∇Psi|² dmu − growth ∫(Psi − mean Psi)² dmu, by finite differences."""
    energy = Risk.examples()[0] + Penalty(0.3)
    cloud = weighted_cloud(seed=seed)
    tangent = Descend(energy, transport=transport, growth=growth)(KEY, cloud)
    h = jnp.asarray(1e-5)
    measured = (energy(advance(cloud, tangent, h)) - energy(advance(cloud, tangent, -h))) / (2 * h)
    potential, velocity = energy.variation(cloud)
    centred = potential - cloud.weights @ potential
    stated = -transport * cloud.weights @ (velocity**2).sum(1) - growth * cloud.weights @ centred**2
    np.testing.assert_allclose(measured, stated, rtol=1e-6)


@pytest.mark.parametrize("field", members(Field), ids=shown)
def test_fields_conserve_mass(field):
    """A field that refuses one cloud is one of players."""
    try:
        clouds, tangents = {"": weighted_cloud()}, {"": field(KEY, weighted_cloud())}
    except Refusal:
        clouds = {"x": weighted_cloud(), "y": weighted_cloud(n=3, seed=6)}
        tangents = field(KEY, clouds)
    assert set(tangents) == set(clouds)
    for name, tangent in tangents.items():
        assert tangent.velocity.shape == clouds[name].atoms.shape
        if tangent.growth is not None:
            assert abs(float(clouds[name].weights @ tangent.growth)) < 1e-14


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
                taken += [np.isfinite(leaf).all() for leaf in jax.tree.leaves(ask(weighted_cloud(p=p)))]
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


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [Perceptron(2, 1, "tanh"), Dense(2, 1), Bump(2), Scaled(Dense(2, 1), np.float64(2))])
def test_the_cloud_decides_the_precision(unit, kind):
    """Data of the other precision, drawn or not: what comes back is of the cloud's, and nearly the same."""
    other = np.float64 if kind == np.float32 else np.float32
    xs, truth = np.array([[0.3, -1.0], [0.5, 0.2]]), weighted_cloud(p=unit.dim)
    cloud = Cloud(truth.atoms.astype(kind), truth.weights.astype(kind))
    teacher = Teacher(unit, Cloud(truth.atoms.astype(other), truth.weights.astype(other)), 3)
    for data in (Sample(xs.astype(other), np.sin(xs[:, :1]).astype(other)), teacher):
        drawn = (Risk(unit, data) + Penalty(np.float64(0.1))).sample(KEY)
        value, variation = drawn(cloud), drawn.variation(cloud)
        assert {value.dtype, *(part.dtype for part in variation)} == {np.dtype(kind)}
        np.testing.assert_allclose(value, drawn(truth), rtol=1e-5)
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
