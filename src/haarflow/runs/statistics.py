"""Numbers drawn from repetitions: slopes on log-log axes, with the band that repetitions allow."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal, one_of

CENTRES = {"median": np.median, "mean": np.mean}


class Slope(NamedTuple):
    """A log-log slope, the ends of its confidence band, and the line exp(level) * size**value."""

    value: float
    low: float
    high: float
    level: float

    def __call__(self, sizes: Any) -> Any:
        """The fitted power law."""
        return np.exp(self.level) * np.asarray(sizes, float) ** self.value


def slope(sizes: Any, values: Any, *, centre: str = "median", confidence: float | None = 0.95) -> Slope:
    """The slope of log values against log sizes; values is (repetitions, sizes), and its centre is fitted.

    The band is a percentile bootstrap over repetitions (with a fixed seed, so that it is a function of the
    data), or the least-squares one when there is a single repetition; without a confidence there is none.
    """
    middle = CENTRES[one_of("The centre of repetitions", centre, CENTRES)]
    sizes, values = np.asarray(sizes, float), np.asarray(values, float)
    values = values[None, :] if values.ndim == 1 else values
    _check(sizes, values)
    value, level, spread = _fit(sizes, middle(values, axis=0))
    if confidence is None:
        return Slope(value, np.nan, np.nan, level)
    if len(values) == 1:
        return Slope(value, value - spread, value + spread, level)
    low, high = _band(sizes, values, middle, confidence)
    return Slope(value, low, high, level)


def _fit(sizes: Float[np.ndarray, " s"], centres: Float[np.ndarray, " s"]) -> tuple[float, float, float]:
    from scipy.stats import linregress, t

    fit: Any = linregress(np.log(sizes), np.log(centres))
    spread = float(fit.stderr * t.ppf(0.975, len(sizes) - 2)) if len(sizes) > 2 else np.inf
    return float(fit.slope), float(fit.intercept), spread


def _band(sizes: Any, values: Any, middle: Any, confidence: float) -> tuple[float, float]:
    from scipy.stats import bootstrap

    def resampled(rows: Any, axis: int) -> Any:
        """The slopes of many resamples at once; rows is (..., repetitions)."""
        centres = np.log(middle(values[rows], axis=-2))
        return np.polyfit(np.log(sizes), centres.reshape(-1, len(sizes)).T, 1)[0].reshape(rows.shape[:-1])

    rows = (np.arange(len(values)),)
    options = {
        "vectorized": True,
        "method": "percentile",
        "n_resamples": 1999,
        "confidence_level": confidence,
    }
    band = bootstrap(rows, resampled, rng=np.random.default_rng(0), **options).confidence_interval
    return float(band.low), float(band.high)


def _check(sizes: Any, values: Any) -> None:
    if sizes.ndim != 1 or values.ndim != 2 or values.shape[1] != len(sizes) or len(np.unique(sizes)) < 2:
        raise Refusal(
            "A slope needs s sizes, at least two different, and values (repetitions, s); "
            f"got sizes {sizes.shape} and values {values.shape}."
        )
    if not (np.all(sizes > 0) and np.all(values > 0) and np.all(np.isfinite(values))):
        raise Refusal(
            "A log-log slope needs positive finite sizes and values; "
            f"got values from {values.min():g} to {values.max():g}."
        )
