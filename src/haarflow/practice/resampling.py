"""Intervals from repeated cross-validation: folds overlap, so the variance of their mean is corrected for it.

The corrected resampled t interval of Nadeau and Bengio (2003): the mean of J differences has the variance
`(1/J + n_test/n_train) s²`, where s² is their sample variance, and J − 1 degrees of freedom.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its interval."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def corrected_interval(values: Float[np.ndarray, " j"], ratio: float, level: float) -> Interval:
    """The interval of the mean of values from J splits whose test part is `ratio` times their training part."""
    from scipy.stats import t

    mean, count = float(np.mean(values)), len(values)
    mean = mean if abs(mean) > 1e-12 * np.max(np.abs(values)) else 0.0  # differences that cancel but for rounding
    if count < 2:
        return Interval(mean, -np.inf, np.inf)
    error = float(np.sqrt((1 / count + ratio) * np.var(values, ddof=1)))
    half = float(t.ppf((1 + level) / 2, count - 1)) * error
    return Interval(mean, mean - half, mean + half)


def rows_to_separate(n: int, difference: Interval, tolerance: float) -> float:
    """About how many rows would tell a difference of this size from zero: the width falls like n^(-1/2)."""
    return n * (difference.half / max(abs(difference.mean), tolerance, 1e-300)) ** 2
