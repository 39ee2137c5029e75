"""Particles and steps are as near to the limit as stated, and each planted mistake is seen by its own verdict."""

import jax
import numpy as np
import pytest

from haarflow.experiments.propagation import SHOWN, STEP, Propagation

KEY = jax.random.key(1)
SMALL = {"widths": (100, 400, 1600), "steps": (0.0005, 0.002), "repetitions": 400, "passes": 300}
SEEN = {
    "square loss": {"one-pass: sup |R", "multi-pass: sup |R", "one-pass, M = ratio / s: sup ‖f"},
    "wide start": {"sup |R_M − R|, in M", "sup ‖f_M − f‖, in M", "sample, then flow deviates"},
}
AGAIN = {"square loss": ("descents",), "wide start": ("width",)}


def _stated(experiment, width=-0.5, step=0.5):
    """A record made of power laws, without a run."""
    draw = np.random.default_rng(0)
    noise = {name: np.exp(0.1 * draw.normal(size=(50, 1))) for name in ("risk", "network", "coupled", "fresh")}
    sizes, steps, looks = np.array(experiment.widths), np.array(experiment.steps), np.linspace(0, 0.8, 41)
    data = {f"width/{name}": factor * sizes**width for name, factor in noise.items()}
    data |= {f"descents/{way}/{name}": noise[name] * steps**step for way in STEP for name in ("risk", "network")}
    squares = (noise["risk"] / sizes)[:, :, None] * np.exp(-looks)
    cloud = {f"width/{name}": draw.normal(size=(9, 4)) for name in ("drawn", "flowed", "sampled")}
    curves = {f"particles/M = {m}": np.exp(-np.tile(looks, (5, 1))) for m in SHOWN} | {
        "particles/limit": np.exp(-looks)
    }
    data |= cloud | curves | {"width/squares": squares, "width/level": np.full(41, 1.1), "width/way": np.eye(4)}
    return data | {"particles/times": looks, "descents/cost": np.asarray(0.1)}


def test_laws_of_one_half_hold_and_others_do_not():
    from matplotlib.figure import Figure

    experiment = Propagation()
    data = _stated(experiment)
    assert all(check.holds for check in experiment.verdict(data).values())
    assert all(number == number for number in experiment.figures(data).values())
    for panel in experiment.panels(data):
        panel.draw(Figure())
    lost = [not check.holds for check in experiment.verdict(_stated(experiment, -0.4, 0.6)).values()]
    assert sum(lost) == len(lost) - 1


@pytest.mark.slow
def test_small_steps_are_near_the_limit_and_twice_the_speed_is_seen():
    """A hundred runs of each way: the slope is known to 0.06, one standard error, and allowed 0.2."""
    for fault, holds in (("none", True), ("square loss", False)):
        found = Propagation(steps=(0.001, 0.004), passes=100, fault=fault).run(KEY, "descents")
        slopes = [np.log(np.divide(*found[f"{way}/network"].mean(0)[::-1])) / np.log(4) for way in STEP]
        assert (np.abs(np.array(slopes) - 0.5) < 0.2).all() == holds


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Propagation, KEY, **SMALL)


@pytest.mark.slow
def test_the_verdicts_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.slow
@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_mistake_is_seen(fault, rehearsal):
    lost = rehearsal.lost(fault, AGAIN[fault])
    assert all(any(claim.startswith(seen) for claim in lost) for seen in SEEN[fault])
