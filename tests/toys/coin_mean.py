"""The smallest experiment that uses everything."""

import jax
import numpy as np

from haarflow.runs import style
from haarflow.runs.experiment import (
    Count,
    Experiment,
    NonNegative,
    Positive,
    Sizes,
    holds,
    named,
    over,
    panel,
    power_law,
)
from haarflow.runs.watchers import tell


class CoinMean(Experiment):
    """The mean of n coins errs like `n^-1/2`.

    Source: Bernoulli, Ars Conjectandi, 1713.

    His urns hold 30 white and 20 black stones; ours are even.
    """

    group = "toys"
    tour_included = True

    sizes: Sizes = (10, 100, 1000)  # numbers of coins
    repetitions: Count = 20
    scale: Positive = 1.0
    temperature: NonNegative = 0.0
    coin: str = "fair"

    @classmethod
    def full(cls):
        """More of the same."""
        return cls(repetitions=40)

    def design(self):
        """One part per size."""
        yield self.flip, over(n=self.sizes)

    def flip(self, key, n):
        """The errors at one size."""
        flips = jax.random.normal(jax.random.fold_in(key, n), (self.repetitions, n))
        tell(0.5, "flipped")
        return {"error": named(self.scale * np.abs(np.asarray(flips.mean(axis=1))), "run")}

    def fits(self, data):
        """The slope."""
        return {"the error": power_law(data.error, along="n")}

    def claims(self, data):
        """A slope with its number, and a plain boolean."""
        yield data.fits["the error"].between(-0.8, -0.2)
        yield holds("the errors are below 10", (data.error < 10).all())

    def numbers(self, data):
        """One more."""
        return {"largest error": data.error.max()}

    @panel("Errors", "Boxes are quartiles over the {repetitions} repetitions.", columns=2, sharey=True)
    def errors(self, axes, data):
        """Boxes and a slope."""
        left, right = axes
        style.boxes(left, *style.series_of(data.error, along="n"), xlabel="coins $n$", ylabel="error", colours=["DA"])
        style.power_laws(right, data.error, along="n", fits={"": data.fits["the error"]}, power=-0.5, colours=["DA"])
        style.legend(right)
