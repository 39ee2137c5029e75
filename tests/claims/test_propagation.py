"""Particles and steps are as near to the limit as stated, and each planted mistake is seen by its own claim."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.experiments.propagation import BY_STEP, BY_WIDTH, SHOWN, WAYS, Propagation
from haarflow.runs import design, judge
from haarflow.runs.named import Data, named

KEY = jax.random.key(1)
SMALL = {"widths": (100, 400, 1600), "steps": (0.0005, 0.002), "repetitions": 400, "passes": 300}
SEEN = {
    "square loss": {"network, multi-pass", "risk, multi-pass", "network, balanced"},
    "wide start": {"risk: slope", "network, sample then flow: slope", "sample, then flow over"},
}
AGAIN = {"square loss": ("descents",), "wide start": ("width",)}


def _stated(experiment, width=-0.5, step=0.5):
    """A record made of power laws, without a run."""
    draw, times = np.random.default_rng(0), np.linspace(0, 0.8, 41)
    widths, steps = np.array(experiment.widths, float), np.array(experiment.steps)
    noise = np.exp(0.1 * draw.normal(size=(50, 4)))
    arrays = {
        "by_width": named(noise * widths[:, None, None] ** width, "M", "run", "measure", M=widths, measure=BY_WIDTH),
        "by_step": named(
            noise[:, :2] * np.tile(steps[:, None, None] ** step, (3, 1, 1, 1)),
            *("way", "s", "run", "measure"),
            **{"way": WAYS, "s": steps, "measure": BY_STEP},
        ),
        "squares": named(noise[:, :1] / widths[:, None, None] * np.exp(-times), "M", "run", "time", M=widths),
        "level": named(np.full(41, 1.1), "time"),
        "cost": named(0.1),
        "corners": named(draw.normal(size=(3, 9, 4)), "cloud", "particle", "theta"),
        "way": named(np.eye(4), "row", "column"),
        "curves": named(np.tile(np.exp(-times), (3, 5, 1)), "M", "run", "time", M=SHOWN, time=times),
        "limit": named(np.exp(-times), "time", time=times),
    }
    return Data(arrays, lambda data: design.named_fits(experiment, data))


def test_laws_of_one_half_hold_and_others_do_not():
    experiment = Propagation()
    data = _stated(experiment)
    assert all(claim.holds for claim in judge.claims(experiment, data).values())
    assert all(number == number for number in judge.numbers(experiment, data).values())
    for panel in experiment.panels(data):
        panel.draw(Figure())
    lost = [not claim.holds for claim in judge.claims(experiment, _stated(experiment, -0.4, 0.6)).values()]
    assert sum(lost) == len(lost) - 1


@pytest.mark.slow
def test_small_steps_are_near_the_limit_and_twice_the_speed_is_seen():
    """A hundred runs of each way: the slope is known to 0.06, one standard error, and allowed 0.2."""
    for fault, holds in (("none", True), ("square loss", False)):
        found = Propagation(steps=(0.001, 0.004), passes=100, fault=fault).descents(KEY)["by_step"]
        small, large = found.sel(measure="network").mean("run").transpose("s", "way")
        assert (np.abs(np.log(large / small) / np.log(4) - 0.5) < 0.2).all() == holds


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Propagation, KEY, **SMALL)


@pytest.mark.slow
def test_the_claims_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.slow
@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_mistake_is_seen(fault, rehearsal):
    lost = rehearsal.lost(fault, AGAIN[fault])
    assert all(any(seen in claim for claim in lost) for seen in SEEN[fault])
