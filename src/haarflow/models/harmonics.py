"""Functions on the sphere by degree: Funk–Hecke coefficients, and the exact norms of kernels with ridge features.

A function `g(<w, x>)` of the cosine with a unit vector w is, on the unit sphere of R^d, the sum over degrees k of
`c_k N(d, k) P_k(<w, x>)`: N(d, k) harmonics of degree k, P_k the Legendre polynomial of R^d with P_k(1) = 1, and
`c_k = E g(ξ) P_k(ξ)`, ξ the first coordinate of a uniform point. The kernel of random neurons `σ(<w, x>)`, w uniform on
the sphere, has the eigenvalue λ_k², λ_k the coefficient of σ, N(d, k) times: so the squared norm of g in its space F2
is `Σ_k (c_k / λ_k)² N(d, k)`.
"""

from collections.abc import Callable
from math import comb
from typing import Annotated

import jax
import numpy as np
from jaxtyping import Float

from haarflow.doors import Least, door
from haarflow.errors import Refusal
from haarflow.models.activations import activation
from haarflow.values import numbers

Dimension = Annotated[int, Least(2)]
Degree = Annotated[int, Least(0)]
NODES = 400  # of a rule on half of [−1, 1]; exact for degrees up to 799 on either side of a kink at zero
HIGHEST = 300  # degrees that the rule leaves room for
ZERO = 1e-13  # a coefficient below so much of the largest is one of rounding


@door
def harmonics(d: Dimension, degree: Degree) -> int:
    """N(d, k): how many independent harmonics of degree k there are on the sphere of R^d.

    `harmonics(10, 2)` is 54, `harmonics(3, k)` is 2k + 1.
    """
    if degree > 10**4 or d > 10**6:
        raise Refusal(f"harmonics counts up to d = 1e6 and degree 1e4; got d={d} and degree={degree}. Write less.")
    return comb(degree + d - 1, d - 1) - (comb(degree + d - 3, d - 1) if degree > 1 else 0)


@door
def funk_hecke(profile: Callable | str, *, d: Dimension, degree: Degree) -> Float[np.ndarray, " k"]:
    """The coefficients `E g(ξ) P_k(ξ)` of degrees 0 to `degree`, shape (degree + 1,).

    `profile` is the name of an activation, or a function g of an array of cosines that is smooth on [−1, 0] and on
    [0, 1]: each half is integrated by its own Gauss–Jacobi rule, so a kink at zero costs no digits.
    `funk_hecke("relu", d=3, degree=4)` is (1/4, 1/6, 1/16, 0, −1/96).
    """
    _refuse_unless_few(degree)
    cosines, shares = _half_rules(d)
    values = _values(profile, cosines)
    return np.array([shares @ (values * polynomial) for polynomial in legendre(cosines, d=d, degree=degree)])


@door
def legendre(cosines: Float[np.ndarray, " n"], *, d: Dimension, degree: Degree) -> Float[np.ndarray, "k n"]:
    """The Legendre polynomials of R^d with P_k(1) = 1, at these cosines: rows for the degrees 0 to `degree`."""
    _refuse_unless_few(degree)
    rows = [np.ones_like(cosines), cosines.copy()]
    for k in range(1, degree):
        rows.append(((2 * k + d - 2) * cosines * rows[k] - k * rows[k - 1]) / (k + d - 2))
    return np.array(rows[: degree + 1])


@door
def f2_norm_squared(
    profile: Callable | str, *, d: Dimension, degree: Degree, activation: str = "relu"
) -> Float[np.ndarray, " k"]:
    """The squared F2 norms of `g(<w, x>)` cut off after each degree from 0 to `degree`: a ladder, shape (degree + 1,).

    F2 is the space of the kernel of neurons `activation(<w, x>)` with w uniform on the sphere. Where the kernel does
    not see a degree that g has, the norm is infinite; degrees that neither has count nothing. Of one neuron it is
    `Σ N(d, k)` over the degrees that neurons have, which grows without end: a neuron is not in F2.
    `f2_norm_squared("relu", d=10, degree=4)` is (1, 11, 65, 65, 725).
    """
    own, seen = funk_hecke(profile, d=d, degree=degree), funk_hecke(activation, d=d, degree=degree)
    counts = np.array([float(harmonics(d, k)) for k in range(degree + 1)])
    there, known = (np.abs(part) > ZERO * np.abs(part).max() for part in (own, seen))
    last = int(np.flatnonzero(known)[-1]) if known.any() else 0
    if degree > last + 2 and there[max(last - 1, 0) : last + 1].any() and not there[last + 1 :].any():
        raise Refusal(
            f"The coefficients of {activation} in R^{d} are above rounding up to degree {last}; got degree={degree}. "
            f"Write degree={last}."
        )
    ratio = np.where(there, np.where(known, own / np.where(known, seen, 1), np.inf), 0.0)
    return np.cumsum(ratio**2 * counts)


def _values(profile: Callable | str, cosines: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    with jax.enable_x64(True):
        found = (activation(profile) if isinstance(profile, str) else profile)(cosines)
        found = numbers("The profile of a function on the sphere", found, numpy=True)
    if found.shape != cosines.shape:
        raise Refusal(
            f"A profile takes an array of cosines to as many values; got values of shape {found.shape} for "
            f"{cosines.shape} cosines. Write it with NumPy functions, number by number."
        )
    return found


def _half_rules(d: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Nodes and shares of the cosine's law `∝ (1 − t²)^{(d − 3)/2}`, by one Gauss–Jacobi rule on each side of zero."""
    from scipy.special import roots_jacobi

    power = (d - 3) / 2
    nodes, shares = roots_jacobi(NODES, power, 0.0)
    half = (1 + nodes) / 2
    shares = shares * (1 + half) ** power
    shares = shares / (2 * shares.sum())
    return np.concatenate([half, -half]), np.concatenate([shares, shares])


def _refuse_unless_few(degree: int) -> None:
    if degree > HIGHEST:
        raise Refusal(f"Degrees on the sphere go up to {HIGHEST} here; got {degree}. Write degree={HIGHEST}.")
