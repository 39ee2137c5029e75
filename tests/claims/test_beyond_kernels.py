"""Kernels stay at the plateau where networks that learn features go below it; the claims see who does not."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.experiments.beyond_kernels import RATIOS, BeyondKernels
from haarflow.models.kernels import relu_beyond_linear
from haarflow.runs import design, judge
from haarflow.runs.named import Data, named

KEY = jax.random.key(1)
SMALL = {"dims": (6, 8), "students": (4, 8), "kernel_dims": (20, 50), "single_dims": (6, 8), "singles": 4}


def record(experiment, mean_field=0.2):
    """What the slow test computes, here as theory has it; the widest mean-field students at this share of the rest."""
    plateaus = np.array([relu_beyond_linear(d) for d in experiment.dims])
    shares, single = np.array([[1.5, 0.6], [1.1, mean_field]]), np.array([0.1, 0.1, 1e-9])
    scales = {"d": experiment.dims, "width": experiment.students, "scale": ("lazy", "mean-field")}
    arrays = {
        "students": named(plateaus[:, None, None] * shares, "d", "width", "scale", **scales),
        "kernel_error": named(plateaus, "d", d=experiment.dims),
        "kernels": named([[0.9, 1.3], [1.0, 1.1]], "d", "kernel", d=(20, 50), kernel=("random features", "tangent")),
        "single": named(np.tile(single[:, None, None], (1, 2, 4)), "ratio", "d", "run", ratio=RATIOS, d=(6, 8)),
    }
    return Data(arrays, lambda data: design.named_fits(experiment, data))


def lost(experiment, data):
    return [claim for claim, check in judge.claims(experiment, data).items() if not check.holds]


def test_the_claims_hold_and_the_record_draws_itself():
    experiment = BeyondKernels(**SMALL)
    data = record(experiment)
    assert lost(experiment, data) == []
    assert all(number == number for number in judge.numbers(experiment, data).values())
    for panel in experiment.panels(data):
        panel.draw(Figure())


def test_mean_field_students_that_learn_no_more_than_lazy_ones_are_seen():
    experiment = BeyondKernels(**SMALL)
    (claim,) = lost(experiment, record(experiment, mean_field=1.1))
    assert claim.startswith("widest mean-field network")


@pytest.mark.slow
def test_students_scaled_as_lazy_ones_learn_as_little():
    rows = {}
    for fault in ("none", "lazy scaling"):
        rows[fault] = BeyondKernels(**SMALL | {"students": (4, 64)}, fault=fault).learning(KEY, 20)["students"]
    lazy = rows["none"].sel(scale="lazy", width=64)
    assert rows["none"].sel(scale="mean-field", width=64) < 0.7 * lazy
    np.testing.assert_allclose(rows["lazy scaling"].sel(scale="mean-field", width=64), lazy, rtol=1e-9)


@pytest.mark.slow
def test_one_neuron_learns_from_d_log_d_samples():
    few, enough = (BeyondKernels(**SMALL).single(KEY, ratio, 16)["single"] for ratio in (RATIOS[0], RATIOS[-1]))
    assert enough.median() < 1e-6
    assert few.median() > 0.01


@pytest.mark.slow
def test_the_quick_run_holds(rehearse):
    assert not rehearse(BeyondKernels, KEY).lost()
