"""The Lipschitz-regularised alpha-divergence under a group: the same value by less, and a gain in samples."""

import numpy as np

from haarflow.algebra.groups import Dihedral, Hyperoctahedral, PlanarRotations, Symmetric
from haarflow.algebra.reps import natural_rep
from haarflow.experiments._problems import CIRCLE, ring
from haarflow.measures.distances import w1
from haarflow.measures.divergences import lip_alpha
from haarflow.measures.samples import generator
from haarflow.measures.symmetries import symmetry_of
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Positive,
    Sizes,
    above,
    below,
    blocks,
    named,
    over,
    panel,
    stream,
)
from haarflow.runs.style import DASHED, INK, failures, gains, legend, log_axes, power_laws

ALPHAS = (1.5, 2.0, 4.0)
SMALL = {"C4": PlanarRotations(4), "D4": Dihedral(4), "S3": Symmetric(3), "B2": Hyperoctahedral(2)}
BOUND = 1e-8


class AlphaGain(Experiment):
    """The Lipschitz-regularised α-divergence under a group is that of the symmetrised samples, by a program |Σ| times
    smaller on each side; between two samples of one invariant law it falls with the group, in the plane by √2 or more
    for each doubling.

    Source: Sample complexity of probability divergences under group symmetry (arXiv 2302.01915), its example of eight
    Gaussians; (f, Γ)-divergences: interpolating between f-divergences and integral probability metrics (arXiv
    2011.05953).

    The law is eight Gaussians on the unit circle; the estimator is told rotations by 45° or some of them. Each value
    comes with a witness that attains it and a proved gap. It is never more than L times W1 under the same group.
    """

    seconds = 12.0
    faults = {
        "no group": "the program is that of the space, not of the quotient",
        "half constant": "invariant discriminators have half the Lipschitz constant",
    }

    runs: Count = 60  # pairs of samples of each cell
    sizes: Sizes = (20, 40, 80)  # of a sample
    draws: Count = 3  # pairs for each identity
    alpha: Positive = 2.0
    deviation: Positive = 0.2  # of each of the eight Gaussians

    @classmethod
    def tour(cls):
        return cls(runs=20, sizes=(25, 50), draws=1)

    @classmethod
    def full(cls):
        return cls(runs=400, sizes=(25, 50, 100, 200), draws=20)

    def design(self):
        yield self.identities, over(group=SMALL, alpha=ALPHAS)
        yield self.pairs, (over(n=self.sizes) * blocks("run", self.runs, size=20)).largest_first("n")

    def _value(self, x, y, rep, alpha):
        options = {"under": None if self.fault == "no group" else rep}
        return lip_alpha(x, y, alpha=alpha, lipschitz=0.5 if self.fault == "half constant" else 1.0, **options)

    def identities(self, key, group, alpha):
        """The quotient program against that of augmented samples, of unequal sizes, and both proved gaps."""
        rep = natural_rep(SMALL[group])
        symmetry, draw = (
            symmetry_of(rep, rep.dim),
            generator(stream(key, "identities", *group.encode(), int(8 * alpha))),
        )
        off, gap = [], []
        for _ in range(self.draws):
            x, y = draw.normal(size=(5, rep.dim)), draw.normal(size=(7, rep.dim)) + 0.5
            found = self._value(x, y, rep, alpha)
            augmented = lip_alpha(*(np.concatenate(list(symmetry.images(z))) for z in (x, y)), alpha=alpha)
            off.append(abs(found.value - augmented.value))
            gap.append(max(found.gap, augmented.gap))
        return {"off": named(off, "draw"), "gap": named(gap, "draw")}

    def pairs(self, key, n, run):
        """The divergence of pairs of samples, and their W1, for every group."""
        draw, found = generator(stream(key, "pairs", n, run.start)), np.empty((3, len(CIRCLE), len(run)))
        for order, r in enumerate(CIRCLE):
            rep = natural_rep(PlanarRotations(r))
            for place in range(len(run)):
                x, y = (ring(draw, n, self.deviation) for _ in range(2))
                value = self._value(x, y, rep, self.alpha)
                found[:, order, place] = value.value, value.gap, w1(x, y, under=rep)
        labels = {"what": ("divergence", "proved gap", "W1"), "group": CIRCLE}
        return {"found": named(found, "what", "group", "run", **labels)}

    def claims(self, data):
        yield below("the quotient program has the value of the augmented one, to {bound}", data.off.max(), BOUND)
        proved = max(float(data.gap.max()), float(data.found.sel(what="proved gap").max()))
        yield below("every value is proved, to {bound}", proved, BOUND)
        excess = (data.found.sel(what="divergence") - data.found.sel(what="W1")).max()
        yield below("no value exceeds W1 under the same group, to {bound}", excess, BOUND)
        means = data.found.sel(what="divergence").isel(n=-1).mean("run").values
        for order, ratio in enumerate(means[:-1] / means[1:]):
            yield above(f"C{CIRCLE[order]} to C{CIRCLE[order + 1]}: ratio (theory: √2 or more)", ratio, 1.3)

    def numbers(self, data):
        return {"{what}, C{group}, n = {n}": data.found.mean("run")}

    @panel(
        "Eight Gaussians",
        "The Lipschitz-regularised divergence with α = {alpha} between two samples of eight Gaussians on the unit "
        "circle, by estimators that know C1, C2, C4 or C8: means over {runs} pairs with a 10–90% band. Right: the gain "
        "over no group with two standard errors; dashed is √|Σ|.",
        columns=2,
        size=(10.6, 4.2),
    )
    def falls(self, axes, data):
        left, right = axes
        value = data.found.sel(what="divergence")
        power_laws(left, value, along="n", by="group", fits={}, centre="mean", xlabel="n", ylabel="divergence")
        legend(left, title="|Σ|")
        for order, (n, one) in enumerate(value.each("n")):
            gains(right, CIRCLE, one, order, f"n = {n}")
        right.plot(CIRCLE, np.sqrt(CIRCLE), color=INK, linestyle=DASHED, linewidth=1.0, label="√|Σ|")
        log_axes(right, CIRCLE, "|Σ|", "gain over no group")
        legend(right)

    @panel(
        "Quotient and augmented programs",
        "The difference of the two values, largest over {draws} pairs of samples of sizes 5 and 7.",
        size=(7.6, 2.6),
    )
    def same(self, axis, data):
        worst = data.off.max("draw")
        failures(axis, list(SMALL), {f"α = {alpha:g}": one.values for alpha, one in worst.each("alpha")}, BOUND)
