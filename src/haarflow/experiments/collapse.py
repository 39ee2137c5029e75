"""The invariant divergence cannot tell one mode from four: why an invariant discriminator alone lets a GAN collapse."""

import numpy as np

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import natural_rep
from haarflow.measures.discriminators import Lipschitz
from haarflow.measures.distances import mmd_squared, w1
from haarflow.measures.divergences import ipm, lip_alpha
from haarflow.measures.samples import generator
from haarflow.measures.symmetries import symmetry_of
from haarflow.runs.experiment import Count, Experiment, Positive, above, below, blocks, named, once, over, panel, stream
from haarflow.runs.style import INK, colour, legend, marker

TURNS = natural_rep(PlanarRotations(4))
CENTRES = 10.0 * np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
MODES = (1, 2, 4)  # of the made sample; the data have four
DIVERGENCES = ("W1", "MMD", "α-divergence")
BOUND = 1e-9


def sample(draw, n: int, modes: int, deviation: float):
    """n draws of a mixture of Gaussians at the first of the four centres."""
    return CENTRES[draw.integers(modes, size=n)] + deviation * draw.normal(size=(n, 2))


class Collapse(Experiment):
    """A divergence with invariant discriminators is that of the symmetrised laws: it does not see whether a sample has
    one mode or all four, while the plain divergence sees it at once.

    Source: Structure-preserving GANs (arXiv 2202.01129), Theorem 1 and its warning of mode collapse; the
    symmetry-preserving-learning talk.

    The data are four Gaussians at (±10, ±10) under quarter turns. Made samples have one, two or four of the modes. The
    α-divergence has α = 2 and Lipschitz functions, of constant one in units of ten. In the limit of large samples W1
    from one mode to four is 5 (2 + √2) = 17.07, and from two 10.
    """

    tour_included = True
    seconds = 20.0
    faults = {
        "plain discriminators": "the invariant divergence is taken without the group",
        "half group": "the invariant divergence knows half turns alone",
    }

    n: Count = 200  # points of a sample
    runs: Count = 100  # pairs of samples
    deviation: Positive = 1.0  # of each mode

    @classmethod
    def tour(cls):
        return cls(n=100, runs=30)

    @classmethod
    def full(cls):
        return cls(n=400, runs=300)

    def design(self):
        yield self.seen, over(modes=MODES) * blocks("run", self.runs, size=25)
        yield self.equality, once()
        yield self.witnesses, once()

    @property
    def _told(self):
        """The group that the invariant divergence is told."""
        elements = {"plain discriminators": [0], "half group": [0, 2]}.get(self.fault)
        return TURNS if elements is None else TURNS.action().pick(elements)

    def seen(self, key, modes, run):
        """Three divergences to the data, with all and with invariant discriminators."""
        draw = generator(stream(key, "seen", modes, run.start))
        found = np.empty((2, len(DIVERGENCES), len(run)))
        few = self.n // 4  # points of the program of the α-divergence
        for place in range(len(run)):
            made, data = (sample(draw, self.n, count, self.deviation) for count in (modes, 4))
            for way, under in enumerate((None, self._told)):
                found[way, 0, place] = w1(made, data, under=under)
                found[way, 1, place] = mmd_squared(made, data, width=10.0, under=under) ** 0.5
                found[way, 2, place] = lip_alpha(made[:few] / 10, data[:few] / 10, under=under).value
        labels = {"way": ("all", "invariant"), "divergence": DIVERGENCES}
        return {"found": named(found, "way", "divergence", "run", **labels)}

    def equality(self, key):
        """The divergence with invariant discriminators against that of the symmetrised samples."""
        draw, symmetry = generator(stream(key, "identity")), symmetry_of(TURNS, 2)
        made, data = (sample(draw, size, count, self.deviation) for size, count in ((12, 1), (15, 4)))
        orbits = [np.concatenate(list(symmetry.images(z))) for z in (made, data)]
        measures = (w1, lambda x, y, under=None: mmd_squared(x, y, width=10.0, under=under))
        off = [abs(far(made, data, under=self._told) - far(*orbits)) for far in measures]
        return {"off": named(off, "what", what=("W1", "MMD²"))}

    def witnesses(self, key):
        """The witnesses of W1, all and invariant, of one mode against four, on a grid; and the samples."""
        draw, line = generator(stream(key, "witnesses")), np.linspace(-14, 14, 57)
        made, data = (sample(draw, self.n, count, self.deviation) for count in (1, 4))
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        found = [ipm(made, data, within=Lipschitz(1.0), under=under).witness(grid) for under in (None, self._told)]
        shades = np.reshape(found, (2, len(line), len(line)))
        samples = named([made, data], "whose", "point", "axis", whose=("made", "data"))
        return {"shades": named(shades, "way", "y", "x", way=("all", "invariant"), y=line, x=line), "samples": samples}

    def claims(self, data):
        for what, off in data.off.each("what"):
            yield below(
                f"{what} with invariant discriminators is that of the symmetrised samples, to {{bound}}", off, BOUND
            )
        means, errors = data.found.mean("run"), data.found.sem("run")
        one = float(means.sel(way="all", divergence="W1", modes=1))
        limit = 5 * (2 + 2**0.5)
        yield below("W1 from one mode to four is 17.07 within {bound:.0%}", abs(one / limit - 1), 0.05)
        for divergence in DIVERGENCES:
            plain = means.sel(way="all", divergence=divergence)
            ratio = plain.sel(modes=1) / plain.sel(modes=4)
            yield above(f"{divergence}, all discriminators: one mode over four modes", ratio, 3.0)
            blind, error = (each.sel(way="invariant", divergence=divergence) for each in (means, errors))
            gap = abs(float(blind.sel(modes=1)) - float(blind.sel(modes=4)))
            spread = np.hypot(float(error.sel(modes=1)), float(error.sel(modes=4)))
            yield below(f"{divergence}, invariant: one mode and four differ, in standard errors, by", gap / spread, 4.0)

    def numbers(self, data):
        return {"{divergence}, {way} discriminators, {modes} modes": data.found.mean("run")}

    @panel(
        "What the divergences see",
        "Divergence from samples of one, two or four modes to data with four: means over {runs} pairs with two "
        "standard errors. With all discriminators it falls as modes are found; with invariant ones it is the same for "
        "all.",
        columns=3,
        size=(10.6, 3.6),
    )
    def blind(self, axes, data):
        means, errors = data.found.mean("run"), data.found.sem("run")
        for axis, divergence in zip(axes, DIVERGENCES, strict=True):
            for order, (way, one) in enumerate(means.sel(divergence=divergence).each("way")):
                bars = 2 * errors.sel(divergence=divergence, way=way).values
                look = {"color": colour(order), "marker": marker(order)}
                axis.errorbar(range(3), one.values, bars, label=f"{way} discriminators", **look)
            axis.set_xticks(range(3), [str(count) for count in MODES])
            axis.set(yscale="log", xlabel="modes of the sample", title=divergence)
        legend(axes[-1])

    @panel(
        "Witnesses",
        "The best 1-Lipschitz discriminator between a sample of one mode (dots) and data with four (crosses). Left: "
        "all functions; it is high at the made mode and low at those that are missing. Right: invariant ones; it is "
        "the same at all four modes, so that nothing pushes the sample to the others.",
        columns=2,
        size=(9.6, 4.4),
    )
    def seen_by(self, axes, data):
        line = data.shades.labels("x")
        for axis, (way, shade) in zip(axes, data.shades.each("way"), strict=True):
            levels = axis.contour(line, line, shade.values, levels=12, linewidths=0.9, cmap="viridis")
            axis.clabel(levels, fontsize=6.5)
            made, real = (data.samples.sel(whose=whose).values for whose in ("made", "data"))
            axis.plot(*real.T, "x", color=colour("EA"), markersize=3)
            axis.plot(*made.T, ".", color=INK, markersize=3)
            axis.set(aspect="equal", title=f"{way} discriminators")
