"""What `decide` answers: the table of candidates with intervals, the recommendation, and the learning curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from haarflow.annotations import a
from haarflow.practice.answers import Answer
from haarflow.practice.candidates import AUGMENT, BY_COST, MODELS, PLAIN
from haarflow.practice.resampling import Interval, corrected_interval, rows_to_separate

ROUNDING = 1e-12  # of the losses: a smaller difference is none

THEORY = (
    "Augmenting and averaging reach the same optimum, averaging never has a higher risk than plain where the law is "
    "invariant, and building in can lose where the fixed space is small."
)


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Answer):
    """Which way to use a symmetry on a model, from repeated cross-validation on the same splits.

    A candidate is excluded if the interval of its loss minus that of the best lies above zero. `cheapest` is the
    cheapest of the others, and the answer. The cheapest of all is plain, so that few rows, which exclude nothing,
    would always say plain, as if it were known to be enough. Two sorts of plain are therefore told apart.
    `recommended` is plain where nothing can be better by more than the tolerance, at the end of its interval; where
    something can, the data cannot separate the two, `recommended` is None, and `rows` is about how many rows would.
    Where plain is excluded, no tolerance is asked for: `recommended` is the cheapest of what is left.
    `losses` (candidates, splits) are those on test rows, `costs` what each candidate took, `curve` the losses (sizes,
    candidates, splits) when trained on fewer rows, `sizes` how many, and `left_out` says why a candidate is missing.
    `penalty` is the setting that each candidate chose for itself; the table has the median of what it chose.
    """

    model: str
    group: str
    n: int
    budget: str
    loss: str
    names: tuple[str, ...]
    losses: Float[np.ndarray, "c j"]
    costs: dict[str, list[float]]
    shares: tuple[float, ...]
    ratio: float
    level: float
    tolerance: float
    sizes: tuple[int, ...]
    curve: Float[np.ndarray, "s c k"]
    left_out: dict[str, str]
    penalty: str | None = None

    def interval(self, name: str, against: str | None = None) -> Interval:
        """The test loss of a candidate with its interval, or its difference to another one's on the same splits."""
        values = self.losses[self.names.index(name)]
        if against is not None:
            values = values - self.losses[self.names.index(against)]
            values = np.where(np.abs(values) > ROUNDING * np.max(np.abs(self.losses)), values, 0.0)
        return corrected_interval(values, self.ratio, self.level)

    @property
    def best(self) -> str:
        """The candidate with the least mean loss."""
        return self.names[int(np.argmin(self.losses.mean(axis=1)))]

    @property
    def eligible(self) -> tuple[str, ...]:
        """The candidates that are not excluded: the interval of the difference to the best one reaches zero."""
        return tuple(name for name in self.names if name == self.best or self.interval(name, self.best).low <= 0)

    @property
    def cheapest(self) -> str:
        """Of the candidates that are not excluded, the cheapest by its kind: the clock has no say in it."""
        return min(self.eligible, key=BY_COST.index)

    @property
    def recommended(self) -> str | None:
        """The candidate to use; None where one may be better than plain by more than the tolerance, or may not."""
        if PLAIN not in self.eligible:
            return self.cheapest
        return None if self.rival is not None else PLAIN

    @property
    def rival(self) -> str | None:
        """The candidate that may be better than plain by more than the tolerance, and most so, though it need not."""
        others = [(self.interval(name, PLAIN).low, name) for name in self.names if name != PLAIN]
        low, name = min(others, default=(0.0, PLAIN))
        return name if low < -self.tolerance else None

    @property
    def rows(self) -> float | None:
        """About how many rows would tell; None where the data do."""
        if self.recommended is not None or self.rival is None:
            return None
        return rows_to_separate(self.n, self.interval(self.rival, PLAIN), self.tolerance)

    @property
    def augmenting_helps_up_to(self) -> int | None:
        """The largest number of training rows at which augmenting is better than plain for certain."""
        if AUGMENT not in self.names:
            return None
        gaps = self.curve[:, self.names.index(AUGMENT)] - self.curve[:, self.names.index(PLAIN)]
        helped = [n for n, gap in zip(self.sizes, gaps, strict=True) if _interval(gap, self.ratio, self.level).high < 0]
        return max(helped, default=None)

    def sentence(self) -> str:
        about = f"for {_inside(self.model)} on {self.n} rows under {self.group}"
        if self.recommended is None:
            rival = str(self.rival)
            gap, more = self.interval(rival, PLAIN), min(self.rows or 0.0, 1e12)
            return (
                f"Cannot tell {about}: {rival} minus plain is {gap} in {self.loss}; about {_round(more)} rows would "
                "separate them, and until then plain is the simplest."
            )
        if self.recommended == PLAIN:
            closest = min((n for n in self.names if n != PLAIN), key=lambda n: self.interval(n, PLAIN).mean)
            return (
                f"Stay plain {about}: no candidate is better by more than {self.tolerance:g} in {self.loss}; the "
                f"closest, {closest}, minus plain is {self.interval(closest, PLAIN)}."
            )
        gap = self.interval(self.recommended, PLAIN)
        return (
            f"{self.recommended.capitalize()} {about}: it is the cheapest kind of those that the best does not "
            f"exclude, and minus plain it is {gap} in {self.loss}."
        )

    def table(self) -> dict[str, list]:
        losses = [self.interval(name) for name in self.names]
        gaps = [self.interval(name, PLAIN) for name in self.names]
        known = {
            "candidate": list(self.names),
            "loss": [one.mean for one in losses],
            "loss low": [one.low for one in losses],
            "loss high": [one.high for one in losses],
            "minus plain": [one.mean for one in gaps],
            "minus plain low": [one.low for one in gaps],
            "minus plain high": [one.high for one in gaps],
            "excluded": [name not in self.eligible for name in self.names],
            "equivariance error": self.costs["equivariance error"],
            "seconds to train": self.costs["train"],
            "seconds to predict": self.costs["predict"],
            "memory MB": self.costs["memory"],
            "parameters": [int(count) for count in self.costs["parameters"]],
        }
        known |= {self.penalty: self.costs["penalty"]} if self.penalty is not None else {}
        return known | ({"share of rows": list(self.shares)} if self.budget == "equal-seconds" else {})

    def draw(self, axis: Any) -> Any:
        """The test loss of every candidate with its interval, the recommended one filled."""
        for place, name in enumerate(self.names):
            one, chosen = self.interval(name), name == self.recommended
            paint = "C0" if name in self.eligible else "0.6"
            axis.errorbar(
                one.mean,
                place,
                xerr=one.half,
                fmt="o",
                color=paint,
                capsize=3,
                markersize=8,
                markerfacecolor=paint if chosen else "white",
            )
        axis.set_yticks(range(len(self.names)), self.names)
        axis.set_ylim(len(self.names) - 0.5, -0.5)
        axis.set_xlabel(self.loss)
        return axis

    def draw_curve(self, axis: Any) -> Any:
        """The mean test loss of every candidate against the number of rows that it was trained on."""
        for place, name in enumerate(self.names):
            axis.plot(self.sizes, np.nanmean(self.curve[:, place], axis=1), "o-", label=name, color=f"C{place}")
        axis.set(xscale="log", xlabel="training rows", ylabel=self.loss)
        axis.set_xticks(self.sizes, [str(size) for size in self.sizes])
        axis.set_xticks([], minor=True)
        axis.legend(fontsize="small")
        return axis


def _interval(values: np.ndarray, ratio: float, level: float) -> Interval:
    known = values[np.isfinite(values)]
    return corrected_interval(known, ratio, level) if len(known) > 1 else Interval(np.nan, -np.inf, np.inf)


def _inside(model: str) -> str:
    """A model with its article, inside a sentence."""
    named = f"{model} model" if model in MODELS else model
    return a(named)[0].lower() + a(named)[1:]


def _round(rows: float) -> str:
    """A number of rows with two digits."""
    if rows >= 1e9:
        return "more than a billion"
    digits = max(0, len(str(int(rows))) - 2)
    return f"{round(rows, -digits):,.0f}"
