"""The laws of losses, functionals and data: what moves the particles is the derivative, and energies fall as stated.

A functional is measured on a weighted cloud in R^4, or on a cloud of its own: `examples()` may return `(member, cloud)`
in the place of a member.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.dynamics.fields import Descend, advance
from haarflow.errors import Refusal
from haarflow.learning.data import Data, Sample
from haarflow.learning.functionals import Functional
from haarflow.learning.labels import Labels
from haarflow.learning.losses import Loss
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud
from haarflow.models.units import Perceptron
from haarflow.practice.laws import law, require
from haarflow.practice.laws_of_models import off
from haarflow.practice.testing import QUICK_TO_COMPILE

H = 1e-5  # of finite differences


def weighted_cloud(n: int = 6, p: int = 4, seed: int = 5) -> Cloud:
    """A few atoms of unequal weights."""
    draw = np.random.default_rng(seed)
    return Cloud(draw.normal(size=(n, p)), draw.dirichlet(np.ones(n)))


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _costs(loss, fs, ys):
    return jax.vmap(loss)(fs, ys)


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _slopes(loss, fs, ys):
    return jax.vmap(jax.grad(loss))(fs, ys)


def _outputs(ys, seed: int = 1):
    """Random outputs against every label six times, in rows (6 m, c), and the labels again and again."""
    draw = np.random.default_rng(seed)
    return 2 * draw.normal(size=(6 * len(ys), ys.shape[1])), np.tile(ys, (6, 1))


@law(Loss, 1e-6)
def the_slope_is_the_derivative(loss, ys: Float[np.ndarray, "m c"]):
    """Autodiff in the output agrees with finite differences, relative to the largest slope."""
    fs, labels = _outputs(ys)
    found = np.asarray(_slopes(loss, fs, labels))
    steps = 1e-6 * np.eye(fs.shape[1])
    known = [(_costs(loss, fs + row, labels) - _costs(loss, fs - row, labels)) / 2e-6 for row in steps]
    return off(found, np.stack(known, axis=1))


@law(Loss, 1e-12)
def a_loss_that_claims_to_be_convex_lies_below_its_chords(loss, ys: Float[np.ndarray, "m c"]):
    """How far it rises above a chord, relative to its size there."""
    if not loss.convex:
        return None
    (one, labels), (other, _) = _outputs(ys), _outputs(ys, seed=2)
    here, there, middle = (np.asarray(_costs(loss, fs, labels)) for fs in (one, other, (one + 3 * other) / 4))
    chord = (here + 3 * there) / 4
    return np.max((middle - chord) / (1 + np.abs(chord)))


@law(Loss, 1e-12)
def a_square_is_a_square(loss, ys: Float[np.ndarray, "m c"]):
    """The loss is k |f − y|² where it says so by `square = k`, and only there."""
    fs, labels = _outputs(ys)
    squares, costs = np.sum((fs - labels) ** 2, axis=1), np.asarray(_costs(loss, fs, labels))
    ratios = costs / squares
    if loss.square is None:
        require(not np.allclose(ratios, ratios[0]), f"the loss is {ratios[0]:.6g} |f − y|² and does not say so.")
        return None
    return off(costs, loss.square * squares)


@law(Loss, 0.0)
def labels_of_an_example_are_those_of_the_loss(loss, ys: Float[np.ndarray, "m c"]):
    """It takes them as they are, prefers them to others, and refuses labels of another form than it names."""
    own = jnp.asarray(ys)
    require(loss.fitting(Labels(own), ys.shape[1]) is own, "labels of its own form are changed.")
    worse = float(np.sum(np.asarray(_costs(loss, own, own)) >= np.asarray(_costs(loss, -3 * own, own))))
    if loss.labels != "reals":
        try:
            loss.fitting(Labels(own + 0.7), ys.shape[1])
        except Refusal:
            return worse
        require(False, f"labels that are not {loss.labels} are taken.")
    return worse


@law(Loss, 1e-11)
def the_variation_of_a_risk_is_the_derivative(loss, ys: Float[np.ndarray, "m c"]):
    """A Risk with this loss: its formula agrees with autodiff of its value."""
    xs = np.random.default_rng(3).normal(size=(len(ys), 2))
    unit = Perceptron(2, ys.shape[1], "tanh")
    return the_variation_is_the_derivative(Risk(unit, Sample(xs, ys), loss), weighted_cloud(p=unit.dim))


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _variations(functional, cloud):
    return functional.variation(cloud), Functional.variation(functional, cloud)


@law(Functional, 1e-11)
def the_variation_is_the_derivative(functional, cloud: Cloud | None = None):
    """The potential is the derivative in the weights, the velocity minus that in the atoms divided by the weights."""
    found, known = _variations(functional, weighted_cloud() if cloud is None else cloud)
    return max(off(found.potential, known.potential), off(found.velocity, known.velocity))


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _dissipated(functional, cloud):
    """The rate of the energy along its descent, by a difference and by the formula; and the size of both parts."""
    field = Descend(functional, transport=0.6, growth=1.7)
    tangent = field(jax.random.key(0), cloud)
    ends = [functional(advance(cloud, tangent, jnp.asarray(h))) for h in (H, -H)]
    potential, velocity = functional.variation(cloud)
    centred = potential - cloud.weights @ potential
    stated = -0.6 * cloud.weights @ (velocity**2).sum(1) - 1.7 * cloud.weights @ centred**2
    return (ends[0] - ends[1]) / (2 * H), stated


@law(Functional, 1e-6)
def the_energy_dissipates_at_the_stated_rate(functional, cloud: Cloud | None = None):
    """dE/dt = −transport ∫|∇Psi|² dmu − growth ∫(Psi − mean Psi)² dmu along its descent, by finite differences."""
    measured, stated = _dissipated(functional, weighted_cloud() if cloud is None else cloud)
    return off(measured, stated, least=1e-3)


@law(Data, 1e-14)
def a_batch_is_a_function_of_its_key(data):
    """The same key gives the same batch, to the bit, and in a compiled program to rounding."""
    key = jax.random.key(4)
    first, again = data.batch(key), data.batch(key)
    compiled = eqx.filter_jit(lambda law, key: law.batch(key))(data, key)
    require(len(first[0]) == len(first[1]), f"{len(first[0])} inputs have {len(first[1])} labels.")
    same = all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    require(same, "two batches of one key are different.")
    return max(off(a, b) for a, b in zip(first, compiled, strict=True))
