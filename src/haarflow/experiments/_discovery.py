"""The settings of the discovery experiment: data with a symmetry, and how to look for it."""

from functools import cache
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from haarflow.algebra.generated import Matrices
from haarflow.algebra.given import image
from haarflow.algebra.groups import Cyclic, Dihedral, Rotations, Symmetric
from haarflow.algebra.reps import Rep, natural, trivial
from haarflow.dynamics.fields import Descend, Field
from haarflow.experiments import _published as published
from haarflow.learning.data import Data, Sample, Teacher
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import close
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Dense, Quadratic, Unit
from haarflow.practice.discover import Discovery, discover

TAU, TEMPERATURE, REPLICATES = 1e-4, 1e-6, 16


class Setting(NamedTuple):
    """A unit, the action of the group on its parameters, data, and the size of the search."""

    unit: Unit
    action: Rep
    data: Data
    particles: int = 24
    dt: float = 0.4
    steps: int = 250
    deviation: float = 2.0
    directions: int = 1
    ties: float = 5.0

    @property
    def field(self) -> Field:
        """Plain descent, which knows nothing of the group."""
        return Descend(Risk(self.unit, self.data, "square") + Penalty(2 * TAU))

    def start(self, key: PRNGKeyArray) -> Cloud:
        """Gaussian atoms in the whole space; discovery projects them. (By NumPy, which needs no compiling.)"""
        draw = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return uniform(self.deviation * draw.normal(size=(self.particles, self.unit.dim)))

    def search(self, key: PRNGKeyArray, **options) -> Discovery:
        """One discovery, with its own start and data."""
        begin, rest = jax.random.split(key)
        sizes = {"dt": self.dt, "steps": self.steps, "temperature": TEMPERATURE, "replicates": REPLICATES}
        ways = {"directions": self.directions, "ties": self.ties, "progress": False}
        return discover(self.field, self.start(begin), key=rest, **{**sizes, **ways, **options})


def _equivariant(unit: Unit, on_x: Rep, on_y: Rep, *, batch: int = 20, **sizes) -> Setting:
    """Gaussian inputs labelled by the orbit of five random particles: an equivariant law that no single one has."""
    action = unit.action(on_x, on_y)
    atoms = 0.5 * np.random.default_rng(0).normal(size=(5, unit.dim))
    return Setting(unit, action, Teacher(unit, uniform(atoms).orbit(action), batch, scale=4.0), **sizes)


def _swap(particles: int = 20, horizon: int = 20) -> Setting:
    """The published example with its WI teacher, step 20/N."""
    data = published.task("weak", 20)
    return Setting(published.UNIT, published.ACTION, data, particles, 20 / particles, horizon * particles)


def _turns() -> Setting:
    on = natural(Rotations(4))
    return _equivariant(Dense(2, 2, "tanh"), on, on)


def _permutations() -> Setting:
    on = natural(Symmetric(3))
    return _equivariant(Dense(3, 3, "sigmoid"), on, on)


def _shifts() -> Setting:
    on = natural(Cyclic(6))
    return _equivariant(Dense(6, 6, "sigmoid"), on, on, steps=200, deviation=1.0, directions=5)


@cache
def _digits() -> Sample:
    """scikit-learn's 8×8 digits and all their flips and quarter turns; the label is the digit's value over 9.

    Pixels are centred and scaled by the mean and deviation of their orbit, which commutes with the group.
    """
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    square = Dihedral(4)
    sample = close(Sample(pixels, digits[:, None] / 9, 200), image(square, 8, 8), trivial(square))
    xs = np.asarray(sample.xs)
    return Sample((xs - xs.mean(axis=0)[None]) / xs.std(axis=0)[None], sample.ys, sample.size)


def _images() -> Setting:
    square = Dihedral(4)
    unit = Dense(64, 1, "sigmoid")
    action = unit.action(image(square, 8, 8), trivial(square))
    return Setting(unit, action, _digits(), particles=16, steps=150, directions=8)


def _diagonal() -> Setting:
    """S3 again, but the teacher looks at each coordinate by itself: its data have more symmetry than S3.

    Its three atoms are repeated to the number of the other S3 teacher's: the same law, and the same program.
    """
    unit, action, *_ = _permutations()
    atoms = np.tile(np.array([0.9, -0.4, 0.3])[:, None] * np.eye(3).reshape(1, 9), (10, 1))
    return Setting(unit, action, Teacher(unit, uniform(atoms), 20, scale=4.0))


def _saddle() -> Setting:
    """<w, x>² under S3: its gradient vanishes at w = 0, whatever the data."""
    unit, on = Quadratic(3), natural(Symmetric(3))
    action = unit.action(on, trivial(on.group))
    return Setting(unit, action, Teacher(unit, uniform(np.ones((1, 3))), 20), steps=50, deviation=0.5, dt=0.01)


def _untied() -> Setting:
    """The published example, but nothing is tied: E keeps the tilt of its estimate, and training leaves it."""
    return _swap()._replace(ties=0.0)


def _mirror() -> Setting:
    """A mirror of R³ in a plane askew to the axes: E^G is that plane, which ties no coordinates."""
    normal = np.array([0.2, -0.5, 0.9]) / np.linalg.norm([0.2, -0.5, 0.9])
    group = Matrices(generators=(np.eye(3) - 2 * np.outer(normal, normal))[None])
    unit = Dense(3, 1, "sigmoid")
    return _equivariant(unit, natural(group), trivial(group))


FOUND = {
    "swap of two coordinates": _swap,
    "quarter turns of the plane": _turns,
    "S3 on three coordinates": _permutations,
    "shifts of six coordinates": _shifts,
    "D4 on 8×8 digits": _images,
}
SHAPES = dict(zip(FOUND, [(2, 2), (2, 2), (3, 3), (6, 6), (8, 8)], strict=True))  # of the pictures of one unit
MISSED = {
    "swap, nothing tied": _untied,
    "mirror askew to the axes": _mirror,
    "S3, teacher on the diagonal": _diagonal,
    "S3, quadratic unit": _saddle,
}


@cache
def setting(name: str, **options: int) -> Setting:
    """The setting of that name."""
    return {**FOUND, **MISSED}[name](**options)
