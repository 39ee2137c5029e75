"""The audit of models holds its claims, and sees what is planted."""

import jax
import pytest

from haarflow.experiments.model_audit import ModelAudit

KEY = jax.random.key(4)


@pytest.mark.parametrize(("fault", "right"), [("none", True), ("wrong size", False)])
def test_a_known_error_is_measured(fault, right):
    assert (abs(ModelAudit(fault=fault).known(KEY)["known_error"]) < 1e-3) == right


@pytest.mark.slow
def test_the_claims_hold_and_see_what_is_planted(rehearse):
    rehearsal = rehearse(ModelAudit, KEY)
    assert not rehearsal.lost()
    assert any("averaged forest" in one for one in rehearsal.lost("half average", ["others model=averaged forest"]))
    assert rehearsal.shown()
