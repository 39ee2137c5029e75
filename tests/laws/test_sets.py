"""Networks on sets: they know neither order nor repetition, their norms are ordered, and their penalties act."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import haarflow as hf
from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import trivial_rep
from haarflow.algebra.user_reps import point_set
from haarflow.errors import Refusal
from haarflow.models.networks import network
from haarflow.sets import (
    FrozenSetNeuron,
    SetNeuron,
    SetPenalty,
    draw_layer,
    draw_neurons,
    freeze_layers,
    pack_sets,
    set_norm,
)

KEY = jax.random.key(0)


class Summed(SetNeuron):
    """The planted fault: the sum over the points in place of their mean."""

    def shares(self, masses):
        return masses


def sets_of(*sizes, q=3, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=(m, q)) for m in sizes]


def answers(unit, cloud, sets):
    rows = pack_sets(sets)
    return np.asarray(network(unit.with_points(rows.shape[1] // (unit.columns + 1)), cloud, rows))


UNITS = [SetNeuron(5, 3, 4, 2), FrozenSetNeuron(draw_layer(KEY, 6, 3), 5)]


@pytest.mark.parametrize("unit", UNITS, ids=["S1", "S2"])
def test_a_network_on_sets_is_its_formula_set_by_set(unit):
    cloud = hf.Cloud(np.random.default_rng(1).normal(size=(3, unit.dim)), np.array([0.5, 0.2, 0.3]))
    sets = sets_of(2, 5, 1)
    w, v, first = (np.asarray(layer) for layer in unit.layers(cloud.atoms))
    for found, one in zip(answers(unit, cloud, sets), sets, strict=True):
        ends = np.column_stack([one, np.ones(len(one))])
        pooled = np.maximum(np.einsum("nhq,mq->nhm", first, ends), 0).mean(axis=2)
        outer = np.maximum(np.sum(v * pooled, axis=1), 0)
        np.testing.assert_allclose(found, (np.asarray(cloud.weights) * outer) @ w, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("unit", UNITS, ids=["S1", "S2"])
def test_order_padding_and_repetition_of_the_whole_set_change_nothing(unit):
    cloud, sets = draw_neurons(KEY, unit, 7), sets_of(4, 5, 2)
    here = answers(unit, cloud, sets)
    assert np.abs(here).max() > 1e-2
    for same in ([one[::-1] for one in sets], [np.tile(one, (3, 1)) for one in sets], [*sets, sets_of(9)[0]]):
        np.testing.assert_allclose(answers(unit, cloud, same)[:3], here, rtol=1e-12, atol=1e-14)


def test_sum_pooling_knows_how_often_a_set_is_repeated():
    unit, sets = Summed(4, 3, 4), sets_of(4, 2)
    cloud = draw_neurons(KEY, unit, 7)
    once, twice = (answers(unit, cloud, [np.tile(one, (k, 1)) for one in sets]) for k in (1, 2))
    assert np.abs(once - twice).max() > 1e-3
    np.testing.assert_allclose(answers(unit, cloud, [one[::-1] for one in sets]), once, rtol=1e-12, atol=1e-14)


def test_permutations_of_the_points_leave_the_particles():
    unit, group = SetNeuron(4, 2, 3, 2), Symmetric(4)
    action = unit.action(point_set(group, 3), trivial_rep(group, 2))
    assert action.fixed_basis().shape == (unit.dim, unit.dim)
    with pytest.raises(Refusal, match="relative violation"):
        unit.action(hf.natural_rep(hf.Cyclic(unit.inputs)), trivial_rep(hf.Cyclic(unit.inputs), 2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit", UNITS, ids=["S1", "S2"])
def test_the_norms_are_ordered_and_are_sums_over_neurons(unit, seed):
    draw = np.random.default_rng(seed)
    cloud = hf.Cloud(draw.normal(size=(6, unit.dim)) * draw.lognormal(size=(6, 1)), draw.dirichlet(np.ones(6)))
    norms = [float(set_norm(unit, cloud, norm)) for norm in ("S1", "S2", "S3")]
    assert norms == sorted(norms)
    assert norms[0] > 0
    w, v, first = (np.asarray(layer) for layer in unit.layers(cloud.atoms))
    sizes, weights = np.linalg.norm(first, axis=2), np.asarray(cloud.weights)
    by_hand = sum(a * np.linalg.norm(b) * np.abs(c) @ s for a, b, c, s in zip(weights, w, v, sizes, strict=True))
    assert norms[0] == pytest.approx(by_hand, rel=1e-12)


def test_with_unit_layers_the_norms_are_those_that_are_published():
    """`Σ|w_j|Σ_k|v_jk|`, `Σ|w_j|√h|v_j|` and `√n|w|`, w_j/n the weights of the sum."""
    unit = FrozenSetNeuron(draw_layer(KEY, 6, 3), 5)
    cloud = draw_neurons(KEY, unit, 9)
    w, v, first = (np.asarray(layer) for layer in unit.layers(cloud.atoms))
    np.testing.assert_allclose(np.linalg.norm(first, axis=2), 1, rtol=1e-12)
    w = w[:, 0] / 9
    assert set_norm(unit, cloud, "S1") == pytest.approx(np.sum(np.abs(w) * np.abs(v).sum(1)), rel=1e-12)
    assert set_norm(unit, cloud, "S2") == pytest.approx(np.sum(np.abs(w) * np.sqrt(6) * np.linalg.norm(v, axis=1)))
    assert set_norm(unit, cloud, "S3") == pytest.approx(3 * np.linalg.norm(w), rel=1e-12)


@pytest.mark.parametrize("norm", ["S1", "S2", "S3"])
def test_the_gradient_of_a_penalty_is_that_of_its_norm_and_is_finite_at_zero(norm):
    unit = SetNeuron(3, 2, 2)
    cloud = draw_neurons(KEY, unit, 3)
    moves = SetPenalty(unit, 0.5, norm).variation(cloud).velocity
    step = 1e-6 * np.random.default_rng(0).normal(size=cloud.atoms.shape)
    ends = [set_norm(unit, hf.uniform(cloud.atoms + sign * step), norm) for sign in (1, -1)]
    assert (ends[0] - ends[1]) / 2 == pytest.approx(-float(jnp.sum(moves * step)) / 0.5 / 3, rel=1e-6)
    assert np.abs(moves).max() > 1e-3
    zero = SetPenalty(unit, 0.5, norm).variation(hf.uniform(np.zeros((2, unit.dim))))
    assert np.all(zero.velocity == 0)
    assert np.all(np.isfinite(zero.potential))


SAMPLE = hf.Sample(pack_sets(sets_of(4, 2, 3, 5, 1, 4, 3, 2)), np.random.default_rng(3).normal(size=8))
MODELS = {
    "S1": (SetNeuron(5, 3, 3), 0),
    "S2": (FrozenSetNeuron(draw_layer(KEY, 8, 3), 5), 1),
    "S3": (FrozenSetNeuron(draw_layer(KEY, 8, 3), 5), 2),
}


def trained(norm, tau, scheme, dt):
    unit, frozen = MODELS[norm]
    field = hf.Descend(hf.Risk(unit, SAMPLE) + SetPenalty(unit, tau, norm))
    field = freeze_layers(field, unit, frozen) if frozen == 2 else field
    start = draw_neurons(KEY, unit, 20)
    return unit, start, hf.flow(field, scheme, start, key=KEY, dt=dt, steps=60, progress=False).cloud


@pytest.mark.parametrize("norm", ["S1", *(pytest.param(norm, marks=pytest.mark.slow) for norm in ("S2", "S3"))])
def test_a_stronger_penalty_makes_a_smaller_norm_and_a_worse_fit(norm):
    scheme = hf.Optax(optax.adam(1.0))
    ends = [trained(norm, tau, scheme, 0.05) for tau in (0.0, 0.3)]
    norms = [float(set_norm(unit, cloud, norm)) for unit, _, cloud in ends]
    risks = [float(hf.Risk(unit, SAMPLE)(cloud)) for unit, _, cloud in ends]
    assert norms[1] < 0.9 * norms[0]
    assert risks[1] > 1.02 * risks[0]
    unit, start, _ = ends[0]
    assert risks[0] < float(hf.Risk(unit, SAMPLE)(start))


@pytest.mark.parametrize("layers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_frozen_layers_stay_where_they_start_under_plain_steps(layers):
    unit = SetNeuron(5, 3, 3)
    start = draw_neurons(KEY, unit, 4)
    field = freeze_layers(hf.Descend(hf.Risk(unit, SAMPLE)), unit, layers)
    end = hf.flow(field, hf.Euler(), start, key=KEY, dt=0.1, steps=5, progress=False).cloud
    moved = [bool(np.any(a != b)) for a, b in zip(unit.layers(start.atoms), unit.layers(end.atoms), strict=True)]
    assert moved == [True, layers == 1, False]


def test_a_fitted_network_on_sets_is_saved_and_takes_larger_sets(tmp_path):
    unit, _, cloud = trained("S2", 0.0, hf.Euler(), 0.1)
    hf.Fitted(unit, cloud).save(tmp_path / "sets.npz")
    loaded = hf.Fitted.load(tmp_path / "sets.npz")
    np.testing.assert_array_equal(loaded(SAMPLE.xs), hf.Fitted(unit, cloud)(SAMPLE.xs))
    larger = hf.Fitted(unit.with_points(19), cloud)
    assert larger(pack_sets(sets_of(19, 7), points=19)).shape == (2, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pack_sets([]), "pack_sets takes one set or more; got none"),
        (lambda: pack_sets([np.ones((2, 3)), np.ones((2, 2))]), r"number of features q; got sets with 2 and 3\. Write"),
        (lambda: pack_sets([np.ones((2, 3)), np.ones((0, 3))]), r"m >= 1 points .*got the shape \(0, 3\) for set 1"),
        (lambda: pack_sets([np.ones(3)]), r"got the shape \(3,\) for set 0\. .*write xs\[:, None\]"),
        (lambda: pack_sets([[[np.nan]]]), "Set 0 of pack_sets holds finite numbers; got nan"),
        (lambda: pack_sets([np.ones((3, 1))], points=2), "room for the largest set; got points=2 and a set of 3"),
        (lambda: SetPenalty(UNITS[0], -1.0), "tau is .*>= 0; got -1"),
        (lambda: SetPenalty(hf.Dense(2, 2), 1.0), "unit is a.* SetUnit; got a Dense"),
        (lambda: set_norm(UNITS[0], hf.uniform(np.ones((2, 3))), "S1"), r"parameters; got atoms in R\^3"),
        (lambda: set_norm(UNITS[0], hf.uniform(np.ones((2, 22))), "S4"), "one of .*S1.*; got 'S4'"),
        (lambda: FrozenSetNeuron(np.ones((3, 1)), 2), r"q >= 1 features and a bias; got \(3, 1\)"),
    ],
)
def test_what_is_no_set_is_refused_in_a_sentence(call, words):
    with pytest.raises(Refusal, match=words):
        call()
