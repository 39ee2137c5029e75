"""Training from a strongly invariant start: who stays on the fixed space, and who leaves it."""

from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.measures.clouds import Cloud
from haarflow.measures.invariance import si_distance, si_rmd
from haarflow.practice.compare import SCHEMES
from haarflow.runs.experiment import Experiment, above, below, between, blocks, named, once, over, panel, tell
from haarflow.runs.sizes import Count, NonNegative, Sizes, Step
from haarflow.runs.style import INK, boxes, colour, legend, legend_above, log_axes, marker, named_boxes, series_of

TEACHERS = ("arbitrary", "weak", "strong")
PAIRS = {"DA–FA": ("DA", "FA"), "DA–EA": ("DA", "EA"), "FA–EA": ("FA", "EA")}
SMALL_STEP = 50  # paths are compared to rounding from this n on: below, a step of alpha / n > 1 amplifies rounding
PUBLISHED = 9.3e-2  # the RMD² of plain training with the arbitrary teacher


class StrongInvariance(Experiment):
    """From a strongly invariant start, with noise projected on E^G, DA, FA and EA stay on E^G and are one and the
    same path, whatever the teacher; plain training with an arbitrary teacher leaves E^G for good.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorems 5 and 6 and
    the figures of the teacher–student experiment with SI starts.

    Published parameters: sigmoid(z x) with the swap of coordinates, X ~ N(0, 16 I), loss |y − ŷ|², step 50/n for 20 n
    steps, penalty 1e-4 |z|² (here `Penalty(2e-4)`), temperature 1e-6, batch 20, ten repetitions, starts N(0, 1/16)
    projected on E^G. The four schemes share start, data and noise, EA included (published with noise of its own): the
    noise is drawn in Z and then projected. DA averages over the whole group at every step.

    The paths of DA, FA and EA are compared at eleven times from start to end. A step of 50/n with n = 5 or 10 is 10
    or 5: it makes the dynamics chaotic and multiplies rounding, so their equality to 1e-12, and that FA ends on E^G
    to rounding, are claimed for n >= 50, where the step is at most 1; DA also pushes particles back to E^G, which FA,
    whose risk does not see an asymmetry, does not: with the arbitrary teacher and n = 10 the median W2² of FA is
    1e-26 to 1e-23, by seed. The gaps below n = 50 are shown. How plain training leaves E^G where the teacher is
    equivariant is the experiment `escape-law`.
    """

    seconds: ClassVar[float] = 22.0

    sizes: Sizes = (5, 10, 50, 100)  # numbers of particles n
    repetitions: Count = 10
    alpha: Step = 50.0  # step size times n
    tau: NonNegative = 1e-4
    temperature: NonNegative = 1e-6
    batch: Count = 20
    horizon: Count = 20
    single: Annotated[tuple[Count, ...], Field(min_length=1)] = (50,)  # values of n run in float32 too

    @classmethod
    def full(cls):
        sizes = (5, 10, 50, 100, 500, 1000, 5000)
        return cls(sizes=sizes, single=sizes[:5])

    def design(self):
        runs = blocks("run", self.repetitions, size=lambda n, **_: 1000 / n)
        yield self.train, (over(teacher=TEACHERS, n=sorted(self.sizes)) * runs).largest_first("n")
        yield self.single_precision, over(n=sorted(self.single))
        yield self.full_batch, once()

    def train(self, key, teacher, n, run, dtype=jnp.float64):
        """Train the four schemes in one program: how far from E^G they end, and how far apart three of them went."""
        keys = jnp.stack([jax.random.fold_in(key, r) for r in run])
        four = published.four(published.task(teacher, self.batch, atoms=10), self.tau)
        start = published.drawn(keys, n, strong=True, room=SMALL_STEP)
        problem = cast((four.fields, four.steppers(self.temperature, projected=True), start), dtype)
        steps = self.horizon * n
        seen = {"probes": {"atoms": published.atoms}, "every": max(1, steps // 10)}
        paths = flow(*problem, key=keys, dt=self.alpha / n, steps=steps, progress=tell, **seen)
        ends = np.array([_measure(paths[name].cloud) for name in SCHEMES], float)
        ways = {name: path.probes["atoms"][:, :, :n] for name, path in paths.items()}
        gaps = [np.abs(ways[a] - ways[b]).max(axis=(1, 2, 3)) for a, b in PAIRS.values()]
        found = {what: named(ends[:, i], "scheme", "run", scheme=SCHEMES) for i, what in enumerate(("off2", "rmd2"))}
        return found | {"gaps": named(np.asarray(gaps, float), "pair", "run", pair=PAIRS)}

    def single_precision(self, key, n):
        """The same runs of the WI teacher in float32."""
        found = self.train(key, "weak", n, range(self.repetitions), jnp.float32)
        return {f"single_{what}": array for what, array in found.items()}

    def full_batch(self, key):
        """W2² to E^G after full-batch descent from E^G on orbit-closed data, labelled by an arbitrary teacher."""
        end = published.closed_descent(key, lambda cloud: cloud.project(published.PROJECTOR), steps=4000)
        return {"full_batch": float(si_distance(end, published.PROJECTOR)) ** 2}

    def claims(self, data):
        off, late, small = data.off2.median("run"), {"n": lambda n: n >= 10}, {"n": lambda n: n >= SMALL_STEP}
        held = off.sel(scheme=("DA", "EA"), **late).max()
        yield below("Thm 6: DA and EA end on E^G, every teacher, n >= 10: median W2²", held, 1e-24)
        averaged = off.sel(scheme="FA", **small).max()
        yield below("Thm 6: FA ends on E^G, every teacher, n >= 50: median W2²", averaged, 1e-24)
        gaps = data.gaps.sel(**small).max()
        yield below("Thm 6: DA, FA and EA are one path, every teacher and run, n >= 50: largest gap", gaps, 1e-12)
        words = "Thm 5: plain, full batch of orbit-closed data, stays on E^G: W2² after 4000 steps"
        yield below(words, data.full_batch, 1e-24)
        flat = data.rmd2.sel(teacher="arbitrary", scheme="vanilla", **late).median("run")
        worst = flat[np.argmax(np.abs(flat - PUBLISHED))]
        words = f"plain, arbitrary teacher, n >= 10: the median RMD² furthest from {PUBLISHED:g}"
        yield between(words, worst, 0.8 * PUBLISHED, 1.2 * PUBLISHED)
        coarse = data.single_off2.median("run").sel(scheme=("DA", "FA"), **late).min()
        yield above("float32 leaves E^G by its rounding, WI teacher, n >= 10: median W2² of DA and FA", coarse, 1e-18)
        fine = off.sel(teacher="weak", scheme=("DA", "FA"), **late).max()
        yield below("float64 does not, WI teacher, n >= 10: median W2² of DA and FA", fine, 1e-24)

    def numbers(self, data):
        plain = data.rmd2.sel(scheme="vanilla").median("run").each("teacher", "n")
        gaps = data.gaps.max("teacher", "pair", "run").each("n")
        single = data.single_off2.median("run").each("n", "scheme")
        return {
            **{f"median RMD², vanilla, {teacher} teacher, n = {n}": rmd2 for (teacher, n), rmd2 in plain},
            **{f"largest gap between DA, FA and EA, any teacher, n = {n}": gap for n, gap in gaps},
            **{f"float32, median W2² of {name}, WI teacher, n = {n}": off2 for (n, name), off2 in single},
        }

    @panel(
        "Distance to strong invariance",
        "Squared relative distance to E^G after training from a strongly invariant start (0 is drawn at 1e-36). DA, FA "
        "and EA stay at rounding, thirty orders below plain training, which stays near E^G as the step 50/n shrinks if "
        "the teacher is equivariant and leaves it for good if not. At n = 5 the step is 10 and multiplies rounding.",
        rows=TEACHERS,
        size=(8.4, 6.4),
        sharex=True,
    )
    def distance(self, axis, data, teacher):
        shown = np.maximum(data.rmd2.sel(teacher=teacher), 1e-36)
        last = "particles n" if teacher == TEACHERS[-1] else ""
        boxes(axis, *series_of(shown, along="n", by="scheme"), xlabel=last, ylabel=r"$\mathrm{RMD}^2$")
        axis.set(ylim=(1e-37, 2), title=f"{teacher} teacher")
        if teacher == TEACHERS[0]:
            legend_above(axis)

    @panel(
        "One path, three algorithms",
        "The largest difference between DA, FA and EA in any coordinate of any particle at eleven times of the run. "
        "From n = 50 on, rounding; below, the step is so large that the dynamics multiplies rounding errors.",
        size=(9.6, 3.8),
    )
    def one_path(self, axis, data):
        sizes = data.gaps.labels("n")
        for order, (teacher, gaps) in enumerate(data.gaps.max("pair").each("teacher")):
            worst, look = np.maximum(gaps, 1e-18), {"color": colour(order), "marker": marker(order)}
            axis.plot(sizes, worst.max("run"), label=f"{teacher} teacher, worst run", **look)
            axis.plot(sizes, worst.median("run"), linestyle=(0, (2, 2)), label="its median run", **look)
        axis.hlines(1e-12, SMALL_STEP, sizes[-1], color=INK, linewidth=1.2, label="bound claimed")
        log_axes(axis, sizes, "particles n (the step is 50/n)", "largest gap")
        legend(axis)

    @panel(
        "float32 against float64",
        "The same runs in both precisions, WI teacher (0 is drawn at 1e-36). In float32 DA and FA are off E^G by the "
        "square of its rounding, and by far more where the step is large; restriction stays put in any precision.",
        columns=("float32", "float64"),
        size=(9.6, 3.6),
        when=lambda self, data: max(self.single) in self.sizes,
        sharey=True,
    )
    def precision(self, axis, data, precision):
        n = max(self.single)
        ends = data.single_off2 if precision == "float32" else data.off2.sel(teacher="weak")
        named_boxes(axis, dict(np.maximum(ends.sel(n=n), 1e-36).each("scheme")))
        axis.set(ylim=(1e-37, 10), title=f"{precision}, n = {n}")
        if precision == "float32":
            axis.set_ylabel(r"$W_2^2$ to $E^G$")


@eqx.filter_jit
@jax.vmap
def _measure(cloud: Cloud):
    """W2² and RMD² to E^G."""
    return si_distance(cloud, published.PROJECTOR) ** 2, si_rmd(cloud, published.PROJECTOR) ** 2


def cast(tree, dtype):
    """The same fields, schemes and clouds with every floating number in this precision."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, tree)
