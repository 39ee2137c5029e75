"""Two classes that a line through the origin separates: synthetic ones under small groups, and digits; and training."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import Rep, natural_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.normalised import Normalised
from haarflow.dynamics.schemes import Euler, Optax, Scheme
from haarflow.learning.data import Sample
from haarflow.learning.functionals import Functional
from haarflow.measures.samples import generator
from haarflow.models.linear_networks import LinearNetwork
from haarflow.runs.experiment import stream, tell

SYNTHETIC = ("C4", "D4", "S4")
GROUPS = (*SYNTHETIC, "digits")
GAP = 0.5  # the least score of a synthetic row along the direction that separates them
STEP = 0.05  # c, the relative step at the beginning
MOMENTUM = 0.9
SLOWING = {"digits": 300.0}  # τ, the steps after which it is halved
USUAL = 100.0


class Pairs(NamedTuple):
    """Inputs, labels ±1, and how the group moves the inputs."""

    x: Float[np.ndarray, "b d"]
    y: Float[np.ndarray, " b"]
    rep: Rep

    @property
    def averaged(self) -> Float[np.ndarray, "b d"]:
        """Every input averaged over the group."""
        return np.asarray(self.rep.project(self.x))

    def augmented(self, *, lost: int = 0) -> "Pairs":
        """Every input in all its positions, the last `lost` of them left out."""
        moved = np.asarray(self.rep.action().apply(self.x))
        kept = moved[: len(moved) - lost]
        return Pairs(kept.reshape(-1, self.rep.dim), np.tile(self.y, len(kept)), self.rep)


def action(group: str) -> Rep:
    """C4 and D4 on 5 × 5 pixels, S4 on three tables 4 × 4 whose rows and columns it permutes, C4 on the digits."""
    if group == "S4":
        return 3 * natural_rep(Symmetric(4)) ** 2
    size = 8 if group == "digits" else 5
    return image_rep("dihedral" if group == "D4" else "rotations", size, size)


def pairs(key: Any, group: str, samples: int) -> Pairs:
    """The digits 0 and 1; or normal inputs, moved along an invariant direction until it separates them by GAP."""
    if group == "digits":
        return digits(0, 1)
    rep, draw = action(group), generator(stream(key, f"data of {group}"))
    x, y = draw.normal(size=(samples, rep.dim)), np.where(np.arange(samples) % 2, 1.0, -1.0)
    direction = rep.fixed_basis() @ draw.normal(size=rep.fixed_basis().shape[1])
    direction /= np.linalg.norm(direction)
    wanted = GAP * (1 + draw.exponential(size=samples))
    return Pairs(x + (np.maximum(wanted - y * (x @ direction), 0) * y)[:, None] * direction, y, rep)


def digits(first: int, second: int) -> Pairs:
    """Two of scikit-learn's digits, 8 × 8 pixels between 0 and 1, under quarter turns."""
    from sklearn.datasets import load_digits

    x, y = map(np.asarray, load_digits(return_X_y=True))
    kept = np.isin(y, (first, second))
    return Pairs(x[kept] / 16, np.where(y[kept] == second, 1.0, -1.0), action("digits"))


def off(vectors: Any, direction: Any) -> Any:
    """1 − cos of the angles between vectors (..., d) and a direction of length one, right to rounding."""
    scaled = vectors / np.abs(vectors).max(axis=-1, keepdims=True)  # whose squares do not overflow
    units = scaled / np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.sum((units - direction) ** 2, axis=-1) / 2


def relative(momentum: float = MOMENTUM) -> Scheme:
    """Steps relative to the weights, with momentum."""
    import optax

    return Normalised(Optax(optax.sgd(1 - momentum, momentum=momentum)) if momentum else Euler())


def train(key: Any, network: LinearNetwork, risk: Functional, *, scheme: Scheme, dt: float, steps: int, **options):
    """The Trajectory of one network whose probe `vector` is the vector that it is the inner product with."""
    start = network.start(stream(key, "start"))
    looks = {"vector": lambda cloud: network.vector(cloud.atoms[0])}
    options = {"progress": tell, "every": max(1, steps // 40), "probes": looks} | options
    return flow(Descend(risk), scheme, start, key=stream(key, "flow"), dt=dt, steps=steps, **options)


def falling(slowing: float):
    """The schedule 1 / (1 + k / τ) of steps of size STEP."""
    return lambda time: 1 / (1 + time / (STEP * slowing))


def sample(data: Pairs) -> Sample:
    """The pairs as a Sample."""
    return Sample(data.x, data.y)


def singular_ratio(network: LinearNetwork, theta: jax.Array) -> float:
    """The largest second singular value of a layer, over its first: 0 where all layers have rank one."""
    values = [np.linalg.svd(np.asarray(one), compute_uv=False) for one in network.matrices(theta)]
    return max(float(one[1] / one[0]) for one in values if len(one) > 1)
