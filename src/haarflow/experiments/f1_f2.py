"""Function spaces: one neuron has norm one in F1 and none in F2, and what that costs a kernel that must learn it."""

import jax
import numpy as np

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Optax
from haarflow.learning.data import Sample
from haarflow.learning.functionals import Penalty
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import relu_students, unit_vectors
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.harmonics import f2_norm_squared, funk_hecke, harmonics, legendre
from haarflow.models.kernels import arc_cosine, kernel_ridge, relu_beyond_linear
from haarflow.models.networks import network
from haarflow.models.neurons import Neuron
from haarflow.models.variation import variation_norm
from haarflow.runs.experiment import Experiment, below, between, blocks, named, over, panel, power_law, stream
from haarflow.runs.sizes import Count, Sizes
from haarflow.runs.style import INK, colour, curves, legend, log_axes, power_laws

SPACES = ("kernel (F2)", "variation norm (F1)")
RIDGES = tuple(10.0 ** np.arange(-6, 3))  # of the kernel, times d; the best is chosen on held-out inputs
PENALTIES = (3e-4, 1e-3, 3e-3, 1e-2)  # on ½|θ|², which is the variation norm at the optimum; chosen likewise
HELD_OUT, TESTS = 500, 2000  # inputs to choose by, and to be judged by
SHRINKAGES = 10.0 ** np.linspace(-2, -16, 57)  # of the degrees of a neuron: the curve of balls
MERCER = 200  # degrees after which a kernel is compared with the sum of its degrees


