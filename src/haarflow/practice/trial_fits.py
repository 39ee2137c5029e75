"""One fit of one candidate on one split: its loss on the test rows, how equivariant it is, and what it cost."""

import time
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from haarflow.practice.acting_on import Acting
from haarflow.practice.candidates import parameters_of


class Task(NamedTuple):
    """The rows, what kind of labels they have, and how the group acts on them."""

    x: Float[np.ndarray, "n d"]
    y: np.ndarray
    classes: np.ndarray | None
    acting: Acting
    seed: int

    @property
    def spread(self) -> float:
        """What a loss is divided by: the variance of real labels; one for classes."""
        return 1.0 if self.classes is not None else float(np.mean((self.y - self.y.mean(axis=0)) ** 2))


FACTS = ("loss", "asymmetry", "train", "predict", "memory", "parameters")


def measured(
    task: Task, estimator: Any, train: Int[np.ndarray, " a"], test: Int[np.ndarray, " b"], *, memory: bool
) -> dict[str, float]:
    """Fit a fresh copy and measure it; with `memory`, what the fit allocated at most, in MB, and no time."""
    from sklearn.base import clone

    made: Any = clone(estimator)
    if memory:
        tracemalloc.start()
    begin = time.perf_counter()
    try:
        made.fit(task.x[train], task.y[train])
        fitted = time.perf_counter()
        held = tracemalloc.get_traced_memory()[1] / 1e6 if memory else np.nan
    finally:
        if memory:
            tracemalloc.stop()
    middle = time.perf_counter()
    said = made.predict(task.x[test])
    ended = time.perf_counter()
    return {
        "loss": loss(task, said, task.y[test]),
        "asymmetry": asymmetry_of(task, made, task.x[test]),
        "train": np.nan if memory else fitted - begin,
        "predict": np.nan if memory else ended - middle,
        "memory": float(held),
        "parameters": float(parameters_of(made)),
    }


def loss(task: Task, said: np.ndarray, labels: np.ndarray) -> float:
    """The share of wrong classes; or the mean square error as a share of the variance of the labels."""
    if task.classes is not None:
        return float(np.mean(said != labels))
    return float(np.mean((np.asarray(said).reshape(labels.shape) - labels) ** 2) / task.spread)


def asymmetry_of(task: Task, made: Any, x: Float[np.ndarray, "b d"]) -> float:
    """`E|f − Qf|² / E|f|²` over the orbits of the rows, from two random images of each."""
    elements = [task.acting.drawn(task.seed + turn, len(x)) for turn in (1, 2)]
    moved = [np.asarray(task.acting.on_inputs(one).one_by_one(x)) for one in elements]
    values = [_values(task, made, rows) for rows in moved]
    back = [
        np.asarray(task.acting.on_outputs(one).inverse.one_by_one(v)) for one, v in zip(elements, values, strict=True)
    ]
    size = float(np.mean(np.sum(back[0] ** 2 + back[1] ** 2, axis=1)) / 2)
    gap = float(np.mean(np.sum((back[0] - back[1]) ** 2, axis=1)) / 2)
    return gap / size if size > 0 else 0.0


def _values(task: Task, made: Any, x: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b c"]:
    """What a fitted estimator says, as numbers: probabilities, indicators of classes, or values."""
    if task.classes is None:
        return np.asarray(made.predict(x), float).reshape(len(x), -1)
    if hasattr(made, "predict_proba") and len(made.classes_) == len(task.classes):
        return np.asarray(made.predict_proba(x), float)
    return (np.asarray(made.predict(x))[:, None] == task.classes[None]).astype(float)
