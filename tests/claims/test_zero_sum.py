"""The exact error is not beaten, unlike players meet, averages fall like 1/t; and each planted fault is seen."""

import jax
import pytest

from haarflow.experiments.zero_sum import ZeroSum
from haarflow.runs.experiment import power_law

KEY = jax.random.key(2)


def test_the_exact_error_is_not_beaten_unless_the_fault_makes_it_a_guess():
    assert ZeroSum(games=1).exactness(KEY)["beaten"] < 1e-12
    assert ZeroSum(games=1, fault="few responses").exactness(KEY)["beaten"] > 1e-2


@pytest.mark.slow
def test_the_claims_hold_and_see_what_is_planted(rehearse):
    rehearsal = rehearse(ZeroSum, KEY, dims=(2, 3), games=5, particles=24, horizon=200.0, dt=0.08)
    averaged = rehearsal.data().averaged.sel(d=3)
    for payoff in ("ℓa", "ℓb"):
        found = power_law(averaged.sel(payoff=payoff), along="time", over="game", since=2.0)
        assert -1.2 < found.value < -0.8
    kept = rehearsal.lost()
    assert not any("unlike" in claim or "random responses" in claim for claim in kept)
    assert any("averaged error" in claim for claim in rehearsal.lost("last law", ["play"]) - kept)
    assert any("unlike" in claim for claim in rehearsal.lost("both descend", ["unlike"]))
    assert rehearsal.shown()
