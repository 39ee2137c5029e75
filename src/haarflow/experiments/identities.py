"""The exact identities behind the three ways to use a symmetry, over nine groups."""

from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.given import image
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, Rotations, Signs, Symmetric
from haarflow.algebra.kinds import Group
from haarflow.algebra.products import Product
from haarflow.algebra.reps import Rep, natural, trivial
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.symmetry import Averaged, close, symmetrise
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import w2
from haarflow.measures.invariance import si_distance
from haarflow.models.units import Custom, Dense, Perceptron, TwoLayer, Unit, network
from haarflow.runs.experiment import Count, Experiment, Panel, below, between

BOUND = 1e-12


class Case(NamedTuple):
    """A group, how it acts on inputs and outputs, and a unit that is jointly equivariant."""

    on_x: Rep
    on_y: Rep
    unit: Unit


def _case(group: Group, unit: Unit, on_x: Rep | None = None, on_y: Rep | None = None) -> Case:
    on_x = natural(group) if on_x is None else on_x
    return Case(on_x, trivial(group, unit.outputs) if on_y is None else on_y, unit)


def cases() -> dict[str, Case]:
    """The groups under test, by the name the report shows."""
    swap, turn, three, signs = Cyclic(2), Rotations(4), Symmetric(3), Signs(3)
    square, cube, pair = Dihedral(4), Hyperoctahedral(2), Product(Cyclic(3), Signs(2))
    return {
        "C2 swap": _case(swap, Dense(2, 2, "sigmoid"), on_y=natural(swap)),
        "C4 turns": _case(turn, Perceptron(2, 2, "tanh"), on_y=natural(turn)),
        "C6 shifts": _case(Cyclic(6), Dense(6, 6, "softplus"), on_y=natural(Cyclic(6))),
        "S3": _case(three, Dense(3, 3, "sigmoid"), on_y=natural(three)),
        "S5": _case(Symmetric(5), Perceptron(5, 1, "relu")),
        "signs": _case(signs, Dense(3, 3, "tanh"), on_y=natural(signs)),
        "D4 on 4×4 images": _case(square, Perceptron(16, 1, "erf"), on_x=image(square, 4, 4)),
        "B2": _case(cube, TwoLayer(2, 3, 2, "cos"), on_y=natural(cube)),
        "C3 × signs": _case(pair, Perceptron(5, 5, "tanh"), on_y=natural(pair)),
    }


