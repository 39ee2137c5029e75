"""The particle pictures: their claims at a small size, a planted fault, and the film in the report."""

import json

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments.clouds import AXES, Clouds
from haarflow.runs import judge, style
from haarflow.runs.experiment import Named
from haarflow.runs.film import film


@pytest.fixture(scope="module")
def made(rehearse):
    """All parts of a small run, in this process."""
    return rehearse(Clouds, jax.random.key(0), particles=60)


def test_the_coordinates_split_the_fixed_space_from_the_rest():
    along, across = AXES[:2], AXES[2:]
    assert np.allclose(published.PROJECTOR, along.T @ along)
    assert np.allclose(published.ACTION.matrices()[1] @ across.T, -across.T)


def test_every_claim_holds(made):
    assert not made.lost()


def test_the_film_ends_where_its_particles_end(made):
    data = made.data()
    end = data.end.sel(teacher="arbitrary", start="WI")
    np.testing.assert_allclose(data.film.isel(time=-1).values, end.values, atol=1e-9)
    assert data.times[-1] == 1000.0


def test_a_cloud_off_the_fixed_space_is_seen(made):
    data = made.data()
    end = data.end.values.copy()
    end[1, 1, 1, 3, 2] += 1e-9  # the weak teacher, SI start, DA
    end[1, 0, 2, :, 2] += 1.0  # the weak teacher, WI start, FA
    spoilt = data.replaced(end=Named(end, data.end.dims, data.end.coords))
    fails = [claim for claim, check in judge.claims(made.experiment, spoilt).items() if not check.holds]
    assert [claim.split(",")[0] for claim in fails] == [
        "from E^G",
        "DA and FA from a WI start are balanced about E^G: n |(I − P) mean|² / W2² below 10",
    ]


def test_the_panels_draw(made):
    moving, *stills = made.experiment.panels(made.data())
    parts = json.loads(film(moving, "salt").data)["parts"]
    assert [part["points"] for part in parts] == [60] * 8  # four schemes, two pairs of coordinates
    assert len(stills) == 3
    assert style.render(stills[0], "salt").startswith("<svg")
