"""Views: a cloud of many dimensions as a picture, with the fixed space E^G as a point, a line or a plane in it."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal
from haarflow.values import said

AREA = 18.0  # of the marker of an atom of average weight, in points squared
LEAST, LARGEST = 0.1, 40.0  # times that: the lightest are seen, and the heaviest hide no others


class View(NamedTuple):
    """What a picture shows: a column of coordinates for each axis, its name, and, given E^G, how many lie in it."""

    shown: Float[np.ndarray, "n k"]
    names: list[str]
    along: int | None


def view(atoms: np.ndarray, weights: np.ndarray, fixed: np.ndarray | None, count: int) -> View:
    """The coordinates (n, k) of atoms on two or three axes; `fixed` are the atoms projected on E^G.

    The coordinates themselves where there are no more than axes; otherwise principal directions of the cloud. Given
    E^G, the last axis is the widest direction across it and those before it lie in it, so that it is seen as a line or
    a plane; where the cloud has fewer directions in E^G, more are shown across it.
    """
    p, total = atoms.shape[1], float(weights @ np.sum(atoms**2, axis=1)) or 1.0
    if fixed is None and p <= count:
        return View(atoms, [f"coordinate {i + 1}" for i in range(p)], None)
    if fixed is None:
        shown, shares = _principal(atoms, weights, total)
        return View(_padded(shown, count), [_called("principal direction", i, shares) for i in range(count)], None)
    (inside, near), (outside, far) = (_principal(part, weights, total) for part in (fixed, atoms - fixed))
    first = min(inside.shape[1], count - 1)
    names = [_called("along E^G", i, near) for i in range(first)]
    names += [_called("across E^G", i, far) for i in range(count - first)]
    return View(np.hstack([inside[:, :first], _padded(outside, count - first)]), names, first)


def _principal(rows: np.ndarray, weights: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows in their principal directions from the origin, the widest first, and the share of |z|² in each."""
    _, sizes, directions = np.linalg.svd(np.sqrt(weights)[:, None] * rows, full_matrices=False)
    kept = sizes**2 > 1e-20 * total
    turned = rows @ directions[kept].T
    signs = np.where(turned.sum(axis=0) < 0, -1.0, 1.0)
    return turned * signs, sizes[kept] ** 2 / total


def _padded(shown: np.ndarray, count: int) -> np.ndarray:
    return np.pad(shown[:, :count], ((0, 0), (0, max(0, count - shown.shape[1]))))


def _called(name: str, place: int, shares: np.ndarray) -> str:
    share = shares[place] if place < len(shares) else 0.0
    return f"{name} {place + 1} ({share:.0%})"


def draw(axis: Any, atoms: np.ndarray, weights: np.ndarray, fixed: np.ndarray | None, options: dict) -> Any:
    """Draw the atoms into an axis of matplotlib, areas by weight, and E^G below them; returns the axis."""
    if not hasattr(axis, "scatter") or not hasattr(axis, "plot"):
        raise Refusal(f"draw takes an axis of matplotlib; got {said(axis)}. Write cloud.draw(plt.gca()).")
    count = 3 if hasattr(axis, "plot_surface") else 2
    seen = view(atoms, weights, fixed, count)
    if seen.shown.shape[1] == 1 and count == 2:
        return _stems(axis, seen, weights, options)
    shown = _padded(seen.shown, count)
    areas = AREA * np.clip(len(weights) * weights, LEAST, LARGEST)
    axis.scatter(*shown.T, **{"s": areas, "alpha": 0.7, "linewidths": 0, "zorder": 3, **options})
    if seen.along is not None:
        _fixed_space(axis, seen.along, 1.1 * np.abs(shown).max(axis=0))
    if count == 2 and np.ptp(shown[:, 1]) < 1e-6 * np.ptp(shown[:, 0]):
        axis.set_ylim(*(np.array([-0.5, 0.5]) * np.ptp(shown[:, 0])))  # flat, and not the rounding blown up
    for letter, name in zip("xyz", seen.names, strict=False):
        getattr(axis, f"set_{letter}label")(name)
    return axis


def _stems(axis: Any, seen: View, weights: np.ndarray, options: dict) -> Any:
    """Atoms on the line: a stem at each place, as high as its weight."""
    stems = axis.vlines(seen.shown[:, 0], 0, weights, **{"linewidth": 1.5, **options})
    axis.plot(seen.shown[:, 0], weights, ".", color=stems.get_color())
    axis.set(xlabel=seen.names[0], ylabel="weight", ylim=(0, None))
    return axis


def _fixed_space(axis: Any, along: int, reach: np.ndarray) -> None:
    """E^G in the axes of a view, spanned by the first of them: a point, a line, or a plane in space."""
    look: dict[str, Any] = {"color": "0.55", "label": "E^G"}
    ends = [np.array([-r, r]) if i < along else np.zeros(2) for i, r in enumerate(reach)]
    if along == 0:
        axis.plot(*[[0.0]] * len(reach), "+", markersize=12, zorder=1, **look)
    elif along == 1:
        axis.plot(*ends, linewidth=1.2, zorder=1, **look)
    else:
        flat = np.meshgrid(ends[0], ends[1])
        axis.plot_surface(*flat, np.zeros((2, 2)), alpha=0.3, linewidth=0, shade=False, **look)
