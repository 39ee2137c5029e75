"""Particles move as their scale says, kernels are what they should be, and each planted mistake is seen."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.experiments.lazy_active import APART, RATIOS, SCALES, LazyActive
from haarflow.models.kernels import relu_beyond_linear
from haarflow.runs import design, judge
from haarflow.runs.named import Data, named

KEY = jax.random.key(1)
SMALL = {
    "d": 4,
    "n": 10,
    "widths": (16, 64),
    "runs": 3,
    "horizon": 3.0,
    "dims": (6, 8),
    "students": (4, 8),
    "kernel_dims": (20, 50),
    "single_dims": (6, 8),
    "singles": 4,
}


@pytest.fixture(scope="module")
def measured():
    """One width as it is."""
    return LazyActive(**SMALL).scaling(KEY, 16)


def record(measured, **settings):
    """The data of one measured width, another by theory's powers, and the rest, which the slow test computes."""
    experiment = LazyActive(**SMALL, **settings)
    powers = {"moved": [gamma - 1 for gamma in SCALES.values()], "gap": list(APART.values())}
    labels = {"m": experiment.widths, "scale": SCALES}
    widths = {
        name: named(np.stack([rows, rows * 4.0 ** np.array(powers[name])[:, None]]), "m", "scale", "run", **labels)
        for name, rows in ((name, measured[0][name].values) for name in powers)
    }
    plateaus = np.array([relu_beyond_linear(d) for d in experiment.dims])
    students, single = plateaus[:, None, None] * np.array([[1.5, 0.6], [1.1, 0.2]]), np.array([0.1, 0.1, 1e-9])
    scales = {"d": experiment.dims, "width": experiment.students, "scale": ("lazy", "mean-field")}
    arrays = {
        **widths,
        "kernel_gap": named([one["kernel_gap"] for one in measured], "m", m=experiment.widths),
        "students": named(students, "d", "width", "scale", **scales),
        "kernel_error": named(plateaus, "d", d=experiment.dims),
        "kernels": named([[0.9, 1.3], [1.0, 1.1]], "d", "kernel", d=(20, 50), kernel=("random features", "tangent")),
        "single": named(np.tile(single[:, None, None], (1, 2, 4)), "ratio", "d", "run", ratio=RATIOS, d=(6, 8)),
    }
    return experiment, Data(arrays, lambda data: design.named_fits(experiment, data))


def lost(experiment, data):
    return [claim for claim, check in judge.claims(experiment, data).items() if not check.holds]


def test_the_claims_hold_and_the_record_draws_itself(measured):
    experiment, data = record((measured, measured))
    assert lost(experiment, data) == []
    assert all(number == number for number in judge.numbers(experiment, data).values())
    for panel in experiment.panels(data):
        panel.draw(Figure())


def test_frozen_outputs_are_not_the_tangent_kernel(measured):
    faulty = LazyActive(**SMALL, fault="frozen outputs").scaling(KEY, 16)
    (claim,) = lost(*record((measured, faulty), fault="frozen outputs"))
    assert claim.startswith("linearised model and regression with its tangent kernel")


def test_without_slowing_the_powers_are_others(measured):
    """Against the width as it should be: lazy particles move too far, mean-field ones as before."""
    experiment, data = record((measured, measured), fault="no slowing")
    faulty = experiment.scaling(KEY, 16)
    spoiled = {name: np.stack([faulty[name], data[name].isel(m=1)]) for name in ("moved", "gap")}
    labels = {"m": experiment.widths, "scale": SCALES}
    replaced = {name: named(rows, "m", "scale", "run", **labels) for name, rows in spoiled.items()}
    seen = lost(experiment, data.replaced(**replaced))
    assert any(claim.startswith("lazy, γ = 0.5, particles move") for claim in seen)
    assert not any(claim.startswith("mean-field, γ = 1") for claim in seen)


@pytest.mark.slow
def test_one_neuron_learns_from_d_log_d_samples():
    few, enough = (LazyActive(**SMALL).single(KEY, ratio, 16)["single"] for ratio in (RATIOS[0], RATIOS[-1]))
    assert enough.median() < 1e-6
    assert few.median() > 0.01


@pytest.mark.slow
def test_the_quick_run_holds(rehearse):
    assert not rehearse(LazyActive, KEY).lost()
