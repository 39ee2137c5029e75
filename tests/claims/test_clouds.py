"""The particle pictures: their claims at a small size, a planted fault, and the film in the report."""

import json

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments.clouds import AXES, Clouds
from haarflow.runs import style
from haarflow.runs.film import film


@pytest.fixture(scope="module")
def made():
    """All parts of a small run, in this process."""
    experiment = Clouds(particles=60)
    return experiment, {part: experiment.run(jax.random.key(0), part) for part in experiment.parts()}


def test_the_coordinates_split_the_fixed_space_from_the_rest():
    along, across = AXES[:2], AXES[2:]
    assert np.allclose(published.PROJECTOR, along.T @ along)
    assert np.allclose(published.ACTION.matrices()[1] @ across.T, -across.T)


def test_every_claim_holds(made):
    experiment, pieces = made
    judged = experiment.verdict(experiment.gather(pieces))
    assert all(check.holds for check in judged.values()), judged


def test_a_cloud_off_the_fixed_space_is_seen(made):
    experiment, pieces = made
    data = {name: array.copy() for name, array in experiment.gather(pieces).items()}
    data["SI weak/end"][1, 3, 2] += 1e-9
    data["WI weak/end"][2, :, 2] += 1.0
    fails = [claim for claim, check in experiment.verdict(data).items() if not check.holds]
    assert [claim.split(",")[0] for claim in fails] == ["from E^G", "DA and FA from a WI start are balanced about E^G"]


def test_the_panels_draw(made):
    experiment, pieces = made
    moving, *stills = experiment.panels(experiment.gather(pieces))
    parts = json.loads(film(moving, "salt").data)["parts"]
    assert [part["points"] for part in parts] == [60] * 8  # four schemes, two pairs of coordinates
    assert style.render(stills[0], "salt").startswith("<svg")
