"""A hundred thousand particles on the published task: what is seen at that size, without an exact transport."""

from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.measures.invariance import orbit_mmd_squared, si_rmd, wi_bounds
from haarflow.practice.compare import SCHEMES
from haarflow.runs.experiment import Experiment, below, blocks, named, over, panel, tell
from haarflow.runs.sizes import Count, NonNegative, Positive
from haarflow.runs.style import INK, colour, marker, reference

TEACHER = "weak"
TRAINED = ("DA", "FA", "vanilla", "EA")  # two by two at the largest n
CERTIFIED = ("vanilla", "DA")  # whose distance to weak invariance is bracketed
SHOWN = 2000  # particles in the picture


class Wide(Experiment):
    """At a hundred thousand particles the laws seen at a thousand go on: DA and FA networks are equivariant up to 1/n
    and their particles coincide up to 1/n; EA stays on E^G; and the distance of DA to weak invariance is certified
    small.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), the teacher–student
    experiment, published up to n = 5000; its authors wish for n = 100 000.

    Published parameters: sigmoid(z x) with the swap of coordinates, X ~ N(0, 16 I), loss |y − ŷ|², penalty 1e-4 |z|²
    (here `Penalty(2e-4)`), temperature 1e-6, batch 20, WI teacher, starts N(0, 1/16), EA from their projection. The
    published step 50/n would need 20 n = 2 000 000 steps. Full mode follows the flow with the step 0.05 that n = 1000
    has, over the whole horizon t = 1000 (20 000 steps); quick mode with the step 0.1 of n = 500 over the first six
    units of time, in which the cloud takes its shape. The schemes share start, data and noise; at the largest n they
    are trained once, two by two. Smaller clouds are repeated, up to 16 times, until they hold 16 000 particles.

    Distances: |f − Qf|² on fresh inputs; RMD² to E^G in closed form; RMD² to weak invariance between two certified
    bounds; MMD² to the symmetrised cloud in closed form, up to a stated n because it costs n² operations. The bound of
    the 1/n laws: there n |f − Qf|² and n |DA − FA|² have one law at every n, and a single draw of a squared Gaussian
    field exceeds eight times its mean with probability 0.005 at most (one direction; less with more).

    Seconds and the memory of the largest worker stand in the report under "Made with" and in the record's timing.json.
    """

    seconds: ClassVar[float] = 16.0

    particles: Count = 100_000  # the largest n
    smaller: Annotated[tuple[Count, ...], Field(min_length=1)] = (1000, 10_000)  # smaller n to compare with
    step: Positive = 0.1  # step size
    steps: Count = 60  # steps of each run
    tau: NonNegative = 1e-4
    temperature: NonNegative = 1e-6
    batch: Count = 20
    inputs: Count = 200  # fresh inputs at which networks are compared
    mmd_up_to: Count = 1000  # largest n whose MMD is computed
    rounds: Count = 1  # rounds of the certified bound

    @classmethod
    def full(cls):
        return cls(step=0.05, steps=20_000, inputs=500, mmd_up_to=100_000, rounds=3)

    def design(self):
        sizes = over(n=(*sorted(self.smaller), self.particles)).largest_first("n")
        yield self.train, sizes * blocks("scheme", 4, size=lambda n: 2 if n == self.particles else 4)

    def train(self, key, n, scheme):
        """Train these schemes, which are places in TRAINED, and measure where their particles end."""
        names = [TRAINED[place] for place in scheme]
        runs = 1 if n == self.particles else max(1, min(16, 16_000 // n))
        keys = jax.random.split(jax.random.fold_in(key, 2), runs)
        four = published.four(published.task(TEACHER, self.batch), self.tau)
        problem = (four.fields, four.steppers(self.temperature), published.drawn(keys, n, strong=False))
        chosen: Any = ({name: part[name] for name in names} for part in problem)
        options = {"dt": self.step, "steps": self.steps, "progress": lambda fraction: tell(0.9 * fraction)}
        ends = {name: path.cloud for name, path in flow(*chosen, key=keys, **options).items()}
        xs = jnp.asarray(published.SCALE * generator(jax.random.fold_in(key, 1)).normal(size=(self.inputs, 2)))
        gaps = np.array([_compare(ends[name], xs) for name in names])
        labels = {"scheme": names, "run": range(runs)}
        found = {what: named(gaps[:, i], *labels, **labels) for i, what in enumerate(("asymmetry", "si"))}
        found |= self._distances(key, {name: _first(ends[name]) for name in names if name in CERTIFIED})
        if {"DA", "FA"} <= set(names):
            apart = np.asarray(ends["DA"].atoms - ends["FA"].atoms)
            found["coupled"] = named(np.mean(np.sum(apart**2, axis=-1), axis=-1), "run", run=range(runs))
        if n == self.particles:
            shown = np.stack([ends[name].atoms[0, :SHOWN] for name in names])
            found["shown"] = named(shown, "scheme", "particle", "parameter", scheme=names)
        return found

    def _distances(self, key, clouds):
        """RMD² to weak invariance between certified bounds, and MMD² where its cost is allowed."""
        wi, mmd2 = [], []
        for cloud in clouds.values():
            bounds = wi_bounds(key, cloud, published.ACTION, rounds=self.rounds)
            wi.append(np.array([bounds.lower, bounds.upper]) ** 2 / (4 * float(cloud.second_moment())))
            allowed = cloud.n <= self.mmd_up_to
            mmd2.append(float(orbit_mmd_squared(cloud, published.ACTION)) if allowed else np.nan)
        ends = ("at least", "at most")
        return {"wi": named(wi, "scheme", "end", scheme=clouds, end=ends), "mmd2": named(mmd2, "scheme", scheme=clouds)}

    def claims(self, data):
        least, largest = min(self.smaller), self.particles

        def grown(what):
            return largest * np.nanmax(what.sel(n=largest)) / (least * np.nanmean(what.sel(n=least)))

        words = f"at n = {largest} is at most {{bound:g}} times its mean at n = {least}"
        for scheme in ("DA", "FA"):
            yield below(f"{scheme}: n |f − Qf|² {words}", grown(data.asymmetry.sel(scheme=scheme)), 8.0)
        yield below(f"n |DA − FA|², particle by particle, {words}", grown(data.coupled), 8.0)
        held, equivariant = (np.nanmax(what.sel(n=largest, scheme="EA")) for what in (data.si, data.asymmetry))
        yield below("EA stays on E^G: RMD²", held, 1e-24)
        yield below("EA is equivariant: |f − Qf|²", equivariant, 1e-24)
        certified = data.wi.sel(n=largest, scheme="DA", end="at most")
        yield below("DA: RMD² to weak invariance, certified,", certified, 0.01)

    def numbers(self, data):
        tables = {
            "|f − Qf|², {1}, n = {0}": data.asymmetry.over(np.nanmedian, "run"),
            "RMD² to E^G, {1}, n = {0}": data.si.over(np.nanmedian, "run"),
            "RMD² to WI, {1}, n = {0}, {2}": data.wi,
            "MMD² to the symmetrised cloud, {1}, n = {0}": data.mmd2,
        }
        cells = [(words.format(*at), cell) for words, table in tables.items() for at, cell in table.each(*table.dims)]
        gaps = data.coupled.over(np.nanmedian, "run").each("n")
        return {words: cell for words, cell in cells if np.isfinite(cell)} | {
            f"mean |DA − FA|² by particle, n = {n}": gap for n, gap in gaps
        }

    @panel(
        "The laws in n, up to a hundred thousand",
        "Left: medians over the runs, of which there is one at the largest n and few below, so that points scatter by "
        "a factor of a few; DA and FA fall like 1/n to a hundred thousand particles, plain training stops where its "
        "minibatches of a fixed step take over. Right: the squared relative transport distance to the symmetrised "
        "cloud, which certainly lies in the band for DA and below the lines for both. Transport between samples in "
        "four dimensions falls like 1/√n only.",
        columns=2,
        size=(9.6, 4.0),
    )
    def laws(self, axes, data):
        left, right = axes
        sizes = data.asymmetry.labels("n")
        lines = dict(data.asymmetry.over(np.nanmedian, "run").each("scheme"))
        for name in ("vanilla", "DA", "FA"):
            left.plot(sizes, lines[name], color=colour(name), marker=marker(name), label=name)
        gaps, fifth = data.coupled.over(np.nanmedian, "run"), {"color": colour("fifth"), "marker": marker("fifth")}
        left.plot(sizes, gaps, label=r"$|\mathrm{DA} - \mathrm{FA}|^2$ by particle", **fifth)
        reference(left, sizes, -1, [lines["DA"], lines["FA"], gaps])
        for name in CERTIFIED:
            right.plot(
                sizes, data.wi.sel(scheme=name, end="at most"), color=colour(name), marker=marker(name), label=name
            )
        low, high = data.wi.sel(scheme="DA").transpose("end", "n")
        right.fill_between(sizes, low, high, color=colour("DA"), alpha=0.18, linewidth=0)
        left.set(xscale="log", yscale="log", xlabel="particles n", ylabel=r"$|f - Qf|^2$")
        right.set(xscale="log", yscale="log", xlabel="particles n", ylabel=r"$\mathrm{RMD}^2$ to WI, certified")
        for axis in axes:
            axis.legend(loc="lower left")

    @panel(
        "The wide cloud",
        f"{SHOWN:,} of the {{particles:,}} particles of each scheme, E^G seen from its side.",
        columns=SCHEMES,
        size=(9.6, 3.2),
        sharex=True,
        sharey=True,
    )
    def cloud(self, axis, data, scheme):
        z = data.shown.sel(n=self.particles, scheme=scheme).values
        along, across = (z[:, 0] + z[:, 3]) / np.sqrt(2), (z[:, 0] - z[:, 3]) / np.sqrt(2)
        axis.axhline(0, color=INK, linewidth=0.9)
        axis.plot(along, across, ".", color=colour(scheme), markersize=1.5, alpha=0.5, rasterized=True)
        axis.set_xlabel("along $E^G$")
        if scheme == SCHEMES[0]:
            axis.set_ylabel(r"across, $(z_{11} - z_{22})/\sqrt{2}$")


def _first(clouds: Cloud) -> Cloud:
    return jax.tree.map(lambda leaf: leaf[0], clouds)


@eqx.filter_jit
def _compare(clouds: Cloud, xs):
    """|f − Qf|² and RMD² to E^G, one run after the other."""
    target = published.teacher_cloud(TEACHER)

    def one(cloud):
        return published.errors(cloud, target, xs)["asymmetry"], si_rmd(cloud, published.PROJECTOR) ** 2

    return jax.lax.map(one, clouds)
