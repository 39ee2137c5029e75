"""Laws kept along a flow, and their averages over time, against motions that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.games import DescentAscent, ExpectedPayoff
from haarflow.dynamics.schemes import Adaptive, Euler
from haarflow.dynamics.time_averages import recorded, snapshot, time_average
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import Cloud, stack_clouds

KEPT = {"laws": snapshot}
CLOUD = Cloud(jnp.array([[1.0, -2.0], [0.5, 3.0]]), jnp.array([0.25, 0.75]))


@pytest.mark.slow
def test_the_average_of_a_shrinking_cloud():
    """θ' = −θ: the mean of the average is (1 − e^{−T})/T of the first, by the trapezoidal rule to second order."""
    errors = []
    for steps in (10, 20):
        path = flow(Descend(Penalty(1.0)), Adaptive(), CLOUD, key=0, dt=2 / steps, steps=steps, every=1, probes=KEPT)
        laws = recorded(path)
        assert laws.atoms.shape == (steps + 1, 2, 2)
        shrunk = np.exp(-path.times)[:, None, None] * np.asarray(CLOUD.atoms)
        np.testing.assert_allclose(laws.atoms, shrunk, atol=1e-7)
        mean = time_average(path)
        np.testing.assert_allclose(mean.weights.sum(), 1, rtol=1e-14)
        errors.append(np.abs(mean.mean() - CLOUD.mean() * (1 - np.exp(-2)) / 2).max())
        half = time_average(path, until=1.0)
        assert half.atoms.shape == mean.atoms.shape
        np.testing.assert_allclose(half.mean(), CLOUD.mean() * (1 - np.exp(-1)), rtol=0.01)
        np.testing.assert_array_equal(time_average(path, until=0.0).mean(), CLOUD.mean())
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)


def test_players_in_several_runs_with_growing_weights():
    """Every probe that is linear in the laws averages as the laws do, for each run and player."""
    game = DescentAscent(ExpectedPayoff(lambda x, y: jnp.sum(x) * y[0]), ascend="y", growth=1.0)
    other = Cloud(jnp.array([[0.3], [-0.2], [1.0]]), jnp.array([0.2, 0.3, 0.5]))
    clouds = {"x": stack_clouds([CLOUD, CLOUD]), "y": stack_clouds([other, other])}
    probes = KEPT | {name: lambda clouds, name=name: clouds[name].mean() for name in clouds}
    path = flow(
        game, Euler(), clouds, key=jax.random.split(jax.random.key(0)), dt=[0.1, 0.2], steps=5, every=2, probes=probes
    )
    mean = time_average(path)
    for name in clouds:
        for run in (0, 1):
            exact = np.trapezoid(path.probes[name][run], path.times[run], axis=0) / path.times[run, -1]
            np.testing.assert_allclose(mean[name].mean()[run], exact, rtol=1e-12)
        np.testing.assert_array_equal(recorded(path)[name].weights[:, -1], path.cloud[name].weights)


def test_refusals():
    path = flow(Descend(Penalty(1.0)), Euler(), CLOUD, key=0, dt=0.1, steps=2, probes=KEPT | {"mean": Cloud.mean})
    with pytest.raises(Refusal, match=r"those that a probe kept; got 'law', not among \['laws', 'mean'\]"):
        time_average(path, "law")
    with pytest.raises(Refusal, match=r"that the probe snapshot kept; got records of shape \(2,\) from 'mean'"):
        recorded(path, "mean")
    with pytest.raises(Refusal, match="time_average's until is a finite number >= 0; got -1"):
        time_average(path, until=-1.0)
