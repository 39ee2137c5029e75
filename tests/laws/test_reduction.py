"""A flow with one particle and one sample per orbit is the whole flow; folding the data of FA changes nothing."""

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import haarflow as hf

KEY = jax.random.key(7)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def turning():
    """D_3 on the plane, outputs that turn too; a sample at the centre, one on a mirror, a particle that stays."""
    group = hf.Dihedral(3)
    plane = hf.natural_rep(group)
    unit = hf.Perceptron(2, 2, "tanh")
    xs = np.concatenate([normal(0, 4, 2), [[0.0, 0.0], [0.7, 0.0]]])
    sample = hf.Sample(xs, np.stack([np.sin(3 * xs[:, 0]), xs[:, 0] * xs[:, 1]], axis=1))
    atoms = normal(1, 5, 5)
    atoms[-1, :4] = 0.0
    return unit, sample, hf.Cloud(atoms, np.array([0.1, 0.3, 0.2, 0.25, 0.15])), plane, plane, "half-square"


def swapping():
    """C_3 shifting three coordinates, labels that stay, another loss."""
    group = hf.Cyclic(3)
    unit, xs = hf.Dense(3, 1, "sigmoid"), normal(2, 4, 3)
    return (
        unit,
        hf.Sample(xs, np.cos(xs[:, :1])),
        hf.uniform(normal(3, 4, 3)),
        hf.natural_rep(group),
        hf.trivial_rep(group),
        "pseudo-huber",
    )


CASES = {"turning": turning, "swapping": swapping}


def thinned(sample, on_x, on_y):
    """The orbit-closed sample in which coinciding points are one: its orbits have different sizes."""
    whole = hf.orbit_closure(sample, on_x, on_y)
    pairs = np.round(np.concatenate([whole.xs, whole.ys], axis=1), 12)
    kept = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    return hf.Sample(whole.xs[kept], whole.ys[kept])


@eqx.filter_jit
def value(functional, cloud):
    return functional(cloud)


@eqx.filter_jit
def velocity(field, cloud):
    return field(KEY, cloud).velocity


