"""Divergences with neural discriminators: a network learns to tell two samples apart, and is judged on held-out points.

The networks are means of ReLU-like units over a cloud of particles, averaged over a group where one acts, and trained
by Adam. What they attain on points they have not seen is, in expectation, a lower bound on the divergence of the laws.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.doors import Count, NonNegative, Positive, door
from haarflow.errors import Refusal
from haarflow.learning.symmetry import average
from haarflow.measures.clouds import uniform
from haarflow.measures.generators import Generator, Name, generator_of
from haarflow.measures.samples import Law, OtherLaw, arrays, generator
from haarflow.measures.witnesses import Divergence
from haarflow.models.networks import network
from haarflow.models.units import Perceptron, Unit
from haarflow.practice.answers import Answer
from haarflow.values import refuse_unless_soon


@dataclass(frozen=True)
class NeuralDivergence(Answer):
    """What a trained discriminator attains: `value` on held-out points with its standard `error`, `trained` on its own.

    `witness(z)` gives the discriminator at points (b, p); `draw(axis)` shows it with both samples.
    """

    value: float
    error: float
    trained: float
    name: str
    curve: Float[np.ndarray, " steps"] = field(repr=False)
    function: Callable = field(repr=False)
    x: Float[np.ndarray, "n p"] = field(repr=False)
    y: Float[np.ndarray, "m p"] = field(repr=False)

    def sentence(self):
        """The verdict in one sentence, with its numbers."""
        return (
            f"A neural discriminator attains {self.name} = {self.value:.4g} ± {self.error:.1g} on held-out points, and "
            f"{self.trained:.4g} on those it was trained on."
        )

    def table(self):
        """The training curve: the step and the objective on the training points."""
        return {"step": list(range(len(self.curve))), "objective": [float(one) for one in self.curve]}

    def witness(self, z: Any) -> Float[np.ndarray, " b"]:
        """The discriminator at points (b, p): (b,)."""
        return self._plain().witness(z)

    def draw(self, axis: Any) -> Any:
        """Draw the discriminator and both samples into an axis of matplotlib; returns the axis."""
        return self._plain().draw(axis)

    def _plain(self) -> Divergence:
        return Divergence(self.value, self.error, self.name, self.function, self.x, self.y)


@door
def neural_divergence(
    key: PRNGKeyArray | Array,
    mu: Law,
    nu: OtherLaw,
    *,
    f: Name = "kl",
    alpha: Positive = 2.0,
    under: Rep | None = None,
    lipschitz: Positive | None = None,
    penalty: NonNegative = 10.0,
    neurons: Count = 64,
    steps: Count = 1000,
    rate: Positive = 0.02,
) -> NeuralDivergence:
    """D_f(mu‖nu) in variational form, E_mu γ − E_nu f*(γ), with a network γ trained on half of each sample.

    `under` a representation of a finite group the network is averaged over it. With `lipschitz` the slope of γ beyond
    that constant costs `penalty` times its excess E max(0, |∇γ|² − lipschitz²), as in GANs. The samples are shuffled
    by the key and halved; weights are kept. For exact answers on samples see `divergences.f_divergence`.
    """
    (x, a), (y, b) = arrays(mu), arrays(nu)
    _refuse_unless_halves(x, y)
    refuse_unless_soon(
        "neural_divergence",
        2e-9 * steps * neurons * (len(x) + len(y)) * x.shape[1],
        instead="Write fewer `steps` or `neurons`, or fewer points.",
        most=3600,
    )
    centre, size = y.mean(axis=0), float(np.std(np.concatenate([x, y]))) or 1.0
    centre = centre if under is None else np.asarray(under.project(centre))
    draw, member = generator(key), generator_of(f, alpha)
    halves = [_halves(draw, (z - centre) / size, w) for z, w in ((x, a), (y, b))]
    unit: Unit = Perceptron(x.shape[1] + 1, 1, "softplus")
    gamma = _discriminator(unit, member, under)
    start = draw.normal(size=(neurons, unit.dim))
    slope = None if lipschitz is None else (min(float(lipschitz) * size, 1e100), float(penalty))
    (first, second), (held_x, held_y) = zip(*halves, strict=True)
    particles, curve = _trained(gamma, member, start, (first, second), slope, steps, rate)
    value, error = _attained(gamma, member, particles, held_x, held_y)
    trained, _ = _attained(gamma, member, particles, first, second)

    def witness(z):
        return np.asarray(gamma(particles, jnp.asarray((z - centre) / size)), float)

    name = f"{f} ({alpha:g})" if f == "alpha" else f
    return NeuralDivergence(value, error, trained, name, curve, witness, x, y)


def _discriminator(unit: Unit, member: Generator, under: Rep | None) -> Callable:
    """γ(particles, points): the mean of the units, below the limit of f* where it has one."""
    told = unit
    if under is not None:
        told = average(unit, under + trivial_rep(under.group, 1), trivial_rep(under.group, 1))

    def gamma(particles, z):
        lifted = jnp.concatenate([z, jnp.ones((len(z), 1), z.dtype)], axis=1)
        value = network(told, uniform(particles["atoms"]), lifted)[:, 0] + particles["shift"]
        return value if np.isinf(member.limit) else member.limit - jax.nn.softplus(-value)

    return gamma


def _objective(gamma, member: Generator, particles, x, a, y, b):
    """E γ under the first law less E f*(γ) under the second; the shift of γ is a parameter of its own."""
    return jnp.sum(a * gamma(particles, x)) - jnp.sum(b * member.conjugate(gamma(particles, y), jnp))


def _trained(gamma, member, start, halves, slope, steps: int, rate: float):
    import optax

    (x, a), (y, b) = ((jnp.asarray(z), jnp.asarray(w)) for z, w in halves)
    particles = {"atoms": jnp.asarray(start), "shift": jnp.zeros((), jnp.asarray(start).dtype)}
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(particles):
        value = _objective(gamma, member, particles, x, a, y, b)
        if slope is None:
            return -value, value
        slopes = jax.vmap(jax.grad(lambda z: gamma(particles, z[None])[0]))(jnp.concatenate([x, y]))
        excess = jnp.maximum(jnp.sum(slopes**2, axis=1) - slope[0] ** 2, 0.0)
        return -value + slope[1] * jnp.mean(excess), value

    @jax.jit
    def run(particles):
        def step(carry, _):
            particles, state = carry
            (_, value), slopes = jax.value_and_grad(loss, has_aux=True)(particles)
            updates, state = optimiser.update(slopes, state, particles)
            return (optax.apply_updates(particles, updates), state), value

        return jax.lax.scan(step, (particles, optimiser.init(particles)), None, length=steps)

    (particles, _), curve = run(particles)
    curve = np.asarray(curve, float)
    if not np.isfinite(curve).all():
        raise Refusal(
            f"A neural discriminator is trained to a finite value; got none from step "
            f"{int(np.argmin(np.isfinite(curve)))} on. Write a smaller `rate`, or f='js', which is bounded."
        )
    return particles, curve


def _attained(gamma, member, particles, first, second) -> tuple[float, float]:
    """The objective on some points, and its standard error."""
    (x, a), (y, b) = first, second
    here = np.asarray(gamma(particles, jnp.asarray(x)), float)
    there = np.asarray(member.conjugate(np.asarray(gamma(particles, jnp.asarray(y)), float)), float)
    value = float(a @ here - b @ there)
    spread = a**2 @ (here - a @ here) ** 2 + b**2 @ (there - b @ there) ** 2
    return value, float(np.sqrt(spread))


def _halves(draw: np.random.Generator, z, w):
    """Two halves of a sample in random order, each with weights that sum to one."""
    order = draw.permutation(len(z))
    parts = order[: len(z) // 2], order[len(z) // 2 :]
    return [(z[part], w[part] / w[part].sum()) for part in parts]


def _refuse_unless_halves(x, y) -> None:
    if min(len(x), len(y)) < 4 or x.shape[1] != y.shape[1]:
        raise Refusal(
            "neural_divergence trains on half of each sample and judges on the other: four points or more in the same "
            f"R^p; got {x.shape} and {y.shape}. Write more points, or take `divergences.f_divergence`."
        )
