"""One fit of one candidate on one split: its loss on the test rows, how equivariant it is, and what it cost."""

import time
import tracemalloc
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from haarflow.practice.acting_on import Acting
from haarflow.practice.audit import equivariance_error
from haarflow.practice.candidates import parameters_of
from haarflow.practice.penalties import chosen_penalty

AUDITED = 100  # test rows whose orbits say how equivariant a candidate is


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


FACTS = ("loss", "equivariance error", "train", "predict", "memory", "parameters", "penalty")


def measured(
    task: Task,
    estimator: Any,
    train: Int[np.ndarray, " a"],
    test: Int[np.ndarray, " b"],
    *,
    penalty: str | None,
    audit: bool,
) -> dict[str, float]:
    """Fit a fresh copy and measure its loss and its time; or, with `audit`, how equivariant it is, and its memory.

    The setting `penalty` is chosen first, on the training rows alone; the time is that of the fit with what was chosen.
    The memory is what the fit allocated at most, in MB; a fit that is watched so closely takes longer, and tells no
    time.
    """
    from sklearn.base import clone

    made: Any = clone(estimator)
    chosen = np.nan
    if penalty is not None:
        chosen = chosen_penalty(estimator, penalty, task.y, train, task.seed, partial(_loss_of, task))
        made.set_params(**{penalty: chosen})
    if audit:
        tracemalloc.start()
    begin = time.perf_counter()
    try:
        made.fit(task.x[train], task.y[train])
        fitted = time.perf_counter()
        held = tracemalloc.get_traced_memory()[1] / 1e6 if audit else np.nan
    finally:
        if audit:
            tracemalloc.stop()
    middle = time.perf_counter()
    said = made.predict(task.x[test])
    ended = time.perf_counter()
    return {
        "loss": loss(task, said, task.y[test]),
        "equivariance error": _equivariance_error(task, made, task.x[test][:AUDITED]) if audit else np.nan,
        "train": np.nan if audit else fitted - begin,
        "predict": np.nan if audit else ended - middle,
        "memory": float(held),
        "parameters": float(parameters_of(made)),
        "penalty": float(chosen),
    }


def _loss_of(task: Task, estimator: Any, train: Int[np.ndarray, " a"], test: Int[np.ndarray, " b"]) -> float:
    """The loss on test rows of a copy that is fitted on training rows."""
    from sklearn.base import clone

    made: Any = clone(estimator)
    made.fit(task.x[train], task.y[train])
    return loss(task, made.predict(task.x[test]), task.y[test])


def loss(task: Task, said: np.ndarray, labels: np.ndarray) -> float:
    """The share of wrong classes; or the mean square error as a share of the variance of the labels."""
    if task.classes is not None:
        return float(np.mean(said != labels))
    return float(np.mean((np.asarray(said).reshape(labels.shape) - labels) ** 2) / task.spread)


def _equivariance_error(task: Task, made: Any, x: Float[np.ndarray, "b d"]) -> float:
    """`E|f − Qf|² / E|f|²` over the orbits of some rows."""
    on_x, on_y = task.acting.on_x, task.acting.on_y
    return equivariance_error(partial(_values, task, made), x, on_x, on_y, key=task.seed).relative


def _values(task: Task, made: Any, x: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b c"]:
    """What a fitted estimator says, as numbers: probabilities, indicators of classes, or values."""
    if task.classes is None:
        return np.asarray(made.predict(x), float).reshape(len(x), -1)
    if hasattr(made, "predict_proba") and len(made.classes_) == len(task.classes):
        return np.asarray(made.predict_proba(x), float)
    return (np.asarray(made.predict(x))[:, None] == task.classes[None]).astype(float)
