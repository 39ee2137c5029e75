"""Four modes in the plane: which parts of a GAN must know a symmetry."""

import jax
import numpy as np

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.measures import distances
from haarflow.measures.samples import generator
from haarflow.practice.gans import GAN, ROWS
from haarflow.runs.experiment import Count, Experiment, Positive, above, below, named, once, over, panel, stream, tell
from haarflow.runs.style import MUTED, colour

LAWS = ("gaussian", "student")
TURNS = PlanarRotations(4)
SPACE = natural_rep(TURNS) + trivial_rep(TURNS, 10)
CENTRES = 10.0 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
REACH = 30.0  # points further from the origin are brought back to this distance before W1, infinite for ν = ½
EIGHTH = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)  # of a turn
SHOWN = 300
COUNTED = 20_000  # made points by which the quadrants are weighed: an exactly invariant law is then off by about .004
EXACT = ("generator", "both")  # rows whose law is invariant by construction


class GanToy(Experiment):
    """A GAN makes four modes in equal parts when its generator is equivariant and its latent law is symmetrised; an
    invariant discriminator alone cannot tell one mode from four, and the generator collapses where nobody sees it.

    Source: the symmetry-preserving-learning talk; Birrell, Katsoulakis, Rey-Bellet and Zhu, Structure-preserving GANs
    (arXiv 2202.01129), their toy example.

    The data are four modes at (±10, ±10) in a plane of R^12, Gaussian with deviation 1 or Student with ν = ½, turned
    into each other by the quarter turns C4. Networks of widths 64, 32 and 16, z in R^10, RMSprop, five steps of the
    discriminator for each of the generator, Lipschitz-regularised α-divergence with α = 2. The published rate is 2e-4;
    quick mode takes five times that, for a fifth of the steps. Every start has training points of its own. Quadrant
    error: the total variation between the masses that 20 000 made points have in the four quadrants and 1/4 each. W1 is
    exact transport between made points and as many fresh true ones in R^12, as many as are trained on, points further
    from the origin than 30 brought back to that distance; the floor is W1 between two fresh samples of truth. W1 under
    the group takes the distance of orbits.
    """

    group = "games"
    seconds = 200.0
    faults = {
        "fixed turns": "the latent law is never symmetrised, also in the rows that say so",
        "turned truth": "made points are compared with modes an eighth of a turn away",
    }

    steps: Count = 4000  # of the generator
    runs: Count = 3  # starts of every row and law
    points: Count = 200  # training points
    test: Count = 200  # points of a sample of which W1 is computed: as many as are trained on
    samples: Count = 5  # such samples of every start, whose mean is taken
    rate: Positive = 1e-3  # of RMSprop for both players

    @classmethod
    def tour(cls):
        return cls(steps=1500, runs=2)

    @classmethod
    def full(cls):
        return cls(steps=20_000, runs=10, rate=2e-4)

    def design(self):
        yield self.train, over(row=ROWS)
        yield self.floor, once()

    def train(self, key, row):
        """All starts of one row, on both laws, in one program; and what they make."""
        runs = [(law, run) for law in LAWS for run in range(self.runs)]
        samples = [self._true(stream(key, "data", run), law, self.points) for law, run in runs]
        keys = jax.vmap(jax.random.fold_in, (None, 0))(stream(key, "start"), np.arange(len(runs)) % self.runs)
        latent = "unsymmetrised" if self.fault == "fixed turns" and row in EXACT else row
        fitted = GAN(on_x=SPACE, symmetry=latent, rates=(self.rate, self.rate)).fit_together(
            samples, keys, steps=self.steps, progress=tell
        )
        found = {"mass": [], "w1": [], "under": [], "off_plane": [], "violation": [], "shown": []}
        for (law, run), one in zip(runs, fitted, strict=True):
            made = one.sample(stream(key, "sample", run), self.test * self.samples)
            true = self._true(stream(key, "test", run), law, len(made))
            if self.fault == "turned truth":
                true[:, :2] = true[:, :2] @ EIGHTH
            found["mass"].append(masses(one.sample(stream(key, "mass", run), COUNTED)))
            found["w1"].append(self._w1(made, true))
            found["under"].append(self._w1(made, true, under=SPACE))
            found["off_plane"].append(np.median(np.linalg.norm(made[:, 2:], axis=1)))
            found["violation"].append(list(one.violation(stream(key, "violation", run)).values()))
            found["shown"].append(made[:SHOWN, :2])
        axes = {"mass": ["quadrant"], "violation": ["who"], "shown": ["point", "axis"]}
        labels = {"violation": {"who": ["generator", "discriminator"]}}
        return {
            name: named(_shaped(rows, self.runs), "law", "run", *axes.get(name, []), law=LAWS, **labels.get(name, {}))
            for name, rows in found.items()
        }

    def floor(self, key):
        """W1 between two fresh samples of truth; and of one mode against truth, which the group does not see."""
        pairs = {"floor": [], "floor_under": [], "collapse": [], "collapse_under": []}
        for law in LAWS:
            for run in range(self.runs):
                a, b = (self._true(stream(key, name, run), law, self.test * self.samples) for name in ("test", "again"))
                single = self._true(stream(key, "single", run), law, len(a), modes=1)
                pairs["floor"].append(self._w1(a, b))
                pairs["floor_under"].append(self._w1(a, b, under=SPACE))
                pairs["collapse"].append(self._w1(a, single))
                pairs["collapse_under"].append(self._w1(a, single, under=SPACE))
        return {name: named(_shaped(rows, self.runs), "law", "run", law=LAWS) for name, rows in pairs.items()}

    def _w1(self, a, b, under=None):
        """W1 between samples of the two, the mean over several."""
        return np.mean([w1(a[i :: self.samples], b[i :: self.samples], under) for i in range(self.samples)])

    def _true(self, key, law, n, modes=4):
        draw = generator(key)
        noise = draw.normal(size=(n, 2))
        if law == "student":  # a normal over the root of a chi-squared with ν degrees, divided by ν
            noise = noise / np.sqrt(draw.chisquare(0.5, size=(n, 1)) / 0.5)
        return np.c_[CENTRES[draw.integers(modes, size=n)] + noise, np.zeros((n, 10))]

    def _error(self, data):
        """The total variation between the masses of the quadrants and equal ones."""
        return abs(data.mass - 0.25).sum("quadrant") / 2

    def claims(self, data):
        keeps = data.violation.sel(row="both").max()
        yield below("both: largest violation of the symmetry by a trained network, relative", keeps, 1e-10)
        error, ratio = self._error(data).sel(law="gaussian"), (data.w1 / data.floor.mean("run")).sel(law="gaussian")
        for row in EXACT:
            worst = error.sel(row=row).max()
            yield below(f"{row}: quadrant error, Gaussian modes, in the worst run", worst, 0.05)
            student = self._error(data).sel(law="student", row=row).max()
            yield below(f"{row}: quadrant error, Student modes, in the worst run", student, 0.05)
            yield below(f"{row}: W1 over its floor, Gaussian modes, median", ratio.sel(row=row).median("run"), 1.3)
        blind = error.sel(row="discriminator").median("run")
        yield above("discriminator alone: quadrant error, Gaussian modes, median", blind, 0.4)
        seen = data.under.sel(law="gaussian", row="discriminator") / data.w1.sel(law="gaussian", row="discriminator")
        yield below("discriminator alone: W1 under the group over W1, median", seen.median("run"), 0.2)
        far = data.collapse.sel(law="gaussian").mean() / data.floor.sel(law="gaussian").mean()
        yield above("one mode against four: W1 over its floor", far, 5.0)
        near = data.collapse_under.sel(law="gaussian").mean() / data.floor_under.sel(law="gaussian").mean()
        yield below("one mode against four: W1 under the group over its floor", near, 1.2)

    def numbers(self, data):
        return {
            "quadrant error, {law}, {row}": self._error(data).median("run"),
            "W1, {law}, {row}": data.w1.median("run"),
            "W1 under the group, {law}, {row}": data.under.median("run"),
            "distance from the plane, {law}, {row}": data.off_plane.median("run"),
            "floor of W1, {law}": data.floor.mean("run"),
            "floor of W1 under the group, {law}": data.floor_under.mean("run"),
        }

    @panel(
        "What every row makes",
        "The first start, {steps} steps. Crosses: the centres of the modes. Above Gaussian modes, below Student modes "
        "with ν = ½. The row `discriminator`, an invariant discriminator against a plain generator, collapses; rows "
        "with an equivariant generator and a symmetrised latent law have all modes in equal parts by construction.",
        rows=2,
        columns=6,
        size=(12.0, 4.2),
    )
    def collapse_picture(self, axes, data):
        for line, law in zip(np.asarray(axes).reshape(2, 6), LAWS, strict=True):
            for axis, row in zip(line, ROWS, strict=True):
                points = data.shown.sel(law=law, row=row).isel(run=0).values
                axis.plot(*points.T, ".", color=colour(ROWS.index(row)), markersize=2)
                axis.plot(*CENTRES.T, "x", color=MUTED, markersize=7)
                axis.set(xlim=(-20, 20), ylim=(-20, 20), aspect="equal", xticks=[], yticks=[])
                axis.set_title(row if law == "gaussian" else "", fontsize=9)
        np.ravel(axes)[0].set_ylabel("Gaussian")
        np.ravel(axes)[6].set_ylabel("Student")

    @panel(
        "Quadrant error, W1, and W1 under the group",
        "Every start is a dot. Dashed: the floor, two fresh samples of truth. Under the group the collapsed row looks "
        "as good as any: an invariant divergence cannot see it.",
        columns=3,
        size=(12.0, 3.8),
    )
    def scores(self, axes, data):
        shown = {"quadrant error": self._error(data), "W1": data.w1, "W1 under the group": data.under}
        floors = {"W1": data.floor, "W1 under the group": data.floor_under}
        for axis, (name, values) in zip(axes, shown.items(), strict=True):
            for shift, (law, marker) in zip((-0.15, 0.15), (("gaussian", "o"), ("student", "^")), strict=True):
                for i, row in enumerate(ROWS):
                    dots = values.sel(law=law, row=row).values
                    label = {"gaussian": "Gaussian", "student": "Student"}[law] if i == 0 else None
                    axis.plot(np.full(len(dots), i + shift), dots, marker, color=colour(i), markersize=5, label=label)
            for law in LAWS if name in floors else ():
                axis.axhline(float(floors[name].sel(law=law).mean()), color=MUTED, linestyle="--", linewidth=0.8)
            axis.set_xticks(range(len(ROWS)), ROWS, rotation=35, ha="right", fontsize=8)
            axis.set(ylabel=name, ylim=(0, None))
        axes[0].legend(fontsize=8)


def _shaped(rows, runs):
    found = np.asarray(rows, float)
    return found.reshape(len(LAWS), runs, *found.shape[1:])


def masses(points):
    """The shares of points in the four quadrants."""
    places = 2 * (points[:, 0] > 0) + (points[:, 1] > 0)
    return np.bincount(places, minlength=4) / len(points)


def w1(a, b, under=None):
    """W1 of two samples brought back to a distance from the origin; under the group, by the distance of orbits."""
    a, b = (x * np.minimum(1, REACH / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)) for x in (a, b))
    return distances.w1(a, b, under=under)
