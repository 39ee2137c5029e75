"""The plain equation conserves mass and the printed one does not; a grid that does not converge is seen."""

import jax
import numpy as np
import pytest

from haarflow.experiments.continuity import ORDER, Continuity
from haarflow.runs import judge
from haarflow.runs.experiment import named


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Continuity, jax.random.key(1), refinements=2)


def test_the_claims_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.slow
def test_the_printed_term_is_seen(rehearsal):
    assert rehearsal.lost("printed", ("grid",)) == {"grid: the continuity equation conserves mass to 1e-12"}


def test_a_grid_that_does_not_converge_is_seen(rehearsal):
    data = rehearsal.data().replaced(moments=named(np.ones((2, 4)), "cells", "moment", cells=(28, 56)))
    (claim,) = [words for words, check in judge.claims(rehearsal.experiment, data).items() if not check.holds]
    assert ORDER in claim
