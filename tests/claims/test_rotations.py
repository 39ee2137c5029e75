"""Finitely many rotations stand for all of them with a certified error, and too few of them are seen."""

import jax
import pytest

from haarflow.experiments.rotations import Rotations

KEY = jax.random.key(2)
SMALL = {"atoms": 3, "samples": 3, "steps": 40, "circle": (16, 32, 64), "draws": 400}


@pytest.fixture(scope="module")
def made(rehearse):
    """All parts of a small run."""
    return rehearse(Rotations, KEY, **SMALL)


def test_the_claims_hold_and_draw_themselves(made):
    assert not made.lost()
    assert made.shown()


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        ("certificates space=SO(3), unit=quadratic", {"SO(3), quadratic unit", "SO(2) and SO(3)"}),
        ("spheres unit=quadratic", {"SO(3): free training keeps the quadratic network invariant"}),
    ],
)
def test_too_few_rotations_are_seen(made, part, seen):
    lost = made.lost("too few turns", again=(part,))
    assert len(lost) == len(seen)
    assert all(any(claim.startswith(begin) for claim in lost) for begin in seen)


def test_rotations_average_alike_in_every_coset_unless_they_are_too_few():
    assert Rotations(**SMALL).certificates(KEY, "SO(2)", "quadratic")["cosets"] < 1e-12
    few = Rotations(**SMALL, fault="too few turns")
    assert few.certificates(KEY, "SO(2)", "quadratic")["cosets"] > 1e-4


def test_a_smooth_network_is_averaged_the_better_the_more_rotations():
    errors = Rotations(**SMALL).decay(KEY, "gate")["decay"]
    assert errors.sel(turns=128) < 0.1 * errors.sel(turns=2)
    assert Rotations(**SMALL).decay(KEY, "quadratic")["decay"].sel(turns=lambda n: n > 2).max() < 1e-12
