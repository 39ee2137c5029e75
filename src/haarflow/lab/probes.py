"""What the lab measures along a run: numbers of a cloud whose parameters are array leaves, so that none recompiles.

All of them are measured at once, by one compiled program for each scheme; `Measures.table` names them again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float

import haarflow as hf
from haarflow.learning.symmetry import rms

FEW = 256  # particles that the costly measurements look at: the first ones, which are as good as any


class Asymmetry(eqx.Module):
    """`|f − Qf|`, root mean square over some inputs."""

    unit: Any
    averaged: Any
    xs: Float[Array, "b d"] = eqx.field(converter=jnp.asarray)

    def __call__(self, cloud: hf.Cloud) -> Float[Array, ""]:
        """How far the network of a cloud is from equivariant."""
        return rms(hf.network(self.unit, cloud, self.xs) - hf.network(self.averaged, cloud, self.xs))


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

    def __call__(self, clouds: Any) -> Float[Array, "m"]:
        """The numbers, in the order of their names."""
        found = [jnp.asarray(self.parts[name](clouds)) for name in sorted(self.parts)]
        return jnp.stack([value.astype(found[0].dtype) for value in found])

    def table(self, measured: np.ndarray, *, penalty: float, temperature: float) -> dict[str, Any]:
        """The columns by name, of one row or of many, with the energy and the free energy made of them."""
        columns = {name: measured[..., i] for i, name in enumerate(sorted(self.parts))}
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
    averaged, action = hf.average(unit, on_x, on_y), unit.action(on_x, on_y)
    common = {"asymmetry": Asymmetry(unit, averaged, sample.xs), "moment": moment}
    risks = {name: hf.Risk(averaged if name == "FA" else unit, sample, loss) for name in schemes}
    return {name: Measures({"risk": risks[name], **common, **_of_action(action, name)}) for name in schemes}


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
