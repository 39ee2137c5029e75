"""Two-layer units and a three-layer residual network: which statements about symmetry survive, measured."""

from collections.abc import Callable
from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import natural_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.averaging import average_network
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.models.networks import network
from haarflow.models.neurons import permuted_hidden
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, TwoLayer, Unit
from haarflow.practice import training
from haarflow.practice.testing import QUICK_TO_COMPILE
from haarflow.runs.experiment import Experiment, above, below, named, over, panel, power_law, tell
from haarflow.runs.sizes import Count, Positive
from haarflow.runs.style import DASHED, MUTED, colour, failures, legend_above, log_axes, marker, power_laws

BOUND = 1e-12
DEEP = "residual"
SHALLOW = ("two-layer, hidden permuted", "two-layer, hidden still")
MODELS: tuple[str, ...] = (DEEP, *SHALLOW)  # the longest first
ON = natural_rep(Symmetric(3))
KEPT = ("WI clouds make equivariant networks", "Prop 2: R^DA(mu) = mean_g R(M_g # mu)", "Thm 4: DA and FA pull alike")
LINEAR = ("Prop 1: Q f_mu = f_(mu^G)", "Prop 2: R^FA(mu) = R(mu^G)")
STATEMENTS = (*KEPT, *training.STATEMENTS, *LINEAR)


def made(model: str) -> tuple[Callable, training.Task]:
    """A network of a cloud, and the training task it makes; S3 permutes the three inputs and the three outputs."""
    if model == DEEP:
        deep = Residual((Dense(3, 3, "tanh"), Dense(3, 3, "tanh"), Dense(3, 3, "tanh")))
        mean = average_network(deep, ON, ON)
        task = training.Task(lambda data: Risk(deep, data), lambda data: Risk(mean, data), ON, ON, deep.action(ON, ON))
        return deep, task
    unit: Unit = permuted_hidden(ON, 3, 3) if model == "two-layer, hidden permuted" else TwoLayer(3, 4, 3, "tanh")
    return lambda cloud, xs: network(unit, cloud, xs), training.unit_task(unit, ON, ON)


