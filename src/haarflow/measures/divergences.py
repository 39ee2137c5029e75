"""Divergences in variational form, between samples and under a group: integral probability metrics and (f, Γ)."""

from typing import Annotated

import numpy as np

from haarflow.doors import Above, Positive, door
from haarflow.errors import Refusal
from haarflow.measures.discriminators import Discriminators, Lipschitz
from haarflow.measures.generators import Generator, Name, generator_of
from haarflow.measures.isometries import Under, acted
from haarflow.measures.samples import Law, OtherLaw, Pair
from haarflow.measures.symmetries import Symmetry
from haarflow.measures.witnesses import Divergence, Values

SLACK = 1e-5
"""The largest gap that is handed out, relative to the value and one."""


@door
def ipm(mu: Law, nu: OtherLaw, *, within: Discriminators, under: Under | None = None) -> Divergence:
    """The integral probability metric sup E_mu γ − E_nu γ over discriminators γ, and the best of them.

    Within `Lipschitz(1.0)` it is W1, within `KernelBall()` the MMD. `under` a group the discriminators are its
    invariant members, which gives the metric of the symmetrised samples; see `distances.w1` for what it takes.
    """
    given, symmetry = acted(mu, nu, under, scaled=False)
    upper, witness = within.ipm(given, symmetry)
    value = float(given.a @ witness(given.x) - given.b @ witness(given.y))
    return _found("IPM", value, upper, witness, given)


@door
def f_divergence(
    mu: Law,
    nu: OtherLaw,
    *,
    f: Name = "kl",
    alpha: Positive = 2.0,
    within: Discriminators | None = None,
    under: Under | None = None,
) -> Divergence:
    """The (f, Γ)-divergence D(mu‖nu) = sup E_mu γ − E_nu f*(γ) over discriminators plus constants, and the best one.

    f is "kl", "reverse kl", "js", "chi2" (∫(t − 1)² dnu) or "alpha" (∫(t^alpha − 1) dnu / alpha(alpha − 1)), with
    t = dmu/dnu. It is also the least of W_Γ(mu, η) + D_f(η‖nu) over laws η, and finite for samples without a common
    atom; mass may stay where nu has none at the price lim f(t)/t, if that is finite. Without discriminators it is D_f
    itself, which compares the weights of common atoms, or common orbits.
    """
    generator = generator_of(f, alpha)
    given, symmetry = acted(mu, nu, under, scaled=False)
    name = f"{f} ({alpha:g})" if f == "alpha" else f
    if within is None:
        return _on_atoms(name, given, symmetry, generator)
    upper, witness = within.mixed(given, symmetry, generator)
    shift = _best_shift(given, witness, generator)
    shifted: Values = lambda z: witness(z) + shift  # noqa: E731
    value = float(given.a @ shifted(given.x) - given.b @ generator.conjugate(shifted(given.y)))
    return _found(name, value, upper, shifted, given)


@door
def lip_alpha(
    mu: Law,
    nu: OtherLaw,
    *,
    alpha: Annotated[float, Above(1)] = 2.0,
    lipschitz: Positive = 1.0,
    under: Under | None = None,
) -> Divergence:
    """The Lipschitz-regularised alpha-divergence D(mu‖nu), for alpha > 1, exactly: a QP for alpha = 2.

    It is sup E_mu γ − E_nu f*(γ) over γ with |γ(z) − γ(z')| ≤ lipschitz · |z − z'|; `under` a group, invariant γ.
    """
    return f_divergence(mu, nu, f="alpha", alpha=alpha, within=Lipschitz(lipschitz), under=under)


def _found(name: str, value: float, upper: float, witness: Values, given: Pair) -> Divergence:
    gap = upper - value
    if not gap <= SLACK * (1 + abs(value)):
        raise Refusal(
            f"A divergence is handed out with a proof, a gap below {SLACK:g}; the solver came to {gap:.2g}. Write "
            "samples in units in which their distances are around one, or a smaller Lipschitz constant or radius."
        )
    return Divergence(value, max(gap, 0.0), name, witness, given.x, given.y)


def _best_shift(given: Pair, witness: Values, generator: Generator) -> float:
    """The constant c that makes E_x γ + c − E_y f*(γ + c) largest, with γ + c up to the limit of f* on all atoms.

    There the mean slope of f* is one, or γ + c touches the limit on an atom of the first sample.
    """
    from scipy.optimize import root_scalar

    values, b = witness(given.y), given.b
    largest = max(float(values.max()), float(witness(given.x).max()))
    finite = np.isfinite(generator.limit)
    top = generator.limit - largest if finite else 1.0 - largest

    def off(c: float) -> float:
        with np.errstate(over="ignore", divide="ignore"):
            found = generator.slope(values + c)
            found = np.where(values + c < generator.limit, found, np.inf)
            return min(float(b @ found), 1e300) - 1.0

    steps = np.geomspace(1e-13, 1e7, 80)
    low = next((top - step for step in steps if off(top - step) < 0), top - steps[-1])
    if finite and off(top) <= 0:
        return top
    high = top if finite else next((top + step for step in steps if off(top + step) > 0), top + steps[-1])
    if not off(low) < 0 < off(high):
        return low  # the gap will tell
    return float(root_scalar(off, bracket=(low, high), method="brentq", xtol=1e-14, rtol=1e-14).root)


def _on_atoms(name: str, given: Pair, symmetry: Symmetry, generator: Generator) -> Divergence:
    """D_f of the weights of atoms, or orbits, that coincide."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    points = np.concatenate([given.x, given.y])
    gaps = symmetry.gaps(points, points)
    near = gaps <= 1e-18 * max(float(np.max(points**2)), 1e-300) + 1e-24
    count, place = connected_components(coo_array(near), directed=False)
    n = len(given.a)
    a, b = np.bincount(place[:n], given.a, count), np.bincount(place[n:], given.b, count)
    both = b > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(b[both] @ generator.value(a[both] / b[both]))
        value += float(a[~both].sum() * generator.limit) if a[~both].sum() > 0 else 0.0
        ratio = np.where(both, a / np.where(both, b, 1.0), np.inf)
    witness: Values = lambda z: ratio[place[np.argmin(symmetry.gaps(z, points), axis=1)]]  # noqa: E731
    return Divergence(value, 0.0, name, witness, given.x, given.y)
