"""How many samples a group saves: W1 between two samples of one law, with quotient costs."""

import numpy as np

from haarflow.algebra.groups import Dihedral, Hyperoctahedral, PlanarRotations, Symmetric
from haarflow.algebra.reps import Rep, natural_rep
from haarflow.experiments._problems import CIRCLE, ring
from haarflow.measures.distances import w1
from haarflow.measures.isometries import Shifts
from haarflow.measures.samples import generator
from haarflow.measures.symmetries import symmetry_of
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Sizes,
    below,
    between,
    blocks,
    named,
    over,
    panel,
    power_law,
    stream,
)
from haarflow.runs.style import DASHED, INK, MUTED, failures, gains, legend, log_axes, power_laws

GROUPS = (1, 4, 16, 64, 256)
STEPS = (1, 2, 4)
TORI = (2, 3)
BOUND = 1e-9


def identity_groups() -> dict[str, Rep]:
    """The groups in which quotient, augmented and dual transport are compared."""
    groups = {"C4": PlanarRotations(4), "C7": PlanarRotations(7), "D4": Dihedral(4), "S3": Symmetric(3)}
    return {
        name: natural_rep(group) for name, group in (groups | {"S4": Symmetric(4), "B2": Hyperoctahedral(2)}).items()
    }


def dual_value(x, y, symmetry) -> float:
    """The largest mean difference of functions on all atoms that are 1-Lipschitz for the quotient distance: an LP."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    points = np.concatenate([x, y])
    far, size = np.sqrt(symmetry.gaps(points, points)), len(points)
    i, j = np.nonzero(~np.eye(size, dtype=bool))
    rows = np.arange(len(i))
    entries = np.concatenate([np.ones(len(i)), -np.ones(len(i))])
    matrix = coo_array((entries, (np.tile(rows, 2), np.concatenate([i, j]))), shape=(len(i), size))
    gain = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    free = [(0, 0), *[(None, None)] * (size - 1)]
    return -float(linprog(-gain, A_ub=matrix.tocsr(), b_ub=far[i, j], bounds=free, method="highs").fun)


class W1Gain(Experiment):
    """Knowing a group of |Σ| isometries makes the transport distance between two samples of an invariant law smaller by
    |Σ|^(1/d): by |Σ| on the circle, by √|Σ| in the plane; one transport with quotient costs gives it exactly.

    Source: Sample complexity of probability divergences under group symmetry (arXiv 2302.01915), its examples on
    [0, 1) and of eight Gaussians; the symmetry-preserving-learning talk.

    On [0, 1), shifts by 1/r act, the law is ξ^(1/3)/r plus a random shift, and distances are those of the circle, in
    which a shift is an isometry. With common random numbers the ratio of two groups is exact; independent draws meet
    it in the mean. On tori, shifts by 1/k in every coordinate act on the uniform law, |Σ| = k^d. For eight Gaussians on
    the unit circle the estimator is told rotations by 45° or some of them.
    """

    tour_included = True
    seconds = 50.0
    faults = {
        "no group": "costs are those of the space, not of the quotient",
        "lost element": "the last element of every group is left out of the quotient cost",
    }

    runs: Count = 200  # pairs of samples of each cell
    sizes: Sizes = (10, 30, 100, 300)  # of a sample
    draws: Count = 20  # random pairs for each identity
    deviation: float = 0.2  # of each of the eight Gaussians

    @classmethod
    def tour(cls):
        return cls(runs=60, sizes=(10, 30, 100), draws=3)

    @classmethod
    def full(cls):
        return cls(runs=1000)

    def design(self):
        yield self.identities, over(group=identity_groups())
        cells = over(n=self.sizes) * blocks("run", self.runs, size=100)
        yield self.shifts, cells.largest_first("n")
        yield self.gaussians, cells.largest_first("n")
        yield self.tori, over(d=TORI) * blocks("run", self.runs, size=100)

    def identities(self, key, group):
        """Quotient transport against that of augmented samples and against the dual program, unequal sizes."""
        rep, found = identity_groups()[group], []
        symmetry = symmetry_of(rep, rep.dim)
        draw = generator(stream(key, "identities", *group.encode()))
        told = rep.action().pick(np.arange(len(rep.action()) - 1)) if self.fault == "lost element" else rep
        for _ in range(self.draws):
            x, y = draw.normal(size=(6, rep.dim)), draw.normal(size=(9, rep.dim)) + 0.5
            value = w1(x, y, under=None if self.fault == "no group" else told)
            augmented = w1(*(np.concatenate(list(symmetry.images(z))) for z in (x, y)))
            found.append([abs(value - augmented), abs(value - dual_value(x, y, symmetry))])
        return {"off": named(found, "draw", "against", against=("augmented samples", "dual program"))}

    def shifts(self, key, n, run):
        """W1 on the circle for every group, with common and with independent random numbers."""
        found, draw = np.empty((2, len(GROUPS), len(run))), generator(stream(key, "shifts", n, run.start))
        for place in range(len(run)):
            common = draw.random((2, n, 1))
            for order, r in enumerate(GROUPS):
                for way, base in enumerate((common, draw.random((2, n, 1)))):
                    x, y = base ** (1 / 3) / r + draw.integers(r, size=base.shape) / r
                    found[way, order, place] = w1(x, y, under=Shifts(1 if self.fault == "no group" else r))
        return {"shifted": named(found, "way", "group", "run", way=("common", "independent"), group=GROUPS)}

    def gaussians(self, key, n, run):
        """W1 of eight Gaussians under rotations."""
        found, draw = np.empty((len(CIRCLE), len(run))), generator(stream(key, "gaussians", n, run.start))
        for order, r in enumerate(CIRCLE):
            under = None if self.fault == "no group" else natural_rep(PlanarRotations(r))
            for place in range(len(run)):
                found[order, place] = w1(ring(draw, n, self.deviation), ring(draw, n, self.deviation), under=under)
        return {"ring": named(found, "group", "run", group=CIRCLE)}

    def tori(self, key, d, run):
        """W1 on the torus for independent draws of the uniform law."""
        found, n = np.empty((len(STEPS), len(run))), min(max(self.sizes), 150)
        draw = generator(stream(key, "tori", d, run.start))
        for order, k in enumerate(STEPS):
            for place in range(len(run)):
                x, y = draw.random((2, n, d))
                found[order, place] = w1(x, y, under=Shifts(1 if self.fault == "no group" else k))
        return {"torus": named(found, "steps", "run", steps=STEPS)}

    def fits(self, data):
        rows = data.shifted.sel(way="independent").each("group")
        return {f"|Σ| = {r}": power_law(one, along="n", centre="mean") for r, one in rows}

    def claims(self, data):
        for against, off in data.off.each("against"):
            yield below(f"quotient transport is that of the {against}, to {{bound}}", off.max(), BOUND)
        means = data.shifted.mean("run")
        common = data.shifted.sel(way="common").values
        exact = np.abs(common[:, :-1] / common[:, 1:] / 4 - 1).max()
        yield below("on the circle, common random numbers: each ratio is 4 to {bound}", exact, BOUND)
        largest = means.isel(n=-1).sel(way="independent").values
        worst = np.abs(largest[:-1] / largest[1:] / 4 - 1).max()
        yield below("on the circle, independent draws: each ratio is 4 within {bound:.0%}", worst, 0.15)
        for fit in data.fits.values():
            yield fit.between(-0.6, -0.4)
        for d, one in data.torus.mean("run").each("d"):
            ratios = one.values[:-1] / one.values[1:]
            yield below(
                f"on the torus in R^{d}: each ratio is |Σ|^(1/d) = 2 within {{bound:.0%}}",
                np.abs(ratios / 2 - 1).max(),
                0.15,
            )
        ring = data.ring.isel(n=-1).mean("run").values
        for order, ratio in enumerate(ring[:-1] / ring[1:]):
            step = f"C{CIRCLE[order]} to C{CIRCLE[order + 1]}"
            yield between(f"eight Gaussians, {step}: a ratio about √2", ratio, 1.3, 1.7)

    def numbers(self, data):
        return {"eight Gaussians, C{group}, n = {n}": data.ring.mean("run")}

    @panel(
        "Shifts of the circle",
        "W1 between two samples of ξ^(1/3)/r plus a random shift by multiples of 1/r, with quotient costs: means over "
        "{runs} pairs of independent samples with a 10–90% band. Each factor of 4 in the group divides the distance by "
        "4 (right, with two standard errors; the line is |Σ|).",
        columns=2,
        size=(10.2, 4.2),
    )
    def circle(self, axes, data):
        left, right = axes
        independent = data.shifted.sel(way="independent")
        power_laws(
            left,
            independent,
            along="n",
            by="group",
            fits={},
            centre="mean",
            xlabel="n",
            ylabel="W1 under the group",
            power=-0.5,
        )
        for order, (n, one) in enumerate(independent.each("n")):
            gains(right, GROUPS, one, order, f"n = {n}")
        right.plot(GROUPS, GROUPS, color=INK, linewidth=1.0, linestyle=DASHED, label="|Σ|")
        log_axes(right, GROUPS, "|Σ|", "gain over no group")
        legend(right)
        legend(left, title="|Σ|")

    @panel(
        "Eight Gaussians and tori",
        "Left: eight Gaussians on the unit circle of deviation {deviation}, estimators that know C1, C2, C4 or C8; "
        "each step gains a little more than √2 (dashed: C1 over √|Σ|). Right: the gain on tori of two and three "
        "dimensions under shifts by "
        "1/k, |Σ| = k^d, is k. Two standard errors.",
        columns=2,
        size=(10.2, 4.0),
    )
    def plane(self, axes, data):
        left, right = axes
        power_laws(
            left, data.ring, along="n", by="group", fits={}, centre="mean", xlabel="n", ylabel="W1 under the group"
        )
        first = data.ring.sel(group=1).mean("run").values
        for r in CIRCLE[1:]:
            left.plot(self.sizes, first / r**0.5, color=MUTED, linewidth=1.0, linestyle=DASHED)
        legend(left, title="|Σ|")
        for order, (d, one) in enumerate(data.torus.each("d")):
            gains(right, STEPS, one, order, f"d = {d}")
        right.plot(STEPS, STEPS, color=MUTED, linewidth=1.0, linestyle=DASHED, label="k")
        log_axes(right, STEPS, "k", "gain over no group")
        legend(right)

    @panel(
        "One value, three computations",
        "The largest difference over {draws} pairs of samples of sizes 6 and 9, for each group.",
        size=(7.6, 2.8),
    )
    def same(self, axis, data):
        worst = data.off.max("draw")
        failures(axis, list(identity_groups()), {against: one.values for against, one in worst.each("against")}, BOUND)
