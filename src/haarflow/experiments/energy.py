"""The energy of a network as particles see it: pairs, dissipation, the continuity equation, sampling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import simpson

from haarflow.dynamics import energy_rates, pairwise
from haarflow.dynamics.fields import Descend, Tangent
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Adaptive, advance
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.models.units import Bump, Dense, Perceptron, Quadratic, TwoLayer
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, below, between, named, once, over, panel, power_law
from haarflow.runs.sizes import Count, Positive

MODES = {"transport": (1.0, 0.0), "growth": (0.0, 1.3), "both": (0.7, 1.3)}  # speeds of atoms and of weights
DRAWS = (1, 2, 3, 4)  # sizes M at which the static lemma is summed over every draw
SAMPLED = (4, 16, 64, 256)  # and those at which it is measured by sampling


def units():
    """The units under test, by the name the report shows."""
    return {
        "perceptron": Perceptron(3, 2, "tanh"),
        "dense": Dense(2, 2, "sigmoid"),
        "two-layer": TwoLayer(2, 3, 1, "tanh"),
        "quadratic": Quadratic(3),
        "bump": Bump(2),
    }


class Energy(Experiment):
    """The half square risk is an energy of particles and pairs; along transport, growth and both it falls at the rate
    the dissipation identity states, every smooth test function obeys the continuity equation, and M draws from a law
    cost (∫U(θ,θ) − ∬U)/2M.

    Source: lectures 7 and 8 on mean-field networks (energy, continuity equation, static lemma).

    One convention: `R = ½E|f − Y|² = ½E|Y|² + ∫V dmu + ½∬U dmu dmu`, so that `Psi = V + ∫U dmu` and particles move by
    `−∇Psi`. The lemma is printed with 1/M in the lectures, which belongs to the risk without its half. Expectations
    over M draws are summed over all draws, without sampling error; the slope in M is measured by sampling. Where the
    energy is least is told by the experiment `minimiser`.
    """

    group = "dynamics"
    seconds = 1.6
    faults = {
        "printed lemma": "1/M stands in place of 1/2M",
        "double speed": "the particles move by −2∇Psi",
        "no growth": "the weak form forgets the growth",
    }

    atoms: Count = 9  # atoms of each random cloud
    samples: Count = 7  # data points
    clouds: Count = 8  # random clouds of each unit
    tests: Count = 6  # test functions of the continuity equation
    repetitions: Count = 4000  # samples of M draws, for each M
    tau: Positive = 0.02  # weight of the penalty

    @classmethod
    def full(cls):
        return cls(atoms=40, samples=20, clouds=40, tests=20, repetitions=20000)

    def design(self):
        yield self.identities, over(unit=units())
        yield self.along, once()

    def identities(self, key, unit):
        """The failures of every identity for one unit on random clouds, and what M draws from one of them cost."""
        draw, unit = generator(key), units()[unit]
        xs = draw.normal(size=(self.samples, unit.inputs))
        risk = Risk(unit, Sample(xs, draw.normal(size=(self.samples, unit.outputs))))
        atoms = 0.7 * draw.normal(size=(self.clouds, self.atoms, unit.dim))
        clouds = Cloud(atoms, draw.dirichlet(np.full(self.atoms, 2.0), size=self.clouds))
        waves = jnp.asarray(draw.normal(size=(self.tests, unit.dim + 1)))
        energy, modes = risk + Penalty(self.tau), jnp.asarray(list(MODES.values()))
        speed = jnp.asarray(2.0 if self.fault == "double speed" else 1.0)
        remembered = jnp.asarray(0.0 if self.fault == "no growth" else 1.0)
        falls = [_dissipation_errors(energy, clouds, mode, speed) for mode in modes]
        rates = [_continuity_errors(energy, clouds, waves, mode, remembered) for mode in modes]
        return {
            "sums": named(_sums(risk, clouds), "cloud"),
            "dissipation": named(np.stack(falls), "mode", "cloud", mode=MODES),
            "continuity": named(np.stack(rates), "mode", "cloud", mode=MODES),
            **self._lemma(draw, risk, Cloud(clouds.atoms[0], clouds.weights[0])),
        }

    def _lemma(self, draw, risk, cloud):
        """The static lemma: exactly on four atoms at small M, and by sampling at large M."""
        few = Cloud(cloud.atoms[:4], cloud.weights[:4] / cloud.weights[:4].sum())
        factor = 2.0 if self.fault == "printed lemma" else 1.0
        wanted = factor * float(pairwise.sampling_excess(risk, few, 1))
        exact = [pairwise.every_draw(risk, few, m) * m / wanted - 1 for m in DRAWS]
        together = np.asarray(eqx.filter_jit(pairwise.pairwise(risk).sums)(cloud)[1])
        weights = np.asarray(cloud.weights)
        # The excess without its first-order term ∫Psi d(mu_M − mu), whose mean is zero.
        noise = [draw.multinomial(m, weights, size=self.repetitions) / m - weights for m in SAMPLED]
        excess = [np.mean(np.einsum("ri,ij,rj->r", c, together, c)) / 2 for c in noise]
        stated = [factor * float(pairwise.sampling_excess(risk, cloud, m)) for m in SAMPLED]
        return {
            "lemma": named(np.abs(exact), "draws", draws=DRAWS),
            "excess": named(excess, "M", M=SAMPLED),
            "stated": named(stated, "M", M=SAMPLED),
        }

    def along(self, key):
        """`∫test dmu_T − ∫test dmu_0 = ∫_0^T (d/dt ∫test dmu) dt` along an accurate flow, relative to what moved."""
        draw = generator(key)
        data = Sample(draw.normal(size=(self.samples, 2)), draw.normal(size=(self.samples, 2)))
        cloud = Cloud(0.7 * draw.normal(size=(self.atoms, 4)), draw.dirichlet(np.full(self.atoms, 2.0)))
        field = Descend(Risk(units()["dense"], data) + Penalty(self.tau), transport=0.7, growth=1.3)
        waves, still = jnp.asarray(draw.normal(size=(self.tests, 5))), jax.random.key(0)
        probes = {"value": lambda c: _averages(c, waves), "rate": lambda c: _rates(c, field(still, c), waves)}
        path = flow(field, Adaptive(), cloud, key=still, dt=0.01, steps=100, probes=probes, every=1)
        moved = path.probes["value"][-1] - path.probes["value"][0]
        stated = simpson(path.probes["rate"], x=path.times, axis=0)
        return {"along": np.abs(moved - stated).max() / np.abs(moved).max()}

    def fits(self, data):
        each = data.excess.each("unit")
        return {f"cost of M draws, {unit}": power_law(cost, along="M", confidence=None) for unit, cost in each}

    def claims(self, data):
        sums = "particle sums equal the functional, its Psi and its velocity, to {bound:g}"
        yield below(sums, data.sums.max(), 1e-12)
        for law, errors in (("dissipation identity", data.dissipation), ("weak continuity equation", data.continuity)):
            for mode, error in errors.each("mode"):
                yield below(f"{law}, {mode}: relative error", error.max(), 1e-6)
        yield below("weak continuity equation along a flow, both: relative error", data.along, 1e-6)
        lemma = "static lemma: M draws cost (∫U(θ,θ) − ∬U)/2M, every draw summed, to {bound:g}"
        yield below(lemma, data.lemma.max(), 1e-10)
        ratio, slopes = (data.excess / data.stated).mean(), [fit.value for fit in data.fits.values()]
        yield between("static lemma by sampling: measured over stated, on average", ratio, 0.95, 1.05)
        yield between("static lemma by sampling: mean slope in M", np.mean(slopes), -1.05, -0.95)

    @panel(
        "What sampling a law costs",
        "The mean excess risk of M independent draws, over {repetitions} repetitions (marks), on the line "
        "(∫U(θ,θ) − ∬U)/2M that the static lemma states.",
    )
    def sampling(self, axis, data):
        """Measured marks on stated lines."""
        for order, (unit, excess) in enumerate(data.excess.each("unit")):
            look = {"color": style.colour(order), "marker": style.marker(order), "markersize": 9 - order % 3}
            axis.plot(SAMPLED, data.stated.sel(unit=unit), color=style.MUTED, linewidth=1.0)
            axis.plot(SAMPLED, excess, label=unit, linestyle="none", markerfacecolor="none", **look)
        style.log_axes(axis, SAMPLED, "draws $M$", r"$\mathrm{E}\,R(\mu_M) - R(\mu)$")
        axis.legend(loc="lower left")


def _wave(theta, wave):
    """The test function `cos(k·θ + b)` of a wave (k, b)."""
    return jnp.cos(wave[:-1] @ theta + wave[-1])


def _averages(cloud, waves):
    """The test functions averaged over a cloud."""
    return jax.vmap(lambda wave: cloud.weights @ jax.vmap(lambda theta: _wave(theta, wave))(cloud.atoms))(waves)


def _rates(cloud, tangent, waves):
    """How fast the weak form says that these averages change."""
    return jax.vmap(lambda wave: energy_rates.weak_form_rate(cloud, tangent, lambda theta: _wave(theta, wave)))(waves)


def _change(quantity, cloud, tangent):
    """How fast a function of clouds changes along a tangent, by a central difference."""
    h = jnp.asarray(1e-5)
    return (quantity(advance(cloud, tangent, h)) - quantity(advance(cloud, tangent, -h))) / (2 * h)


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0, None, None, None))
def _continuity_errors(energy, cloud, waves, mode, remembered):
    """The change of averaged waves against the weak form, relative, cloud by cloud."""
    tangent = Descend(energy, transport=mode[0], growth=mode[1])(jax.random.key(0), cloud)
    measured = _change(lambda cloud: _averages(cloud, waves), cloud, tangent)
    stated = _rates(cloud, Tangent(tangent.velocity, remembered * tangent.growth), waves)
    return jnp.abs(measured - stated).max() / jnp.abs(measured).max()


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0, None, None))
def _dissipation_errors(energy, cloud, mode, speed):
    """The change of the energy against the stated rate, relative, cloud by cloud."""
    tangent = Descend(energy, transport=speed * mode[0], growth=speed * mode[1])(jax.random.key(0), cloud)
    stated = energy_rates.dissipation(energy, cloud, transport=mode[0], growth=mode[1])
    return jnp.abs(_change(energy, cloud, tangent) / stated - 1)


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0))
def _sums(risk, cloud):
    """Risk, Psi and velocity: from the functional, and summed over pairs; the largest difference, cloud by cloud."""
    energy = pairwise.pairwise(risk)
    pairs = zip(risk.variation(cloud), energy.variation(cloud), strict=True)
    gaps = [jnp.abs(here - there).max() / (1 + jnp.abs(here).max()) for here, there in pairs]
    return jnp.stack([jnp.abs(risk(cloud) - energy(cloud)), *gaps]).max()
