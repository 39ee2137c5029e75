"""Digits as sets at a small size; padding that counts, and labels of other images, lose their claims."""

import jax
import pytest

from haarflow.experiments.point_clouds import PointClouds

pytestmark = pytest.mark.slow
KEY = jax.random.key(3)
SMALL = {"images": 150, "runs": 1, "neurons": 8, "inner": 3, "frozen": 10, "outer": 12, "steps": 40, "batch": 20}


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(PointClouds, KEY, **SMALL)


def test_order_and_padding_change_nothing(rehearsal):
    assert not any(claim.startswith("Order") for claim in rehearsal.lost())
    assert rehearsal.shown()["accuracy, hand-made, 100% of the points"] > 0.3


def test_padding_that_counts_is_seen(rehearsal):
    assert any(claim.startswith("Order") for claim in rehearsal.lost("padding counts", ("padding",)))


def test_labels_of_other_images_are_not_learnt(rehearsal):
    lost = rehearsal.lost("shuffled labels", ("reading model=S1", "reading model=Deep Sets"))
    assert {"S1", "Deep Sets"} <= {claim.split(":")[0] for claim in lost}
