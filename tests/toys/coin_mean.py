"""The smallest experiment that uses everything."""

import jax
import numpy as np

from haarflow.runs import style
from haarflow.runs.experiment import Count, Experiment, NonNegative, Panel, Positive, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope


class CoinMean(Experiment):
    """The mean of n coins errs like `n^-1/2`.

    Source: Bernoulli, Ars Conjectandi, 1713.

    His urns hold 30 white and 20 black stones; ours are even.
    """

    group = "toys"
    tour_included = True

    sizes: tuple[Count, ...] = (10, 100, 1000)  # numbers of coins
    repetitions: Count = 20
    scale: Positive = 1.0
    temperature: NonNegative = 0.0
    coin: str = "fair"

    @classmethod
    def full(cls):
        """More of the same."""
        return cls(repetitions=40)

    def parts(self):
        """One part per size."""
        return [f"n={n}" for n in self.sizes]

    def run(self, key, part):
        """The errors at one size."""
        n = int(part.removeprefix("n="))
        flips = jax.random.normal(jax.random.fold_in(key, n), (self.repetitions, n))
        tell(0.5, "flipped")
        return {"error": self.scale * np.abs(np.asarray(flips.mean(axis=1)))}

    def gather(self, pieces):
        """One column per size."""
        errors = np.stack([piece["error"] for piece in pieces.values()], axis=1)
        return {"error": errors, "sizes": np.asarray(self.sizes)}

    def verdict(self, data):
        """A slope with its number, and a plain boolean."""
        return {
            "the slope lies between -0.8 and -0.2": between(self.figures(data)["slope"], -0.8, -0.2),
            "the errors are below 10": (data["error"] < 10).all(),
        }

    def figures(self, data):
        """The slope."""
        return {"slope": slope(data["sizes"], data["error"]).value, "largest error": data["error"].max()}

    def panels(self, data):
        """Boxes and a slope."""

        def draw(figure):
            left, right = figure.subplots(1, 2, sharey=True)
            style.boxes(left, data["sizes"], {"DA": data["error"]}, xlabel="coins $n$", ylabel="error")
            style.slopes(right, data["sizes"], {"DA": data["error"]}, xlabel="coins $n$")
            style.reference(right, data["sizes"], -0.5, 0.1)
            style.legend(right)

        return [Panel("Errors", "Boxes are quartiles over the repetitions.", draw)]
