"""Two ways to scale a wide network: one where its particles hardly move, and one where they learn."""

import equinox as eqx
import jax
import numpy as np

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Heun
from haarflow.learning.risks import Risk
from haarflow.learning.single_neuron import gram_matrices, mirrored_students, neuron_sample
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models import kernels
from haarflow.models.networks import network
from haarflow.models.neurons import Neuron
from haarflow.models.units import Dense
from haarflow.runs.experiment import Experiment, below, named, over, panel, power_law, stream, tell
from haarflow.runs.sizes import Count, Evens, Horizon
from haarflow.runs.style import power_laws

SCALES = {"lazy": 0.5, "between": 0.75, "mean-field": 1.0}  # the output is m^−γ times the sum of m units
APART = {"lazy": -0.75, "between": -0.5, "mean-field": 0.0}  # powers of m, see the docstring
MEASURES = {"moved": "how far particles move", "gap": "distance to the linearised model"}


class LazyActive(Experiment):
    """A network m^{−γ} Σ a relu(<w, x>) trained to fit moves its particles by m^{γ − 1}: at γ = ½ it is its own
    linearisation, a kernel method, and at γ = 1 it learns features.

    Source: lecture 7 on mean-field networks; On lazy training in differentiable programming (arXiv 1812.07956).

    A mean over m particles times κ = m^{1 − γ}, with time slowed by κ², so that outputs move at the same speed for
    every γ: `θ' = −(1/κ) E[∇phi (κf − y)]`. Starts a = ±1 and w ~ N(0, I/d), each w with both signs of a: the output
    starts at zero. Inputs are uniform on the sphere of radius √d, the teacher is relu(x₁).

    The distance to the linearised model is at most of order 1/κ, a slope of −½ in m for lazy networks; it is measured
    to fall faster. A scaling argument, not a theorem: where both signs of the outputs are equally likely that order
    cancels. What is left is of order κ^−2, and a fluctuation from the units whose kink passes an input,
    (κ/m)·√(m/κ)·(1/κ), of order m^{−3/4} at γ = ½. So the slopes in m would be −¾, −½ and 0 at γ = ½, ¾ and 1, and the
    verdicts allow 0.1 around them. Lazy slopes come out near −0.80; with tanh units, which have no kink and for which
    the argument says −1, at −1.11; with signs drawn at random in place of mirrored ones, at −0.80. Mean-field slopes
    come out at −0.03 to −0.07: the distance falls to its limit, 0.29, from 0.33 at m = 64. What lazy networks miss for
    it is the experiment `beyond-kernels`.
    """

    group = "dynamics"
    seconds = 9.0
    faults = {
        "no slowing": "time is not slowed by κ²",
        "frozen outputs": "the outputs are left out of the tangent kernel",
    }

    d: Count = 10  # dimension of the inputs while the width changes
    n: Count = 60  # samples there
    widths: Evens = (64, 256, 1024)  # widths m along which displacements are fitted
    runs: Count = 16  # starts of each width
    horizon: Horizon = 10.0  # time of their training

    @classmethod
    def full(cls):
        return cls(widths=(64, 256, 1024, 4096), runs=40)

    def design(self):
        yield self.scaling, over(m=self.widths).largest_first("m")

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
        gram, cross, ys = gram_matrices(eqx.Partial(kernels.tangent_kernel, Neuron(self.d), start), sample, new)
        if self.fault == "frozen outputs":
            hidden = eqx.Partial(kernels.feature_kernel, Dense(self.d, 1, "relu"), uniform(start.atoms[:, 1:]))
            outputs = gram_matrices(hidden, sample, new)
            gram, cross = gram - outputs[0], cross - outputs[1]
        return kernels.kernel_flow(gram, cross, ys, times=np.array([self.horizon]))[0]

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


def _relative(found, wanted):
    """The distance of outputs from wanted ones, relative, run by run."""
    return np.sqrt(np.mean((found - wanted) ** 2, -1) / np.mean(wanted**2, -1))


@eqx.filter_jit
def _outputs(unit, clouds, xs):
    """The outputs (runs, b) of a stack of clouds."""
    return jax.vmap(lambda cloud: network(unit, cloud, xs)[:, 0])(clouds)
