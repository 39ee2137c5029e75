"""How far a group helps the kernel distance: the closed form of its error on the disk, cell by cell."""

import numpy as np

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import natural_rep
from haarflow.measures.distances import mmd_squared
from haarflow.measures.samples import generator
from haarflow.runs.experiment import Count, Experiment, Sizes, below, between, blocks, named, over, panel, stream
from haarflow.runs.style import DASHED, colour, legend, log_axes, marker

GROUPS = (1, 4, 16, 64, 256)
WIDTHS = {"2π/6": 6, "2π/24": 24, "2π/96": 96, "2π/384": 384, "2π/6|Σ|": None}


def width_of(kernel: str, order: int) -> float:
    """The width s of a kernel, which may follow the group."""
    return 2 * np.pi / (WIDTHS[kernel] or 6 * order)


def disk(draw, n: int):
    """n draws of the uniform law on the unit disk."""
    radius, angle = np.sqrt(draw.random(n)), 2 * np.pi * draw.random(n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def turned_mean(order: int, s: float) -> float:
    """a, the mean over rotations g ≠ e of E k(g x, x): of (1 − exp(−b))/b with b = 2 sin²(πj/l)/s²."""
    if order == 1:
        return 0.0
    b = 2 * np.sin(np.pi * np.arange(1, order) / order) ** 2 / s**2
    return float(np.mean(-np.expm1(-b) / b))


def independent_mean(s: float) -> float:
    """E k(x, x') for independent points of the disk, by the density of their distance."""
    from scipy.integrate import quad

    def density(d):
        across = np.sqrt(max(1 - d**2 / 4, 0.0))
        return (4 * d * np.arccos(d / 2) - 2 * d**2 * across) / np.pi * np.exp(-(d**2) / (2 * s**2))

    return float(quad(density, 0, min(2.0, 12 * s), limit=200, epsabs=1e-14)[0])


def second_moment(order: int, s: float, n: int) -> float:
    """E MMD² of two samples of n points of the disk under the rotations of this order: (2/n)(a + (1 − a)/|Σ| − E k)."""
    a = turned_mean(order, s)
    return 2 / n * (a + (1 - a) / order - independent_mean(s))


class MmdGain(Experiment):
    """Under a group the kernel distance between two samples of an invariant law falls as a closed form says: for a
    fixed kernel the gain stops when the images come nearer than its width, and with a width that follows the group it
    goes on like 1/√|Σ|.

    Source: Sample complexity of probability divergences under group symmetry (arXiv 2302.01915), its example of the
    unit disk; the symmetry-preserving-learning talk.

    Points are uniform on the unit disk, rotations by 2π/|Σ| act, and k = exp(−|x − y|²/2s²). Both samples are of one
    law, so that all of the distance is error: E MMD² = (2/n)(a + (1 − a)/|Σ| − E k(x, x')), with a the mean over g ≠ e
    of E k(g x, x). Were the means normal, the bound of four standard errors would raise a false alarm in one of 300
    runs of all cells; MMD² of the widest kernel is skewed (skewness 3), and with 200 pairs its means err to the left
    more often.
    """

    seconds = 100.0
    faults = {
        "no average": "the kernel is not averaged over the group",
        "narrow kernel": "the kernel is exp(−|x − y|²/s²), without the half",
    }

    runs: Count = 200  # pairs of samples of each cell
    sizes: Sizes = (25, 75)  # of a sample

    @classmethod
    def tour(cls):
        return cls(runs=40, sizes=(10, 25))

    @classmethod
    def full(cls):
        return cls(runs=400, sizes=(50, 100, 200))

    def design(self):
        cells = over(kernel=WIDTHS, order=GROUPS, n=self.sizes)
        yield self.squares, (cells * blocks("run", self.runs, size=200)).largest_first("order", "n")

    def squares(self, key, kernel, order, n, run):
        """MMD² between pairs of samples of one cell."""
        draw = generator(stream(key, "disk", list(WIDTHS).index(kernel), order, n, run.start))
        under = natural_rep(PlanarRotations(1 if self.fault == "no average" else order))
        width = width_of(kernel, order) / (2**0.5 if self.fault == "narrow kernel" else 1.0)
        found = [mmd_squared(disk(draw, n), disk(draw, n), width=width, under=under) for _ in run]
        return {"square": named(found, "run")}

    def theory(self):
        """The closed form in every cell."""
        return np.array(
            [[[second_moment(r, width_of(kernel, r), n) for n in self.sizes] for r in GROUPS] for kernel in WIDTHS]
        )

    def _rms(self, data, kernel):
        """Root mean squares at the largest n, group by group."""
        return np.sqrt(data.square.sel(kernel=kernel).isel(n=-1).mean("run").values)

    def claims(self, data):
        off = np.abs(data.square.mean("run").values - self.theory()) / data.square.sem("run").values
        yield below("E MMD² is the closed form in every cell: standard errors off, at most", off.max(), 4.0)
        stopped = self._rms(data, "2π/6")
        yield between("s = 2π/6: gain from |Σ| = 16 to 256", stopped[2] / stopped[4], 0.85, 1.15)
        stopped = self._rms(data, "2π/24")
        yield between("s = 2π/24: gain from |Σ| = 64 to 256", stopped[3] / stopped[4], 0.85, 1.15)
        followed = self._rms(data, "2π/6|Σ|")
        yield between("s = 2π/6|Σ|: gain from |Σ| = 64 to 256, about 2", followed[3] / followed[4], 1.7, 2.3)

    def numbers(self, data):
        return {"rms MMD, s = {kernel}, |Σ| = {order}, n = {n}": np.sqrt(data.square.mean("run"))}

    @panel(
        "The kernel distance on the disk",
        "Root mean square of MMD between two samples of {sizes[1]} points of the unit disk, {runs} pairs each, with "
        "two standard errors, under rotations by 2π/|Σ|; lines are the closed form. For fixed widths s the gain stops, "
        "with s = 2π/6|Σ| it goes on like 1/√|Σ|. Right: all sizes, each cell over its closed form.",
        columns=2,
        size=(10.6, 4.4),
    )
    def disks(self, axes, data):
        left, right = axes
        theory, means, errors = self.theory(), data.square.mean("run").values, data.square.sem("run").values
        for place, kernel in enumerate(WIDTHS):
            look = {"color": colour(place), "marker": marker(place), "linestyle": "none"}
            rms = np.sqrt(means[place, :, -1])
            left.errorbar(GROUPS, rms, errors[place, :, -1] / rms, label=f"s = {kernel}", **look)
            left.plot(GROUPS, np.sqrt(theory[place, :, -1]), color=colour(place), linewidth=1.0)
            for size in range(len(self.sizes)):
                spread = np.array(GROUPS) * 1.06 ** (place - 2 + 6 * (size - 0.5) / 2)
                ratio, bar = means[place, :, size] / theory[place, :, size], 2 * errors[place, :, size]
                right.errorbar(spread, ratio, bar / theory[place, :, size], **(look | {"markersize": 3}))
        right.axhline(1.0, color=colour("seventh"), linestyle=DASHED, linewidth=1.0)
        log_axes(left, GROUPS, "|Σ|", "rms MMD")
        right.set(xscale="log", xlabel="|Σ|", ylabel="mean MMD² over the closed form")
        right.set_xticks(GROUPS, [str(one) for one in GROUPS])
        right.minorticks_off()
        legend(left)
