"""Fused forms of units: the weighted sum over particles, and what comes back to them, in as few large arrays as can be.

A unit says by `fused()` which form it has; its formula stays in `models/units.py`, and a test holds both equal. Weights
are those of a law and sum to one, unless the cotangent does not look at the sum.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.fast import tuning
from haarflow.fast.materialise import materialised

Cotangent = Callable[[Float[Array, "b c"]], Float[Array, "b c"]]
Pulled = tuple[Float[Array, "n"], Float[Array, "n p"]]


class Evaluated(NamedTuple):
    """An activation somewhere: its value is `shift + scale · core`, its slope `slope(kept)`, entry by entry."""

    core: Float[Array, "..."]
    kept: Float[Array, "..."]
    slope: Callable
    scale: float
    shift: float


@runtime_checkable
class Fused(Protocol):
    """What a fused form does: the two methods of a unit that a flow runs."""

    def weighted_sum(self, weights, thetas, xs) -> Float[Array, "b c"]:
        """The outputs (b, c): the sum over particles of weight times unit."""
        ...

    def pullback(self, weights, thetas, xs, cotangent: Cotangent) -> Pulled:
        """The first variation (n,) and its gradient (n, p), as `Unit.pullback` has them."""
        ...


class FusedDense(NamedTuple):
    """`σ(z x)` over few inputs, its sums written out with the particles last: (c, b, n).

    In the loop of a flow the particles already lie so; elsewhere they are turned, where that pays.
    """

    inputs: int
    outputs: int
    activation: Callable[[Array], Array]
    evaluated: Callable[[Array], Evaluated]

    def weighted_sum(self, weights, thetas, xs):
        values = self.activation(self._before(self._turned(thetas), xs))
        return (values.reshape(-1, len(weights)) @ weights).reshape(self.outputs, -1).T

    def pullback(self, weights, thetas, xs, cotangent):
        dim, unrolled = self.inputs * self.outputs, len(xs) <= tuning.UNROLLED_SAMPLES
        turned = thetas.T if unrolled else self._turned(thetas)
        core, kept, slope, scale, shift = self.evaluated(self._before(turned, xs))
        rows = core.reshape(-1, len(thetas))
        outputs = scale * (rows @ weights) + shift
        slopes = cotangent(outputs.reshape(self.outputs, -1).T).T
        pulls = slopes[:, :, None] * xs[None]
        if len(thetas) > tuning.CACHED_PARTICLES and unrolled:
            # Sample by sample, in one pass over what was kept: the steepness is never an array of its own.
            pulls = materialised(pulls)
            terms = [pulls[:, b, :, None] * slope(kept[:, b])[:, None] for b in range(len(xs))]
            gradient = sum(terms[1:], terms[0]).reshape(dim, -1).T
        else:
            gradient = jnp.einsum("cbd,cbn->cdn", pulls, slope(kept)).reshape(dim, -1).T
        return scale * (slopes.ravel() @ rows) + shift * jnp.sum(slopes), gradient

    def _before(self, turned, xs):
        z = turned.reshape(self.outputs, self.inputs, -1)
        terms = [xs[None, :, j, None] * z[:, j, None, :] for j in range(self.inputs)]
        return sum(terms[1:], terms[0])

    def _turned(self, thetas):
        # A product, which XLA never fuses: the turned parameters are computed once, see materialise.py.
        return jnp.einsum("qp,np->qn", np.eye(self.inputs * self.outputs, dtype=thetas.dtype), thetas)


class FusedPerceptron(NamedTuple):
    """`a σ(<w, x> + b)`: one product each way, with the inputs padded to (0, x, 1)."""

    outputs: int
    dim: int
    padded: Callable[[Array], Array]
    evaluated: Callable[[Array], Evaluated]
    plain_sum: Callable

    def weighted_sum(self, weights, thetas, xs):
        return self.plain_sum(weights, thetas, xs)

    def pullback(self, weights, thetas, xs, cotangent):
        padded, a = self.padded(xs), thetas[:, : self.outputs]
        core, kept, slope, scale, shift = self.evaluated(thetas @ padded.T)
        mass = weights[:, None] * a
        outputs = scale * (mass.T @ core) + shift * jnp.sum(mass, axis=0)[:, None]
        slopes = cotangent(outputs.T)
        inner = scale * (core @ slopes) + shift * jnp.sum(slopes, axis=0)[None]
        terms = [a[:, c, None] * slopes[None, :, c] for c in range(self.outputs)]
        even = jnp.pad(padded, ((0, 0), (0, -self.dim % tuning.TILE)))
        gradient = ((sum(terms[1:], terms[0]) * slope(kept)) @ even)[:, : self.dim]
        if self.outputs == 1:  # one value for a row: the compiler fuses this into whatever uses the gradient
            gradient = jnp.where((jnp.arange(self.dim) == 0)[None], inner, gradient)
        else:
            gradient = gradient.at[:, : self.outputs].set(inner)
        return jnp.sum(a * inner, axis=1), gradient
