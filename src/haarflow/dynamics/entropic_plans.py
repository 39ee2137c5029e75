"""Entropic transport with a free end, by Newton's method in the logarithm: for any grid, however small the blur."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal

_ENOUGH = 1e-11  # the mass that may be elsewhere at the end, and before it, at larger blurs
_NEARLY = 1e-2


class Look(NamedTuple):
    """A plan at some prices: logarithms of where each place goes, of where it comes from, of its end; and the error."""

    goes: Float[np.ndarray, "n n"]
    comes: Float[np.ndarray, "n n"]
    end: Float[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]


class Plan(NamedTuple):
    """`min <C, pi> + eps KL(pi | last ⊗ goal) + hold KL(end | goal)` over plans pi from the last law to an end.

    At the minimum `pi = last ⊗ goal · exp((f + g − C)/eps)`, f such that all of the last law is sent, and the prices g
    solve `log end(g) = log goal − g/hold`. The derivative of this equation is `1/hold + (I − P)/eps`, P the chances to
    meet each place after a step back to the last law and one forward: diagonally dominant, so Newton's step exists.
    """

    cost: Float[np.ndarray, "n n"]
    last: Float[np.ndarray, " n"]
    goal: Float[np.ndarray, " n"]
    hold: float

    def solve(self, eps: float, iterations: int) -> Float[np.ndarray, " n"]:
        """The logarithms of the end, from the prices of a large eps down to this one by fours."""
        levels, left = [eps], iterations
        while levels[-1] < min(self.hold, self.cost.max()):
            levels.append(4 * levels[-1])
        price = np.zeros(len(self.goal))
        look = self.look(price, levels[-1])
        for level in reversed(levels):
            look = self.look(price, level)
            while (gap := self._missing(price, look)) > (_ENOUGH if level == eps else _NEARLY):
                if not left:
                    raise Refusal(
                        f"An entropic step ends where its plan does; after {iterations} iterations {gap:.1e} of the "
                        "mass was elsewhere. Write more `iterations`, or a larger `blur`."
                    )
                (price, look), left = self._better(price, look, level), left - 1
        return look.end

    def look(self, price: Float[np.ndarray, " n"], eps: float) -> Look:
        """What the plan is at these prices."""
        goes = (price[None, :] - self.cost) / eps + self.goal[None, :]
        sent = _total(goes, 1)
        comes = (self.last - sent)[:, None] - self.cost / eps
        met = _total(comes, 0)
        error = price / self.hold + price / eps + met
        return Look(goes - sent[:, None], comes - met[None, :], self.goal + price / eps + met, error)

    def _missing(self, price, look: Look) -> float:
        return float(np.abs(np.exp(look.end) - np.exp(self.goal - price / self.hold)).sum())

    def _better(self, price, look: Look, eps: float):
        """The prices after Newton's step, halved until the error falls."""
        ratio = self.hold / eps
        meet = np.exp(look.comes).T @ np.exp(look.goes)
        step = np.linalg.solve((1 + ratio) * np.eye(len(price)) - ratio * meet, -self.hold * look.error)
        found = self.look(price + step, eps)
        for _ in range(10):
            if np.abs(found.error).max() < np.abs(look.error).max():
                break
            step = step / 2
            found = self.look(price + step, eps)
        return price + step, found


def _total(logs, axis: int) -> np.ndarray:
    from scipy.special import logsumexp

    return np.asarray(logsumexp(logs, axis=axis))