def same(a, b):
    np.testing.assert_allclose(a.atoms, b.atoms, rtol=0, atol=1e-12)
    np.testing.assert_allclose(a.weights, b.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_reduced_flow_is_the_whole_flow(case):
    unit, sample, start, on_x, on_y, loss = CASES[case]()
    data = thinned(sample, on_x, on_y)
    cloud = start.orbit(unit.action(on_x, on_y))
    shuffled = np.random.default_rng(0).permutation(cloud.n)
    cloud = hf.Cloud(cloud.atoms[shuffled], cloud.weights[shuffled])
    field = hf.Descend(hf.Risk(unit, data, loss) + hf.Penalty(0.1), growth=0.5)
    small = hf.exact.reduce_by_orbits(field, cloud, on_x, on_y)
    assert small.cloud.n == start.n
    same(small.whole(small.cloud), cloud)
    scheme = {"turning": hf.Heun(), "swapping": hf.Optax(optax.sgd(1.0, momentum=0.9))}[case]
    path = hf.flow(small.field, scheme, small.cloud, key=KEY, dt=0.1, steps=40)
    same(small.whole(path.cloud), hf.flow(field, scheme, cloud, key=KEY, dt=0.1, steps=40).cloud)


def test_sums_in_any_order_are_reduced():
    unit, sample, start, on_x, on_y, loss = swapping()
    cloud, risk = start.orbit(unit.action(on_x, on_y)), hf.Risk(unit, thinned(sample, on_x, on_y), loss)
    small, half = hf.Penalty(0.1), hf.Penalty(0.05)
    wanted = velocity(hf.exact.reduce_by_orbits(hf.Descend(risk + small), cloud, on_x, on_y).field, start)
    for functional in ((half + half) + risk, risk + (half + half), half + (risk + half)):
        found = velocity(hf.exact.reduce_by_orbits(hf.Descend(functional), cloud, on_x, on_y).field, start)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_draws_with_their_whole_orbits_are_reduced_too():
    unit, sample, start, on_x, on_y, _ = swapping()
    drawn = hf.augment(hf.Sample(sample.xs, sample.ys, size=2), on_x, on_y, exact=True)
    field, cloud = hf.Descend(hf.Risk(unit, drawn)), start.orbit(unit.action(on_x, on_y))
    small = hf.exact.reduce_by_orbits(field, cloud, on_x, on_y)
    np.testing.assert_allclose(
        velocity(small.field, small.cloud), velocity(field, cloud)[: start.n], rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_averaging_folds_its_samples_on_every_cloud_and_its_particles_over_any_data():
    unit, sample, start, on_x, on_y, loss = turning()
    averaged, data = hf.average(unit, on_x, on_y), thinned(sample, on_x, on_y)
    risk = hf.Risk(averaged, data, loss) + hf.Penalty(0.1)
    folded = hf.exact.fold(risk, on_x, on_y)
    assert (len(folded.parts[0].xs), len(data.xs)) == (6, 4 * 6 + 1 + 3)
    np.testing.assert_allclose(value(folded, start), value(risk, start), rtol=1e-12)
    np.testing.assert_allclose(
        velocity(hf.Descend(folded), start), velocity(hf.Descend(risk), start), rtol=0, atol=1e-12
    )
    field = hf.Descend(hf.Risk(averaged, hf.Sample(sample.xs, sample.ys, size=3)))
    cloud = start.orbit(unit.action(on_x, on_y))
    small = hf.exact.reduce_by_orbits(field, cloud, on_x, on_y)
    np.testing.assert_allclose(
        velocity(small.field, small.cloud), velocity(field, cloud)[: start.n], rtol=0, atol=1e-12
    )


def test_refusals():
    unit, sample, start, on_x, on_y, loss = turning()
    closed, cloud = hf.orbit_closure(sample, on_x, on_y), start.orbit(unit.action(on_x, on_y))
    field = hf.Descend(hf.Risk(unit, closed, loss))

    def refused(words, field=field, cloud=cloud, on_y=on_y):
        with pytest.raises(hf.Refusal, match=words):
            hf.exact.reduce_by_orbits(field, cloud, on_x, on_y)

    refused(r"A Cloud that is closed.* got an image of point \d+ that is .* Close it with `cloud.orbit", cloud=start)
    lopsided = cloud.weights.at[0].mul(2)
    refused("weighs the same everywhere on an orbit", cloud=hf.Cloud(cloud.atoms, lopsided / lopsided.sum()))
    refused("A Sample that is closed under a group", hf.Descend(hf.Risk(unit, sample)))
    refused(r"a Sample that draws. Write augment", hf.Descend(hf.Risk(unit, hf.Sample(closed.xs, closed.ys, size=3))))
    refused("for 'pseudo-huber'. Use 'half-square'", hf.Descend(hf.Risk(unit, closed, "pseudo-huber")))
    refused(
        "r(M_g theta) = r(theta)".replace("(", r"\(").replace(")", r"\)"),
        hf.Descend(hf.Risk(unit, closed) + hf.Penalty(0.1, lambda theta: theta[0] ** 4)),
    )
    refused("got a Restricted. Write reduce", hf.restrict(field, np.eye(5)))
    refused("without one. Add a Risk", hf.Descend(hf.Penalty(1.0)))
    with pytest.raises(hf.Refusal, match="got a plain Perceptron. Write average"):
        hf.exact.fold(hf.Risk(unit, closed), on_x, on_y)
    other = hf.average(unit, hf.natural_rep(hf.PlanarRotations(3)), hf.natural_rep(hf.PlanarRotations(3)))
    with pytest.raises(hf.Refusal, match="got 3 elements there and 6 of Dihedral here"):
        hf.exact.fold(hf.Risk(other, closed), on_x, on_y)
