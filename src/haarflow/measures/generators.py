"""The convex functions f of f-divergences D_f(Q‖P) = ∫ f(dQ/dP) dP, as programs and witnesses need them.

A witness is asked for the conjugate f*(y) = sup_t (y t − f(t)), whose slope t(y) is where f' = y; a conic program for
the rows that say s_j ≥ b_j f(η_j / b_j).
"""

import abc
import math
from typing import Any, Literal

import numpy as np

from haarflow.errors import Refusal

Name = Literal["kl", "reverse kl", "js", "chi2", "alpha"]


class Generator(abc.ABC):
    """One convex f on [0, ∞) with f(1) = 0."""

    limit: float = math.inf
    """f* is finite below this number, which is also the limit of f(t)/t: what mass costs where P has none."""

    @abc.abstractmethod
    def value(self, t: Any, xp: Any = np) -> Any:
        """f(t) for t >= 0."""

    @abc.abstractmethod
    def slope(self, y: Any, xp: Any = np) -> Any:
        """The slope of f* at y below the limit: the t at which f'(t) = y, or zero."""

    @abc.abstractmethod
    def cones(self, clarabel: Any, b: np.ndarray) -> tuple[int, list]:
        """How many auxiliaries each atom has, and for each atom its rows.

        A row is (coefficient of η, coefficients of the auxiliaries, constant): the vector of rows lies in the cone,
        and the first auxiliary is at least b f(η/b) up to the constant `constant(b)`.
        """

    def quadratic(self, b: np.ndarray) -> np.ndarray | None:
        """The curvatures q for which Σ b f(η/b) is ½ Σ q η² up to a constant, where it is quadratic: no cones then."""
        return None

    def constant(self, b: np.ndarray) -> float:
        """What the program leaves out of Σ b f(η/b)."""
        return 0.0

    def weight(self) -> np.ndarray:
        """How the auxiliaries of an atom are summed in the objective."""
        return np.ones(1)

    def conjugate(self, y: Any, xp: Any = np) -> Any:
        """f*(y)."""
        t = self.slope(y, xp)
        return y * t - self.value(t, xp)


def _xlogx(t, xp):
    return xp.where(t > 0, t * xp.log(xp.where(t > 0, t, 1.0)), 0.0)


class KullbackLeibler(Generator):
    """f(t) = t log t."""

    def value(self, t, xp=np):
        return _xlogx(t, xp)

    def slope(self, y, xp=np):
        return xp.exp(y - 1)

    def conjugate(self, y, xp=np):
        return xp.exp(y - 1)

    def cones(self, clarabel, b):
        # η exp(−s/η) ≤ b
        return 1, [(clarabel.ExponentialConeT(), [(0, [-1], 0), (1, [0], 0), (0, [0], w)]) for w in b]


class ReverseKullbackLeibler(Generator):
    """f(t) = −log t."""

    limit = 0.0

    def value(self, t, xp=np):
        with np.errstate(divide="ignore"):
            return -xp.log(t)

    def slope(self, y, xp=np):
        return -1 / y

    def cones(self, clarabel, b):
        # b exp(−s/b) ≤ η
        return 1, [(clarabel.ExponentialConeT(), [(0, [-1], 0), (0, [0], w), (1, [0], 0)]) for w in b]


class JensenShannon(Generator):
    """f(t) = ½ (t log t − (1 + t) log((1 + t)/2)), so that D_f is the Jensen–Shannon divergence."""

    limit = math.log(2) / 2

    def value(self, t, xp=np):
        return (_xlogx(t, xp) - (1 + t) * xp.log((1 + t) / 2)) / 2

    def slope(self, y, xp=np):
        return xp.exp(2 * y) / (2 - xp.exp(2 * y))

    def conjugate(self, y, xp=np):
        return -xp.log(2 - xp.exp(2 * y)) / 2

    def cones(self, clarabel, b):
        # with the mixture c = (η + b)/2: s ≥ η log(η/c) and r ≥ b log(b/c)
        cone, found = clarabel.ExponentialConeT(), []
        for w in b:
            found.append((cone, [(0, [-1, 0], 0), (1, [0, 0], 0), (0.5, [0, 0], w / 2)]))
            found.append((cone, [(0, [0, -1], 0), (0, [0, 0], w), (0.5, [0, 0], w / 2)]))
        return 2, found

    def weight(self):
        return np.full(2, 0.5)


class Alpha(Generator):
    """f(t) = (t^α − 1)/(α (α − 1)): half the χ² at α = 2, KL as α → 1, reverse KL as α → 0."""

    def __init__(self, alpha: float, scale: float = 1.0):
        self.alpha, self.scale = alpha, scale
        self.limit = math.inf if alpha > 1 else 0.0

    def value(self, t, xp=np):
        return self.scale * (t**self.alpha - 1) / (self.alpha * (self.alpha - 1))

    def slope(self, y, xp=np):
        base = (self.alpha - 1) * y / self.scale
        return xp.where(base > 0, xp.where(base > 0, base, 1.0) ** (1 / (self.alpha - 1)), 0.0)

    def cones(self, clarabel, b):
        if self.alpha > 1:  # s^(1/α) b^(1 − 1/α) ≥ η
            cone = clarabel.PowerConeT(1 / self.alpha)
            return 1, [(cone, [(0, [1], 0), (0, [0], w), (1, [0], 0)]) for w in b]
        cone = clarabel.PowerConeT(self.alpha)  # η^α b^(1 − α) ≥ −s
        return 1, [(cone, [(1, [0], 0), (0, [0], w), (0, [-1], 0)]) for w in b]

    def quadratic(self, b):
        return self.scale / b if self.alpha == 2 else None

    def constant(self, b):
        return -self.scale * float(b.sum()) / (self.alpha * (self.alpha - 1))

    def weight(self):
        return np.full(1, self.scale / abs(self.alpha * (self.alpha - 1)))


def generator_of(name: str, alpha: float) -> Generator:
    """The convex function of this name."""
    if name == "alpha" and abs(alpha - 1) < 1e-6:
        raise Refusal(f"An alpha-divergence has alpha > 0 other than one; got {alpha:g}. Write f='kl' for the limit.")
    members = {
        "kl": KullbackLeibler,
        "reverse kl": ReverseKullbackLeibler,
        "js": JensenShannon,
        "chi2": lambda: Alpha(2.0, 2.0),
        "alpha": lambda: Alpha(alpha),
    }
    return members[name]()
