"""Strong invariance costs what it should, and a loss of another size is seen."""

import jax
import pytest

from haarflow.experiments.strong_optima import StrongOptima


@pytest.fixture(scope="module")
def made(rehearse):
    """All parts of a small run, in this process."""
    sizes = {"fixed": (4, 16, 64), "inputs": 30, "repetitions": 2, "rings": 20}
    return rehearse(StrongOptima, jax.random.key(1), **sizes, steps=2000)


def test_the_claims_hold_and_draw_themselves(made):
    assert not made.lost()
    assert len(made.shown()) > 8


def test_half_the_loss_is_seen_on_the_line_and_in_the_plane(made):
    lost = made.lost("half loss", again=("line", "plane"))
    assert {claim.split(":")[0] for claim in lost} == {"Prop 4, line", "Prop 4, plane"}
