"""The optima agree, and planted faults are seen."""

import jax
import pytest

from haarflow.experiments.optima import Optima


@pytest.fixture(scope="module")
def made(rehearse):
    """All parts of a small run, in this process."""
    return rehearse(Optima, jax.random.key(1), orbits=12, samples=8)


def test_the_claims_hold_and_draw_themselves(made):
    assert not made.lost()
    assert len(made.shown()) > 20


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("unclosed data", {"Thm 2: the optima of DA", "Thm 2: with symmetric data", "Cor 1"}),
        ("no average", {"Thm 2: the optima of DA"}),
    ],
)
def test_planted_faults_are_seen(made, fault, seen):
    lost = made.lost(fault, again=("programs group=C2 swap",))
    assert len(lost) == len(seen)
    assert all(any(claim.startswith(begin) for claim in lost) for begin in seen)
