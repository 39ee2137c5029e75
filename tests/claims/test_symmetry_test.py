"""The tests of a symmetry keep their level in small, and each planted fault is seen."""

import jax
import numpy as np
import pytest

from haarflow.experiments.symmetry_test import SymmetryTest

KEY = jax.random.key(0)


def rate(p):
    return np.mean(np.asarray(p) <= 0.05 + 1e-9)


@pytest.mark.slow
def test_a_width_tuned_on_the_data_refutes_true_symmetries():
    """At most 3 of 40 in 86% of keys without the fault; with it about 6. The key is fixed."""
    honest, tuned = (SymmetryTest(fault=fault, copies=39) for fault in ("none", "bandwidth of the data"))
    rates = [rate(one.law(KEY, "0", 75, range(40))["law_p"]) for one in (honest, tuned)]
    assert rates[0] <= 0.125 < rates[1] + 0.05
    assert rates[1] > rates[0]


def test_fits_judged_on_rows_that_they_saw_make_a_true_symmetry_look_costly():
    honest, seen = (SymmetryTest(fault=fault) for fault in ("none", "residuals of the training rows"))
    costs = [np.mean(np.asarray(one.price(KEY, "0", 200, range(6))["cost"])) for one in (honest, seen)]
    assert costs[0] < 0.05
    assert costs[1] > costs[0] + 0.01
