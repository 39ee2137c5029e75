"""What kernels and lazy networks miss of a single neuron, and what networks that learn features find."""

import equinox as eqx
import jax
import numpy as np

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.risks import Risk
from haarflow.learning.single_neuron import gram_matrices, mirrored_students, neuron_error, neuron_sample
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models import kernels
from haarflow.models.neurons import Neuron
from haarflow.models.units import Dense
from haarflow.runs.experiment import Experiment, above, below, between, in_turns, named, over, panel, tell
from haarflow.runs.sizes import Count, Evens, Horizon, Positive, Sizes
from haarflow.runs.style import DASHED, INK, MUTED, colour, legend_above, log_axes, marker

RATIOS = (0.25, 0.5, 1.0)  # sizes of the samples for a single neuron, over d log d
REST, TYPESET = "|P_{>1} σ|²", r"$|P_{>1}\,\sigma|^2$"  # what no linear function catches of a neuron


class BeyondKernels(Experiment):
    """From d^1.5 samples of a single neuron, kernels and lazy networks learn its linear part and no more, mean-field
    networks more, and one neuron everything, from d log d samples.

    Source: lecture 7 on mean-field networks; Limitations of lazy training of two-layers neural networks
    (arXiv 1906.08899).

    Inputs are uniform on the sphere of radius √d, the teacher is relu(x₁), and networks of m units are scaled and
    slowed as in the experiment `lazy-active`: κ = √m is lazy, κ = 1 is mean-field. Kernels are those of infinite width
    in closed form, fitted with a small ridge; the plateau |P_{>1} σ|² is what linear functions miss, and kernels stay
    near it at n = d^1.5 for large d: an asymptotic statement, not an inequality. Test errors of a unit and of networks
    are exact, by the arc-cosine kernel.
    """

    group = "dynamics"
    seconds = 14.0
    faults = {"lazy scaling": "the mean-field students are scaled as the lazy ones are"}

    dims: Sizes = (20, 40, 80)  # dimensions in which students learn a neuron
    students: Evens = (4, 16, 64, 256)  # their widths
    patience: Horizon = 50.0  # time of their training
    kernel_dims: Sizes = (50, 100, 200)  # dimensions in which kernels do
    ridge: Positive = 1e-3  # of the kernels, over the mean of K(x, x)
    single_dims: Sizes = (20, 40, 80, 160)  # dimensions in which one neuron does
    singles: Count = 10  # runs of each

    @classmethod
    def full(cls):
        return cls(students=(4, 16, 64, 256, 1024), dims=(20, 40, 80, 160), singles=40)

    def design(self):
        yield self.learning, over(d=self.dims).largest_first("d")
        yield self.regression, over(d=self.kernel_dims).largest_first("d")
        yield self.single, over(ratio=RATIOS, d=self.single_dims).largest_first("d")

    def learning(self, key, d):
        """Exact test errors of students of every width after d^1.5 samples, lazy and mean-field; and the kernel's."""
        draw, unit, steps = generator(jax.random.fold_in(key, d)), Neuron(d), round(self.patience / 0.2)
        sample, errors = neuron_sample(draw, round(d**1.5), d), []
        for (m,) in in_turns(self.students):
            scales = {"lazy": np.sqrt(m), "mean-field": np.sqrt(m) if self.fault == "lazy scaling" else 1.0}
            start = uniform(mirrored_students(draw, (m,), d, images=2))
            risks = {name: Risk(kernels.Scaled(unit, scale), sample) for name, scale in scales.items()}
            fields = {name: Descend(risks[name], transport=scale**-2) for name, scale in scales.items()}
            paths = flow(fields, Euler(), start, key=key, dt=0.2, steps=steps, progress=False)
            errors.append([neuron_error(paths[name].cloud.atoms, scale) for name, scale in scales.items()])
        new = neuron_sample(draw, 2000, d)
        gram, cross, ys = gram_matrices(_kernels(d)["tangent kernel"], sample, new)
        missed = kernels.kernel_flow(gram, cross, ys, times=np.array([self.patience]))[0] - new.ys[:, 0]
        errors = named(errors, "width", "scale", width=self.students, scale=("lazy", "mean-field"))
        return {"students": errors, "kernel_error": np.mean(missed**2)}

    def regression(self, key, d):
        """The test errors of both kernels of infinite width, over the plateau, from d^1.5 samples."""
        draw, found = generator(jax.random.fold_in(key, 10_000 + d)), {}
        sample, new = (neuron_sample(draw, size, d) for size in (round(d**1.5), 2000))
        for name, kernel in _kernels(d).items():
            gram, cross, ys = gram_matrices(kernel, sample, new)
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

    def claims(self, data):
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


def _kernels(d):
    """The kernels of infinite width, each a function of two sets of inputs."""
    return {"random features": kernels.arc_cosine, "tangent kernel": eqx.Partial(kernels.relu_tangent, scale=d**-0.5)}
