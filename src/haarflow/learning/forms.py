"""Quadratic functions of the weights on given atoms: what a functional must be to have its optimum computed."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class QuadraticForm:
    """`factor |features w − targets|² + costs · w`, a convex function of n weights; it has m rows, or none."""

    features: Float[np.ndarray, "m n"]
    targets: Float[np.ndarray, " m"]
    costs: Float[np.ndarray, " n"]
    factor: float = 1.0

    def value(self, weights: Float[np.ndarray, " n"]) -> float:
        """The functional at these weights."""
        return float(self.factor * np.sum((self.features @ weights - self.targets) ** 2) + self.costs @ weights)

    def slope(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Its gradient: the first variation at each atom."""
        return 2 * self.factor * self.features.T @ (self.features @ weights - self.targets) + self.costs

    def tied(self, spread: Float[np.ndarray, "n o"]) -> "QuadraticForm":
        """The same function of o shares, where the weights are `spread @ shares`."""
        return replace(self, features=self.features @ spread, costs=self.costs @ spread)

    def __add__(self, other: "QuadraticForm") -> "QuadraticForm":
        costs = self.costs + other.costs
        if not len(other.targets):
            return replace(self, costs=costs)
        if not len(self.targets):
            return replace(other, costs=costs)
        size = np.sqrt(other.factor / self.factor)
        features = np.concatenate([self.features, size * other.features])
        return QuadraticForm(features, np.concatenate([self.targets, size * other.targets]), costs, self.factor)


def linear_form(costs: Float[np.ndarray, " n"]) -> QuadraticForm:
    """`costs · w`."""
    return QuadraticForm(np.zeros((0, len(costs))), np.zeros(0), costs)


def kernel_form(
    gram: Float[np.ndarray, "k k"], teacher: Float[np.ndarray, " t"], costs: Float[np.ndarray, " n"]
) -> QuadraticForm:
    """`½|f_w − f_teacher|²` from the inner products of the n atoms and, after them, of the t atoms of a teacher.

    Atoms become vectors with the same inner products: the columns of a root of their Gram matrix.
    """
    values, frame = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * frame.T
    n = len(costs)
    return QuadraticForm(root[:, :n], root[:, n:] @ teacher, costs, 0.5)
