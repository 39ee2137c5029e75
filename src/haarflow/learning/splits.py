"""A sample in parts: folds of equal size for replicates, and rows held back to validate or test with."""

from typing import Annotated

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from haarflow.doors import Above, Below, Count, door
from haarflow.errors import Refusal
from haarflow.learning.data import Sample


@door
def folds(key: PRNGKeyArray, sample: Sample, count: Count) -> list[Sample]:
    """`count` samples of equal size, to which the rows of one are dealt out at random: data for replicates."""
    m = len(sample.xs)
    if count > m:
        raise Refusal(
            f"The folds of a sample have at least one row each; got {count} folds of {m} rows. "
            f"Write a count from 1 to {m}."
        )
    rows = np.asarray(jax.random.permutation(key, m))[: m - m % count].reshape(count, -1)
    return [sample.holding(sample.xs[here], sample.ys[here]) for here in rows]


@door
def split(key: PRNGKeyArray, sample: Sample, share: Annotated[float, Above(0), Below(1)]) -> tuple[Sample, Sample]:
    """The rows of a sample at random in two: those to train on, and a `share` of them to validate with.

    For example `train, held = split(jax.random.key(0), sample, 0.2)`. Every label keeps its share up to one row
    (a stratified split), and both parts keep the order of the rows. A batch size goes with both.
    """
    m = len(sample.xs)
    order, held = _by_label(key, np.asarray(sample.ys)), np.zeros(m, bool)
    held[order] = np.diff(np.floor(share * np.arange(m + 1) + 0.5)) > 0  # evenly along the order, round(share m) in all
    if not held.any() or held.all():
        instead = f"Write a share from {1 / m:.2g} to {1 - 1 / m:.2g}." if m > 1 else "Write a sample of more rows."
        raise Refusal(f"Both parts of a split have at least one row; got a share of {share:g} of {m} rows. {instead}")
    train, kept = (sample.holding(sample.xs[rows], sample.ys[rows]) for rows in (~held, held))
    return train, kept


def _by_label(key: PRNGKeyArray, ys: np.ndarray) -> np.ndarray:
    """The rows in random order, those of one label behind each other, and the labels in random order too."""
    shuffled = np.asarray(jax.random.permutation(key, len(ys)))
    _, first, label = np.unique(ys[shuffled], axis=0, return_index=True, return_inverse=True)
    return shuffled[np.argsort(first[label.ravel()], kind="stable")]
