"""The grid solver has its orders, and steps that are not refined with the cells are seen."""

import jax
import pytest

from haarflow.experiments.fokker_planck import FokkerPlanck


@pytest.mark.slow
def test_the_claims_hold_draw_themselves_and_see_steps_that_stay_long(rehearse):
    rehearsal = rehearse(FokkerPlanck, jax.random.key(2))
    assert not rehearsal.lost()
    assert rehearsal.shown()
    lost = rehearsal.lost("one step for all", ("refinement d=1",))
    assert lost == {"Fokker–Planck: order in the cells, D = 1, between 1.8 and 2.2"}
