"""Is a law invariant under a group? An exact test, at every number of rows.

If gX has the law of X, a row and its images under random elements are exchangeable. So a statistic of the data is
compared with the same statistic of copies in which every row is replaced by one of its images: the share of copies
that look no more symmetric than the data is a p-value that is never too small.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from haarflow.algebra.base import Finite
from haarflow.algebra.reps import Rep
from haarflow.practice.landmarks import Joined, Landmarks, Rows, blocks, drawn, how_many, landmarks

IMAGES = 16
"""Images of a row among which copies choose; all of them for groups up to this order."""

Tell = Callable[[float], None]


def law_test(
    rows: Rows | Joined, rep: Rep, draw: np.random.Generator, *, copies: int, tell: Tell, fault: str = "none"
) -> float:
    """The p-value of the hypothesis that the law of the rows is invariant.

    The statistic is the squared MMD, in the kernel of the landmarks, between the rows and all their images. With the
    fault "bandwidth of the data" the width is the one at which the data themselves look least symmetric.
    """
    images = _images(rep, len(rows))
    count = how_many(len(rows), images)
    marks = landmarks(rows, rep, draw, count=count)
    if fault == "bandwidth of the data":
        return _tuned(rows, rep, draw, copies, marks)
    return _share(_statistics(rows, rep, draw, copies, marks, tell))


def _images(rep: Rep, n: int) -> int:
    order = rep.group.order if isinstance(rep.group, Finite) else IMAGES
    return int(min(order, IMAGES if n <= 20_000 else IMAGES // 2))


def _share(statistics: Float[np.ndarray, " b"]) -> float:
    """How many of all, the data first, are at least as large as that of the data; ties up to rounding count."""
    return float(np.mean(statistics >= statistics[0] * (1 - 1e-9) - 1e-300))


def _statistics(rows: Rows | Joined, rep: Rep, draw: np.random.Generator, copies: int, marks: Landmarks, tell: Tell):
    """The squared MMD to the mean over the images, of the data and of every copy."""
    images = _images(rep, len(rows))
    sums = np.zeros((copies + 1, len(marks.points)))
    for block in blocks(len(rows)):
        here = rows[block]
        chosen = np.concatenate([np.zeros((1, len(here)), int), draw.integers(images, size=(copies, len(here)))])
        for image, values in enumerate(_values(here, rep, images, marks, draw)):
            sums += (chosen == image).astype(float) @ values - values.sum(axis=0) / images
        tell(block.stop / len(rows))
    return np.sum((sums / len(rows) @ marks.root) ** 2, axis=1)


def _values(rows: Rows, rep: Rep, images: int, marks: Landmarks, draw: np.random.Generator):
    """Kernel values of the rows in `images` positions, their own first."""
    whole = isinstance(rep.group, Finite) and rep.group.order == images
    for image in range(images):
        if image == 0:
            yield marks.values(rows)
        elif whole:
            yield marks.values(np.asarray(rep.action().chosen(np.array([image])).everywhere(rows)[0], np.float64))
        else:
            moves = rep.acting(drawn(rep.group, len(rows), draw))
            yield marks.values(np.asarray(moves.one_by_one(rows), np.float64))


def _tuned(rows: Rows | Joined, rep: Rep, draw: np.random.Generator, copies: int, marks: Landmarks) -> float:
    """The fault: the width at which the data look least symmetric, among seven."""
    best, found = -np.inf, 1.0
    for factor in (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5):
        narrow = landmarks(rows, rep, draw, count=len(marks.points), width=factor * marks.width)
        statistics = _statistics(rows, rep, draw, copies, narrow, lambda done: None)
        score = (statistics[0] - statistics[1:].mean()) / max(statistics[1:].std(), 1e-300)
        if score > best:
            best, found = score, _share(statistics)
    return found