class F1F2(Experiment):
    """One ReLU neuron has norm one in F1 and infinite norm in F2: cut off after degree K, its squared F2 norm is the
    number of harmonics up to K. A kernel therefore learns a target of one direction only as fast as the dimension
    allows, while a network penalised in variation norm finds the direction.

    Source: measure dynamics for neural networks (function spaces F1 and F2); after Bach, Breaking the curse of
    dimensionality with convex neural networks (arXiv 1412.8690).

    On the sphere everything about the kernel is exact, degree by degree (Funk–Hecke). The best approximation of a
    neuron in the F2 ball of radius δ shrinks degree k by λ_k²/(λ_k² + s); its squared error falls like δ^(−6/(d − 1)),
    an exponent that fades in high dimension. In F1 the ball of radius one holds the neuron. The learners see n = d^1.5
    inputs on the sphere of radius √d and labels without noise. Kernel ridge regression with the kernel of random ReLU
    neurons then knows the linear part only, with an error near |P_{>1} relu|² (for large d); the network is trained by
    Adam on the half square loss and Penalty(λ). Both choose their penalty on 500 more inputs.
    """

    group = "dynamics"
    seconds = 30.0
    faults = {"full kernel": "the ladder counts the odd degrees too, which no kernel of ReLU neurons sees"}

    ladder_dims: Sizes = (3, 5, 10)  # dimensions of the ladder and of the balls
    degrees: Count = 12  # steps of the ladder that are compared
    dims: Sizes = (20, 40, 80)  # dimensions of the learning problem, with n = d^1.5 inputs
    curve_dim: Count = 20  # dimension of the learning curves
    curve_sizes: Sizes = (64, 128, 256, 512)  # their numbers of inputs
    repetitions: Count = 4  # samples
    particles: Count = 60  # neurons of the network
    steps: Count = 1500  # of its training

    @classmethod
    def full(cls):
        sizes = (64, 128, 256, 512, 1024, 2048)
        return cls(dims=(20, 40, 80, 160), curve_sizes=sizes, repetitions=20, particles=200, steps=5000)

    def design(self):
        runs = blocks("run", self.repetitions, size=4)
        yield self.norms, over(d=self.ladder_dims)
        yield self.dimension, (over(dim=self.dims) * runs).largest_first("dim")
        yield self.curve, (over(n=self.curve_sizes) * runs).largest_first("n")

    def norms(self, key, d):
        """The ladder of F2 norms and the curve of balls, both exact; and how far the degrees are from the kernel."""
        seen = funk_hecke("relu", d=d, degree=MERCER)
        counts = np.array([float(harmonics(d, k)) for k in range(MERCER + 1)])
        known = (np.arange(MERCER + 1) % 2 == 0) | (np.arange(MERCER + 1) == 1) | (self.fault == "full kernel")
        ladder = f2_norm_squared("relu", d=d, degree=self.degrees)
        energy = np.where(known, seen**2 * counts, 0.0)
        kept = seen**2 / (seen**2 + SHRINKAGES[:, None])
        error = ((1 - kept) ** 2 * energy).sum(1) + max(1 / (2 * d) - energy.sum(), 0)  # E relu² = 1/2d
        radius = np.sqrt((kept**2 * known * counts).sum(1))
        counted = np.cumsum(known * counts)[: self.degrees + 1]
        return {
            "ladder": named(ladder, "degree", degree=range(self.degrees + 1)),
            "counted": named(counted, "degree", degree=range(self.degrees + 1)),
            "mercer": self._mercer_gap(seen, counts, d),
            "radius": named(radius, "shrinkage", shrinkage=SHRINKAGES),
            "error": named(2 * d * error, "shrinkage", shrinkage=SHRINKAGES),
        }

    @staticmethod
    def _mercer_gap(seen, counts, d):
        """The largest difference between `Σ λ_k² N P_k` and the closed form of the kernel, relative to its diagonal."""
        cosines = np.linspace(-1, 1, 21)
        points = np.column_stack([cosines, np.sqrt(1 - cosines**2), np.zeros((21, d - 2))])
        summed = (seen**2 * counts) @ legendre(cosines, d=d, degree=MERCER)
        return np.abs(summed * 2 * d - 2 * np.asarray(arc_cosine(points, np.eye(1, d)))[:, 0]).max()

    def dimension(self, key, dim, run):
        """Both learners on d^1.5 inputs, in several dimensions."""
        return self._learned(key, "dimension", dim, round(dim**1.5), run, "at")

    def curve(self, key, n, run):
        """Both learners on more and more inputs, in one dimension."""
        return self._learned(key, "curve", self.curve_dim, n, run, "over")

    def _learned(self, key, name, d, n, run, suffix):
        draw = [generator(stream(key, name, d, n, r)) for r in run]
        found = [_learn(one, d, n, self.particles, self.steps) for one in draw]
        errors = [[kernel / relu_beyond_linear(d), network_ / relu_beyond_linear(d)] for kernel, network_, _ in found]
        labels = {"run": run, "space": SPACES}
        norms = named([norm for *_, norm in found], "run", run=run)
        return {f"error_{suffix}": named(errors, *labels, **labels), f"norm_{suffix}": norms}

    @property
    def _asymptotic(self):
        """Dimensions in which the degrees that are summed reach the law of large radii."""
        return [d for d in self.ladder_dims if d >= 5]

    def fits(self, data):
        balls = {_ball(d): power_law(_along(data, d), along="radius") for d in self._asymptotic}
        over_n = {
            f"{space}: error over n": power_law(part, along="n", centre="mean")
            for space, part in data.error_over.each("space")
        }
        return balls | over_n

    def claims(self, data):
        gap = np.abs(np.asarray(data.ladder) / np.asarray(data.counted) - 1).max()
        yield below("Ladder: squared F2 norm against the number of harmonics, relative error", gap, 1e-9)
        if 10 in self.ladder_dims:
            gap = np.abs(np.asarray(data.ladder.sel(d=10))[:5] - [1, 11, 65, 65, 725][: self.degrees + 1]).max()
            yield below("Ladder in R^10 is 1, 11, 65, 65, 725, to", gap, 1e-8)
        yield below("The kernel is the sum of its degrees, relative error", data.mercer.max(), 1e-4)
        for d in self._asymptotic:
            yield data.fits[_ball(d)].between(-6.6 / (d - 1), -5.4 / (d - 1))
        mean = data.error_at.mean("run")
        last = mean.sel(dim=max(self.dims))
        yield between("Kernel at n = d^1.5 over |P_{>1} relu|², largest d", last.sel(space=SPACES[0]), 0.8, 1.2)
        yield below("Network at n = d^1.5 over |P_{>1} relu|², every d", mean.sel(space=SPACES[1]).max(), 0.1)
        yield data.fits[f"{SPACES[1]}: error over n"].below(-1)

    def numbers(self, data):
        norms = {"variation norm of the network, d = {dim}": data.norm_at.mean("run")}
        return norms | {"{space}, d = {dim}: error over |P_{>1} relu|²": data.error_at.mean("run")}

    @panel(
        "The ladder of norms",
        "Squared F2 norm of one neuron cut off after degree K: the number of harmonics that neurons have. Its norm in "
        "F1 is 1, whatever K and d.",
    )
    def ladder(self, axis, data):
        curves(axis, data.ladder.labels("degree"), {f"d = {d}": one for d, one in data.ladder.each("d")}, marker="o")
        axis.axhline(1, color=INK, linestyle="--", label="F1")
        axis.set(yscale="log", xlabel="degree K", ylabel="squared norm")
        legend(axis)

    @panel(
        "Balls of growing radius",
        "The least squared error, relative to |relu|², over the F2 ball of radius δ (exact), and the law δ^(−6/(d−1)) "
        "with which it falls. The ball of radius 1 of F1 holds the neuron: its error is 0 from there on.",
    )
    def balls(self, axis, data):
        for order, d in enumerate(self.ladder_dims):
            radius, error = (np.asarray(part.sel(d=d)) for part in (data.radius, data.error))
            axis.loglog(radius, error, color=colour(order), label=f"d = {d}")
        axis.axvline(1, color=INK, linestyle="--", label="F1: error 0 from here on")
        axis.set(xlabel="radius δ", ylabel="relative squared error", xlim=(0.3, 1e6), ylim=(1e-6, 1.5))
        legend(axis)

    @panel(
        "One direction in many dimensions",
        "Test error after n = d^1.5 inputs, over |P_{{>1}} relu|², the part that is not linear; mean over "
        "{repetitions} samples with their range.",
    )
    def adaptivity(self, axis, data):
        series = {space: part.transpose("run", "dim") for space, part in data.error_at.each("space")}
        curves(axis, self.dims, series, band="range", marker="o")
        axis.axhline(1, color=INK, linestyle="--", label="linear functions")
        log_axes(axis, self.dims, "dimensions d", r"test error / $|P_{>1}\,\mathrm{relu}|^2$")
        legend(axis)

    @panel(
        "Learning curves",
        "Test error over |P_{{>1}} relu|² in R^{curve_dim} against the number of inputs, with fitted exponents.",
    )
    def learning(self, axis, data):
        fits = {space: data.fits[f"{space}: error over n"] for space in SPACES}
        power_laws(axis, data.error_over, along="n", by="space", fits=fits, centre="mean", xlabel="inputs n")
        axis.set_ylabel(r"test error / $|P_{>1}\,\mathrm{relu}|^2$")
        legend(axis)


