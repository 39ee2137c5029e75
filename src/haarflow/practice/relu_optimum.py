"""What sparse ReLU learning finds: a network with few neurons, and the certificate that no network is better."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from haarflow.annotations import kind_of
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.neurons import Neuron
from haarflow.models.units import Perceptron, Unit
from haarflow.values import numbers


def lifted(x: Float[np.ndarray, "b d"], bias: str) -> Float[np.ndarray, "b k"]:
    """The inputs with a column of ones, where neurons have a bias."""
    return x if bias == "none" else np.column_stack([x, np.ones(len(x))])


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """Why no network is better: the dual function `eta(w) = mean_i (y_i − f(x_i)) relu(<w, x_i>)` stays below a bound.

    `bound` is proved to be at least `sup |eta|` over all directions of length one; `attained` is the largest value
    found, at `direction`. At an optimum both are the penalty. `proof` says what the bound rests on.
    """

    bound: float
    attained: float
    direction: Float[np.ndarray, " k"]
    proof: str
    residuals: Float[np.ndarray, " b"]
    inputs: Float[np.ndarray, "b k"]

    def eta(self, directions: Any) -> Float[np.ndarray, " n"]:
        """The dual function at directions (n, k); k is d, or d + 1 with the bias last."""
        given = numbers("eta's table of directions", directions, numpy=True)
        if given.ndim != 2 or given.shape[1] != self.inputs.shape[1]:
            raise Refusal(
                f"eta takes directions (n, {self.inputs.shape[1]}), the bias last where there is one; got the shape "
                f"{given.shape}. Write certificate.direction[None], for example."
            )
        return np.maximum(given @ self.inputs.T, 0.0) @ self.residuals / len(self.residuals)


@dataclass(frozen=True, eq=False, repr=False)
class ReluOptimum:
    """A network `f(x) = Σ_j c_j relu(<w_j, x> + b_j) + offset` that is optimal up to `gap`, and the proof of it.

    `directions` (n, d), or (n, d + 1) with the biases last, have length one (without the bias, where it is free), and
    `norm` is `Σ|c_j|`, the variation norm. `objective` is what was minimised: no network has less than
    `objective − gap`. `unit` and `cloud` are the same network for `network`, `Risk` and `flow`; `table()` and
    `to_pandas()` list the neurons, `draw(axis)` draws on the line.
    """

    directions: Float[np.ndarray, "n k"]
    coefficients: Float[np.ndarray, " n"]
    offset: float
    objective: float
    gap: float
    certificate: Certificate
    penalty: float
    bias: str
    xs: Float[np.ndarray, "b d"]
    ys: Float[np.ndarray, " b"]

    @property
    def norm(self) -> float:
        """The variation norm `Σ|c_j|`."""
        return float(np.abs(self.coefficients).sum())

    @property
    def n(self) -> int:
        """The number of neurons."""
        return len(self.coefficients)

    def predict(self, xs: Any) -> Float[np.ndarray, " b"]:
        """The outputs (b,) on inputs (b, d), in float64."""
        given, d = numbers("predict's table of inputs", xs, numpy=True), self.xs.shape[1]
        if given.ndim != 2 or given.shape[1] != d:
            raise Refusal(
                f"predict takes inputs (b, {d}); got the shape {given.shape}. For inputs on the line write xs[:, None]."
            )
        hidden = np.maximum(lifted(given, self.bias) @ self.directions.T, 0.0)
        return hidden @ self.coefficients + self.offset

    @property
    def unit(self) -> Unit:
        """What one neuron computes: a Neuron, or a Perceptron where there is a bias."""
        d = self.xs.shape[1]
        return Neuron(d) if self.bias == "none" else Perceptron(d)

    @property
    def cloud(self) -> Cloud:
        """The neurons as particles of `unit`, of equal weight and balanced: |a| is the length of (w, b).

        Then `Risk(unit, Sample(xs, ys))(cloud) + Penalty(penalty)(cloud)` is the objective, where the bias is not free;
        a free one is left out of the length, and the offset is a neuron with w = 0. Without neurons, one that is zero.
        """
        n = self.n + (self.offset != 0)
        scale = np.sqrt(max(n, 1) * np.abs(self.coefficients))[:, None]
        atoms = np.column_stack([np.sign(self.coefficients)[:, None] * scale, scale * self.directions])
        if self.offset:
            root = np.sqrt(n * abs(self.offset))
            atoms = np.vstack([atoms, [np.sign(self.offset) * root, *np.zeros(self.xs.shape[1]), root]])
        return uniform(atoms if len(atoms) else np.zeros((1, 1 + self.certificate.inputs.shape[1])))

    def table(self) -> dict[str, np.ndarray]:
        """The neurons in columns: coefficient, weights w[0], w[1], ..., and bias where there is one."""
        d = self.xs.shape[1]
        columns = {"coefficient": self.coefficients} | {f"w[{j}]": self.directions[:, j] for j in range(d)}
        return columns if self.bias == "none" else columns | {"bias": self.directions[:, d]}

    def to_pandas(self) -> Any:
        """`table()` as a DataFrame of pandas, where pandas is installed."""
        try:
            import pandas  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise Refusal(
                "to_pandas makes a DataFrame; got no pandas in this environment. Write optimum.table(), a dict of "
                "columns, or install pandas."
            ) from None
        return pandas.DataFrame(self.table())

    def draw(self, axis: Any) -> Any:
        """Draw data, function and knots of a problem on the line into an axis of matplotlib; returns the axis."""
        if self.xs.shape[1] != 1 or not hasattr(axis, "plot"):
            got = f"inputs in R^{self.xs.shape[1]}" if self.xs.shape[1] != 1 else kind_of(axis)
            raise Refusal(
                f"draw shows a function on the line in an axis of matplotlib; got {got}. Write predict(xs) and draw a "
                "slice of it."
            )
        low, high = self.xs.min(), self.xs.max()
        knots = self._knots()
        places = np.unique(np.concatenate([np.linspace(low, high, 400), knots]))
        axis.plot(self.xs[:, 0], self.ys, "o", markersize=3.5, alpha=0.5, label="data")
        axis.plot(places, self.predict(places[:, None]), label=f"optimum, {self.n} neurons")
        axis.plot(knots, self.predict(knots[:, None]), "o", markerfacecolor="none", color="black", label="knots")
        axis.set_xlabel("x")
        axis.legend()
        return axis

    def _knots(self) -> Float[np.ndarray, " n"]:
        """Where neurons on the line switch on, within the data."""
        slopes = self.directions[:, 0]
        biases = self.directions[:, 1] if self.bias != "none" else np.zeros(self.n)
        turning = np.abs(slopes) > 1e-12
        places = -biases[turning] / slopes[turning]
        return np.unique(places[(places >= self.xs.min()) & (places <= self.xs.max())])

    def __repr__(self) -> str:
        b, d = self.xs.shape
        best = self.certificate
        return (
            f"ReluOptimum of {b} pairs in R^{d}, penalty {self.penalty:g}, bias {self.bias}\n"
            f"  neurons    {self.n}, of norm {self.norm:.6g}\n"
            f"  objective  {self.objective:.8g}, optimal up to a proved gap of {self.gap:.1e}\n"
            f"  sup |eta|  {best.attained:.8g} attained, {best.bound:.8g} proved {best.proof}"
        )