class Units(Experiment):
    """With two-layer units everything survives. In a residual network of three layers, each an average over particles,
    weak and strong invariance survive training, and DA, FA and EA still coincide from strongly invariant starts; but
    averaging the network is no longer symmetrising the cloud, and symmetrising a cloud can raise the risk.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), which proves the
    statements for networks that are one average of units and leaves deeper ones open.

    S3 permutes the three inputs and outputs. The models: the two-layer unit W tanh(Aᵀx + B) whose hidden neurons stay
    or are permuted with the inputs; and `h <- h + mean tanh(z h)` twice, then `mean tanh(z h)`, a particle being the
    triple of its matrices. Why the survivors survive: a layer whose marginal is weakly invariant is equivariant, and
    so is a composition of such layers; the risk of a moved cloud on moved data is unchanged, which makes orbits move
    as orbits and fixed particles stay fixed; and at an equivariant network the derivatives of the augmented and of
    the averaged risk agree. What is lost used linearity in the cloud: Q f_mu = f_(mu^G), and with it Jensen's R(mu^G)
    <= R(mu). The rates train freely from independent Gaussian starts on orbit-closed data, for a flow time of 15; the
    statements are trained for 5, because E^G is kept but can be unstable: rounding off it then grows exponentially
    with time, in one of three seeds to 3e-12 at time 15.
    """

    seconds: ClassVar[float] = 17.0
    faults = {"unclosed data": "one image of one sample is lost"}

    atoms: Count = 5
    samples: Count = 4
    steps: Count = 150
    sizes: Annotated[tuple[Count, ...], Field(min_length=3)] = (16, 48, 128)  # numbers of particles n
    repetitions: Count = 16
    horizon: Positive = 5.0  # flow time of the statements
    free_horizon: Positive = 15.0  # flow time of the rates

    @classmethod
    def full(cls):
        return cls(atoms=20, samples=10, steps=3000, sizes=(16, 64, 256, 1024), repetitions=40)

    def design(self):
        yield self.statements, over(model=MODELS)
        yield self.rates, over(model=MODELS)

    def statements(self, key, model):
        """How far each statement fails: the identities on a random cloud, and the trainings."""
        (net, task), draw = made(model), generator(key)
        cloud = uniform(draw.normal(size=(self.atoms, task.action.dim)))
        xs, ys = draw.normal(size=(2, self.samples, 3))
        risks = task.risk(Sample(xs, ys)), task.risk(self._closed(task, xs, ys)), task.averaged(Sample(xs, ys))
        images = np.asarray(ON.matrices()), np.asarray(task.action.matrices())
        found = _identities(net, average_network(net, ON, ON), risks, cloud, jnp.asarray(xs), images)
        size = training.Size(steps=self.steps, horizon=self.horizon)
        paths = training.train(key, task, size, closed=self.fault == "none", progress=lambda share: tell(0.9 * share))
        found |= training.statements(task, paths)
        failing = named([float(found[what]) for what in STATEMENTS], "statement", statement=STATEMENTS)
        return {"failing": failing, "leaves": found["plain leaves"]}

    def _closed(self, task, xs, ys):
        return training.closed_sample(task, xs, ys, slice(None) if self.fault == "none" else slice(1, None))

    def rates(self, key, model):
        """Free training from independent starts: |f − Qf|², R(mu) and R(mu^G), each (repetitions, sizes)."""
        (net, task), draw = made(model), generator(key)
        risk, mean = (
            task.risk(self._closed(task, *draw.normal(size=(2, self.samples, 3)))),
            average_network(net, ON, ON),
        )
        fresh, images = jnp.asarray(draw.normal(size=(50, 3))), jnp.asarray(task.action.matrices())

        def measured(cloud):
            asymmetry = jnp.mean(jnp.sum((net(cloud, fresh) - mean(cloud, fresh)) ** 2, axis=-1))
            return jnp.stack([asymmetry, risk(cloud), risk(_orbit(cloud, images))])

        runs, room = self.repetitions * len(self.sizes), max(self.sizes)
        sizes = np.tile(self.sizes, self.repetitions)[:, None]
        weights = np.where(np.arange(room) < sizes, 1 / sizes, 0.0)  # one program: smaller clouds in a larger room
        start = Cloud(jnp.asarray(draw.normal(size=(runs, room, task.action.dim))), jnp.asarray(weights))
        field, keys = Descend(risk + Penalty(1e-3)), jax.random.split(key, runs)
        seen = {"probes": {"measured": measured}, "progress": lambda share: tell(0.9 * share)}
        path = flow(field, Euler(), start, key=keys, dt=self.free_horizon / self.steps, steps=self.steps, **seen)
        ends = path.probes["measured"][:, -1].reshape(self.repetitions, len(self.sizes), 3)
        what = ("asymmetry", "risk", "symmetrised")
        return {name: named(ends[..., i], "run", "n", n=self.sizes) for i, name in enumerate(what)}

    def fits(self, data):
        name = "{}: the mean of |f − Qf|² after free training falls like 1/n".format
        parts = data.asymmetry.each("model")
        return {name(model): power_law(values, along="n", centre="mean") for model, values in parts}

    def claims(self, data):
        worst = dict(data.failing.max("model").each("statement"))
        shallow = dict(data.failing.sel(model=SHALLOW).max("model").each("statement"))
        deep = dict(data.failing.sel(model=DEEP).each("statement"))
        for what in (*KEPT, *training.STATEMENTS):
            yield below(f"every model: {what}, to {{bound}}", worst[what], BOUND)
        for what in LINEAR:
            yield below(f"two-layer units: {what}, to {{bound}}", shallow[what], BOUND)
            yield above(f"residual: lost is {what}: off by more than {{bound}}", deep[what], 1e-3)
        words = "the test can fail: plain training on minibatches leaves E^G by more than {bound}, every model"
        yield above(words, data.leaves.min(), 1e-3)
        for fit in data.fits.values():
            yield fit.between(-1.3, -0.7)
        raised = data.symmetrised - data.risk
        words = "two-layer units: symmetrising never raises the risk: R(mu^G) − R(mu)"
        yield below(words, raised.sel(model=SHALLOW).max(), BOUND)
        words = "residual: symmetrising a trained cloud can raise the risk: the largest R(mu^G) − R(mu) of a run"
        yield above(words, raised.sel(model=DEEP).max(), 1e-3)

    def numbers(self, data):
        raised = (data.symmetrised - data.risk > BOUND).mean("run")
        return {
            "{model}: {statement}": data.failing,
            "{model}: median risk, n = {n}": data.risk.median("run"),
            "{model}: median risk of the symmetrised cloud, n = {n}": data.symmetrised.median("run"),
            "{model}: share of runs whose risk rises when symmetrised, n = {n}": raised,
        }

    @panel(
        "What survives depth",
        "Left of the bound a statement holds to rounding. Two-layer units keep all of them. The residual network keeps "
        "invariance and the equality of the schemes, and loses the two statements at the bottom, which need a network "
        "that is linear in its cloud.",
        size=(9.6, 4.4),
    )
    def surviving(self, axis, data):
        failures(axis, STATEMENTS, dict(data.failing.each("model")), BOUND)

    @panel(
        "Free training at every depth",
        "Free training from independent starts on orbit-closed data, {repetitions} runs at each n. Left: the trained "
        "networks are the closer to equivariant the more particles they have, at any depth; mean, 10–90% band, slope "
        "and its 95% band. Right: below zero symmetrising the trained cloud helps, as it must for one average of "
        "units; a residual network can land above.",
        columns=2,
        size=(9.6, 4.2),
    )
    def free_training(self, axes, data):
        left, right = axes
        fits = dict(zip(MODELS, data.fits.values(), strict=True))
        power_laws(left, data.asymmetry, along="n", by="model", fits=fits, power=-1, centre="mean")
        left.set(xlabel="particles n", ylabel=r"$|f - Qf|^2$")
        for place, (model, rises) in enumerate((data.symmetrised - data.risk).each("model")):
            beside = np.tile(self.sizes, self.repetitions) * 1.12 ** (place - 1)
            look = {"color": colour(place), "marker": marker(place), "markersize": 3, "linestyle": "none"}
            right.plot(beside, rises.values.ravel(), label=model, **look)
        right.axhline(0, color=MUTED, linestyle=DASHED, linewidth=1.0)
        log_axes(right, self.sizes, "particles n", r"$R(\mu^G) - R(\mu)$")
        right.set_yscale("linear")
        legend_above(left)


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _identities(net: Callable, mean: Callable, risks, cloud: Cloud, xs, images) -> dict:
    """The size of the failure of every identity; `images` are the group's matrices on inputs and on particles."""
    plain, augmented, averaged = risks
    turns, moves = images
    orbit = _orbit(cloud, moves)
    turned = jax.vmap(lambda g: net(orbit, xs @ g.T) @ g)(jnp.asarray(turns))
    return {
        KEPT[0]: jnp.abs(turned - net(orbit, xs)[None]).max(),
        KEPT[1]: jnp.abs(augmented(cloud) - jax.vmap(lambda m: plain(cloud.push(m)))(jnp.asarray(moves)).mean()),
        KEPT[2]: jnp.abs(augmented.variation(orbit).velocity - averaged.variation(orbit).velocity).max(),
        LINEAR[0]: jnp.abs(mean(cloud, xs) - net(orbit, xs)).max(),
        LINEAR[1]: jnp.abs(averaged(cloud) - plain(orbit)),
    }


def _orbit(cloud: Cloud, moves) -> Cloud:
    atoms = jnp.einsum("gij,nj->gni", jnp.asarray(moves), cloud.atoms).reshape(-1, cloud.p)
    return Cloud(atoms, jnp.tile(cloud.weights, len(moves)) / len(moves))