def _ball(d):
    return f"F2 ball, d = {d}: squared error"


def _along(data, d):
    """The error over the radius, where neither low degrees nor the cut at the last degree are felt."""
    radius, error = (np.asarray(part.sel(d=d)) for part in (data.radius, data.error))
    used = (error < 1e-3) & (radius < 0.1 * np.sqrt(float(harmonics(d, MERCER))))
    return named(error[used], "radius", radius=radius[used])


def _learn(draw, d, n, particles, steps):
    """The test errors of the kernel and of the network on one neuron, and the variation norm of the network."""
    seen, chosen_by, tests = (np.sqrt(d) * unit_vectors(draw, (m, d)) for m in (n, HELD_OUT, TESTS))
    return _kernel(seen, chosen_by, tests), *_network(draw, seen, chosen_by, tests, particles, steps)


def _neuron(xs):
    return np.maximum(xs[:, 0], 0)


def _kernel(seen, chosen_by, tests):
    gram, d = np.asarray(arc_cosine(seen)), seen.shape[1]
    weights = [kernel_ridge(gram, _neuron(seen), ridge=ridge * d) for ridge in RIDGES]
    errors = [[_gap(np.asarray(arc_cosine(xs, seen)) @ one, xs) for xs in (chosen_by, tests)] for one in weights]
    return min(errors)[1]


def _network(draw, seen, chosen_by, tests, particles, steps):
    import optax

    d, data = seen.shape[1], Sample(seen, _neuron(seen))
    unit = Neuron(d)
    start = uniform(relu_students(draw, 1, particles, d)[0])
    fields = [Descend(Risk(unit, data) + Penalty(penalty)) for penalty in PENALTIES]
    scheme = Optax(optax.adam(optax.cosine_decay_schedule(1.0, steps)))
    keys = jax.random.split(jax.random.key(0), len(fields))
    ends = flow(fields, scheme, start, key=keys, dt=0.03, steps=steps, progress=False).cloud
    clouds = [jax.tree.map(lambda leaf, i=i: leaf[i], ends) for i in range(len(fields))]
    said = [[_gap(np.asarray(network(unit, one, xs))[:, 0], xs) for xs in (chosen_by, tests)] for one in clouds]
    found = [(*gaps, variation_norm(one, tolerance=1e-2)) for gaps, one in zip(said, clouds, strict=True)]
    return min(found)[1:]


def _gap(values, xs):
    return float(np.mean((values - _neuron(xs)) ** 2))
