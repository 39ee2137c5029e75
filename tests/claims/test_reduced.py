"""The reduced equation conserves mass and the printed one does not; the whole of it in the slow tier."""

import jax
import numpy as np
import pytest

from haarflow.experiments.reduced import PUBLISHED, SCANNED, Reduced

KEY = jax.random.key(1)
SMALL = {"d": 6, "dims": (6, 12), "neurons": (2, 16), "runs": 6, "refinements": 2, "deltas": (0.3,), "horizon": 10.0}


@pytest.fixture(scope="module")
def rest():
    """What the slow test computes, here as theory has it: the verdicts and panels read it."""
    times = np.concatenate([np.linspace(0, 10, 21), [200.0]])
    risks = 0.25 * np.stack([np.exp(-times), np.exp(-0.9 * times)])
    single = np.where(SCANNED < 0.474, 0.9 - SCANNED, SCANNED - 0.4)
    law = np.where(SCANNED < 0.474, single, 0.0)
    pieces = {
        "full": {"times": times[::2], "risk": 1.01 * risks[0, ::2], "law": np.ones((3, 8, 3))},
        "limit": {"times": times, "risks": risks, "dims": np.array([6, 12])},
        "gaussians": {name: np.linspace(2, 0.1, 5)[None] for name in ("sgd", "reduced")}
        | {"best": np.array([0.1]), "times": np.linspace(0, 0.8, 5)},
        "optima": {
            "single": np.column_stack([single, single]),
            "law": np.column_stack([law, law]),
            "threshold": np.asarray(0.4742),
            "published": np.array(list(PUBLISHED.values())),
        },
    }
    sgd = {"times": times[:-1], "risk": np.broadcast_to(1.1 * risks[0, :-1], (2, 6, 21))}
    return pieces | {f"sgd d={d}": sgd for d in SMALL["dims"]}


@pytest.mark.parametrize("fault", ["none", "printed"])
def test_mass_is_conserved_unless_the_printed_term_is_planted(fault, rest):
    from matplotlib.figure import Figure

    experiment = Reduced(**SMALL, fault=fault)
    data = experiment.gather({**rest, "grid": experiment.grid(KEY)})
    checks = experiment.verdict(data)
    lost = [claim for claim, check in checks.items() if not check.holds]
    assert lost == ([] if fault == "none" else ["grid: the continuity equation conserves mass to 1e-12"])
    if fault == "none":
        for panel in experiment.panels(data):
            panel.draw(Figure())


def test_samples_that_grow_faster_than_d_are_seen(rest):
    experiment = Reduced(**SMALL)
    slow = rest["sgd d=12"] | {"risk": rest["sgd d=12"]["risk"] ** 0.5}
    data = experiment.gather({**rest, "sgd d=12": slow, "grid": {"errors": np.ones((2, 4)), "mass": np.zeros(2)}})
    assert not next(check for claim, check in experiment.verdict(data).items() if "slope in d between" in claim).holds


@pytest.mark.slow
def test_few_neurons_learn_from_samples_like_d(rest):
    experiment = Reduced(**SMALL)
    real = {f"sgd d={d}": experiment.sgd(KEY, d) for d in experiment.dims}
    data = experiment.gather({**rest, **real, "grid": {}})
    assert np.isfinite(experiment.samples(data)).all()
    assert (experiment.enough(data) <= 16).all()
    per_dimension = np.median(experiment.samples(data), axis=0) / np.array(experiment.dims)
    assert 0.6 < per_dimension[1] / per_dimension[0] < 1.7


@pytest.mark.slow
def test_the_quick_run_holds(rehearse):
    assert not rehearse(Reduced, KEY).lost()
