"""Two-layer units and a three-layer residual network: which statements about symmetry survive, measured."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, NamedTuple

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
from haarflow.models.neurons import permuted_hidden
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, TwoLayer, Unit, network
from haarflow.practice import training
from haarflow.practice.testing import QUICK_TO_COMPILE
from haarflow.runs.experiment import Count, Experiment, Panel, Positive, above, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

BOUND = 1e-12
MODELS = ("two-layer, hidden still", "two-layer, hidden permuted", "residual")
SHALLOW = MODELS[:2]
ON = natural_rep(Symmetric(3))
KEPT = ("WI clouds make equivariant networks", "Prop 2: R^DA(mu) = mean_g R(M_g # mu)", "Thm 4: DA and FA pull alike")
LINEAR = ("Prop 1: Q f_mu = f_(mu^G)", "Prop 2: R^FA(mu) = R(mu^G)")


class Model(NamedTuple):
    """A network of a cloud, and the training task it makes."""

    network: Callable
    task: training.Task


def model(name: str) -> Model:
    """S3 permutes the three inputs and the three outputs of every model."""
    if name == "residual":
        deep = Residual((Dense(3, 3, "tanh"), Dense(3, 3, "tanh"), Dense(3, 3, "tanh")))
        mean = average_network(deep, ON, ON)
        task = training.Task(lambda data: Risk(deep, data), lambda data: Risk(mean, data), ON, ON, deep.action(ON, ON))
        return Model(deep, task)
    units: dict[str, Unit] = {
        "two-layer, hidden still": TwoLayer(3, 4, 3, "tanh"),
        "two-layer, hidden permuted": permuted_hidden(ON, 3, 3),
    }
    unit = units[name]
    return Model(lambda cloud, xs: network(unit, cloud, xs), training.unit_task(unit, ON, ON))


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

    The field `fault` plants a mistake, to see the verdicts fail: `unclosed data` loses one image of one sample.
    """

    seconds: ClassVar[float] = 17.0

    atoms: Count = 5
    samples: Count = 4
    steps: Count = 150
    sizes: Annotated[tuple[Count, ...], Field(min_length=3)] = (16, 48, 128)
    repetitions: Count = 16
    horizon: Positive = 5.0
    free_horizon: Positive = 15.0
    fault: Literal["none", "unclosed data"] = "none"

    @classmethod
    def full(cls):
        return cls(atoms=20, samples=10, steps=3000, sizes=(16, 64, 256, 1024), repetitions=40)

    def parts(self):
        return [f"{what}, {name}" for what in ("statements", "rates") for name in reversed(MODELS)]  # longest first

    def run(self, key, part):
        what, name = part.split(", ", 1)
        return (self.statements if what == "statements" else self.rates)(key, model(name))

    def statements(self, key, made: Model) -> dict[str, np.ndarray]:
        """The identities on a random cloud, and the trainings."""
        task, draw = made.task, generator(key)
        cloud = uniform(draw.normal(size=(self.atoms, task.action.dim)))
        xs, ys = draw.normal(size=(2, self.samples, 3))
        closed = training.closed_sample(task, xs, ys, self._kept)
        images = np.asarray(ON.matrices()), np.asarray(task.action.matrices())
        risks = task.risk(Sample(xs, ys)), task.risk(closed), task.averaged(Sample(xs, ys))
        found = _identities(made.network, average_network(made.network, ON, ON), risks, cloud, jnp.asarray(xs), images)
        size = training.Size(steps=self.steps, horizon=self.horizon)
        paths = training.train(key, task, size, closed=self.fault == "none", progress=lambda share: tell(0.9 * share))
        return {name: np.asarray(value) for name, value in found.items()} | training.statements(task, paths)

    @property
    def _kept(self) -> slice:
        return slice(None) if self.fault == "none" else slice(1, None)

    def rates(self, key, made: Model) -> dict[str, np.ndarray]:
        """Free training from independent starts: |f − Qf|², R(mu) and R(mu^G), each (repetitions, sizes)."""
        task, draw = made.task, generator(key)
        xs, ys = draw.normal(size=(2, self.samples, 3))
        risk = task.risk(training.closed_sample(task, xs, ys, self._kept))
        fresh, images = jnp.asarray(draw.normal(size=(50, 3))), jnp.asarray(task.action.matrices())
        mean = average_network(made.network, ON, ON)

        def measured(cloud):
            asymmetry = _mean_square(made.network(cloud, fresh) - mean(cloud, fresh))
            return jnp.stack([asymmetry, risk(cloud), risk(_orbit(cloud, images))])

        runs, room = self.repetitions * len(self.sizes), max(self.sizes)
        sizes = np.tile(self.sizes, self.repetitions)[:, None]
        weights = np.where(
            np.arange(room)[None] < sizes, 1 / sizes, 0.0
        )  # one program: smaller clouds in a larger room
        start = Cloud(jnp.asarray(draw.normal(size=(runs, room, task.action.dim))), jnp.asarray(weights))
        path = flow(
            Descend(risk + Penalty(1e-3)),
            Euler(),
            start,
            key=jax.random.split(key, runs),
            dt=self.free_horizon / self.steps,
            steps=self.steps,
            probes={"measured": measured},
            progress=lambda fraction: tell(0.9 * fraction),
        )
        ends = path.probes["measured"][:, -1].reshape(self.repetitions, len(self.sizes), 3)
        return dict(zip(("asymmetry", "risk", "symmetrised"), np.moveaxis(ends, -1, 0), strict=True))

    def gather(self, pieces):
        data = {}
        for kind in ("statements", "rates"):
            for what in pieces[f"{kind}, {MODELS[0]}"]:
                data[what] = np.stack([pieces[f"{kind}, {name}"][what] for name in MODELS])
        return data

    def verdict(self, data):
        slopes = {
            name: slope(self.sizes, data["asymmetry"][i], centre="mean", confidence=None).value
            for i, name in enumerate(MODELS)
        }
        raised = data["symmetrised"] - data["risk"]
        deep = len(SHALLOW)
        claims = {f"every model: {what}, to 1e-12": below(data[what].max(), BOUND) for what in KEPT}
        claims |= {f"two-layer units: {what}, to 1e-12": below(data[what][:deep].max(), BOUND) for what in LINEAR}
        claims |= {f"residual: lost is {what}: off by more than 1e-3": above(data[what][deep], 1e-3) for what in LINEAR}
        words = {
            "free training keeps WI": "orbits stay paired in free training (WI)",
            "closed data keep SI": "closed data keep fixed starts on E^G (SI)",
            "DA, FA and EA agree": "DA, FA and EA coincide from fixed starts",
            "DA, FA and EA stay SI": "DA, FA and EA stay on E^G",
        }
        claims |= {f"every model: {words[what]}: below 1e-12": below(data[what].max(), BOUND) for what in words}
        claims["the test can fail: plain training on minibatches leaves E^G by more than 1e-3, every model"] = above(
            data["plain leaves"].min(), 1e-3
        )
        claims |= {
            f"{name}: |f − Qf|² after free training falls like 1/N: slope of the mean between −1.3 and −0.7": between(
                value, -1.3, -0.7
            )
            for name, value in slopes.items()
        }
        claims["two-layer units: symmetrising never raises the risk: R(mu^G) − R(mu) at most 1e-12"] = below(
            raised[:deep].max(), BOUND
        )
        claims["residual: symmetrising a trained cloud can raise the risk: R(mu^G) − R(mu) above 1e-3 in a run"] = (
            above(raised[deep].max(), 1e-3)
        )
        return claims

    def figures(self, data):
        numbers = {}
        for i, name in enumerate(MODELS):
            for what in (*KEPT, *LINEAR, *training.STATEMENTS):
                numbers[f"{name}: {what}"] = data[what][i]
            fitted = slope(self.sizes, data["asymmetry"][i], centre="mean")
            numbers[f"{name}: slope of |f − Qf|² in N"] = fitted.value
            numbers[f"{name}: its 95% band, low"] = fitted.low
            numbers[f"{name}: its 95% band, high"] = fitted.high
            raised = data["symmetrised"][i] - data["risk"][i]
            for k, n in enumerate(self.sizes):
                numbers[f"{name}: median risk, N = {n}"] = np.median(data["risk"][i][:, k])
                numbers[f"{name}: median risk of the symmetrised cloud, N = {n}"] = np.median(
                    data["symmetrised"][i][:, k]
                )
                numbers[f"{name}: share of runs whose risk rises when symmetrised, N = {n}"] = np.mean(
                    raised[:, k] > BOUND
                )
        return numbers

    def panels(self, data):
        return [self._statements_panel(data), self._rates_panel(data)]

    def _statements_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import failures

            names = [*KEPT, *training.STATEMENTS, *LINEAR]
            series = {name: [float(data[what][order]) for what in names] for order, name in enumerate(MODELS)}
            failures(figure.add_subplot(), names, series, BOUND)

        caption = (
            "Left of the bound a statement holds to rounding. Two-layer units keep all of them. The residual network "
            "keeps invariance and the equality of the schemes, and loses the two statements at the bottom, which need "
            "a network that is linear in its cloud."
        )
        return Panel("What survives depth", caption, draw, size=(9.6, 4.4))

    def _rates_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, MUTED, colour, legend, marker, reference, slopes

            left, right = figure.subplots(1, 2)
            series = {name: data["asymmetry"][i] for i, name in enumerate(MODELS)}
            slopes(left, self.sizes, series, xlabel="particles N", ylabel=r"$|f - Qf|^2$", centre="mean")
            reference(left, self.sizes, -1.0, 3 * float(np.median(data["asymmetry"][0][:, 0])))
            legend(left, loc="upper left", bbox_to_anchor=(0.0, -0.2))
            for order in range(len(MODELS)):
                style = {"color": colour("", order), "marker": marker("", order), "markersize": 3}
                right.plot(data["risk"][order].ravel(), data["symmetrised"][order].ravel(), linestyle="none", **style)
            ends = [
                min(data["risk"].min(), data["symmetrised"].min()),
                max(data["risk"].max(), data["symmetrised"].max()),
            ]
            right.plot(ends, ends, color=MUTED, linestyle=DASHED, linewidth=1.0)
            right.set(xlabel="risk of the trained cloud", ylabel="risk of its symmetrisation")

        caption = (
            f"Free training from independent starts on orbit-closed data, {self.repetitions} runs at each N. Left: the "
            "trained networks are the closer to equivariant the more particles they have, at any depth. Right: below "
            "the dashed line symmetrising helps, as it must for one average of units; a residual network can land "
            "above."
        )
        return Panel("Free training at every depth", caption, draw, size=(9.6, 5.2))


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


def _mean_square(values):
    return jnp.mean(jnp.sum(values**2, axis=-1))
