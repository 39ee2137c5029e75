"""Two Gaussians: what is known of the optimum holds, and SGD at another speed than the reduced flow is seen."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.experiments.gaussian_pair import PUBLISHED, SCANNED, TIMES, GaussianPair
from haarflow.runs import judge
from haarflow.runs.named import Data, named

KEY = jax.random.key(1)
SMALL = GaussianPair(deltas=(0.4,), width=400, d=20, batch=400, dt=0.01)


def record(**arrays):
    """What is known of optima, and an SGD on top of the reduced flow."""
    one = np.where(SCANNED < 0.474, 0.9 - SCANNED, SCANNED - 0.4)
    law, risks = np.where(SCANNED < 0.474, one, 0.0), np.tile(np.exp(-TIMES), (1, 2, 1))
    labels = {"norms": ("one", "any"), "delta": SCANNED, "value": ("risk", "gap")}
    ways = {"delta": (0.4,), "way": ("SGD", "reduced flow"), "time": TIMES}
    known = {
        "best": named(np.stack([[one, one], [law, law]]).swapaxes(1, 2), "norms", "delta", "value", **labels),
        "threshold": named(0.4742),
        "published": named(list(PUBLISHED.values()), "delta", delta=PUBLISHED),
        "risk": named(risks, "delta", "way", "time", **ways),
        "least": named([0.1], "delta", delta=(0.4,)),
    }
    return Data(known | arrays)


def lost(experiment, data):
    return [claim for claim, check in judge.claims(experiment, data).items() if not check.holds]


def test_the_claims_hold_and_the_record_draws_itself():
    data = record()
    assert lost(SMALL, data) == []
    assert all(number == number for number in judge.numbers(SMALL, data).values())
    for panel in SMALL.panels(data):
        panel.draw(Figure())


def test_another_threshold_and_a_better_law_are_seen():
    assert any("one norm is optimal" in claim for claim in lost(SMALL, record(threshold=named(0.46))))
    best = record().best
    best.values[1] -= 0.01
    assert any("no law is better" in claim for claim in lost(SMALL, record(best=best)))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "half loss"])
def test_sgd_follows_the_reduced_flow_unless_it_descends_another_loss(fault):
    """One run of a small network: 0.03 of the start risk from the flow, and 0.19 at half its speed; allowed 0.05."""
    experiment = SMALL.model_copy(update={"fault": fault})
    risk = experiment.train(KEY, 0.4)["risk"]
    sgd, flowed = risk.values
    off = np.abs(sgd - flowed).max() / flowed[0]
    assert (off < 0.05) == (fault == "none")


@pytest.mark.slow
def test_the_quick_run_holds_and_the_planted_mistake_is_seen(rehearse):
    rehearsal = rehearse(GaussianPair, KEY, deltas=(0.2, 0.6))
    assert not rehearsal.lost()
    (claim,) = rehearsal.lost("half loss", ("train",))
    assert claim.startswith("SGD is within 2%")
