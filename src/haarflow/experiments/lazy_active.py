"""Two ways to scale a wide network: one where its particles hardly move, and one where they learn."""

from typing import Annotated

import equinox as eqx
import jax
import numpy as np
from pydantic import Field

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Heun
from haarflow.learning.risks import Risk
from haarflow.learning.single_neuron import mirrored_students, neuron_error, neuron_sample
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models import kernels
from haarflow.models.neurons import Neuron
from haarflow.models.units import Dense, network
from haarflow.runs.experiment import (
    Experiment,
    above,
    below,
    between,
    in_turns,
    named,
    over,
    panel,
    power_law,
    stream,
    tell,
)
from haarflow.runs.sizes import Count, Horizon, Positive, Sizes
from haarflow.runs.style import DASHED, INK, MUTED, colour, legend_above, log_axes, marker, power_laws

Widths = Annotated[tuple[Annotated[int, Field(ge=2, multiple_of=2)], ...], Field(min_length=2)]

SCALES = {"lazy": 0.5, "between": 0.75, "mean-field": 1.0}  # the output is m^−γ times the sum of m units
APART = {"lazy": -0.75, "between": -0.5, "mean-field": 0.0}  # powers of m, see the docstring
RATIOS = (0.25, 0.5, 1.0)  # sizes of the samples for a single neuron, over d log d
MEASURES = {"moved": "how far particles move", "gap": "distance to the linearised model"}
REST, TYPESET = "|P_{>1} σ|²", r"$|P_{>1}\,\sigma|^2$"  # what no linear function catches of a neuron


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
    the argument says −1, at −1.11; with signs drawn at random in place of mirrored ones, at −0.80. Mean-field slopes
    come out at −0.03 to −0.07: the distance falls to its limit, 0.29, from 0.33 at m = 64.
    """

    group = "dynamics"
    seconds = 23.0
    faults = {
        "no slowing": "time is not slowed by κ²",
        "frozen outputs": "the outputs are left out of the tangent kernel",
    }

    d: Count = 10  # dimension of the inputs while the width changes
    n: Count = 60  # samples there
    widths: Widths = (64, 256, 1024)  # widths m along which displacements are fitted
    runs: Count = 16  # starts of each width
    horizon: Horizon = 10.0  # time of their training
    dims: Sizes = (20, 40, 80)  # dimensions in which students learn a neuron
    students: Widths = (4, 16, 64, 256)  # their widths
    patience: Horizon = 50.0  # time of their training
    kernel_dims: Sizes = (50, 100, 200)  # dimensions in which kernels do
    ridge: Positive = 1e-3  # of the kernels, over the mean of K(x, x)
    single_dims: Sizes = (20, 40, 80, 160)  # dimensions in which one neuron does
    singles: Count = 10  # runs of each

    @classmethod
    def full(cls):
        widths, students = (64, 256, 1024, 4096), (4, 16, 64, 256, 1024)
        return cls(widths=widths, runs=40, students=students, dims=(20, 40, 80, 160), singles=40)

    def design(self):
        yield self.learning, over(d=self.dims).largest_first("d")
        yield self.regression, over(d=self.kernel_dims).largest_first("d")
        yield self.scaling, over(m=self.widths).largest_first("m")
        yield self.single, over(ratio=RATIOS, d=self.single_dims).largest_first("d")

    def scaling(self, key, m):
        """Displacements and the distance to the linearised model for every scale and run, at one width."""
        draw, unit = generator(jax.random.fold_in(key, 1)), Neuron(self.d)
        sample, new = (neuron_sample(draw, size, self.d) for size in (self.n, 200))
        draws = [generator(stream(key, "start", m, run)) for run in range(self.runs)]
        starts = uniform(np.stack([mirrored_students(draw, (m,), self.d, images=2) for draw in draws]))
        tangent, models, fields, clouds = kernels.Linearised(unit), {}, {}, {}
        for name, gamma in SCALES.items():
            scale, straight = m ** (1 - gamma), f"{name}, linearised"
            speed = 1.0 if self.fault == "no slowing" else scale**-2
            models |= {name: kernels.Scaled(unit, scale), straight: kernels.Scaled(tangent, scale)}
            fields |= {lane: Descend(Risk(models[lane], sample), transport=speed) for lane in (name, straight)}
            fields[straight] = restrict(fields[straight], tangent.projector, through="start")
            clouds |= {name: starts, straight: tangent.anchored(starts)}
        keys, steps = jax.random.split(key, self.runs), round(self.horizon / 0.2)
        paths = flow(fields, Heun(), clouds, key=keys, dt=0.2, steps=steps, progress=tell)
        said = {lane: np.asarray(_outputs(models[lane], path.cloud, new.xs)) for lane, path in paths.items()}
        ways = np.stack([paths[name].cloud.atoms - starts.atoms for name in SCALES])
        gaps = [_relative(said[name], said[f"{name}, linearised"]) for name in SCALES]
        stated = self._regression(uniform(starts.atoms[0]), sample, new)
        return {
            "moved": named(np.sqrt(np.mean(np.sum(ways**2, -1), -1)), "scale", "run", scale=SCALES),
            "gap": named(gaps, "scale", "run", scale=SCALES),
            "kernel_gap": _relative(said["mean-field, linearised"][0], stated),
        }

    def _regression(self, start, sample, new):
        """What regression with the tangent kernel of a start says on new inputs, at the horizon."""
        gram, cross, ys = _gram(eqx.Partial(kernels.tangent_kernel, Neuron(self.d), start), sample, new)
        if self.fault == "frozen outputs":
            hidden = eqx.Partial(kernels.feature_kernel, Dense(self.d, 1, "relu"), uniform(start.atoms[:, 1:]))
            outputs = _gram(hidden, sample, new)
            gram, cross = gram - outputs[0], cross - outputs[1]
        return kernels.kernel_flow(gram, cross, ys, times=np.array([self.horizon]))[0]

    def learning(self, key, d):
        """Exact test errors of students of every width after d^1.5 samples, lazy and mean-field; and the kernel's."""
        draw, unit, steps = generator(jax.random.fold_in(key, d)), Neuron(d), round(self.patience / 0.2)
        sample, errors = neuron_sample(draw, round(d**1.5), d), []
        for (m,) in in_turns(self.students):
            scales = {"lazy": np.sqrt(m), "mean-field": 1.0}
            start = uniform(mirrored_students(draw, (m,), d, images=2))
            risks = {name: Risk(kernels.Scaled(unit, scale), sample) for name, scale in scales.items()}
            fields = {name: Descend(risks[name], transport=scale**-2) for name, scale in scales.items()}
            paths = flow(fields, Euler(), start, key=key, dt=0.2, steps=steps, progress=False)
            errors.append([neuron_error(paths[name].cloud.atoms, scale) for name, scale in scales.items()])
        new = neuron_sample(draw, 2000, d)
        gram, cross, ys = _gram(_kernels(d)["tangent kernel"], sample, new)
        missed = kernels.kernel_flow(gram, cross, ys, times=np.array([self.patience]))[0] - new.ys[:, 0]
        errors = named(errors, "width", "scale", width=self.students, scale=("lazy", "mean-field"))
        return {"students": errors, "kernel_error": np.mean(missed**2)}

    def regression(self, key, d):
        """The test errors of both kernels of infinite width, over the plateau, from d^1.5 samples."""
        draw, found = generator(jax.random.fold_in(key, 10_000 + d)), {}
        sample, new = (neuron_sample(draw, size, d) for size in (round(d**1.5), 2000))
        for name, kernel in _kernels(d).items():
            gram, cross, ys = _gram(kernel, sample, new)
            dual = kernels.kernel_ridge(gram, ys, ridge=self.ridge * np.trace(gram) / len(gram))
            found[name] = np.mean((cross @ dual - new.ys[:, 0]) ** 2) / kernels.relu_beyond_linear(d)
        return {"kernels": named(list(found.values()), "kernel", kernel=found)}

    def single(self, key, ratio, d):
        """Exact test errors of one neuron relu(<w, x>), run by run, from about d log d samples."""
        draw = generator(jax.random.fold_in(key, 20_000 + 10 * d + RATIOS.index(ratio)))
        samples = [neuron_sample(draw, int(np.ceil(ratio * d * np.log(d))), d) for _ in range(self.singles)]
        starts = uniform(draw.normal(size=(self.singles, 1, d)) / np.sqrt(d))
        fields, keys = [Descend(Risk(Dense(d, 1, "relu"), one)) for one in samples], jax.random.split(key, self.singles)
        path = flow(fields, Euler(), starts, key=keys, dt=0.5, steps=1500, progress=tell)
        ends = np.pad(path.cloud.atoms, ((0, 0), (0, 0), (1, 0)), constant_values=1.0)
        return {"single": named([neuron_error(end) for end in ends], "run")}

    def learnt(self, data):
        """The share of single neurons whose test error is below 1% of the plateau, by ratio and d."""
        return (data.single < 0.01 * _plateaus(self.single_dims)).mean("run")

    def widest(self, data):
        """The errors of the widest students and of the kernel over the plateau, by d."""
        ends, rest = data.students.isel(width=-1), _plateaus(self.dims)
        return {**{name: end / rest for name, end in ends.each("scale")}, "kernel": data.kernel_error / rest}

    def fits(self, data):
        return {
            f"{words}, {name}": power_law(data[array].sel(scale=name), along="m")
            for array, words in MEASURES.items()
            for name in SCALES
        }

    def claims(self, data):
        moved, apart = MEASURES.values()
        for name, gamma in SCALES.items():
            fit = data.fits[f"{moved}, {name}"].called(f"{name}, γ = {gamma:g}, particles move by m^(γ−1)")
            yield fit.between(gamma - 1.05, gamma - 0.95)
        for name, power in APART.items():
            yield data.fits[f"{apart}, {name}"].between(power - 0.1, power + 0.1)
        yield below("linearised model and regression with its tangent kernel: distance", data.kernel_gap.max(), 1e-3)
        for name, ratios in data.kernels.each("kernel"):
            yield between(f"{name}, n = d^1.5, largest d: test error over {REST}", ratios.isel(d=-1), 0.8, 1.2)
        widest = self.widest(data)
        farthest = max(widest["lazy"] / widest["kernel"], key=lambda ratio: abs(np.log(ratio)))
        yield between("widest lazy network, at every d: test error over the kernel's", farthest, 0.8, 1.2)
        yield below(f"widest mean-field network, at every d: test error over {REST}", widest["mean-field"].max(), 0.5)
        share = f"one neuron, n = d log d, at every d: share of runs with test error below 1% of {REST}"
        yield above(share, self.learnt(data).isel(ratio=-1).min(), 0.9)

    def numbers(self, data):
        ratios = dict(data.kernels.each("kernel")) | self.widest(data)
        numbers = {f"{name}, d = {d}: error over {REST}": at for name in ratios for d, at in ratios[name].each("d")}
        shares = self.learnt(data).each("ratio", "d")
        return numbers | {f"one neuron, d = {d}, n = {c:g} d log d: share that learns": at for (c, d), at in shares}

    @panel(
        "Test error against width",
        "Learning relu(x₁) in R^d. Lazy networks come to the kernel's error as they widen, near the part of the neuron "
        "that no linear function catches; mean-field networks go below it. A single neuron (star, median; at most "
        "1e-4) learns everything, from only d log d samples.",
        columns="dims",
        size=(11.0, 4.0),
        sharey=True,
    )
    def width(self, axis, data, d):
        axis.axhline(kernels.relu_beyond_linear(d), color=MUTED, linewidth=3.0, alpha=0.4, label=TYPESET)
        axis.axhline(data.kernel_error.sel(d=d), color=INK, linestyle=DASHED, linewidth=1.0, label="kernel")
        for shade, (name, line) in zip(("vanilla", "EA"), data.students.sel(d=d).each("scale"), strict=True):
            axis.plot(self.students, line, color=colour(shade), marker=marker(shade), label=name)
        if d in self.single_dims:
            end = data.single.sel(d=d).isel(ratio=-1).median()
            axis.plot(1, max(float(end), 1e-4), "*", color=colour("FA"), markersize=12, label="one neuron", zorder=3)
        log_axes(axis, [1, *self.students], "width m", "test error")
        axis.set(ylim=(6e-5, 0.6), title=f"d = {d}, n = {d**1.5:.0f}")
        axis.label_outer()
        if d == self.dims[0]:
            legend_above(axis)

    @panel(
        "Lazy or active: a matter of scale",
        "Networks m^(−γ) Σ a relu(<w, x>) trained on {n} samples in R^{d}, medians over {runs} starts. In the lazy "
        "scaling, γ = ½, particles stay and the network is its linearisation; in the mean-field one, γ = 1, neither "
        "depends on the width.",
        columns=2,
        size=(10.2, 4.0),
    )
    def scales(self, axes, data):
        for axis, (array, words), unit in zip(axes, MEASURES.items(), ("root mean square", "relative"), strict=True):
            fits = {name: data.fits[f"{words}, {name}"] for name in SCALES}
            power_laws(axis, data[array], along="m", by="scale", fits=fits, xlabel="width m", ylabel=unit)
            axis.set(title=words)
            axis.legend(title="slope in m [95% band]", loc="lower left", alignment="left")

    @panel(
        "What kernels miss, one neuron finds",
        "Left: from d^1.5 samples, both kernels of infinite width stay near what is left of a neuron beyond its linear "
        "part. Right: gradient descent on a single neuron finds it from d log d samples, up to 1% of that rest; "
        "{singles} runs for each point.",
        columns=2,
        size=(10.2, 3.9),
    )
    def plateau(self, axes, data):
        left, right = axes
        left.axhspan(0.8, 1.2, color=MUTED, alpha=0.12, linewidth=0)
        left.axhline(1.0, color=MUTED, linestyle=DASHED, linewidth=1.0)
        for order, (name, ratios) in enumerate(data.kernels.each("kernel")):
            left.plot(self.kernel_dims, ratios, color=colour(order), marker=marker(order), label=name)
        left.set(xlabel="dimension d", ylabel=f"test error / {TYPESET}", ylim=(0, 1.6), xticks=self.kernel_dims)
        for order, (d, shares) in enumerate(self.learnt(data).each("d")):
            right.plot(RATIOS, shares, color=colour(order), marker=marker(order), label=f"d = {d}")
        right.set(xlabel="samples n / (d log d)", ylabel="share of runs that learn", ylim=(-0.05, 1.05), xticks=RATIOS)
        for axis in axes:
            axis.legend(loc="lower right")


def _plateaus(dims):
    return named([kernels.relu_beyond_linear(d) for d in dims], "d", d=dims)


def _relative(found, wanted):
    """The distance of outputs from wanted ones, relative, run by run."""
    return np.sqrt(np.mean((found - wanted) ** 2, -1) / np.mean(wanted**2, -1))


@eqx.filter_jit
def _outputs(unit, clouds, xs):
    """The outputs (runs, b) of a stack of clouds."""
    return jax.vmap(lambda cloud: network(unit, cloud, xs)[:, 0])(clouds)


def _kernels(d):
    """The kernels of infinite width, each a function of two sets of inputs."""
    return {"random features": kernels.arc_cosine, "tangent kernel": eqx.Partial(kernels.relu_tangent, scale=d**-0.5)}


def _gram(kernel, sample, new):
    """In NumPy, a kernel among the inputs of a sample, and of new ones with them; and the sample's outputs."""
    compiled = eqx.filter_jit(kernel)
    found = compiled(sample.xs, sample.xs), compiled(new.xs, sample.xs), sample.ys[:, 0]
    return tuple(map(np.asarray, found))
