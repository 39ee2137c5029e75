"""Without replacement every row is seen once in an epoch, in an order of its own, and a killed flow goes on with it."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Heun
from haarflow.errors import Refusal
from haarflow.learning.data import Data, Sample, at_step
from haarflow.learning.epochs import rows_at
from haarflow.learning.risks import Functional, Risk
from haarflow.learning.symmetry import augment
from haarflow.measures.clouds import uniform
from haarflow.models.units import Dense

KEY = jax.random.key(3)


@functools.partial(jax.jit, static_argnums=(2, 3))
def rows(key, k, size, m):
    """The rows of one step, by one program."""
    return rows_at(key, k, size, m)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _line(key, m, size, steps):
    return jax.vmap(lambda k: rows_at(key, k, size, m))(jnp.arange(steps))


def line(m, size, steps, key=KEY):
    """The rows of so many steps, one after the other."""
    return np.asarray(_line(key, m, size, steps)).ravel()


@pytest.mark.parametrize(("m", "size"), [(12, 4), (13, 4), (7, 7), (5, 12), (1, 3), (2, 1), (100, 32), (6, 4)])
def test_every_row_is_seen_once_in_every_epoch(m, size):
    steps = -(-5 * m // size)
    seen = line(m, size, steps)[: 5 * m].reshape(5, m)
    np.testing.assert_array_equal(np.sort(seen, axis=1), np.tile(np.arange(m), (5, 1)))
    if m > 5:
        assert len({tuple(row) for row in seen.tolist()}) == 5
        assert line(m, size, steps, jax.random.key(4))[:size].tolist() != seen.ravel()[:size].tolist()


def test_the_order_does_not_depend_on_where_counting_begins():
    """Step 10⁹, in 32 bits, is the step that it is in whole numbers of any size."""
    m, size, far = 60_000, 128, 10**9
    with jax.enable_x64(False):
        found = rows(KEY, jnp.asarray(far), size, m)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, rows(KEY, np.int64(far), size, m))
    epoch = far * size // m
    begin = -(-epoch * m // size)
    near = np.concatenate([rows(KEY, np.int64(k), size, m) for k in range(3)])  # of the first epoch, in another order
    assert len(set(np.asarray(rows(KEY, np.int64(begin), size, m)).tolist())) == size
    assert set(near.tolist()) != set(np.asarray(found).tolist())


def test_all_orders_of_few_rows_are_as_likely():
    """All 120 orders of 5 rows over 12 000 keys: chi-square of 119 degrees of freedom, beyond 190 once in 3e4."""
    keys = jax.random.split(jax.random.key(0), 12_000)
    orders = np.asarray(jax.jit(jax.vmap(lambda key: rows_at(key, 0, 5, 5)))(keys))
    places = {order: i for i, order in enumerate(itertools.permutations(range(5)))}
    counts = np.bincount([places[tuple(order)] for order in orders.tolist()], minlength=120)
    assert np.sum((counts - 100) ** 2 / 100) < 190


@pytest.mark.slow
def test_neighbours_of_many_rows_are_as_likely():
    """Of 200 rows the place of one and the row after another: each uniform over 20 bins, beyond 50 once in 1e4."""
    keys = jax.random.split(jax.random.key(1), 2000)
    orders = np.asarray(jax.jit(jax.vmap(lambda key: rows_at(key, 0, 200, 200)))(keys))
    where = np.argmax(orders == 17, axis=1)
    after = np.take_along_axis(orders, (where[:, None] + 1) % 200, axis=1)[:, 0]
    for values in (where, after):
        counts = np.bincount(values // 10, minlength=20)
        assert np.sum((counts - 100) ** 2 / 100) < 50


class Seen(Functional):
    """A functional whose potential tells which rows a step takes: an atom for each row, moved by its share."""

    data: Data

    def sample(self, key):
        return Seen(Sample(*self.data.batch(key)))

    def __call__(self, cloud):
        taken = self.data.batch(KEY)[0][:, 0].astype(int)
        return -jnp.sum(cloud.weights[taken] * cloud.atoms[taken, 0])

    @classmethod
    def examples(cls):
        return []


@pytest.mark.parametrize("scheme", [Euler(), pytest.param(Heun(), marks=pytest.mark.slow)], ids=["Euler", "Heun"])
def test_a_flow_goes_through_epochs(scheme):
    """13 rows in batches of 4: after 13 steps every row was taken four times, by every run in an order of its own."""
    rows = Sample(np.arange(13.0)[:, None], np.zeros(13), size=4, replace=False)
    start = uniform(np.zeros((13, 1)))
    options = {"dt": 1.0, "every": 1, "probes": {"atoms": lambda cloud: cloud.atoms[:, 0]}}
    path = flow(Descend(Seen(rows)), scheme, start, key=jax.random.split(KEY, 2), steps=13, **options)
    np.testing.assert_allclose(path.cloud.atoms[..., 0], 4.0)
    taken = np.diff(path.probes["atoms"], axis=1)
    assert (taken.sum(axis=2) == 4).all()
    assert (taken[:, :3].sum(axis=1) <= 1).all()
    assert (taken[0] != taken[1]).any()
    alone = flow(Descend(Seen(rows)), scheme, start, key=jax.random.split(KEY, 2)[1], steps=13, **options)
    np.testing.assert_array_equal(np.diff(alone.probes["atoms"], axis=0), taken[1])


def test_a_killed_flow_goes_on_in_the_same_epoch(tmp_path, monkeypatch):
    from haarflow.dynamics import checkpoints

    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)
    draw = np.random.default_rng(0)
    xs = draw.normal(size=(11, 2))
    field = Descend(Risk(Dense(2, 1, "tanh"), Sample(xs, np.sin(xs[:, :1]), 3, replace=False)))
    start, options = uniform(draw.normal(size=(4, 2))), {"key": KEY, "dt": 0.1, "steps": 40}
    whole = flow(field, Euler(), start, **options)
    seen = []

    def stop(fraction):
        seen.append(fraction)
        if len(seen) == 1:
            raise KeyboardInterrupt

    for _ in range(2):
        try:
            path = flow(field, Euler(), start, **options, checkpoint=tmp_path / "place", progress=stop)
        except KeyboardInterrupt:
            assert seen[0] < 1
    np.testing.assert_array_equal(path.cloud.atoms, whole.cloud.atoms)


def labels(data, key):
    """The labels of a batch, by one program."""
    return np.asarray(batch(data, key)[1])[:, 0].tolist()


@eqx.filter_jit
def batch(data, key):
    return data.batch(key)


@pytest.mark.slow
def test_wrapped_data_are_in_order_too():
    swap = natural_rep(Cyclic(2))
    sample = Sample(np.arange(10.0).reshape(5, 2), np.arange(5.0), size=5, replace=False)
    for data in (sample, augment(sample, swap, trivial_rep(swap.group))):
        there = at_step(Descend(Risk(Dense(2, 1), data)), KEY, jnp.asarray(4)).functional.data
        batches = [labels(there, jax.random.key(seed)) for seed in (0, 1)]
        assert batches[0] == batches[1] == np.asarray(sample.ys)[rows(KEY, np.int64(4), 5, 5), 0].tolist()
    drawn = {tuple(labels(sample, jax.random.key(seed))) for seed in range(6)}
    assert len(drawn) > 1


def test_refusals():
    xs = np.ones((60_000, 1), np.float32)
    with pytest.raises(Refusal, match="A Sample without replacement is dealt out in batches; got no size. Write size="):
        Sample(xs, xs, replace=False)
    with pytest.raises(
        Refusal, match=r"within 2\*\*31 rows; got batches of 59999 from 60000 rows, which need 3599940000"
    ):
        Sample(xs, xs, 59_999, replace=False)
    with pytest.raises(Refusal, match="A Sample's replace is True or False; got 'no'"):
        Sample(xs, xs, 5, replace="no")
