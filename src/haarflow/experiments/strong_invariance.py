"""Training from a strongly invariant start: who stays on the fixed space, who leaves it, and how fast."""

from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.experiments import _published as published
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import close
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.invariance import si_distance, si_rmd
from haarflow.runs.experiment import Count, Experiment, Horizon, NonNegative, Panel, Step, below, between, stream
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

TEACHERS = ("arbitrary", "weak", "strong")
HELD = ("DA", "FA", "EA")
PAIRS = (("DA", "FA"), ("DA", "EA"), ("FA", "EA"))
SMALL_STEP = 50  # paths are compared to rounding from this N on: below, a step of alpha / N > 1 amplifies rounding
ESCAPES = {"N": "particles N, at step 50/N", "step": "step s", "batch": "batch B"}


class StrongInvariance(Experiment):
    """From a strongly invariant start, with noise projected on E^G, DA, FA and EA stay on E^G and are one and the
    same path, whatever the teacher; plain training with an equivariant teacher leaves E^G by `W2² ≈ C s / B` only,
    and with an arbitrary teacher for good.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorems 5 and 6 and
    the figures of the teacher–student experiment with SI starts.

    Published parameters: sigmoid(z x) with the swap of coordinates, X ~ N(0, 16 I), loss |y − ŷ|², step 50/N for 20 N
    steps, penalty 1e-4 |z|² (here `Penalty(2e-4)`), temperature 1e-6, batch 20, ten repetitions, starts N(0, 1/16)
    projected on E^G. The four schemes share start, data and noise, EA included (published with noise of its own): the
    noise is drawn in Z and then projected. DA averages over the whole group at every step.

    The paths of DA, FA and EA are compared at eleven times from start to end. A step of 50/N with N = 5 or 10 is 10
    or 5: it makes the dynamics chaotic and multiplies rounding, so their equality to 1e-12, and that FA ends on E^G
    to rounding, are claimed for N >= 50, where the step is at most 1; DA also pushes particles back to E^G, which FA,
    whose risk does not see an asymmetry, does not: with the arbitrary teacher and N = 10 the median W2² of FA is
    1e-26 to 1e-23, by seed. The gaps below N = 50 are shown.

    The escape law is fitted on runs of their own, at a flow time of 5, by which the distance is about what it is at
    the published horizon of 1000. One run differs from the next by a factor of two: 144 of them know the slopes in N,
    s and B to about 0.05. The law is the leading order in s. At N = 100, where s = 0.5, W2² lies a third above it,
    which makes the fitted slope in N steeper than −1 by about 0.07; the slopes in s and B are fitted from s = 1/8 down.
    """

    seconds: ClassVar[float] = 47.0

    sizes: Annotated[tuple[Count, ...], Field(min_length=2)] = (5, 10, 50, 100)
    repetitions: Count = 10
    alpha: Step = 50.0
    tau: NonNegative = 1e-4
    temperature: NonNegative = 1e-6
    batch: Count = 20
    horizon: Count = 20
    single: tuple[Count, ...] = (50,)
    escape_time: Horizon = 5.0
    escape_repetitions: Count = 144
    escape_sizes: Annotated[tuple[Count, ...], Field(min_length=2)] = (100, 200, 400, 800, 1600, 3200)
    escape_steps: Annotated[tuple[Step, ...], Field(min_length=2)] = (1 / 8, 1 / 16, 1 / 32, 1 / 64)
    escape_batches: Annotated[tuple[Count, ...], Field(min_length=2)] = (5, 10, 20)

    @classmethod
    def full(cls):
        sizes = (5, 10, 50, 100, 500, 1000, 5000)
        return cls(sizes=sizes, single=sizes[:5], escape_time=50.0, escape_sizes=(100, 200, 400, 800, 1600, 3200, 6400))

    def parts(self):
        runs = [
            f"{teacher} N={n} runs {a}-{min(a + block, self.repetitions) - 1}"
            for teacher in TEACHERS  # the same sizes apart, so that a program is compiled once and then found
            for n in sorted(self.sizes, reverse=True)
            for block in [max(1, min(self.repetitions, 1000 // n))]
            for a in range(0, self.repetitions, block)
        ]
        escapes = [f"escape N={n}" for n in sorted(self.escape_sizes, reverse=True)]
        return [
            *escapes,
            *runs,
            "escape step",
            "escape batch",
            *(f"single N={n}" for n in sorted(self.single)),
            "full batch",
        ]

    def run(self, key, part):
        least = min(self.escape_sizes)
        match part.split():
            case ["escape", "step"]:
                return {"off": np.stack([self.escape(key, least, s, self.batch) for s in self.escape_steps], 1)}
            case ["escape", "batch"]:
                step = self.escape_steps[0]
                return {"off": np.stack([self.escape(key, least, step, b) for b in sorted(self.escape_batches)], 1)}
            case ["escape", size]:
                return self._escape(key, size[2:])
            case ["single", size]:
                return self.train(key, "weak", int(size[2:]), range(self.repetitions), dtype=jnp.float32)
            case ["full", "batch"]:
                return {"off": np.asarray(full_batch_distance(key, steps=4000))}
            case [teacher, size, _, span]:
                first, last = map(int, span.split("-"))
                return self.train(key, teacher, int(size[2:]), range(first, last + 1))
        raise ValueError(part)

    def train(self, key, teacher: str, n: int, repetitions: range, dtype=jnp.float64) -> dict[str, np.ndarray]:
        """Train the four schemes in one program; where they end, and how far apart they went."""
        keys = jnp.stack([jax.random.fold_in(key, r) for r in repetitions])
        problem = (
            published.fields(published.task(teacher, self.batch, atoms=10), self.tau),
            published.steppers(self.temperature, projected=True),
            published.drawn(keys, n, strong=True, room=SMALL_STEP),
        )
        steps = self.horizon * n
        paths = flow(
            *cast(problem, dtype),
            key=keys,
            dt=self.alpha / n,
            steps=steps,
            probes={"atoms": _atoms},
            every=max(1, steps // 10),
            progress=tell,
        )
        ends = [_measure(paths[name].cloud) for name in published.SCHEMES]
        found = {what: np.stack([np.asarray(end[what], float) for end in ends], 1) for what in ends[0]}
        ways = {name: paths[name].probes["atoms"][:, :, :n] for name in HELD}
        found["gaps"] = np.stack([np.abs(ways[a] - ways[b]).max(axis=(1, 2, 3)) for a, b in PAIRS], 1)
        return found

    def _escape(self, key, value: str) -> dict[str, np.ndarray]:
        """Along N, at the published step and, with a quarter of the runs, at one that stays (the data are the same)."""
        n = int(value)
        return {
            "off": self.escape(key, n, self.alpha / n, self.batch),
            "still": self.escape(key, n, self.escape_steps[0], self.batch, share=4),
        }

    def escape(self, key, n: int, step: float, batch: int, share: int = 1) -> np.ndarray:
        """W2² between the plain cloud and E^G at the escape time, for the equivariant teacher: (repetitions,)."""
        keys = jax.random.split(stream(key, "escape"), self.escape_repetitions)[::share]
        data = published.repeated(published.task("weak", self.batch), batch)
        field = published.fields(data, self.tau)["vanilla"]
        scheme = published.steppers(self.temperature, projected=True)["vanilla"]
        steps, block = max(1, round(self.escape_time / step)), max(1, 1600 // n)  # blocks that fit the cache
        found = []
        for first in range(0, len(keys), block):
            some = keys[first : first + block]
            start = published.drawn(some, n, strong=True)["vanilla"]
            path = flow(field, scheme, start, key=some, dt=step, steps=steps, progress=False)
            found.append(np.asarray(_measure(path.cloud)["off2"]))
            tell((first + len(some)) / len(keys))
        return np.concatenate(found)

    def gather(self, pieces):
        data = {"full batch": pieces["full batch"]["off"]}
        data |= {f"escape/{name}": pieces[f"escape {name}"]["off"] for name in ("step", "batch")}
        for teacher in TEACHERS:
            for what in ("off2", "rmd2", "gaps"):
                rows = [published.rows(pieces, teacher, n, what) for n in sorted(self.sizes)]
                data[f"{teacher}/{what}"] = np.stack(rows, axis=1)
        sizes = sorted(self.escape_sizes)
        data["escape/N"] = np.stack([pieces[f"escape N={n}"]["off"] for n in sizes], 1)
        data["escape/still"] = np.stack([pieces[f"escape N={n}"]["still"] for n in sizes], 1)
        for what in ("off2", "rmd2", "gaps"):
            data[f"single/{what}"] = np.stack([pieces[f"single N={n}"][what] for n in sorted(self.single)], 1)
        return data

    def _grids(self) -> dict[str, np.ndarray]:
        sizes = np.array(sorted(self.escape_sizes), float)
        batches = np.array(sorted(self.escape_batches), float)
        return {"N": sizes, "step": np.array(self.escape_steps), "batch": batches, "still": sizes}

    def slopes(self, data):
        """The fitted exponents of the escape, each with its band."""
        return {name: slope(grid, data[f"escape/{name}"]) for name, grid in self._grids().items()}

    def verdict(self, data):
        sizes = np.array(sorted(self.sizes))
        ends = np.stack([np.median(data[f"{teacher}/off2"], axis=0) for teacher in TEACHERS])
        exact, averaged = ([published.SCHEMES.index(name) for name in names] for names in (("DA", "EA"), ("FA",)))
        gaps = max(data[f"{teacher}/gaps"][:, sizes >= SMALL_STEP].max() for teacher in TEACHERS)
        flat = np.median(data["arbitrary/rmd2"][:, sizes >= 10, 0], axis=0)
        worst = flat[np.argmax(np.abs(flat - 9.3e-2))]
        found = self.slopes(data)
        numbers = self._single(data)
        return {
            "Thm 6: DA and EA end on E^G, every teacher, N >= 10: median W2² below 1e-24": below(
                ends[:, sizes >= 10][..., exact].max(), 1e-24
            ),
            "Thm 6: FA ends on E^G, every teacher, N >= 50: median W2² below 1e-24": below(
                ends[:, sizes >= SMALL_STEP][..., averaged].max(), 1e-24
            ),
            "Thm 6: DA, FA and EA are one path, every teacher and run, N >= 50: largest gap below 1e-12": below(
                gaps, 1e-12
            ),
            "Thm 5: plain, full batch of orbit-closed data, stays on E^G: W2² below 1e-24 after 4000 steps": below(
                data["full batch"], 1e-24
            ),
            "Thm 5: plain, WI teacher, W2² falls like 1/N at step 50/N, N >= 100: slope −1 ± 0.15": between(
                found["N"].value, -1.15, -0.85
            ),
            "escape law: W2² grows like the step s: slope 1 ± 0.15": between(found["step"].value, 0.85, 1.15),
            "escape law: W2² falls like the batch B: slope −1 ± 0.15": between(found["batch"].value, -1.15, -0.85),
            "escape law: at a fixed step W2² does not depend on N: slope 0 ± 0.15": between(
                found["still"].value, -0.15, 0.15
            ),
            "plain, arbitrary teacher: median RMD² stays within 20% of 9.3e-2 for every N >= 10": between(
                worst, 0.8 * 9.3e-2, 1.2 * 9.3e-2
            ),
            "float32 leaves E^G by its rounding, float64 does not: median W2² of DA and FA above 1e-18 in float32": (
                bool(numbers["float32"] > 1e-18) and bool(numbers["float64"] < 1e-24)
            ),
        }

    def _single(self, data) -> dict[str, float]:
        """The smallest median W2² of DA and FA in float32 and the largest in float64, N >= 10, WI teacher."""
        singles, sizes = np.array(sorted(self.single)), np.array(sorted(self.sizes))
        first = np.median(data["single/off2"][..., 1:3], axis=0)[singles >= 10]
        second = np.median(data["weak/off2"][..., 1:3], axis=0)[sizes >= 10]
        return {"float32": float(first.min()), "float64": float(second.max())}

    def figures(self, data):
        numbers, found = {}, self.slopes(data)
        for name, words in {**ESCAPES, "still": "particles N, at a fixed step"}.items():
            fit = found[name]
            numbers |= {f"escape, slope in {words}": fit.value, f"its 95% band, low ({name})": fit.low}
            numbers |= {f"its 95% band, high ({name})": fit.high}
        constant = np.median(data["escape/step"], axis=0)[-1] * self.batch / self.escape_steps[-1]
        numbers["C of W2² = C s / B, at the smallest step"] = constant
        for teacher in TEACHERS:
            for order, n in enumerate(sorted(self.sizes)):
                numbers[f"median RMD², vanilla, {teacher} teacher, N = {n}"] = np.median(
                    data[f"{teacher}/rmd2"][:, order, 0]
                )
        for order, n in enumerate(sorted(self.sizes)):
            worst = max(data[f"{teacher}/gaps"][:, order].max() for teacher in TEACHERS)
            numbers[f"largest gap between DA, FA and EA, any teacher, N = {n}"] = worst
        for order, n in enumerate(sorted(self.single)):
            for i, name in enumerate(published.SCHEMES):
                numbers[f"float32, median W2² of {name}, WI teacher, N = {n}"] = np.median(
                    data["single/off2"][:, order, i]
                )
        return numbers

    def panels(self, data):
        return [self._boxes(data), self._escapes(data), self._gaps(data), self._precision(data)]

    def _boxes(self, data):
        def draw(figure):
            from haarflow.runs.style import boxes, legend

            for place, teacher in enumerate(TEACHERS):
                axis = figure.add_subplot(3, 1, place + 1)
                values = np.maximum(data[f"{teacher}/rmd2"], 1e-36)
                series = {name: values[..., i] for i, name in enumerate(published.SCHEMES)}
                boxes(axis, sorted(self.sizes), series, xlabel="particles N" if place == 2 else "", ylabel="RMD²")
                axis.set_ylim(1e-37, 2)
                axis.set_title(f"{teacher} teacher")
                if place == 0:
                    legend(axis)

        caption = (
            "Squared relative distance to E^G after training from a strongly invariant start (0 is drawn at 1e-36). "
            "DA, FA and EA stay at rounding, thirty orders below plain training, which stays near E^G as the step "
            "50/N shrinks if the teacher is equivariant and leaves it for good if not. At N = 5 the step is 10 and "
            "multiplies rounding."
        )
        return Panel("Distance to strong invariance", caption, draw, size=(8.4, 8.4))

    def _escapes(self, data):
        def draw(figure):
            from haarflow.runs.style import reference, slopes

            grids, powers = self._grids(), {"N": -1.0, "step": 1.0, "batch": -1.0}
            for place, (name, label) in enumerate(ESCAPES.items()):
                axis = figure.add_subplot(1, 3, place + 1)
                values = data[f"escape/{name}"]
                slopes(axis, grids[name], {"vanilla": values}, xlabel=label, ylabel="W2² to E^G" if place == 0 else "")
                start = int(np.argmin(grids[name]))
                reference(axis, grids[name], powers[name], float(np.median(values[:, start])))
                axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))

        caption = (
            f"Plain training with the WI teacher: W2² to E^G at flow time {self.escape_time:g}, median and 10–90% "
            f"band of {self.escape_repetitions} repetitions, with the fitted slope and its 95% bootstrap band. "
            "Minibatches push every particle off E^G by a random walk of variance proportional to s/B."
        )
        return Panel("The escape law W2² = C s / B", caption, draw, size=(9.6, 3.6))

    def _gaps(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour, legend, marker

            axis = figure.add_subplot()
            sizes = np.array(sorted(self.sizes), float)
            for order, teacher in enumerate(TEACHERS):
                worst = np.maximum(data[f"{teacher}/gaps"].max(axis=-1), 1e-18)
                style = {"color": colour(teacher, order), "marker": marker(teacher, order)}
                axis.plot(sizes, worst.max(axis=0), label=f"{teacher} teacher, worst run", **style)
                axis.plot(sizes, np.median(worst, axis=0), linestyle=(0, (2, 2)), label="its median run", **style)
            axis.hlines(1e-12, SMALL_STEP, sizes[-1], color=INK, linewidth=1.2, label="bound claimed")
            axis.set(xscale="log", yscale="log", xlabel="particles N (the step is 50/N)", ylabel="largest gap")
            axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
            axis.minorticks_off()
            legend(axis)

        caption = (
            "The largest difference between DA, FA and EA in any coordinate of any particle at eleven times of the "
            "run. From N = 50 on, rounding; below, the step is so large that the dynamics multiplies rounding "
            "errors."
        )
        return Panel("One path, three algorithms", caption, draw, size=(9.6, 3.8))

    def _precision(self, data):
        def draw(figure):
            from haarflow.runs.style import boxes, legend

            kept = [i for i, n in enumerate(sorted(self.sizes)) if n in self.single]
            if len(kept) != len(self.single):
                return
            for place, (words, values) in enumerate(
                {"float32": data["single/off2"], "float64": data["weak/off2"][:, kept]}.items()
            ):
                axis = figure.add_subplot(1, 2, place + 1)
                series = {name: np.maximum(values[..., i], 1e-36) for i, name in enumerate(published.SCHEMES)}
                boxes(axis, sorted(self.single), series, xlabel="particles N", ylabel="W2² to E^G" if not place else "")
                axis.set_ylim(1e-37, 10)
                axis.set_title(words)
            legend(figure.axes[-1])

        caption = (
            "The same runs in both precisions, WI teacher (0 is drawn at 1e-36). In float32 DA and FA are off E^G "
            "by the square of its rounding, and by far more where the step is large; restriction stays put in any "
            "precision."
        )
        return Panel("float32 against float64", caption, draw, size=(9.6, 3.6))


def _atoms(cloud: Cloud):
    return cloud.atoms


def _off2(cloud: Cloud):
    return si_distance(cloud, published.PROJECTOR) ** 2


@eqx.filter_jit
@jax.vmap
def _measure(cloud: Cloud):
    return {
        "off2": _off2(cloud),
        "rmd2": si_rmd(cloud, published.PROJECTOR) ** 2,
    }


def cast(tree, dtype):
    """The same fields, schemes and clouds with every floating number in this precision."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, tree)


def full_batch_distance(key, *, steps: int, n: int = 8) -> float:
    """W2² to E^G after full-batch descent from E^G on orbit-closed data, labelled by an arbitrary teacher."""
    keys = jax.random.split(key)
    start = uniform(0.5 * jax.random.normal(keys[0], (n, 4))).project(published.PROJECTOR)
    xs = published.inputs(keys[1], 10)
    plain = Sample(xs, published.task("arbitrary", 10).batch(keys[1])[1])
    data = close(plain, published.SWAP, published.SWAP)
    field = Descend(Risk(published.UNIT, data, "square") + Penalty(2e-4))
    end = flow(field, Euler(), start, key=key, dt=0.5, steps=steps).cloud
    return float(si_distance(end, published.PROJECTOR)) ** 2
