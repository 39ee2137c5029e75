"""Numbers drawn from repetitions: power laws, with the band that repetitions allow."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from haarflow.doors import Above, door
from haarflow.errors import Refusal
from haarflow.runs.claims import Claim, above, below, between
from haarflow.runs.named import Named
from haarflow.values import numbers

Centre = Literal["median", "mean"]
CENTRES = {"median": np.median, "mean": np.mean}


@dataclass(frozen=True)
class Fit:
    """A power law `exp(level) · size^value` with the ends of its slope's band, shown wherever it is spoken of.

    Its name says what was fitted, `along` which sizes; claims, numbers and pictures are made from it.
    """

    value: float
    low: float
    high: float
    level: float
    sizes: tuple[float, ...] = ()
    along: str = "N"
    name: str = ""

    def __call__(self, sizes: Any) -> Any:
        """The fitted power law."""
        return np.exp(self.level) * numbers("A power law's sizes", sizes, numpy=True) ** self.value

    def called(self, name: str) -> "Fit":
        """The same fit under a name of its own."""
        return replace(self, name=name)

    def between(self, low: Any, high: Any) -> Claim:
        """The claim that the slope lies between two bounds."""
        return between(self._sentence, self.value, low, high)

    def below(self, bound: Any) -> Claim:
        """The claim that the slope lies below a bound."""
        return below(self._sentence, self.value, bound)

    def above(self, bound: Any) -> Claim:
        """The claim that the slope lies above a bound."""
        return above(self._sentence, self.value, bound)

    @property
    def _sentence(self) -> str:
        return f"{self.name}: slope in {self.along}"

    def numbers(self) -> dict[str, float]:
        """The slope and, where there is one, its band, by name."""
        band = {} if math.isnan(self.low) else {"low": self.low, "high": self.high}
        return {f"slope, {self.name}": self.value} | {f"slope, {self.name}, {end}": at for end, at in band.items()}

    @property
    def words(self) -> str:
        """The slope and its band as a legend says them: −0.98 [−1.10, −0.85]."""
        band = f" [{self.low:.2f}, {self.high:.2f}]" if math.isfinite(self.high - self.low) else ""
        return f"{self.value:.2f}{band}".replace("-", "−")

    def draw(self, axis: Any, **style: Any) -> None:
        """The line of the fit over the sizes it was made of."""
        ends = np.array([min(self.sizes), max(self.sizes)])
        axis.plot(ends, self(ends), **{"linewidth": 1.0, "alpha": 0.6, **style})

    def facts(self) -> dict[str, Any]:
        """The fit as JSON has it; `Fit.of` reads it."""
        return {
            name: None if isinstance(fact, float) and not math.isfinite(fact) else fact
            for name, fact in asdict(self).items()
        }

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "Fit":
        """The fit that a record keeps."""
        known = {name: math.nan if fact is None else fact for name, fact in facts.items()}
        return cls(**{**known, "sizes": tuple(facts["sizes"])})


@door
def power_law(
    array: Named,
    *,
    along: str,
    since: float | None = None,
    over: str = "run",
    centre: Centre = "median",
    confidence: Annotated[float, Above(0)] | None = 0.95,
) -> Fit:
    """The power law of an array along the labels of one axis, its centre taken over another, which it need not have.

    Sizes below `since` are left out, unless fewer than two would stay; so are sizes at which nothing was measured.
    """
    rows = array.transpose(over, along) if over in array.dims else array.transpose(along)
    sizes = np.asarray(array.labels(along), float)
    kept = ~np.isnan(rows.values).all(axis=0) if rows.ndim == 2 else ~np.isnan(rows.values)
    if since is not None and (late := kept & (sizes >= since)).sum() > 1:
        kept = late
    fit = slope(sizes[kept], rows.values[..., kept], centre=centre, confidence=confidence)
    return replace(fit, along=along)


@door
def slope(
    sizes: Any, values: Any, *, centre: Centre = "median", confidence: Annotated[float, Above(0)] | None = 0.95
) -> Fit:
    """The slope of log values against log sizes; values is (repetitions, sizes), and its centre is fitted.

    The band is a percentile bootstrap over repetitions (with a fixed seed, so that it is a function of the
    data), or the least-squares one when there is a single repetition; without a confidence there is none.
    """
    sizes, values = numbers("slope's sizes", sizes, numpy=True), numbers("slope's values", values, numpy=True)
    values = values[None, :] if values.ndim == 1 else values
    _check(sizes, values)
    if confidence is not None and confidence >= 1:
        raise Refusal(f"slope's confidence lies between 0 and 1; got {confidence}. Write 0.95, or None for no band.")
    value, level, spread = _fit(sizes, CENTRES[centre](values, axis=0), confidence or 0.95)
    low, high = value - spread, value + spread
    if confidence is None:
        low, high = math.nan, math.nan
    elif len(values) > 1:
        low, high = _band(sizes, values, CENTRES[centre], confidence)
    return Fit(value, low, high, level, tuple(sizes.tolist()))


def first_below(
    times: Float[np.ndarray, " k"], values: Float[np.ndarray, "..."], level: float, *, axis: int = -1
) -> Float[np.ndarray, "..."]:
    """When curves along an axis first fall below a level, between records on a logarithmic scale; infinite if never."""

    def one(curve: Float[np.ndarray, " k"]) -> float:
        after = int(np.argmax(curve < level))
        if not curve[after] < level:
            return math.inf
        if after == 0:
            return float(times[0])
        here, there = np.log(curve[after - 1 : after + 1])
        return times[after - 1] + (times[after] - times[after - 1]) * (here - math.log(level)) / (here - there)

    return np.apply_along_axis(one, axis, values)


def _fit(sizes: Any, centres: Float[np.ndarray, " s"], confidence: float) -> tuple[float, float, float]:
    from scipy.stats import linregress, t

    fit: Any = linregress(np.log(sizes), np.log(centres))
    spread = float(fit.stderr * t.ppf((1 + confidence) / 2, len(sizes) - 2)) if len(sizes) > 2 else np.inf
    return float(fit.slope), float(fit.intercept), spread


def _band(sizes: Any, values: Any, middle: Any, confidence: float) -> tuple[float, float]:
    from scipy.stats import bootstrap

    def resampled(rows: Any, axis: int) -> Any:
        """The slopes of many resamples at once; rows is (..., repetitions)."""
        centres = np.log(middle(values[rows], axis=-2))
        return np.polyfit(np.log(sizes), centres.reshape(-1, len(sizes)).T, 1)[0].reshape(rows.shape[:-1])

    options = {"vectorized": True, "method": "percentile", "n_resamples": 1999, "confidence_level": confidence}
    rows = (np.arange(len(values)),)
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
