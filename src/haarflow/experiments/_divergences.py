"""What the experiments on divergences share: eight Gaussians, and the picture of a gain."""

import numpy as np

from haarflow.runs.style import colour, marker

CIRCLE = (1, 2, 4, 8)  # the rotations that an estimator of eight Gaussians is told


def ring(draw, n: int, deviation: float):
    """n draws of eight Gaussians on the unit circle."""
    angles = np.pi / 4 * draw.integers(8, size=n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) + deviation * draw.normal(size=(n, 2))


def gains(axis, groups, values, order: int, label: str) -> None:
    """The mean of the first group over that of each, with two standard errors."""
    means, errors = values.mean("run").values, values.sem("run").values
    bars = 2 * means[0] / means * np.hypot(errors[0] / means[0], errors / means)
    look = {"color": colour(order), "marker": marker(order), "linestyle": "none", "label": label}
    axis.errorbar(groups, means[0] / means, bars, **look)
