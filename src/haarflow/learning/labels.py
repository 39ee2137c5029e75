"""Labels as a loss or a metric takes them: real numbers, signs, or a probability for each class.

A rule turns the labels that people have into those, or refuses them; what it gives, it leaves alone. It reads the
values where they are known, and the shape where they are traced.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from haarflow.errors import Refusal


@dataclass(frozen=True)
class Labels:
    """Labels ys (m, c), or their shape alone, and the names of the classes whose indicators they are, if they are."""

    ys: Any
    classes: tuple[str, ...] = ()

    @property
    def known(self) -> Float[np.ndarray, "m c"] | None:
        """The values; None where there is a shape alone, where they are traced, or on another machine."""
        here = isinstance(self.ys, jax.Array) and not isinstance(self.ys, Tracer) and self.ys.is_fully_addressable
        return np.asarray(self.ys) if here else None


def reals(owner: str, labels: Labels, outputs: int | None) -> Any:
    """As many real numbers as there are outputs."""
    return _of_width(owner, labels.ys, outputs)


def signs(owner: str, labels: Labels, outputs: int | None) -> Any:
    """A sign ±1 for each output; 0 and 1 become −1 and 1, and so do the first and second of two classes."""
    ys = labels.ys[:, 1:] if len(labels.classes) == 2 and outputs == 1 else labels.ys
    found = Labels(_of_width(owner, ys, outputs)).known
    if found is None or np.isin(found, (-1, 1)).all():
        return ys
    if np.isin(found, (0, 1)).all():
        return 2 * ys - 1
    seen = [f"{value:g}" for value in np.unique(found)]
    raise Refusal(
        f"{owner} takes labels -1 and 1, or 0 and 1; got {', '.join(seen[:4])}{', ...' * (len(seen) > 4)}. "
        "Write jnp.where(ys > threshold, 1.0, -1.0), or a loss for real numbers such as 'half-square'."
    )


def probabilities(owner: str, labels: Labels, outputs: int | None) -> Any:
    """A probability for each class, an output for each class; indices 0, 1, ... become indicators, and so do signs."""
    if outputs == 1:
        raise Refusal(
            f"{owner} compares two or more classes, one output for each; got one output, for which it is always 0. "
            "Write a unit with as many outputs as classes, or 'logistic' for two classes and one output."
        )
    indices = labels.ys.shape[1] == 1 and not labels.classes
    ys = _indicators(owner, labels, outputs) if indices else labels.ys
    found = Labels(_of_width(owner, ys, outputs)).known
    slack = 1e-6 if ys.dtype == jnp.float64 else 1e-4
    if found is not None and not ((found >= 0).all() and (np.abs(found.sum(axis=1) - 1) <= slack).all()):
        row = int(np.argmax((found < 0).any(axis=1) | (np.abs(found.sum(axis=1) - 1) > slack)))
        raise Refusal(
            f"{owner} takes a probability for each class, >= 0 and of sum one; got {found[row].tolist()} in row {row}. "
            "Write class names, indices 0, 1, ..., or rows with a single one."
        )
    return ys


def _indicators(owner: str, labels: Labels, outputs: int | None) -> Any:
    """Indices as rows with a single one; the signs of two classes are their indices −1 and 1."""
    found = labels.known
    if found is None or outputs is None:
        raise Refusal(
            f"{owner} takes indices of classes in a Sample only, and for a unit; got one label in a row here. "
            f"Write jax.nn.one_hot(labels, {outputs or 'classes'})."
        )
    signed = outputs == 2 and np.isin(found, (-1, 1)).all() and (found == -1).any()
    index = (found[:, 0] + 1) / 2 if signed else found[:, 0]
    if not np.isin(index, np.arange(outputs)).all():
        raise Refusal(
            f"{owner} takes class indices 0 to {outputs - 1} for {outputs} outputs; got "
            f"{index[~np.isin(index, np.arange(outputs))][0]:g}. Write indices from 0 on, or class names."
        )
    return jax.nn.one_hot(jnp.asarray(index.astype(int)), outputs, dtype=labels.ys.dtype)


def _of_width(owner: str, ys: Any, outputs: int | None) -> Any:
    if outputs is not None and ys.shape[1] != outputs:
        raise Refusal(
            f"{owner} compares each output with a label of its own; got outputs in R^{outputs} and labels in "
            f"R^{ys.shape[1]}. Write a unit with outputs={ys.shape[1]}, or labels of shape (m, {outputs})."
        )
    return ys


def kept(kind: str, ys: Float[np.ndarray, "b c"]) -> bool:
    """Whether a batch is labelled as a rule leaves it; in NumPy, for data that stay on the host."""
    if kind == "signs":
        return bool(np.isin(ys, (-1, 1)).all())
    return kind == "reals" or bool((ys >= 0).all() and (np.abs(ys.sum(axis=1) - 1) <= 1e-4).all())


RULES = {"reals": reals, "signs": signs, "probabilities": probabilities}
WORDS = {"reals": "real numbers", "signs": "labels -1 and 1", "probabilities": "a probability for each class"}
