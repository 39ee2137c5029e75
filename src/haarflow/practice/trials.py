"""Trials for a search of symmetries: data whose symmetry is known, so that one can see whether it is found.

What a search should find is `trial.action.fixed_basis()`. `FOUND` lists trials in which `discover` arrives there; the
trials of `MISSED` lie outside of what it promises, each for a reason of its own.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from haarflow.algebra.generated import Matrices
from haarflow.algebra.groups import Cyclic, Dihedral, PlanarRotations, Symmetric
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.dynamics.fields import Descend
from haarflow.learning.data import Data, Sample, Teacher
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import orbit_closure
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Dense, Quadratic, Unit
from haarflow.practice.discover import Discovery, discover
from haarflow.practice.escape import Training

TEMPERATURE, REPLICATES = 1e-6, 16


class Trial(NamedTuple):
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
    penalty: float = 2e-4

    @property
    def field(self) -> Descend:
        """Plain descent, which knows nothing of the group."""
        return Descend(Risk(self.unit, self.data, "square") + Penalty(self.penalty))

    def start(self, key: PRNGKeyArray) -> Cloud:
        """Gaussian atoms in the whole space; a search projects them. (By NumPy, which needs no compiling.)"""
        draw = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return uniform(self.deviation * draw.normal(size=(self.particles, self.unit.dim)))

    def training(self, key: PRNGKeyArray) -> Training:
        """How one round of the search trains."""
        return Training(key, self.dt, self.steps, REPLICATES, TEMPERATURE, False)

    def search(self, key: PRNGKeyArray, **options: Any) -> Discovery:
        """One discovery, with its own start and data; `options` go to `discover`."""
        begin, rest = jax.random.split(key)
        sizes = {"dt": self.dt, "steps": self.steps, "temperature": TEMPERATURE, "replicates": REPLICATES}
        ways = {"directions": self.directions, "ties": self.ties, "progress": False}
        return discover(self.field, self.start(begin), key=rest, **{**sizes, **ways, **options})


def equivariant(unit: Unit, on_x: Rep, on_y: Rep | None = None, **sizes: Any) -> Trial:
    """Gaussian inputs labelled by the orbit of five random particles: an equivariant law that no single one has.

    The group moves the outputs as it moves the inputs, unless told otherwise.
    """
    action = unit.action(on_x, on_x if on_y is None else on_y)
    atoms = 0.5 * np.random.default_rng(0).normal(size=(5, unit.dim))
    return Trial(unit, action, Teacher(unit, uniform(atoms).orbit(action), 20, scale=4.0), **sizes)


@cache
def digits() -> Trial:
    """scikit-learn's 8×8 digits and all their flips and quarter turns; the label is the digit's value over 9.

    Pixels are centred and scaled by the mean and deviation of their orbit, which commutes with the group.
    """
    from sklearn.datasets import load_digits

    pixels, values = load_digits(return_X_y=True)
    square, unit = Dihedral(4), Dense(64, 1, "sigmoid")
    on_x, on_y = image_rep(square, 8, 8), trivial_rep(square)
    sample = orbit_closure(Sample(pixels, values[:, None] / 9, 200), on_x, on_y)
    xs = np.asarray(sample.xs)
    scaled = Sample((xs - xs.mean(axis=0)[None]) / xs.std(axis=0)[None], sample.ys, sample.size)
    return Trial(unit, unit.action(on_x, on_y), scaled, particles=16, steps=150, directions=8)


def permutations() -> Trial:
    """S3 on three coordinates."""
    return equivariant(Dense(3, 3, "sigmoid"), natural_rep(Symmetric(3)))


def diagonal() -> Trial:
    """S3 again, but the teacher looks at each coordinate by itself: its data have more symmetry than S3.

    Its three atoms are repeated to the number of the other S3 teacher's: the same law, and the same program.
    """
    unit, action, *_ = permutations()
    atoms = np.tile(np.array([0.9, -0.4, 0.3])[:, None] * np.eye(3).reshape(1, 9), (10, 1))
    return Trial(unit, action, Teacher(unit, uniform(atoms), 20, scale=4.0))


def saddle() -> Trial:
    """<w, x>² under S3: its gradient vanishes at w = 0, whatever the data."""
    unit, on = Quadratic(3), natural_rep(Symmetric(3))
    action = unit.action(on, trivial_rep(on.group))
    return Trial(unit, action, Teacher(unit, uniform(np.ones((1, 3))), 20), steps=50, deviation=0.5, dt=0.01)


def mirror() -> Trial:
    """A mirror of R³ in a plane askew to the axes: E^G is that plane, which ties no coordinates."""
    normal = np.array([0.2, -0.5, 0.9]) / np.linalg.norm([0.2, -0.5, 0.9])
    group = Matrices(generators=(np.eye(3) - 2 * np.outer(normal, normal))[None])
    return equivariant(Dense(3, 1, "sigmoid"), natural_rep(group), trivial_rep(group))


FOUND: dict[str, Callable[[], Trial]] = {
    "quarter turns of the plane": lambda: equivariant(Dense(2, 2, "tanh"), natural_rep(PlanarRotations(4))),
    "S3 on three coordinates": permutations,
    "shifts of six coordinates": lambda: equivariant(
        Dense(6, 6, "sigmoid"), natural_rep(Cyclic(6)), steps=200, deviation=1.0, directions=5
    ),
    "D4 on 8×8 digits": digits,
}
MISSED: dict[str, Callable[[], Trial]] = {
    "mirror askew to the axes": mirror,
    "S3, teacher on the diagonal": diagonal,
    "S3, quadratic unit": saddle,
}
