"""The escape law: its claims on data as theory has them, its direction, and a batch that is not varied."""

import jax
import numpy as np
import pytest

from haarflow.experiments.escape_law import LAWS, EscapeLaw
from haarflow.runs import design, judge, style
from haarflow.runs.experiment import Data, named

KEY = jax.random.key(0)
SIZES = {"escape_sizes": (20, 80), "escape_steps": (0.25, 0.0625), "escape_batches": (5, 20)}
SMALL = EscapeLaw(escape_time=5.0, escape_repetitions=8, **SIZES)


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt."""
    draw = np.random.default_rng(0).lognormal(0.0, 0.3, 4)
    grids = {"n": SMALL.escape_sizes, "step": SMALL.escape_steps, "batch": SMALL.escape_batches}
    escapes = {
        array: named(
            1e-5 * np.outer(np.array(grids[along], float) ** power, draw), along, "run", **{along: grids[along]}
        )
        for array, (_, along, power, _) in LAWS.items()
    }
    return Data(escapes, lambda data: design.named_fits(SMALL, data))


def failing(data):
    return [claim for claim, check in judge.claims(SMALL, data).items() if not check.holds]


def test_what_theory_says_holds_and_draws_itself(data):
    assert not failing(data)
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))


def test_each_claim_sees_its_planted_fault(data):
    data["escape_still"].values[0] = 1.0
    (claim,) = failing(data)
    assert claim.startswith("escape law: W2² at a fixed step")


@pytest.mark.slow
def test_the_escape_has_its_direction(rehearse):
    rehearsal = rehearse(EscapeLaw, KEY, **SMALL.model_dump())
    found = {array: rehearsal.data().fits[name].value for array, (name, *_) in LAWS.items()}
    assert found["escape_step"] > 0.5
    assert found["escape_batch"] < -0.5
    assert found["escape_n"] < -0.5


@pytest.mark.slow
def test_a_batch_that_is_not_varied_is_seen():
    still = EscapeLaw(**SMALL.model_dump() | {"fault": "same batch"})
    few, many = (still.along_batch(KEY, batch)["escape_batch"] for batch in SMALL.escape_batches)
    np.testing.assert_allclose(few, many, rtol=1e-9)
