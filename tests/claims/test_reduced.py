"""Claims of the reduced equation on data as theory has them, and spoilt; the whole of it in the slow tier."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.experiments.reduced import SAMPLES, Reduced
from haarflow.runs import design, judge
from haarflow.runs.named import Data, named
from haarflow.runs.statistics import first_below

KEY = jax.random.key(1)
SMALL = {"d": 6, "dims": (6, 12), "neurons": (2, 16), "runs": 6}


def record(experiment, slower=1.0):
    """What the slow test computes, here as theory has it; SGD at the larger d as slow as asked."""
    times = experiment.times
    falls, late = np.exp(np.outer([-1.0, -0.9], times)), np.append(times, 200.0)
    speeds = np.broadcast_to(np.array([1.0, 1 / slower])[:, None, None, None], (2, 2, 6, 1))
    dims = {"d": experiment.dims}
    arrays = {
        "network": named(1.01 * 0.25 * falls[0, ::2], "time", time=times[::2]),
        "law": named(np.ones((3, 8, 3)), "time", "neuron", "coordinate", time=(0, 2, 10)),
        "limit": named(0.25 * np.exp(np.outer([-1.0, -0.9], late)), "d", "time", **dims, time=late),
        "sgd": named(
            0.275 * np.exp(-speeds * times),
            *("d", "neurons", "run", "time"),
            **dims,
            neurons=experiment.neurons,
            time=times,
        ),
    }
    return Data(arrays, lambda data: design.named_fits(experiment, data))


def lost(experiment, data):
    return [claim for claim, check in judge.claims(experiment, data).items() if not check.holds]


def test_what_theory_says_holds_and_draws_itself():
    experiment = Reduced(**SMALL)
    data = record(experiment)
    assert lost(experiment, data) == []
    assert all(number == number for number in judge.numbers(experiment, data).values())
    for panel in experiment.panels(data):
        panel.draw(Figure())


def test_samples_that_grow_faster_than_d_are_seen():
    experiment = Reduced(**SMALL)
    (claim, *_) = lost(experiment, record(experiment, slower=2.0))
    assert claim.startswith(f"one neuron: {SAMPLES}: slope in d between")


def test_runs_that_never_learn_are_seen():
    experiment = Reduced(**SMALL)
    seen = lost(experiment, record(experiment, slower=20.0))
    assert [claim.split(":")[1].strip()[:7] for claim in seen][:2] == ["samples", "neurons"]


def test_a_crossing_is_found_between_records():
    times = np.array([0.0, 1.0, 2.0])
    curves = np.array([np.exp(-2 * times), np.exp(-times), np.exp(-0.1 * times), [0.05, 0.2, 0.01]])
    np.testing.assert_allclose(first_below(times, curves, 0.2), [np.log(5) / 2, np.log(5), np.inf, 0.0])


@pytest.mark.slow
def test_a_network_at_half_the_speed_is_behind():
    small = {"d": 10, "width": 400, "horizon": 2.0}
    risks = [Reduced(**small, fault=fault).network(KEY)["network"][-1] for fault in ("none", "half speed")]
    assert risks[1] > 1.05 * risks[0]


@pytest.mark.slow
def test_few_neurons_learn_from_samples_like_d():
    experiment = Reduced(**SMALL)
    runs = [experiment.sgd(KEY, d)["sgd"] for d in experiment.dims]
    sgd = named(np.stack(runs), "d", *runs[0].dims, d=experiment.dims, **runs[0].coords)
    samples = experiment.samples(sgd.isel(neurons=-1))
    assert np.isfinite(samples).all()
    assert (experiment.enough(Data({"sgd": sgd})) <= 16).all()
    small, large = samples.median("run") / np.array(experiment.dims)
    assert 0.6 < large / small < 1.7


@pytest.mark.slow
def test_the_quick_run_holds(rehearse):
    assert not rehearse(Reduced, KEY).lost()
