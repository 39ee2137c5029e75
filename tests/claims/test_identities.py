"""The identities hold for every group, and each planted fault is seen by the verdicts that should see it."""

import jax
import numpy as np
import pytest

from haarflow.experiments.identities import Identities, cases

SEEN = {
    "no inverse": {"Prop 1", "Prop 2: R^FA", "Thm 4"},
    "half orbit": {"Prop 1", "Prop 2: R^FA", "Thm 3", "Thm 4", "Cor 1"},
    "one-sided action": {
        "Prop 1",
        "Prop 2: R^DA",
        "Prop 2: R^FA",
        "Prop 2: R(M_g",
        "Thm 3",
        "Thm 4",
        "Cor 1",
        "E^G",
    },
    "unclosed data": {"Prop 2: R^DA", "Prop 2: R(M_g", "Thm 3", "Thm 4", "Thm 5", "Thm 6", "Cor 1"},
}


@pytest.mark.parametrize("group", cases())
def test_the_identities_hold(group):
    assert Identities().errors(jax.random.key(0), group)["errors"].max() < 1e-12


@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_fault_is_seen_by_its_verdicts_and_by_no_other(fault):
    errors = dict(Identities(fault=fault).errors(jax.random.key(0), "C4 turns")["errors"].each("identity"))
    seen = {name for name, error in errors.items() if error > 1e-4}
    held = {name for name, error in errors.items() if error < 1e-12}
    assert seen | held == set(errors)
    assert seen == {name for name in errors if name.startswith(tuple(SEEN[fault]))}


def test_the_record_judges_and_draws_itself(rehearse, monkeypatch):
    few = {name: cases()[name] for name in ("C2 swap", "S3")}
    monkeypatch.setattr("haarflow.experiments.identities.cases", lambda: few)
    rehearsal = rehearse(Identities, jax.random.key(1), atoms=3, samples=2)
    assert not rehearsal.lost()
    np.testing.assert_allclose(rehearsal.shown()["Prop 4, best SI risk"], 0.078165, atol=5e-7)
    assert rehearsal.data().errors.dims == ("group", "identity")
