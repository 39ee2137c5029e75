"""Particles move as their scale says, the linearised model is a kernel method, and each planted mistake is seen."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.experiments.lazy_active import APART, SCALES, LazyActive
from haarflow.runs import design, judge
from haarflow.runs.named import Data, named

KEY = jax.random.key(1)
SMALL = {"d": 4, "n": 10, "widths": (16, 64), "runs": 3, "horizon": 3.0}


@pytest.fixture(scope="module")
def measured():
    """One width as it is."""
    return LazyActive(**SMALL).scaling(KEY, 16)


def record(measured, **settings):
    """The data of one measured width, and another by theory's powers."""
    experiment = LazyActive(**SMALL, **settings)
    powers = {"moved": [gamma - 1 for gamma in SCALES.values()], "gap": list(APART.values())}
    labels = {"m": experiment.widths, "scale": SCALES}
    widths = {
        name: named(np.stack([rows, rows * 4.0 ** np.array(powers[name])[:, None]]), "m", "scale", "run", **labels)
        for name, rows in ((name, measured[0][name].values) for name in powers)
    }
    arrays = {
        **widths,
        "kernel_gap": named([one["kernel_gap"] for one in measured], "m", m=experiment.widths),
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
def test_the_quick_run_holds(rehearse):
    assert not rehearse(LazyActive, KEY).lost()
