"""Sparse ReLU learning, exactly: the network of least variation norm that fits labels, and the proof that none is better.

The penalised fit over all networks of any width is a convex program over activation cells. Cells are added to it until
no cell would lower the objective; on the line with a free bias the program is finite from the start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from haarflow.doors import Count, NonNegative, Positive, door
from haarflow.dynamics.progress import Tell, watching
from haarflow.errors import Refusal
from haarflow.learning import relu_columns as columns
from haarflow.learning.activation_cells import count_cells
from haarflow.learning.relu_dual import Dual
from haarflow.learning.relu_master import Problem
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.neurons import Neuron
from haarflow.models.units import Perceptron, Unit
from haarflow.values import numbers, refuse_unless_affordable, refuse_unless_soon

Bias = Literal["free", "penalised", "none"]
Method = Literal["auto", "spline", "cells", "search"]
_LISTED = 20_000  # cells that are listed without being asked to
_SECONDS = 4e-3  # that a cell costs, all rounds together, on one core: 2 to 5 ms measured
_LONGEST = 3600.0
_LARGEST = 1e100  # beyond it squares would overflow


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
        hidden = np.maximum(_lifted(given, self.bias) @ self.directions.T, 0.0)
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
            got = f"inputs in R^{self.xs.shape[1]}" if self.xs.shape[1] != 1 else f"a {type(axis).__name__}"
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


@door
def relu_program(
    x: Float[np.ndarray, "b d"],
    y: Float[np.ndarray, "b *c"],
    *,
    penalty: NonNegative,
    bias: Bias = "free",
    method: Method = "auto",
    tolerance: Positive = 1e-6,
    parts: Count = 1000,
    progress: bool | Tell | None = None,
) -> ReluOptimum:
    """The network of any width that minimises `mean_i ½(f(x_i) − y_i)² + penalty · Σ_j |c_j|`, and a proof.

    A neuron is `c relu(<w, x> + b)`. With bias "free" its w has length one and b costs nothing, as does a constant
    added to f; "penalised" counts b in the length, as weight decay of all parameters does; "none" has no b. With
    penalty 0 and bias "free" on the line: the least norm through all labels, which is then the objective.

    "spline" is the finite program on the line with a free bias. "cells" lists all activation cells, for inputs of few
    dimensions; the proof is exact. "search" looks for cells that lower the objective, and proves its bound by cutting
    the sphere into `parts` parts at most: the more, the smaller the gap. "auto" chooses the first of them that fits.
    The first two end with a gap below `tolerance` times the mean of ½y², or refuse. For example
    `relu_program(x, y, penalty=0.01).predict(x)`.
    """
    labels = _refuse_unless_pairs(x, y, bias)
    chosen = _method(x, penalty, bias, method)
    inputs = _lifted(x, bias)
    centre = x.mean(axis=0) if bias == "free" else np.zeros(x.shape[1])
    size = max(float(np.abs(x - centre).max() if bias == "free" else np.abs(inputs).max()), 1e-300)
    rise, mean = max(float(np.abs(labels).max()), 1e-300), 0.0
    if bias == "free":
        mean = float(labels.mean())
        rise = max(float(np.abs(labels - mean).max()), 1e-300)
    scaled = (x - centre) / size if bias == "free" else inputs / size
    lifted = np.column_stack([scaled, np.ones(len(x))]) if bias == "free" else scaled
    problem = Problem(lifted, (labels - mean) / rise, min(penalty / size / rise, 1e3), bias == "free")
    with watching(progress) as tell:
        found = _solved(problem, chosen, tolerance, parts, tell)
    return _restored(found, x, labels, inputs, centre, size, rise, mean, penalty, bias)


def _solved(problem: Problem, method: str, tolerance: float, parts: int, tell: Callable) -> columns.Found:
    goal = tolerance * float(np.mean(problem.labels**2)) / 2
    if method == "spline":
        found = columns.on_knots(problem)
    elif method == "cells":
        found = columns.on_all_cells(problem, tell)
    else:
        return columns.by_search(problem, goal, parts, tell)
    if not found.gap <= goal:
        raise Refusal(
            f"An optimum is proved by a gap below {goal:.1e} of labels of size one; the solver came to {found.gap:.1e}. "
            "Write a larger penalty or tolerance, or drop inputs that nearly coincide."
        )
    return found


def _restored(found, x, labels, inputs, centre, size, rise, mean, penalty, bias) -> ReluOptimum:
    """The optimum in the units of the caller."""
    scale = rise / size
    directions, coefficients = found.directions.copy(), scale * found.coefficients
    where = found.direction.copy()
    if bias == "free":
        for rows in (directions, where[None]):
            rows[:, -1] = size * rows[:, -1] - rows[:, :-1] @ centre
    offset = rise * found.mean + mean if bias == "free" else 0.0
    outputs = np.maximum(inputs @ directions.T, 0.0) @ coefficients + offset
    norm = float(np.abs(coefficients).sum())
    objective = float(np.mean((outputs - labels) ** 2) / 2 + penalty * norm) if penalty else norm
    gap = found.gap * (rise**2 if penalty else scale)
    unit = size * rise if penalty else 1.0
    residuals = found.q * len(labels) * (rise if penalty else 1 / size)
    certificate = Certificate(found.bound * unit, found.attained * unit, where, found.proof, residuals, inputs)
    return ReluOptimum(
        directions, coefficients, offset, objective, max(gap, 0.0), certificate, penalty, bias, x, labels
    )


def _lifted(x: Float[np.ndarray, "b d"], bias: str) -> Float[np.ndarray, "b k"]:
    """The inputs with a column of ones, where neurons have a bias."""
    return x if bias == "none" else np.column_stack([x, np.ones(len(x))])


def _refuse_unless_pairs(x, y, bias) -> Float[np.ndarray, " b"]:
    labels = y.reshape(len(y), -1)
    if len(x) < 2 or not x.shape[1] or labels.shape[1] != 1 or y.ndim > 2:
        raise Refusal(
            f"relu_program fits two pairs or more, inputs (b, d) and one label each; got inputs {x.shape} and labels "
            f"{y.shape}. Fit several outputs one by one."
        )
    if max(np.abs(x).max(), np.abs(labels).max()) > _LARGEST:
        raise Refusal(
            f"relu_program takes numbers up to {_LARGEST:g}, whose squares are finite; got "
            f"{max(np.abs(x).max(), np.abs(labels).max()):.3g}. Write x and y in other units."
        )
    still = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if len(still) and bias != "none":
        raise Refusal(
            f"relu_program adds a bias by itself; got the column {still[0]} of x, which is constant and would be a "
            'second one. Drop that column, or write bias="none".'
        )
    if not np.abs(x).max() > 0:
        raise Refusal("relu_program fits functions of x; got inputs that are all zero. Write other inputs.")
    return labels[:, 0]


def _method(x, penalty, bias, method) -> str:
    """The method to take; a sentence where the one that was asked for does not fit."""
    b, k = len(np.unique(x, axis=0)), x.shape[1] + (bias != "none")
    on_line = x.shape[1] == 1 and bias == "free"
    if (method == "spline" or not penalty) and not on_line:
        asked = "method='spline'" if method == "spline" else "penalty 0"
        raise Refusal(
            f"relu_program takes {asked} on the line with a free bias; got inputs in R^{x.shape[1]} and bias {bias}. "
            "Write another method and a small penalty, such as 1e-4."
        )
    if method == "auto":
        cells = count_cells(b, min(b, k))
        return "spline" if on_line else "cells" if cells <= _LISTED else "search"
    if not penalty and method != "spline":
        raise Refusal(f"relu_program takes penalty 0 with method 'spline'; got {method!r}. Write a small penalty.")
    if method == "cells":
        cells, owner = count_cells(b, min(b, k)), f"relu_program over {count_cells(b, min(b, k)):,} activation cells"
        refuse_unless_soon(owner, _SECONDS * cells, instead='Write method="search".', most=_LONGEST)
        refuse_unless_affordable(owner, 16.0 * cells * (b + k), instead='Write method="search".')
    return method


def dual_of(optimum: ReluOptimum) -> Dual:
    """The dual function of an optimum, in the caller's units."""
    best = optimum.certificate
    return Dual(best.inputs, best.residuals / len(best.residuals), optimum.bias == "free")
