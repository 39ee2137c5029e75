"""The statements about training that hold for every group and model, measured in one compiled flow.

Six runs: plain descent on orbit-closed data from an orbit-closed start (WI) and from a fixed start (SI); and, from the
fixed start with shared minibatches and shared projected noise, plain, DA, FA and EA.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.doors import Count, door
from haarflow.dynamics.fields import Descend, restrict
from haarflow.dynamics.flow import flow
from haarflow.dynamics.paths import Path
from haarflow.dynamics.schemes import Euler, Noisy
from haarflow.learning.data import Data, Sample
from haarflow.learning.risks import Functional, Penalty, Risk
from haarflow.learning.symmetry import augment, average
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.models.units import Unit
from haarflow.practice.testing import matrices, moved

SCHEMES = ("plain", "DA", "FA", "EA")
STATEMENTS = ("free training keeps WI", "closed data keep SI", "DA, FA and EA agree", "DA, FA and EA stay SI")


class Task(NamedTuple):
    """What is trained: the risk of a model on data, the risk of its average, and how the group acts."""

    risk: Callable[[Data], Functional]
    averaged: Callable[[Data], Functional]
    on_x: Rep
    on_y: Rep
    action: Rep
    elements: np.ndarray | None = None

    def matrices(self, rep: Rep) -> Float[np.ndarray, "g k k"]:
        """A representation at every element of the group, or at those that stand for it."""
        return matrices(rep, self.elements)


class Size(NamedTuple):
    """How much is trained."""

    atoms: int = 2
    fixed: int = 8
    samples: int = 6
    batch: int = 3
    steps: int = 300
    horizon: float = 15.0
    tau: float = 1e-3
    temperature: float = 1e-4


@door
def check_training(
    key: PRNGKeyArray, unit: Unit, on_x: Rep, on_y: Rep, *, elements: Any = None, steps: Count = 300
) -> dict[str, float]:
    """How far each statement about training fails for a unit under a group, over one flow of six runs.

    Free training on orbit-closed data keeps weak invariance, and from a fixed start strong invariance; from a fixed
    start, with shared minibatches and projected noise, DA, FA and EA are one and the same process.
    """
    task = unit_task(unit, on_x, on_y, elements)
    found = statements(task, train(key, task, Size(steps=steps)))
    return {name: float(found[name]) for name in STATEMENTS}


def unit_task(unit: Unit, on_x: Rep, on_y: Rep, elements: np.ndarray | None = None) -> Task:
    """The task of a network that is the average of one unit."""
    mean = average(unit, on_x, on_y, elements=elements)
    action = unit.action(on_x, on_y)
    return Task(lambda data: Risk(unit, data), lambda data: Risk(mean, data), on_x, on_y, action, elements)


def train(key: PRNGKeyArray, task: Task, size: Size, *, closed: bool = True, progress: Any = False) -> dict[str, Path]:
    """Six runs: WI and SI on closed data; plain, DA, FA and EA from a fixed start. Not `closed`: one image is lost."""
    draw = generator(key)
    xs = draw.normal(size=(size.samples, task.on_x.dim))
    ys = draw.normal(size=(size.samples, task.on_y.dim))
    whole = closed_sample(task, xs, ys, slice(None) if closed else slice(1, None))
    batches = Sample(xs, ys, size.batch)
    p, projector = task.action.dim, task.action.fixed_projector()
    orbit = uniform(moved(task.matrices(task.action), 0.7 * draw.normal(size=(size.atoms, p))))
    fixed = uniform(draw.normal(size=(size.fixed, p)) @ projector)
    penalty = Penalty(size.tau)
    plain = Descend(task.risk(batches) + penalty)
    augmented = augment(batches, task.on_x, task.on_y, exact=True, elements=task.elements)
    fields = {
        "WI": Descend(task.risk(whole) + penalty),
        "SI": Descend(task.risk(whole) + penalty),
        "plain": plain,
        "DA": Descend(task.risk(augmented) + penalty),
        "FA": Descend(task.averaged(batches) + penalty),
        "EA": restrict(plain, projector),
    }
    noisy = Noisy(Euler(), size.temperature, projector=projector)
    return flow(
        fields,
        {name: noisy if name in SCHEMES else Euler() for name in fields},
        {name: orbit if name == "WI" else fixed for name in fields},
        key=key,
        dt=size.horizon / size.steps,
        steps=size.steps,
        probes={"atoms": lambda cloud: cloud.atoms},
        every=max(1, size.steps // 10),
        progress=progress,
    )


def statements(task: Task, paths: dict[str, Path]) -> dict[str, np.ndarray]:
    """How far each statement fails, over the recorded times; and how far plain training leaves the fixed space."""
    off = np.eye(task.action.dim) - task.action.fixed_projector()
    away = {name: _distance(paths[name], off) for name in ("SI", *SCHEMES)}
    atoms = {name: paths[name].probes["atoms"] for name in SCHEMES}
    return {
        "free training keeps WI": np.asarray(pairing(task, paths["WI"].cloud)),
        "closed data keep SI": np.asarray(away["SI"].max()),
        "DA, FA and EA agree": np.asarray(max(np.abs(atoms["DA"] - atoms[other]).max() for other in ("FA", "EA"))),
        "DA, FA and EA stay SI": np.asarray(max(away[name].max() for name in ("DA", "FA", "EA"))),
        "plain leaves": np.asarray(away["plain"][-1]),
        "moved": np.asarray(np.abs(np.diff(paths["WI"].probes["atoms"][[0, -1]], axis=0)).max()),
        "times": np.asarray(paths["plain"].times),
        "away": np.stack([away[name] for name in SCHEMES]),
    }


def pairing(task: Task, cloud: Cloud) -> float:
    """How far a cloud is from the orbit of its first atoms, particle by particle."""
    images = task.matrices(task.action)
    rows = np.asarray(cloud.atoms).reshape(len(images), -1, cloud.p)
    return float(np.abs(np.einsum("gij,nj->gni", images, rows[0]) - rows).max())


def _distance(path: Path, off: np.ndarray) -> np.ndarray:
    """The distance to strong invariance, W2(mu, P # mu), at the recorded times."""
    return np.sqrt(np.mean(np.sum((path.probes["atoms"] @ off) ** 2, axis=-1), axis=-1))


def closed_sample(task: Task, xs: np.ndarray, ys: np.ndarray, kept: slice = slice(None)) -> Sample:
    """Every pair and all its images, but for those that are not kept."""
    into, out = (moved(task.matrices(rep), rows)[kept] for rep, rows in ((task.on_x, xs), (task.on_y, ys)))
    return Sample(jnp.asarray(into), jnp.asarray(out))
