"""The particle pictures: their claims at a small size, a planted fault, and the film in the report."""

import base64
import io
import re

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments.clouds import AXES, Clouds
from haarflow.runs import judge, report, style
from haarflow.runs.experiment import Named, Panel


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
    assert len(made.shown()) == 36
    film, *stills = made.experiment.panels(made.data())
    assert film.movie is not None
    assert len(stills) == 3


def test_a_film_is_an_animated_gif_of_its_frames_and_the_same_bytes_each_time():
    from PIL import Image

    def movie(figure):
        (dot,) = figure.add_subplot().plot([0], [0], "o")
        return lambda frame: dot.set_ydata([frame / 100])

    panel = Panel.film("A dot", "It rises.", movie, 3, size=(2.0, 1.0))
    first = style.film(panel)
    assert first == style.film(panel)
    with Image.open(io.BytesIO(first)) as gif:
        assert (gif.n_frames, gif.size) == (3, (180, 90))
    assert style.render(panel, "still").startswith("<svg")
    html = report._picture(panel, "salt")
    embedded = re.search(r'src="data:image/gif;base64,([^"]+)"', html)
    assert embedded is not None
    assert base64.b64decode(embedded[1]) == first
