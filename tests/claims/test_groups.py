"""The statements hold for finite and infinite groups, and planted faults are seen where they should be."""

import jax
import pytest

from haarflow.experiments import groups
from haarflow.experiments.groups import Groups

KEY = jax.random.key(2)
SMALL = {"atoms": 3, "samples": 3, "steps": 40}


@pytest.fixture(scope="module")
def made(rehearse):
    """All parts of a small run, with one finite group beside the two infinite ones."""
    with pytest.MonkeyPatch.context() as patch:
        few = {"S3": groups.finite_cases()["S3"]}
        patch.setattr(groups, "finite_cases", lambda: few)
        yield rehearse(Groups, KEY, **SMALL)


def test_the_claims_hold_and_draw_themselves(made):
    assert not made.lost()
    assert made.shown()


@pytest.mark.parametrize(
    ("fault", "part", "seen"),
    [
        ("unclosed data", "statements group=S3", {"identities, finite groups", "Thm 3", "Thm 5"}),
        (
            "too few turns",
            "statements group=SO(3)",
            {"identities, SO(2) and SO(3), quadratic unit", "Thm 5", "Thm 6", "Thm 6: they stay"},
        ),
    ],
)
def test_lost_data_and_too_few_rotations_are_seen(made, fault, part, seen):
    lost = made.lost(fault, again=(part,))
    assert len(lost) == len(seen)
    assert all(any(claim.startswith(begin) for claim in lost) for begin in seen)


def test_a_finite_group_meets_every_statement():
    found = Groups(**SMALL).statements(KEY, "S3")
    assert found["failures"].max() < 1e-12
    assert found["identities"].max() < 1e-12
    assert found["leaves"] > 1e-3
