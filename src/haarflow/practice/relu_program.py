"""Sparse ReLU learning, exactly: the best network of any width under a penalty on its norm, and a proof that it is.

The penalised fit over all networks of any width is a convex program over activation cells. Cells are added to it until
no cell would lower the objective; on the line with a free bias the program is finite from the start.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float

from haarflow.doors import Count, NonNegative, Positive, door
from haarflow.dynamics.progress import Tell, watching
from haarflow.errors import Refusal
from haarflow.learning import relu_columns as columns
from haarflow.learning.activation_cells import count_cells
from haarflow.learning.relu_master import Problem
from haarflow.practice.relu_optimum import Certificate, ReluOptimum, lifted
from haarflow.values import refuse_unless_affordable, refuse_unless_soon

Bias = Literal["free", "penalised", "none"]
Method = Literal["auto", "spline", "cells", "search"]
_LISTED = 20_000  # cells that are listed without being asked to
_SECONDS = 4e-3  # that a cell costs, all rounds together, on one core: rough, to tell minutes from days
_LONGEST = 3600.0
_LARGEST = 1e100  # beyond it squares would overflow


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
    inputs = lifted(x, bias)
    centre = x.mean(axis=0) if bias == "free" else np.zeros(x.shape[1])
    size = max(float(np.abs(x - centre).max() if bias == "free" else np.abs(inputs).max()), 1e-300)
    rise, mean = max(float(np.abs(labels).max()), 1e-300), 0.0
    if bias == "free":
        mean = float(labels.mean())
        rise = max(float(np.abs(labels - mean).max()), 1e-300)
    scaled = (x - centre) / size if bias == "free" else inputs / size
    rows = lifted(scaled, bias) if bias == "free" else scaled
    problem = Problem(rows, (labels - mean) / rise, min(penalty / size / rise, 1e3), bias == "free")
    with watching(progress, "program") as tell:
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
            f"An optimum is proved by a gap below {goal:.1e} for labels of size one; the solver came to "
            f"{found.gap:.1e}. Write a larger penalty or tolerance, or drop inputs that nearly coincide."
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
