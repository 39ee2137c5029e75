"""Particles move as their scale says, kernels are what they should be, and each planted mistake is seen."""

import jax
import numpy as np
import pytest

from haarflow.experiments.lazy_active import APART, RATIOS, SCALES, LazyActive
from haarflow.models.kernels import relu_beyond_linear

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
def rest():
    """One width as it is; another by theory's powers; the rest, which the slow test computes, as theory has it."""
    experiment = LazyActive(**SMALL)
    small = experiment.scaling(KEY, 16)
    other = {
        "moved": small["moved"] * 4.0 ** (np.array(list(SCALES.values())) - 1)[None, :],
        "gap": small["gap"] * 4.0 ** np.array(list(APART.values()))[None, :],
        "kernel": small["kernel"],
    }
    learnt = {
        f"students d={d}": {
            "error": relu_beyond_linear(d) * np.array([[1.5, 0.6], [1.1, 0.2]]),
            "kernel": np.asarray(relu_beyond_linear(d)),
        }
        for d in experiment.dims
    }
    single = np.broadcast_to(np.array([0.1, 0.1, 1e-9])[:, None, None], (len(RATIOS), 2, 4))
    return {
        **learnt,
        "kernels": {"ratio": np.array([[0.9, 1.0], [1.3, 1.1]])},
        "single": {"error": single},
        "width m=64": other,
        "width m=16": small,
    }


def lost(experiment, pieces):
    return [claim for claim, check in experiment.verdict(experiment.gather(pieces)).items() if not check.holds]


def test_the_verdicts_hold_and_the_record_draws_itself(rest):
    from matplotlib.figure import Figure

    experiment = LazyActive(**SMALL)
    assert lost(experiment, dict(rest)) == []
    for panel in experiment.panels(experiment.gather(dict(rest))):
        panel.draw(Figure())


def test_frozen_outputs_are_not_the_tangent_kernel(rest):
    experiment = LazyActive(**SMALL, fault="frozen outputs")
    seen = lost(experiment, rest | {"width m=16": experiment.scaling(KEY, 16)})
    assert seen == ["the linearised model is regression with its tangent kernel: outputs agree to 1e-3"]


def test_without_slowing_the_powers_are_others(rest):
    experiment = LazyActive(**SMALL, fault="no slowing")
    seen = lost(experiment, rest | {"width m=16": experiment.scaling(KEY, 16)})
    assert any(claim.startswith("lazy, γ = 0.5: particles move") for claim in seen)
    assert not any(claim.startswith("mean-field, γ = 1") for claim in seen)


@pytest.mark.slow
def test_one_neuron_learns_from_d_log_d_samples():
    errors = LazyActive(**SMALL | {"single_dims": (12, 16)}).single(KEY)["error"]
    assert np.median(errors[-1]) < 1e-6
    assert np.median(errors[0]) > 0.01


@pytest.mark.slow
def test_the_quick_run_holds(rehearse):
    assert not rehearse(LazyActive, KEY).lost()
