"""All rotations of plane and space by finitely many of them: what that leaves out, certified."""

from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.algebra.base import Group
from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import natural_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator, w2
from haarflow.measures.invariance import circle_correction
from haarflow.models.networks import network
from haarflow.models.neurons import Gate
from haarflow.models.units import Quadratic, Unit
from haarflow.practice import training
from haarflow.practice.testing import all_rotations
from haarflow.runs.experiment import Experiment, below, named, over, panel, power_law
from haarflow.runs.sizes import Count
from haarflow.runs.style import colour, log_axes, marker, reference

BOUND = 1e-12
SPACES = {"SO(2)": 2, "SO(3)": 3}
UNITS = {"quadratic": Quadratic, "gate": Gate}  # of polynomials in g, and not
FORMULAS = {"quadratic": r"$\langle w, x\rangle^2$", "gate": r"$Z x\,\tanh(x^{\top} A x + b)$"}
FITTED = 16  # below, n rotations of the data are so few that every n trains another law
LAW = f"SO(2): the certificate falls like 1/n from n = {FITTED} on"
FEW = (2, 4, 8, 16, 32, 64, 128)  # rotations whose average is compared with that of many more
MANY = 512


class Rotations(Experiment):
    """Finitely many rotations stand for SO(2) and SO(3) with a certified error: their average is the Haar average for
    polynomials of low degree, and a cloud closed under n rotations of the plane is at most of order 1/n from invariant.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995); infinite compact
    groups are among the directions its authors leave open.

    SO(2) is averaged over `turns` equispaced rotations, SO(3) over the 60 rotations of the icosahedron: exact for
    every polynomial in g of degree below `turns`, or up to 5, as those of the quadratic unit <w, x>². The certificate
    is that averages over random cosets of the subgroup agree; a Haar-draw average must agree too, within 4 standard
    errors (false-alarm rate below 1e-3 over the 8 numbers of quick mode). For other units, here the gate
    Z x tanh(xᵀ A x + b), the cosets show the error that is left. For SO(2) the distance of a cloud to its
    symmetrisation is certified by `circle_correction`. The theorems themselves are those of the experiment `groups`.
    """

    seconds: ClassVar[float] = 2.5
    faults = {"too few turns": "SO(2) is averaged over two rotations, SO(3) over quarter turns about one axis"}

    atoms: Count = 5
    samples: Count = 4
    steps: Count = 300
    turns: Annotated[int, Field(ge=5)] = 16  # rotations that stand for SO(2)
    circle: Annotated[tuple[Count, ...], Field(min_length=3)] = (8, 16, 32, 64)  # numbers of rotations n
    draws: Annotated[int, Field(ge=16)] = 4000  # Haar draws

    @classmethod
    def full(cls):
        return cls(atoms=20, samples=12, steps=3000, circle=(8, 16, 32, 64, 128), draws=100_000)

    def design(self):
        yield self.certificates, over(space=SPACES, unit=UNITS)
        yield self.decay, over(unit=UNITS)
        yield self.circles, over(n=self.circle)
        yield self.spheres, over(unit=UNITS)

    def _case(self, d, unit):
        return all_rotations(UNITS[unit](d), turns=self.turns, few=self.fault == "too few turns")

    def certificates(self, key, space, unit):
        """How far averages over random cosets are from the subgroup average, and a Haar-draw average with its error."""
        tested = self._case(SPACES[space], unit)
        rotations = np.asarray(_haar(tested.on_x.group, key, self.draws + 8), float)
        shifts, rotations = rotations[self.draws :], rotations[: self.draws]
        cloud, xs = self._drawn(key, tested.unit)

        def averages(elements):
            return np.asarray(_averages(tested.unit, cloud, xs, elements, _at(tested.on_y, elements)))

        exact, draws = averages(tested.elements).mean(0), averages(rotations)
        cosets = [averages(shift @ tested.elements).mean(0) for shift in shifts]
        error = draws.std(0, ddof=1) / np.sqrt(self.draws)
        return {
            "cosets": np.abs(np.stack(cosets) - exact).max() / np.abs(exact).max(),
            "scores": np.abs((draws.mean(0) - exact) / error).max(),
            "error": error.max() / np.abs(exact).max(),
        }

    def _drawn(self, key, unit: Unit):
        """A random cloud and random inputs."""
        draw = generator(key)
        cloud = uniform(draw.normal(size=(self.atoms, unit.dim)))
        return cloud, jnp.asarray(draw.normal(size=(self.samples, unit.inputs)))

    def decay(self, key, unit):
        """The error of few equispaced rotations of the plane against many more."""
        model, many = UNITS[unit](2), PlanarRotations(MANY).elements()
        out = many if model.outputs == 2 else np.ones((MANY, 1, 1))
        values = np.asarray(_averages(model, *self._drawn(key, model), many, out))
        exact = values.mean(0)
        errors = [np.abs(values[:: MANY // n].mean(0) - exact).max() / np.abs(exact).max() for n in FEW]
        return {"decay": named(errors, "turns", turns=FEW)}

    def circles(self, key, n):
        """A trained cloud closed under n rotations: the certified distance to SO(2)-invariance, and a finer orbit."""
        unit, on, draw = Gate(2), natural_rep(SpecialOrthogonal(2)), generator(key)
        action, elements = unit.action(on, on), PlanarRotations(n).elements()
        start = uniform(0.7 * draw.normal(size=(3, unit.dim))).orbit(action, elements=elements)
        data = Sample(*(training.moved(elements, rows) for rows in draw.normal(size=(2, self.samples, 2))))
        field = Descend(Risk(unit, data) + Penalty(1e-3))
        cloud = flow(field, Euler(), start, key=key, dt=0.1, steps=self.steps).cloud
        finer = uniform(cloud.atoms[:3]).orbit(action, elements=PlanarRotations(8 * n).elements())
        return {
            "pairing": training.pairing(training.unit_task(unit, on, on, elements), cloud),
            "certificate": circle_correction(cloud, action, n),
            "slack": circle_correction(finer, action, 8 * n),
            "finer": w2(cloud, finer),
        }

    def spheres(self, key, unit):
        """SO(3), free training from icosahedral starts on icosahedral data: invariance at Haar draws."""
        tested, draw = self._case(3, unit), generator(key)
        task = training.unit_task(tested.unit, tested.on_x, tested.on_y, tested.elements)
        rotations = np.asarray(_haar(tested.on_x.group, key, 64), float)
        xs, ys = (draw.normal(size=(self.samples, size)) for size in (3, tested.unit.outputs))
        start = uniform(training.moved(task.matrices(task.action), 0.5 * draw.normal(size=(1, tested.unit.dim))))
        field = Descend(task.risk(training.closed_sample(task, xs, ys)) + Penalty(1e-3))
        clouds = start, flow(field, Euler(), start, key=key, dt=0.02, steps=self.steps).cloud
        fresh, out = jnp.asarray(draw.normal(size=(self.samples, 3))), _at(tested.on_y, rotations)
        gaps = [_spread(np.asarray(_averages(tested.unit, cloud, fresh, rotations, out))) for cloud in clouds]
        return {"asymmetry": named(gaps, "when", when=("start", "trained"))}

    def fits(self, data):
        return {LAW: power_law(data.certificate, along="n", since=FITTED)}

    def claims(self, data):
        for space, cosets in data.cosets.sel(unit="quadratic").each("space"):
            yield below(f"{space}, quadratic unit: random cosets average alike, to {{bound}}", cosets, BOUND)
        words = "SO(2) and SO(3): quadratic unit, Haar draws agree within {bound} standard errors"
        yield below(words, data.scores.sel(unit="quadratic").max(), 4.0)
        share = data.finer / (data.certificate + data.slack)
        yield below("SO(2): the distance to the orbit of 8n rotations over its certificate, every n:", share.max(), 1.0)
        yield data.fits[LAW].between(-1.1, -0.9)
        words = "SO(3): free training keeps the quadratic network invariant at 64 Haar draws, to {bound}"
        yield below(words, data.asymmetry.sel(unit="quadratic").max(), BOUND)

    def numbers(self, data):
        return {
            "{space}, {unit} unit: relative error of cosets": data.cosets,
            "{space}, {unit} unit: relative standard error of Haar draws": data.error,
            "{space}, {unit} unit: Haar draws off by, in standard errors": data.scores,
            "SO(2), n = {n}: certificate": data.certificate,
            "SO(2), n = {n}: distance to the finer orbit": data.finer,
            "SO(3): relative asymmetry of the gate network, {when}": data.asymmetry.sel(unit="gate"),
        }

    @panel(
        "What finitely many rotations leave out",
        "SO(2) through n equispaced rotations. Left: a trained cloud closed under n rotations is this far from "
        "SO(2)-invariant; the certificate needs no transport and falls like 1/n. Right: the average of a network over "
        "n rotations is exact once n exceeds its degree (quadratic unit), and nears it ever faster for a smooth unit.",
        columns=2,
        size=(9.6, 3.8),
    )
    def left_out(self, axes, data):
        left, right = axes
        fit, rings = data.fits[LAW], {"linestyle": "none", "marker": "o", "markersize": 9, "markerfacecolor": "none"}
        left.plot(self.circle, data.certificate, color=colour(0), marker="o", label=f"certificate, slope {fit.words}")
        left.plot(self.circle, data.finer, color=colour(1), label="distance to the orbit of 8n turns", **rings)
        reference(left, self.circle, -1, data.certificate)
        for place, (unit, errors) in enumerate(data.decay.each("unit"), 2):
            shown = np.maximum(errors, 1e-17)
            right.plot(FEW, shown, color=colour(place), marker=marker(place), label=FORMULAS[unit])
        log_axes(left, self.circle, "equispaced rotations n", "distance to SO(2)-invariance")
        log_axes(right, FEW, "equispaced rotations n", "relative error of $Q f$")
        for axis in axes:
            axis.legend()


@eqx.filter_jit
def _haar(group: Group, key, n: int):
    return group.haar(key, n)


@eqx.filter_jit
def _averages(unit: Unit, cloud: Cloud, xs, into, out):
    """`out_g^-1 f(g x)` for every element g: (elements, inputs, outputs)."""
    turn = jax.vmap(lambda g, h: network(unit, cloud, xs @ g.T) @ h)
    return turn(jnp.asarray(into, xs.dtype), jnp.asarray(out, xs.dtype))


def _at(rep, elements) -> np.ndarray:
    return np.stack([np.asarray(rep(g)) for g in elements])


def _spread(values: np.ndarray) -> float:
    """The largest difference between elements, relative to the values."""
    return float(np.ptp(values, axis=0).max() / np.abs(values).max())
