"""Numbers drawn from repetitions: slopes on log-log axes, with the band that repetitions allow."""

import functools
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.doors import Above, door
from haarflow.errors import Refusal
from haarflow.values import numbers

CENTRES = {"median": np.median, "mean": np.mean}


class Slope(NamedTuple):
    """A log-log slope, the ends of its confidence band, and the line exp(level) * size**value."""

    value: float
    low: float
    high: float
    level: float

    def __call__(self, sizes: Any) -> Any:
        """The fitted power law."""
        return np.exp(self.level) * numbers("A power law's sizes", sizes, numpy=True) ** self.value


@door
def slope(
    sizes: Any,
    values: Any,
    *,
    centre: Literal["median", "mean"] = "median",
    confidence: Annotated[float, Above(0)] | None = 0.95,
) -> Slope:
    """The slope of log values against log sizes; values is (repetitions, sizes), and its centre is fitted.

    The band is a percentile bootstrap over repetitions (with a fixed seed, so that it is a function of the
    data), or the least-squares one when there is a single repetition; without a confidence there is none.
    """
    middle = CENTRES[centre]
    sizes, values = numbers("slope's sizes", sizes, numpy=True), numbers("slope's values", values, numpy=True)
    values = values[None, :] if values.ndim == 1 else values
    _check(sizes, values)
    if confidence is not None and confidence >= 1:
        raise Refusal(f"slope's confidence lies between 0 and 1; got {confidence}. Write 0.95, or None for no band.")
    value, level, spread = _fit(sizes, middle(values, axis=0))
    if confidence is None:
        return Slope(value, np.nan, np.nan, level)
    if len(values) == 1:
        return Slope(value, value - spread, value + spread, level)
    low, high = _band(sizes.tobytes(), values.tobytes(), len(sizes), centre, confidence)
    return Slope(value, low, high, level)


def _fit(sizes: Float[np.ndarray, " s"], centres: Float[np.ndarray, " s"]) -> tuple[float, float, float]:
    from scipy.stats import linregress, t

    fit: Any = linregress(np.log(sizes), np.log(centres))
    spread = float(fit.stderr * t.ppf(0.975, len(sizes) - 2)) if len(sizes) > 2 else np.inf
    return float(fit.slope), float(fit.intercept), spread


@functools.lru_cache(maxsize=1024)
def _band(sizes_: bytes, values_: bytes, count: int, centre: str, confidence: float) -> tuple[float, float]:
    """Resampled once, for the verdict and for the pictures that show it."""
    from scipy.stats import bootstrap

    sizes, middle = np.frombuffer(sizes_), CENTRES[centre]
    values = np.frombuffer(values_).reshape(-1, count)

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
    fitting = sizes.ndim == 1 and values.ndim == 2 and len(values) > 0 and values.shape[1] == len(sizes)
    if not fitting or len(np.unique(sizes)) < 2:
        raise Refusal(
            "A slope needs s sizes, at least two different, and values (repetitions, s); "
            f"got sizes {sizes.shape} and values {values.shape}."
        )
    for what, numbers_ in (("sizes", sizes), ("values", values)):
        if not np.all(numbers_ > 0):
            raise Refusal(
                "A log-log slope needs positive finite sizes and values; "
                f"got {what} from {numbers_.min():g} to {numbers_.max():g}."
            )
