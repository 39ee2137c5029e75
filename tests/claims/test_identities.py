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


@pytest.mark.parametrize("case", cases())
def test_the_identities_hold(case):
    errors = Identities().errors(jax.random.key(0), cases()[case])
    assert max(float(error) for error in errors.values()) < 1e-12


@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_fault_is_seen_by_its_verdicts_and_by_no_other(fault):
    errors = Identities(fault=fault).errors(jax.random.key(0), cases()["C4 turns"])
    seen = {name for name, error in errors.items() if float(error) > 1e-4}
    held = {name for name, error in errors.items() if float(error) < 1e-12}
    assert seen | held == set(errors)
    assert seen == {name for name in errors if name.startswith(tuple(SEEN[fault]))}


def test_the_record_judges_and_draws_itself():
    from matplotlib.figure import Figure

    experiment = Identities(atoms=3, samples=2)
    key = jax.random.key(1)
    pieces = {part: dict(experiment.run(key, part)) for part in ("C2 swap", "S3", "Prop 4")}
    data = experiment.gather(pieces)
    assert all(check.holds for check in experiment.verdict(data).values())
    np.testing.assert_allclose(float(data["strong"]), 0.078165, atol=5e-7)
    (panel,) = experiment.panels(data)
    panel.draw(Figure())
