"""What the lab measures along a run: numbers of a cloud whose parameters are array leaves, so that none recompiles.

All of them are measured at once, by one compiled program for each scheme; `Measures.table` names them again.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float

import haarflow as hf
from haarflow.learning.symmetry import actions, folded, rms

FEW = 256  # particles that the costly measurements look at: the first ones, which are as good as any


class Fitness(eqx.Module):
    """Risk and asymmetry `|f − Qf|` (root mean square over the inputs), from one look at the images of all inputs.

    `f` itself is what is seen at the image of the inputs under the identity, so it costs nothing more. The risk is
    that of `f`, or of `Qf` for a scheme that averages.
    """

    names: ClassVar[tuple[str, ...]] = ("asymmetry", "risk")

    unit: Any
    images: Float[Array, "gb d"]
    out: Any
    still: int = eqx.field(static=True)
    risk: hf.Risk
    averages: bool = eqx.field(static=True)

    def __init__(self, unit: Any, sample: hf.Sample, on_x: Any, on_y: Any, *, loss: str, averages: bool):
        into, self.out = actions("The lab", on_x, on_y)
        self.unit, self.averages, self.risk = unit, averages, hf.Risk(unit, sample, loss)
        self.images = jnp.asarray(np.asarray(into.apply(np.asarray(sample.xs))).reshape(-1, on_x.dim))
        moved = np.abs(np.asarray(into.apply(np.eye(on_x.dim))) - np.eye(on_x.dim)).max(axis=(1, 2))
        self.still = int(moved.argmin())

    def __call__(self, cloud: hf.Cloud) -> dict[str, Float[Array, ""]]:
        """The two numbers of a cloud."""
        seen = hf.network(self.unit, cloud, self.images)
        data: Any = self.risk.data  # a Sample, with labels as the loss takes them
        labels = data.ys.astype(seen.dtype)
        plain, mean = seen.reshape(len(self.out), *labels.shape)[self.still], folded(self.out, seen)
        losses = jax.vmap(self.risk.loss)(mean if self.averages else plain, labels)
        return {"asymmetry": rms(plain - mean), "risk": jnp.mean(losses)}


class FromFixedSpace(eqx.Module):
    """`W2(mu, P#mu)`: the distance to the strongly invariant laws."""

    projector: Float[Array, "p p"] = eqx.field(converter=jnp.asarray)

    def __call__(self, cloud: hf.Cloud) -> Float[Array, ""]:
        """How far a cloud is from the fixed space."""
        rest = cloud.atoms - cloud.atoms @ self.projector.astype(cloud.atoms.dtype)
        return jnp.sqrt(cloud.weights @ jnp.sum(rest**2, axis=1))


class FromOrbit(eqx.Module):
    """`MMD(mu, mu^G)` of the first particles: the distance to the weakly invariant laws, by a Gaussian kernel.

    Its width² is the mean of |z − z'|² over draws from mu^G, as in `distances.orbit_mmd_squared`; in float32 it does
    not tell less than about 3e-4 from zero.
    """

    matrices: Float[Array, "g p p"] = eqx.field(converter=jnp.asarray)

    def __call__(self, cloud: hf.Cloud) -> Float[Array, ""]:
        """How far a cloud is from its own symmetrisation."""
        few = _first(cloud)
        turns = self.matrices.astype(few.atoms.dtype)
        middle = jnp.mean(turns, axis=0) @ few.mean()
        width = 2 * (few.weights @ jnp.sum((few.atoms - middle[None]) ** 2, axis=1))

        def alike(turn):
            return few.weights @ jnp.exp(-_squares(few.atoms, few.atoms @ turn.T) / _positive(2 * width)) @ few.weights

        own = alike(jnp.eye(few.p, dtype=few.atoms.dtype))
        return jnp.sqrt(jnp.maximum(own - jnp.mean(jax.lax.map(alike, turns)), 0))


class MeanLogDensity(eqx.Module):
    """`∫ log q dmu` of the first particles, by the distance to the nearest other one (Kozachenko and Leonenko).

    `dimension` is that in which the law has a density: of EA's particles, that of E^G.
    """

    dimension: Float[Array, ""] = eqx.field(converter=jnp.asarray)

    def __call__(self, cloud: hf.Cloud) -> Float[Array, ""]:
        """Minus the entropy of a cloud; not a number where particles lie on each other."""
        few = _first(cloud)
        n, p = few.n, self.dimension.astype(few.atoms.dtype)
        apart = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, _squares(few.atoms, few.atoms))
        logs = few.weights @ jnp.log(jnp.min(apart, axis=1)) / 2
        found = -(digamma(float(n)) - digamma(1.0) + p / 2 * np.log(np.pi) - gammaln(p / 2 + 1) + p * logs)
        return jnp.where(jnp.isfinite(found), found, jnp.nan).astype(few.atoms.dtype)


def moment(cloud: hf.Cloud) -> Float[Array, ""]:
    """`∫ |z|² dmu`."""
    return cloud.second_moment()


def _first(cloud: hf.Cloud) -> hf.Cloud:
    weights = cloud.weights[:FEW]
    return hf.Cloud(cloud.atoms[:FEW], weights / _positive(jnp.sum(weights)))


def _squares(one: Float[Array, "n p"], other: Float[Array, "m p"]) -> Float[Array, "n m"]:
    return jnp.sum((one[:, None] - other[None]) ** 2, axis=-1)


def _positive(value: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(value > 0, value, 1)


class Measures(eqx.Module):
    """Several numbers of a cloud, or of players, as one array: a probe; `table` names its columns."""

    parts: dict[str, Callable]

    @property
    def names(self) -> list[str]:
        """The columns; a part that has several names them itself."""
        return sorted(name for part, one in self.parts.items() for name in getattr(one, "names", (part,)))

    def __call__(self, clouds: Any) -> Float[Array, "m"]:
        """The numbers, in the order of their names."""
        found: dict[str, Any] = {}
        for name, part in self.parts.items():
            value = part(clouds)
            found |= value if isinstance(value, dict) else {name: value}
        values = [jnp.asarray(found[name]) for name in self.names]
        return jnp.stack([value.astype(values[0].dtype) for value in values])

    def table(self, measured: np.ndarray, *, penalty: float, temperature: float) -> dict[str, Any]:
        """The columns by name, of one row or of many, with the energy and the free energy made of them."""
        columns = {name: measured[..., i] for i, name in enumerate(self.names)}
        logs, size = columns.pop("mean log density", None), columns.pop("moment", None)
        if logs is not None:
            energy = columns.pop("risk") if size is None else columns["risk"] + penalty / 2 * size
            columns["energy"] = energy
            columns["free energy"] = columns["energy"] + temperature * logs
        return columns


def probes_of(
    unit: Any, sample: hf.Sample, on_x: Any, on_y: Any, *, loss: str, schemes: Sequence[str]
) -> dict[str, Measures]:
    """What the lab measures of each scheme; the risk of FA is that of its averaged network."""
    action = unit.action(on_x, on_y)
    fits = {name: Fitness(unit, sample, on_x, on_y, loss=loss, averages=name == "FA") for name in schemes}
    return {name: Measures({"fit": fits[name], "moment": moment, **_of_action(action, name)}) for name in schemes}


def well_probes(functional: Any, action: Any, schemes: Sequence[str]) -> dict[str, Measures]:
    """What the lab measures of particles in a well."""
    return {name: Measures({"risk": functional, **_of_action(action, name)}) for name in schemes}


def _of_action(action: Any, scheme: str) -> dict[str, Callable]:
    dimension = action.fixed_basis().shape[1] if scheme == "EA" else action.dim
    return {
        "distance to SI": FromFixedSpace(action.fixed_projector()),
        "distance to WI": FromOrbit(np.swapaxes(np.asarray(action.action().apply(np.eye(action.dim))), 1, 2)),
        "mean log density": MeanLogDensity(float(dimension)),
    }


def game_probes(payoff: Any, lanes: Sequence[str]) -> dict[str, Measures]:
    """What the lab measures of two players."""
    return {lane: Measures({"payoff": payoff, "distance from equilibrium": from_equilibrium}) for lane in lanes}


def from_equilibrium(clouds: dict[str, hf.Cloud]) -> Float[Array, ""]:
    """How far the players' means are from zero, where the quadratic game has its equilibrium."""
    return jnp.sqrt(sum(jnp.sum(cloud.mean() ** 2) for cloud in clouds.values()))


def double_well(theta: Float[Array, "p"]) -> Float[Array, ""]:
    """`Σ (θ_i² − 1)² / 4`: a well at every corner of the cube [−1, 1]^p."""
    return jnp.sum((theta**2 - 1) ** 2) / 4
