"""Two ways to scale a wide network: one where its particles hardly move, and one where they learn."""

from itertools import product
from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Descend, restrict
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Heun
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import one_neuron, relu_distance, unit_vectors
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.models.kernels import (
    Linearised,
    Scaled,
    arc_cosine,
    kernel_flow,
    kernel_ridge,
    relu_beyond_linear,
    relu_tangent,
    tangent_kernel,
)
from haarflow.models.neurons import Neuron
from haarflow.models.units import Dense
from haarflow.runs.experiment import Count, Experiment, Horizon, Panel, Positive, above, below, between, stream
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

Sizes = Annotated[tuple[Count, ...], Field(min_length=2)]
Widths = Annotated[tuple[Annotated[int, Field(ge=2, multiple_of=2)], ...], Field(min_length=2)]

SCALES = {"lazy": 0.5, "between": 0.75, "mean-field": 1.0}  # the output is m^−γ times the sum of m units
APART = {"lazy": -0.75, "between": -0.5, "mean-field": 0.0}  # powers of m, see the docstring
RATIOS = (0.25, 0.5, 1.0)  # sizes of the samples for a single neuron, over d log d
KERNELS = ("random features", "tangent kernel")


class LazyActive(Experiment):
    """A network m^{−γ} Σ a relu(<w, x>) trained to fit moves its particles by m^{γ − 1}: at γ = ½ it is its own
    linearisation, a kernel method, and at γ = 1 it learns features. So from d^1.5 samples of a single neuron, lazy
    networks and kernels learn its linear part and no more, mean-field networks more, and one neuron everything, from
    d log d samples.

    Source: lecture 7 on mean-field networks; On lazy training in differentiable programming (arXiv 1812.07956);
    Limitations of lazy training of two-layers neural networks (arXiv 1906.08899).

    A mean over m particles times κ = m^{1 − γ}, with time slowed by κ², so that outputs move at the same speed for
    every γ: `θ' = −(1/κ) E[∇phi (κf − y)]`. Starts a = ±1 and w ~ N(0, I/d), each w with both signs of a: the output
    starts at zero. Inputs are uniform on the sphere of radius √d, the teacher is relu(x₁). Kernels are those of
    infinite width in closed form, fitted with a small ridge; the plateau |P_{>1} σ|² is what linear functions miss,
    and kernels stay near it at n = d^1.5 for large d: an asymptotic statement, not an inequality. Test errors of a
    unit and of networks are exact, by the arc-cosine kernel.

    The distance to the linearised model is at most of order 1/κ, a slope of −½ in m for lazy networks; it is measured
    to fall faster. A scaling argument, not a theorem: where both signs of the outputs are equally likely that order
    cancels. What is left is of order κ^−2, and a fluctuation from the units whose kink passes an input,
    (κ/m)·√(m/κ)·(1/κ), of order m^{−3/4} at γ = ½. So the slopes in m would be −¾, −½ and 0 at γ = ½, ¾ and 1, and the
    verdicts allow 0.1 around them. Lazy slopes come out near −0.80; with tanh units, which have no kink and for which
    the argument says −1, at −1.11; with signs drawn at random in place of mirrored ones, at −0.80.

    The field `fault` plants a mistake on purpose: `no slowing` forgets to slow time by κ², and `frozen outputs` leaves
    the outputs out of the tangent kernel.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 23.0

    d: Count = 10
    n: Count = 60
    widths: Widths = (64, 256, 1024)
    runs: Count = 16
    horizon: Horizon = 10.0
    dims: Sizes = (20, 40, 80)
    students: Widths = (4, 16, 64, 256)
    patience: Horizon = 50.0
    kernel_dims: Sizes = (50, 100, 200)
    ridge: Positive = 1e-3
    single_dims: Sizes = (20, 40, 80, 160)
    singles: Count = 10
    fault: Literal["none", "no slowing", "frozen outputs"] = "none"

    @classmethod
    def full(cls):
        return cls(
            widths=(64, 256, 1024, 4096), runs=40, students=(4, 16, 64, 256, 1024), dims=(20, 40, 80, 160), singles=40
        )

    def parts(self):
        students = [f"students d={d}" for d in sorted(self.dims, reverse=True)]
        return [*students, "kernels", *(f"width m={m}" for m in sorted(self.widths, reverse=True)), "single"]

    def run(self, key, part):
        name, _, size = part.partition("=")
        if name == "width m":
            return self.scaling(key, int(size))
        if name == "students d":
            return self.learning(key, int(size))
        return {"kernels": self.kernels, "single": self.single}[part](key)

    def scaling(self, key, m: int) -> dict[str, np.ndarray]:
        """Displacements and the distance to the linearised model, (runs, scales), at one width."""
        draw = generator(jax.random.fold_in(key, 1))
        sample, new = _sample(draw, self.n, self.d), np.sqrt(self.d) * unit_vectors(draw, (200, self.d))
        starts = uniform(np.stack([_start(generator(stream(key, "start", m, r)), m, self.d) for r in range(self.runs)]))
        unit, fields, clouds = Neuron(self.d), {}, {}
        tangent = Linearised(unit)
        for name, gamma in SCALES.items():
            scale = m ** (1 - gamma)
            speed = 1.0 if self.fault == "no slowing" else scale**-2
            fields[name] = Descend(Risk(Scaled(unit, scale), sample), transport=speed)
            straight = Descend(Risk(Scaled(tangent, scale), sample), transport=speed)
            fields[f"{name}, linearised"] = restrict(straight, tangent.projector, through="start")
            clouds |= {name: starts, f"{name}, linearised": tangent.anchored(starts)}
        paths = flow(
            fields,
            Heun(),
            clouds,
            key=jax.random.split(key, self.runs),
            dt=0.2,
            steps=round(self.horizon / 0.2),
            progress=tell,
        )
        found, wanted = {"moved": [], "gap": []}, np.zeros(())
        for name, gamma in SCALES.items():
            ends, straight = np.asarray(paths[name].cloud.atoms), np.asarray(paths[f"{name}, linearised"].cloud.atoms)
            found["moved"].append(np.sqrt(np.mean(np.sum((ends - np.asarray(starts.atoms)) ** 2, -1), -1)))
            said = m ** (1 - gamma) * np.stack([_say(atoms, new) for atoms in ends])
            wanted = m ** (1 - gamma) * np.asarray(_say_straight(tangent, jnp.asarray(straight), jnp.asarray(new)))
            found["gap"].append(np.sqrt(np.mean((said - wanted) ** 2, -1) / np.mean(wanted**2, -1)))
        first = jax.tree.map(lambda leaf: leaf[0], starts)
        stated = self._kernel_says(first, sample, new)
        errors = np.sqrt(np.mean((wanted[0] - stated) ** 2) / np.mean(stated**2))
        return {name: np.stack(rows, 1) for name, rows in found.items()} | {"kernel": errors}

    def _kernel_says(self, cloud: Cloud, sample: Sample, new: np.ndarray) -> np.ndarray:
        """What regression with the tangent kernel of a start says on new inputs, at the horizon."""
        unit = Neuron(self.d)
        gram, cross = _tangents(unit, cloud, sample.xs, jnp.asarray(new))
        if self.fault == "frozen outputs":
            hidden = np.maximum(np.asarray(sample.xs) @ np.asarray(cloud.atoms[:, 1:]).T, 0)
            there = np.maximum(new @ np.asarray(cloud.atoms[:, 1:]).T, 0)
            gram, cross = gram - hidden @ hidden.T / cloud.n, cross - there @ hidden.T / cloud.n
        times = np.array([self.horizon])
        return kernel_flow(np.asarray(gram), np.asarray(cross), np.asarray(sample.ys[:, 0]), times=times)[0]

    def learning(self, key, d: int) -> dict[str, np.ndarray]:
        """Exact test errors after training on d^1.5 samples, (students, 2): lazy and mean-field; and of the kernel."""
        draw = generator(jax.random.fold_in(key, d))
        sample, unit = _sample(draw, round(d**1.5), d), Neuron(d)
        rows = []
        for place, m in enumerate(self.students):
            fields = {
                "lazy": Descend(Risk(Scaled(unit, np.sqrt(m)), sample), transport=1 / m),
                "mean-field": Descend(Risk(Scaled(unit, 1.0), sample)),
            }
            steps = round(self.patience / 0.2)
            start = uniform(_start(draw, m, d))
            paths = flow(fields, Euler(), start, key=key, dt=0.2, steps=steps, progress=False)
            rows.append([_error(paths["lazy"].cloud, np.sqrt(m)), _error(paths["mean-field"].cloud, 1.0)])
            tell((place + 1) / len(self.students))
        xs, ys = np.asarray(sample.xs), np.asarray(sample.ys[:, 0])
        new = np.sqrt(d) * unit_vectors(draw, (2000, d))
        gram, cross = _wide_tangents(jnp.asarray(xs), jnp.asarray(new))
        said = kernel_flow(np.asarray(gram), np.asarray(cross), ys, times=np.array([self.patience]))[0]
        return {"error": np.array(rows), "kernel": np.mean((said - np.maximum(new[:, 0], 0)) ** 2)}

    def kernels(self, key) -> dict[str, np.ndarray]:
        """Test errors of both kernels over the plateau, (kernels, dims), from d^1.5 samples."""
        rows = []
        for place, d in enumerate(self.kernel_dims):
            draw = generator(jax.random.fold_in(key, 10_000 + d))
            xs, new = (np.sqrt(d) * unit_vectors(draw, (b, d)) for b in (round(d**1.5), 2000))
            ys, wanted = np.maximum(xs[:, 0], 0), np.maximum(new[:, 0], 0)
            rows.append([])
            for gram, cross in _both_kernels(jnp.asarray(xs), jnp.asarray(new)):
                gram = np.asarray(gram)
                dual = kernel_ridge(gram, ys, ridge=self.ridge * np.trace(gram) / len(gram))
                rows[-1].append(np.mean((np.asarray(cross) @ dual - wanted) ** 2) / relu_beyond_linear(d))
            tell((place + 1) / len(self.kernel_dims))
        return {"ratio": np.array(rows).T}

    def single(self, key) -> dict[str, np.ndarray]:
        """Exact test errors of one neuron relu(<w, x>), from about d log d samples: (ratios, dims, singles)."""
        errors = np.zeros((len(RATIOS), len(self.single_dims), self.singles))
        for (i, ratio), (j, d) in product(enumerate(RATIOS), enumerate(self.single_dims)):
            draw = generator(jax.random.fold_in(key, 20_000 + 10 * d + i))
            samples = [_sample(draw, int(np.ceil(ratio * d * np.log(d))), d) for _ in range(self.singles)]
            starts = uniform(draw.normal(size=(self.singles, 1, d)) / np.sqrt(d))
            fields = [Descend(Risk(Dense(d, 1, "relu"), sample)) for sample in samples]
            keys = jax.random.split(key, self.singles)
            path = flow(fields, Euler(), starts, key=keys, dt=0.5, steps=1500, progress=False)
            ends = np.asarray(path.cloud.atoms)[:, 0]
            errors[i, j] = [_error(uniform(np.append(1.0, end)[None]), 1.0) for end in ends]
            tell((i * len(self.single_dims) + j + 1) / errors[..., 0].size)
        return {"error": errors}

    def slopes(self, data, what: str) -> dict[str, float]:
        """The slope in m of displacements or of distances to the linearised model, at every scale."""
        rows = np.stack([data[f"width m={m}/{what}"] for m in self.widths], axis=1)
        return {name: slope(self.widths, rows[..., i]).value for i, name in enumerate(SCALES)}

    def learnt(self, data) -> np.ndarray:
        """The share of single neurons whose test error is below 1% of the plateau: (ratios, dims)."""
        plateaus = np.array([relu_beyond_linear(d) for d in self.single_dims])
        return np.mean(data["single/error"] < 0.01 * plateaus[None, :, None], axis=2)

    def widest(self, data) -> dict[str, np.ndarray]:
        """At every d, the errors of the widest students and of the kernel over the plateau."""
        plateaus = np.array([relu_beyond_linear(d) for d in self.dims])
        ends = np.stack([data[f"students d={d}/error"][-1] for d in self.dims])
        kernel = np.array([data[f"students d={d}/kernel"] for d in self.dims])
        return {"lazy": ends[:, 0] / plateaus, "mean-field": ends[:, 1] / plateaus, "kernel": kernel / plateaus}

    def verdict(self, data):
        moved, gaps, widest = self.slopes(data, "moved"), self.slopes(data, "gap"), self.widest(data)
        claims = {}
        for name, gamma in SCALES.items():
            low, high = gamma - 1.05, gamma - 0.95
            words = f"{name}, γ = {gamma:g}: particles move by m^(γ−1), slope between {low:.2f} and {high:.2f}"
            claims[words.replace("-0", "−0")] = between(moved[name], low, high)
        for name, power in APART.items():
            words = (
                f"{name}: distance to the linearised model, slope in m between {power - 0.1:.2f} and {power + 0.1:.2f}"
            )
            claims[words.replace("-0", "−0")] = between(gaps[name], power - 0.1, power + 0.1)
        worst = max(float(data[f"width m={m}/kernel"]) for m in self.widths)
        claims["the linearised model is regression with its tangent kernel: outputs agree to 1e-3"] = below(worst, 1e-3)
        for i, name in enumerate(KERNELS):
            ratios = data["kernels/ratio"][i]
            claims[f"{name}, n = d^1.5, largest d: test error over |P_{{>1}} σ|² between 0.8 and 1.2"] = between(
                ratios[-1], 0.8, 1.2
            )
        ratio = widest["lazy"] / widest["kernel"]
        claims["widest lazy network: test error over the kernel's between 0.8 and 1.2, at every d"] = between(
            ratio[np.argmax(np.abs(np.log(ratio)))], 0.8, 1.2
        )
        claims["widest mean-field network: test error below half of |P_{>1} σ|², at every d"] = below(
            widest["mean-field"].max(), 0.5
        )
        claims["one neuron, n = d log d: more than 90% of runs have test error below 1% of |P_{>1} σ|², at every d"] = (
            above(self.learnt(data)[-1].min(), 0.9)
        )
        return claims

    def figures(self, data):
        numbers = {f"slope of displacement, {name}": value for name, value in self.slopes(data, "moved").items()}
        numbers |= {f"slope of distance to linearised, {n}": value for n, value in self.slopes(data, "gap").items()}
        for i, name in enumerate(KERNELS):
            for d, ratio in zip(self.kernel_dims, data["kernels/ratio"][i], strict=True):
                numbers[f"{name}, d = {d}: error over plateau"] = ratio
        for name, values in self.widest(data).items():
            numbers |= {f"{name}, d = {d}: error over plateau": v for d, v in zip(self.dims, values, strict=True)}
        for ratio, row in zip(RATIOS, self.learnt(data), strict=True):
            for d, share in zip(self.single_dims, row, strict=True):
                numbers[f"one neuron, d = {d}, n = {ratio:g} d log d: share of runs that learn"] = share
        return numbers

    def panels(self, data):
        return [self._error_panel(data), self._moved_panel(data), self._plateau_panel(data)]

    def _error_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, INK, MUTED, colour, marker

            axes = np.atleast_1d(figure.subplots(1, len(self.dims), sharey=True))
            for axis, d in zip(axes, self.dims, strict=True):
                errors = data[f"students d={d}/error"]
                for i, (name, paint) in enumerate((("lazy", "vanilla"), ("mean-field", "EA"))):
                    axis.plot(self.students, errors[:, i], color=colour(paint), marker=marker(paint), label=name)
                axis.axhline(data[f"students d={d}/kernel"], color=INK, linestyle=DASHED, label="kernel")
                axis.axhline(relu_beyond_linear(d), color=MUTED, linewidth=1.0, label=r"$|P_{>1}\,\sigma|^2$")
                if d in self.single_dims:
                    end = np.median(data["single/error"][-1, self.single_dims.index(d)])
                    axis.plot(1, max(end, 1e-4), "*", color=colour("FA"), markersize=12, label="one neuron", zorder=3)
                axis.set(
                    xscale="log", yscale="log", ylim=(6e-5, 0.6), xlabel="width m", title=f"d = {d}, n = {d**1.5:.0f}"
                )
                axis.set_xticks([1, *self.students], [1, *self.students])
                axis.minorticks_off()
            axes[0].set(ylabel="test error")
            axes[-1].legend(loc="center right", bbox_to_anchor=(1.0, 0.4))

        caption = (
            "Learning relu(x₁) in R^d. Lazy networks come to the kernel's error as they widen, near the part of the "
            "neuron that no linear function catches; mean-field networks go below it. A single neuron (star, median; "
            "at most 1e-4) learns everything, from only d log d samples."
        )
        return Panel("Test error against width", caption, draw, size=(11.0, 4.0))

    def _moved_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import slopes

            titles = {"moved": "how far particles move", "gap": "distance to the linearised model"}
            axes = figure.subplots(1, 2)
            for axis, (what, title) in zip(axes, titles.items(), strict=True):
                rows = np.stack([data[f"width m={m}/{what}"] for m in self.widths], axis=1)
                series = {f"{name}, γ = {gamma:g}": rows[..., i] for i, (name, gamma) in enumerate(SCALES.items())}
                slopes(
                    axis,
                    self.widths,
                    series,
                    xlabel="width m",
                    ylabel="relative" if what == "gap" else "root mean square",
                )
                axis.set(title=title)
                axis.legend(title="slope in m", loc="lower left", alignment="left")

        caption = (
            f"Networks m^(−γ) Σ a relu(<w, x>) trained on {self.n} samples in R^{self.d}, medians over {self.runs} "
            "starts. In the lazy scaling particles stay and the network is its linearisation; in the mean-field one "
            "neither depends on the width."
        )
        return Panel("Lazy or active: a matter of scale", caption, draw, size=(10.2, 4.0))

    def _plateau_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, MUTED, colour, marker

            left, right = figure.subplots(1, 2)
            for order, name in enumerate(KERNELS):
                style = {"color": colour("", order), "marker": marker("", order), "label": name}
                left.plot(self.kernel_dims, data["kernels/ratio"][order], **style)
            left.axhspan(0.8, 1.2, color=MUTED, alpha=0.12, linewidth=0)
            left.axhline(1.0, color=MUTED, linestyle=DASHED, linewidth=1.0)
            left.set(
                xlabel="dimension d",
                ylabel=r"test error / $|P_{>1}\,\sigma|^2$",
                ylim=(0, 1.6),
                title="kernels, n = d^1.5",
            )
            left.set_xticks(self.kernel_dims)
            left.legend(loc="lower right")
            for order, (d, shares) in enumerate(zip(self.single_dims, self.learnt(data).T, strict=True)):
                right.plot(RATIOS, shares, color=colour("", order), marker=marker("", order), label=f"d = {d}")
            right.set(
                xlabel="samples n / (d log d)",
                ylabel="share of runs that learn",
                title="one neuron",
                ylim=(-0.05, 1.05),
            )
            right.set_xticks(RATIOS)
            right.legend(loc="lower right")

        caption = (
            "Left: from d^1.5 samples, both kernels of infinite width stay near what is left of a neuron beyond its "
            "linear part. Right: gradient descent on a single neuron finds it from d log d samples, up to 1% of that "
            f"rest; {self.singles} runs for each point."
        )
        return Panel("What kernels miss, one neuron finds", caption, draw, size=(10.2, 3.9))


def _sample(draw, n: int, d: int) -> Sample:
    xs = np.sqrt(d) * unit_vectors(draw, (n, d))
    return Sample(xs, np.maximum(xs[:, :1], 0))


def _start(draw, m: int, d: int) -> np.ndarray:
    """m particles (a, w), every w with both signs of a: the output is zero."""
    ways = draw.normal(size=(m // 2, d)) / np.sqrt(d)
    return np.concatenate([np.column_stack([np.full(m // 2, a), ways]) for a in (1.0, -1.0)])


def _say(atoms: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """The network of equal particles (a, w)."""
    return atoms[:, 0] @ np.maximum(atoms[:, 1:] @ xs.T, 0) / len(atoms)


def _error(cloud: Cloud, scale: float) -> float:
    """The exact `E |scale f − relu(x₁)|²`."""
    scaled = cloud.atoms.at[:, 0].multiply(scale)
    return float(_distance(Cloud(scaled, cloud.weights), one_neuron(cloud.p - 1)))


_distance = jax.jit(relu_distance)


@eqx.filter_jit
def _say_straight(tangent: Linearised, atoms, xs):
    return jax.vmap(lambda some: jnp.mean(tangent.many(some, xs)[:, 0], axis=0))(atoms)


@eqx.filter_jit
def _tangents(unit, cloud: Cloud, xs, new):
    return tangent_kernel(unit, cloud, xs), tangent_kernel(unit, cloud, new, xs)


@jax.jit
def _wide_tangents(xs, new):
    scale = 1 / np.sqrt(xs.shape[1])
    return relu_tangent(xs, scale=scale), relu_tangent(new, xs, scale=scale)


@jax.jit
def _both_kernels(xs, new):
    return (arc_cosine(xs), arc_cosine(new, xs)), _wide_tangents(xs, new)