class Identities(Experiment):
    """Averaging the network is symmetrising the cloud, augmenting the data is averaging the risk over moved clouds,
    and on invariant clouds the three techniques pull the same way: each to rounding, for every group.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Propositions 1, 2
    and 4, Corollary 1, and the drifts behind Theorems 3 to 6.

    The field `fault` plants a mistake on purpose, to see the matching verdicts fail: `no inverse` averages with g in
    place of its inverse on the outputs, `half orbit` drops the last image of every particle, `one-sided action` moves
    the parameters by the inputs' action alone, `unclosed data` loses one image of one sample.
    """

    tour_included: ClassVar[bool] = True

    atoms: Count = 7
    samples: Count = 5
    fault: Literal["none", "no inverse", "half orbit", "one-sided action", "unclosed data"] = "none"

    @classmethod
    def full(cls):
        return cls(atoms=40, samples=20)

    def parts(self):
        return [*cases(), "Prop 4"]

    def run(self, key, part):
        if part == "Prop 4":
            return strong_optimum_example()
        errors = self.errors(key, cases()[part])
        return {name: np.asarray(float(value)) for name, value in errors.items()}

    def errors(self, key, case: Case) -> dict[str, Any]:
        """The size of the failure of every identity."""
        on_x, on_y, unit = case
        action = unit.action(on_x, on_y)
        cloud, sample = self._draw(key, unit)
        averaged = Averaged(unit, jnp.asarray(on_x.matrices()), jnp.asarray(self._outputs(on_y)))
        images, projector = jnp.asarray(self._images(action, case)), jnp.asarray(action.fixed_projector())
        orbit = _orbit(cloud, images[: -1 if self.fault == "half orbit" else None])
        setting = Setting(
            unit, averaged, images, projector, sample, self._closed(sample, on_x, on_y), cloud, orbit
        )
        target = _arbitrary(key, unit)
        values = (
            setting.closed.xs,
            target(setting.closed.xs),
            symmetrise(target, on_x, on_y)(setting.closed.xs),
        )
        found = dict(_static(setting, values)) | dict(_drifts(setting))
        strong = cloud.project(projector)
        found["SI distance: |z − Pz| is the transport to P # mu"] = abs(
            si_distance(cloud, action) - w2(cloud, strong)
        )
        return found

    def _draw(self, key, unit: Unit) -> tuple[Cloud, Sample]:
        keys = jax.random.split(key, 4)
        weights = jax.nn.softmax(jax.random.normal(keys[1], (self.atoms,)))
        cloud = Cloud(jax.random.normal(keys[0], (self.atoms, unit.dim)), weights)
        xs = jax.random.normal(keys[2], (self.samples, unit.inputs))
        return cloud, Sample(xs, jax.random.normal(keys[3], (self.samples, unit.outputs)))

    def _images(self, action: Rep, case: Case) -> np.ndarray:
        if self.fault == "one-sided action":
            return case.unit.joint(case.on_x, trivial(case.on_x.group, case.unit.outputs)).matrices()
        return action.matrices()

    def _outputs(self, on_y: Rep) -> np.ndarray:
        matrices = on_y.matrices()
        return matrices.transpose(0, 2, 1) if self.fault == "no inverse" else matrices

    def _closed(self, sample: Sample, on_x: Rep, on_y: Rep) -> Sample:
        closed = close(sample, on_x, on_y)
        return Sample(closed.xs[:-1], closed.ys[:-1]) if self.fault == "unclosed data" else closed

    def gather(self, pieces):
        example = pieces.pop("Prop 4")
        names = list(next(iter(pieces.values())))
        table = np.array([[pieces[case][name] for name in names] for case in pieces])
        return {"errors": table, "identities": np.array(names), "groups": np.array(list(pieces)), **example}

    def verdict(self, data):
        worst = data["errors"].max(axis=0)
        claims = {
            f"{name}, to {BOUND:g}": below(value, BOUND)
            for name, value in zip(data["identities"], worst, strict=True)
        }
        known = (np.tanh(1) - np.tanh(2) / 2) ** 2
        return claims | {
            "Prop 4: the best SI risk is (tanh 1 − tanh 2 / 2)², to 1e-12": between(
                data["strong"] - known, -BOUND, BOUND
            ),
            "Prop 4: a WI law has risk 0, to 1e-12": below(data["weak"], BOUND),
        }

    def figures(self, data):
        worst = dict(zip(data["identities"].tolist(), data["errors"].max(axis=0), strict=True))
        return {f"worst error, {name}": value for name, value in worst.items()} | {
            "Prop 4, best SI risk": data["strong"],
            "Prop 4, WI risk": data["weak"],
        }

    def panels(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, MUTED, colour, marker

            axis = figure.add_subplot()
            names, groups = data["identities"].tolist(), data["groups"].tolist()
            rows = np.arange(len(names))[::-1]
            for order, group in enumerate(groups):
                shift = 0.6 * (order / max(len(groups) - 1, 1) - 0.5)
                errors = np.maximum(data["errors"][order], 1e-18)
                style = {"color": colour(group, order), "marker": marker(group, order)}
                axis.plot(errors, rows - shift, linestyle="none", label=group, **style)
            axis.axvline(BOUND, color=INK, linewidth=1.2)
            axis.annotate("bound", (BOUND, rows[0] + 0.62), color=INK, fontsize=8, ha="center")
            axis.axvline(np.finfo(float).eps, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axis.annotate(
                "rounding", (np.finfo(float).eps, rows[0] + 0.62), color=MUTED, fontsize=8, ha="center"
            )
            axis.set(xscale="log", xlim=(5e-19, None), ylim=(-0.7, rows[0] + 0.6), yticks=rows)
            axis.set_yticklabels(names)
            axis.set_xlabel("size of the failure (0 is drawn at 1e-18)")
            axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)

        caption = (
            "Each mark is the largest failure of one identity for one group, on a random weighted cloud and random "
            "data, in float64. Left of the bound: the identity holds to rounding."
        )
        return [Panel("Every identity, every group", caption, draw, size=(9.6, 5.2))]


class Setting(eqx.Module):
    """One group's case with its random cloud and data, and the planted fault if any."""

    unit: Unit
    averaged: Averaged
    images: Float[Array, "g p p"]
    projector: Float[Array, "p p"]
    sample: Sample
    closed: Sample
    cloud: Cloud
    orbit: Cloud

    @property
    def risks(self) -> tuple[Risk, Risk, Risk]:
        """Plain, augmented by the whole group, and averaged."""
        return Risk(self.unit, self.sample), Risk(self.unit, self.closed), Risk(self.averaged, self.sample)


@eqx.filter_jit
def _static(s: Setting, values) -> dict[str, Array]:
    """The identities of functions and risks."""
    plain, augmented, mean = s.risks
    risks, still = jax.vmap(lambda image: (plain(s.cloud.push(image)), augmented(s.cloud.push(image))))(
        s.images
    )
    xs, target, ideal = values
    weak = network(s.unit, s.orbit, xs)
    return {
        "Prop 1: Q f_mu = f_(mu^G)": _gap(
            network(s.averaged, s.cloud, s.sample.xs), network(s.unit, s.orbit, s.sample.xs)
        ),
        "Prop 2: R^DA(mu) = mean_g R(M_g # mu)": _gap(augmented(s.cloud), risks.mean()),
        "Prop 2: R^FA(mu) = R(mu^G)": _gap(mean(s.cloud), plain(s.orbit)),
        "Prop 2: R(M_g # mu) = R(mu) on closed data": still.max() - still.min(),
        "Cor 1: |f_mu − f|² = |f − Qf|² + |f_mu − Qf|²": _gap(
            _mean_square(weak - target), _mean_square(target - ideal) + _mean_square(weak - ideal)
        ),
        "E^G: P = mean_g M_g": _gap(s.projector, s.images.mean(0)),
    }


@eqx.filter_jit
def _drifts(s: Setting) -> dict[str, Array]:
    """The identities of velocities, on the orbit of the cloud (WI) and on its projection (SI)."""
    _, augmented, mean = s.risks
    strong = s.cloud.push(s.projector)
    weak_da, weak_fa = (risk.variation(s.orbit).velocity for risk in (augmented, mean))
    plain, strong_da, strong_fa = (risk.variation(strong).velocity for risk in s.risks)
    rows = weak_da.reshape(-1, s.cloud.n, s.cloud.p)
    carried = jnp.einsum("gij,nj->gni", s.images[: len(rows)], rows[0])
    held = plain @ s.projector
    return {
        "Thm 3: closed data move orbits as orbits": _gap(rows, carried),
        "Thm 4: DA and FA pull alike on WI clouds": _gap(weak_da, weak_fa),
        "Thm 5: closed data keep E^G": _gap(strong_da @ s.projector, strong_da),
        "Thm 6: DA, FA and EA pull alike on SI clouds": jnp.maximum(
            _gap(strong_da, held), _gap(strong_fa, held)
        ),
    }


def _orbit(cloud: Cloud, images) -> Cloud:
    atoms = jnp.einsum("gij,nj->gni", images, cloud.atoms).reshape(-1, cloud.p)
    return Cloud(atoms, jnp.tile(cloud.weights, len(images)) / len(images))


def _arbitrary(key, unit: Unit):
    """A function with no symmetry at all."""
    mix = jax.random.normal(key, (unit.inputs, unit.outputs))
    return lambda xs: jnp.sin(xs @ mix) + jnp.exp(-(xs[:, :1] ** 2))


def _mean_square(values):
    return jnp.mean(jnp.sum(values**2, axis=-1))


def _gap(a, b):
    return jnp.abs(a - b).max()


def strong_optimum_example() -> dict[str, np.ndarray]:
    """Proposition 4 on the line: signs act on tanh(xz + 1), and the only SI law is the atom at zero."""
    group = Signs(1)
    unit = Custom(lambda theta, x: jnp.tanh(theta * x + 1), 1, 1, 1, lambda on_x, on_y: on_x)
    action = unit.action(natural(group), trivial(group))
    xs = jnp.array([[-1.0], [1.0]])
    risk = Risk(unit, Sample(xs, jnp.full((2, 1), jnp.tanh(2.0) / 2)), "square")
    strong = uniform(jnp.array([[0.7]])).project(action)
    weak = uniform(jnp.array([[1.0]])).orbit(action)
    return {"strong": np.asarray(risk(strong)), "weak": np.asarray(risk(weak))}
