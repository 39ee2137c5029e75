"""Training from a weakly invariant start: which schemes stay invariant, and how fast in the number of particles."""

from itertools import product
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.measures.clouds import Cloud
from haarflow.measures.invariance import wi_bounds, wi_distance
from haarflow.practice.compare import SCHEMES
from haarflow.runs.experiment import Experiment, below, blocks, in_turns, joined, named, once, over, panel, power_law
from haarflow.runs.sizes import Count, Horizon, NonNegative, Positive, Sizes
from haarflow.runs.style import boxes, legend, power_laws, series_of

TEACHERS = ("arbitrary", "weak")
FITTED = 100  # slopes are fitted from this many particles on: below, a step of alpha / N is not small
_TEST = 2**31  # the stream of the inputs on which functions are compared, apart from those of the repetitions
TRANSPORTED = 10  # transport distances are solved for so many repetitions, as published
PAIRS = ("DA–FA", "DA–vanilla")
TALL = (8.4, 6.4)


class WeakInvariance(Experiment):
    """From a weakly invariant start, DA and FA training stay close to invariant, like 1/N, whatever the teacher; plain
    training does so when the teacher is equivariant and drifts away when it is not; DA and FA coincide as N grows.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorems 3 and 4,
    Corollary 3 and the figures of the teacher–student experiment with WI starts.

    Published parameters: sigmoid(z x) with the swap of coordinates, X ~ N(0, 16 I), loss |y − ŷ|², step 50/N for 20 N
    steps, penalty 1e-4 |z|² (here `Penalty(2e-4)`), temperature 1e-6, batch 20, ten repetitions, starts N(0, 1/16).
    The schemes of a repetition share their start, data and noise; EA starts from the projected start. DA draws one
    element per sample. With `augmentation = "exact"` it averages over the whole group at every step; then its gradient
    noise is symmetric, |f − Qf|² is hundreds of times smaller and falls faster than 1/N.

    The law is 1/N at a fixed flow time as N grows. FA keeps the asymmetry of its start, and that of DA fluctuates with
    its random elements: both scatter by their own size from run to run, so that ten repetitions know a slope to ±0.3
    only. Quick mode therefore looks at flow time 25 (half a horizon, by when plain training has reached 98% of its
    asymmetry) with sixty repetitions, which know it to about ±0.15. Slopes are of means over repetitions, from N =
    100 on. At the published flow time 1000 the constant of DA with an arbitrary teacher still grows between N = 100
    and 500, where a step of 50/N is not small (N |f − Qf|² is 0.025, 0.033, 0.05, 0.09 ± 0.02 at N = 100, 200, 500,
    1000): its slope there is near −0.6, and in full mode that verdict may fail.
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 81.0

    sizes: Sizes = (100, 500, 1000)
    repetitions: Count = 60
    alpha: Positive = 50.0
    tau: NonNegative = 1e-4
    temperature: NonNegative = 1e-6
    batch: Count = 20
    horizon: Horizon = 0.5
    augmentation: Literal["exact", "random"] = "random"
    inputs: Count = 500
    exact_up_to: Count = 100

    @classmethod
    def full(cls):
        return cls(sizes=(5, 10, 50, 100, 500, 1000, 5000), repetitions=10, horizon=20.0, exact_up_to=1000)

    def design(self):
        runs = blocks("run", self.repetitions, size=lambda n, **_: 10_000 / (n * self.horizon))
        yield self.train, (over(teacher=TEACHERS, n=sorted(self.sizes)) * runs).largest_first("n")
        yield self.pairing, once()

    def train(self, key, teacher, n, run):
        """Train the four schemes in one program, and measure where they end."""
        task = published.task(teacher, self.batch, atoms=10)  # both teachers share a program
        four = published.four(task, self.tau, exact=self.augmentation == "exact")
        xs = published.inputs(jax.random.fold_in(key, _TEST), self.inputs)
        found = []
        for some in in_turns(run, 1000 / n):  # so many runs fit the cache together
            keys = jnp.stack([jax.random.fold_in(key, r) for r in some])
            start = published.drawn(keys, n, strong=False)
            options = {"key": keys, "dt": self.alpha / n, "steps": round(self.horizon * n), "progress": False}
            paths = flow(four.fields, four.steppers(self.temperature), start, **options)
            ends = {name: path.cloud for name, path in paths.items()}
            *errors, coupled = _compare(ends, task.cloud, xs)
            gaps = dict(zip(("asymmetry", "to_teacher", "to_ideal"), errors, strict=True))
            found.append(
                {what: named(gap, "run", "scheme", run=some, scheme=SCHEMES) for what, gap in gaps.items()}
                | {"coupled": named(coupled, "run", "pair", run=some, pair=PAIRS), "rmd2": self._rmd2(ends, n, some)}
            )
        return joined(found, "run")

    def _rmd2(self, ends, n, run):
        """RMD² to WI of the first repetitions, between two bounds: equal where the transport was solved exactly."""
        first = [r for r in run if r < TRANSPORTED]
        rows = [[self._bracket(ends[name], run.index(r), n) for name in SCHEMES] for r in first]
        labels = {"run": first, "scheme": SCHEMES, "end": ("lower", "upper")}
        return named(np.array(rows).reshape(-1, len(SCHEMES), 2), *labels, **labels)

    def _bracket(self, clouds, place, n):
        cloud = jax.tree.map(lambda leaf: leaf[place], clouds)
        scale = 4 * float(cloud.second_moment())
        if n <= self.exact_up_to:
            return (wi_distance(cloud, published.ACTION) ** 2 / scale,) * 2
        bounds = wi_bounds(jax.random.key(0), cloud, published.ACTION)
        return bounds.lower**2 / scale, bounds.upper**2 / scale

    def pairing(self, key):
        """Theorem 3 without noise: an orbit-closed start and orbit-closed data."""
        return {"pairing": pairing_error(key, steps=4000)}

    def fits(self, data):
        def law(array):
            return power_law(array, along="n", since=FITTED, centre="mean")

        asymmetry = {
            _name(scheme, teacher): law(data.asymmetry.sel(teacher=teacher, scheme=scheme))
            for teacher, scheme in product(TEACHERS, SCHEMES[:3])
        }
        coupled = {
            _coupled(pair, teacher): law(data.coupled.sel(teacher=teacher, pair=pair))
            for teacher, pair in product(TEACHERS, PAIRS)
        }
        return asymmetry | coupled

    def claims(self, data):
        for teacher in TEACHERS:
            for scheme in ("DA", "FA"):
                yield data.fits[_name(scheme, teacher)].between(-1.3, -0.8)
            yield data.fits[_coupled("DA–FA", teacher)].below(-0.9)
        yield data.fits[_name("vanilla", "weak")].between(-1.3, -0.8)
        yield data.fits[_name("vanilla", "arbitrary")].between(-0.1, 0.1)
        worst = data.asymmetry.sel(scheme="EA").max()
        yield below("EA is equivariant at every n: |f − Qf|²", worst, 1e-24)
        yield below("Thm 3: pairing error after 4000 full-batch steps, closed start and data,", data.pairing, 1e-12)

    def numbers(self, data):
        words, found = {"asymmetry": "|f − Qf|²", "to_teacher": "|f − f*|²", "to_ideal": "|f − Qf*|²"}, {}
        for what, teacher, scheme in product(words, TEACHERS, SCHEMES):
            gaps = data[what].isel(n=-1).sel(teacher=teacher, scheme=scheme)
            found[f"median {words[what]} at n = {max(self.sizes)}, {scheme}, {teacher} teacher"] = gaps.median()
        return found

    @panel(
        "How far from equivariant after training",
        f"Mean over {{repetitions}} repetitions with a 10–90% band, from n = {FITTED} on. EA is equivariant to "
        "rounding and has no place on this scale.",
        rows=TEACHERS,
        size=TALL,
    )
    def asymmetry(self, axis, data, teacher):
        shown = data.asymmetry.sel(teacher=teacher, scheme=SCHEMES[:3], n=self._fitted)
        fits = {scheme: data.fits[_name(scheme, teacher)] for scheme in SCHEMES[:3]}
        labels = {"xlabel": "particles n", "ylabel": r"$|f - Qf|^2$"}
        power_laws(axis, shown, along="n", by="scheme", fits=fits, power=-1, centre="mean", **labels)
        self._finish(axis, teacher)

    @panel(
        "Distance to weak invariance",
        "RMD² between the trained cloud and its symmetrisation, by exact transport up to n = {exact_up_to} and by its "
        "certified upper bound beyond. Transport between samples falls slowly in n even for invariant laws; the "
        "function-space panel shows the 1/n law.",
        rows=TEACHERS,
        size=TALL,
    )
    def distance(self, axis, data, teacher):
        self._boxes(axis, data.rmd2.sel(end="upper"), teacher, "squared relative distance")

    @panel(
        "Distance to the teacher",
        "Every scheme but EA can follow an equivariant teacher; only plain training follows an arbitrary one.",
        rows=TEACHERS,
        size=TALL,
    )
    def to_teacher(self, axis, data, teacher):
        self._boxes(axis, data.to_teacher, teacher, r"$|f - f_*|^2$")

    @panel(
        "Distance to the symmetrised teacher",
        "DA and FA learn the symmetrised teacher, whichever teacher they see.",
        rows=TEACHERS,
        size=TALL,
    )
    def to_ideal(self, axis, data, teacher):
        self._boxes(axis, data.to_ideal, teacher, r"$|f - Qf_*|^2$")

    @panel(
        "DA against FA, particle by particle",
        "Particles with the same index start together and see the same data and noise. DA and FA stay together ever "
        "closer as n grows (Theorem 4); DA and plain training part for good under an arbitrary teacher.",
        columns=TEACHERS,
        size=(9.6, 4.0),
        sharey=True,
    )
    def coupled(self, axis, data, teacher):
        shown = data.coupled.sel(teacher=teacher, n=self._fitted)
        fits = {pair: data.fits[_coupled(pair, teacher)] for pair in PAIRS}
        options = {"fits": fits, "power": -1, "centre": "mean", "colours": ("FA", "vanilla")}
        power_laws(axis, shown, along="n", by="pair", xlabel="particles n", ylabel="mean squared distance", **options)
        axis.set_title(f"{teacher} teacher")
        axis.legend(loc="lower left")

    def _fitted(self, n):
        """Whether the slopes use this size: all of them, when there are fewer than two large ones."""
        return n >= FITTED or sum(size >= FITTED for size in self.sizes) < 2

    def _boxes(self, axis, array, teacher, ylabel):
        seen = array.sel(teacher=teacher)
        seen = seen.sel(scheme=[name for name, part in seen.each("scheme") if part.max() > 1e-20])
        boxes(axis, *series_of(seen, along="n", by="scheme"), xlabel="particles n", ylabel=ylabel)
        self._finish(axis, teacher)

    def _finish(self, axis, teacher):
        axis.set_title(f"{teacher} teacher")
        legend(axis)


def _name(scheme: str, teacher: str) -> str:
    return f"|f − Qf|², {scheme}, {teacher} teacher"


def _coupled(pair: str, teacher: str) -> str:
    return f"coupled |{pair}|², {teacher} teacher"


@eqx.filter_jit
def _compare(ends: dict[str, Cloud], target: Cloud, xs):
    """The three errors of every scheme (runs, schemes), and the distance of coupled schemes (runs, pairs)."""
    columns = [jax.vmap(lambda cloud: published.errors(cloud, target, xs))(ends[name]) for name in SCHEMES]
    gaps = [ends["DA"].atoms - ends[other].atoms for other in ("FA", "vanilla")]
    coupled = jnp.stack([jnp.mean(jnp.sum(gap**2, -1), -1) for gap in gaps], 1)
    return *(jnp.stack([column[what] for column in columns], 1) for what in columns[0]), coupled


def pairing_error(key, *, steps: int) -> float:
    """How far an orbit-closed cloud is from orbit-closed after full-batch descent on orbit-closed data."""
    end = published.closed_descent(key, lambda cloud: cloud.orbit(published.ACTION), steps=steps)
    half, image = jnp.split(end.atoms, 2)
    return float(jnp.abs(half @ jnp.asarray(published.ACTION.matrices()[1]).T - image).max())
