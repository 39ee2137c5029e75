"""What the lab measures along a run: numbers of a cloud whose parameters are array leaves, so that none recompiles."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
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
    """`MMD(mu, mu^G)` of the first particles: the distance to the weakly invariant laws, by a kernel."""

    action: Any = eqx.field(static=True)

    def __call__(self, cloud: hf.Cloud) -> float:
        """How far a cloud is from its own symmetrisation."""
        return float(np.sqrt(hf.distances.orbit_mmd_squared(_first(cloud), self.action)))


class MeanLogDensity(eqx.Module):
    """`∫ log q dmu` of the first particles, by the distance to the nearest other one (Kozachenko and Leonenko)."""

    def __call__(self, cloud: hf.Cloud) -> float:
        """Minus the entropy of a cloud; minus infinity where particles lie on each other."""
        from scipy.spatial import cKDTree
        from scipy.special import digamma, gammaln

        few = _first(cloud)
        atoms, (n, p) = np.asarray(few.atoms, float), few.atoms.shape
        if n < 2:
            return float("nan")
        away = cKDTree(atoms).query(atoms, k=2)[0][:, 1]
        ball = p / 2 * np.log(np.pi) - gammaln(p / 2 + 1)
        with np.errstate(divide="ignore"):
            entropy = digamma(n) - digamma(1) + ball + p * np.asarray(few.weights, float) @ np.log(away)
        return float(-entropy) if np.isfinite(entropy) else float("nan")


def moment(cloud: hf.Cloud) -> Float[Array, ""]:
    """`∫ |z|² dmu`."""
    return cloud.second_moment()


def _first(cloud: hf.Cloud) -> hf.Cloud:
    weights = np.asarray(cloud.weights[:FEW], float)
    return hf.Cloud(np.asarray(cloud.atoms[:FEW], float), weights / weights.sum())


def probes_of(
    unit: Any, sample: hf.Sample, on_x: Any, on_y: Any, *, loss: str, schemes: Sequence[str]
) -> dict[str, dict[str, Callable]]:
    """What the lab measures of each scheme; the risk of FA is that of its averaged network."""
    averaged, action = hf.average(unit, on_x, on_y), unit.action(on_x, on_y)
    common: dict[str, Callable] = {
        "asymmetry": Asymmetry(unit, averaged, sample.xs),
        "distance to SI": FromFixedSpace(action.fixed_projector()),
        "distance to WI": FromOrbit(action),
        "moment": moment,
        "mean log density": MeanLogDensity(),
    }
    risks = {name: hf.Risk(averaged if name == "FA" else unit, sample, loss) for name in schemes}
    return {name: {"risk": risks[name], **common} for name in schemes}


def well_probes(functional: Any, action: Any, schemes: Sequence[str]) -> dict[str, dict[str, Callable]]:
    """What the lab measures of particles in a well."""
    common: dict[str, Callable] = {
        "risk": functional,
        "distance to SI": FromFixedSpace(action.fixed_projector()),
        "distance to WI": FromOrbit(action),
        "moment": moment,
        "mean log density": MeanLogDensity(),
    }
    return {name: common for name in schemes}


def game_probes(payoff: Any, lanes: Sequence[str]) -> dict[str, dict[str, Callable]]:
    """What the lab measures of two players."""
    return {lane: {"payoff": payoff, "distance from equilibrium": from_equilibrium} for lane in lanes}


def from_equilibrium(clouds: dict[str, hf.Cloud]) -> Float[Array, ""]:
    """How far the players' means are from zero, where the quadratic game has its equilibrium."""
    return jnp.sqrt(sum(jnp.sum(cloud.mean() ** 2) for cloud in clouds.values()))


def with_energies(columns: dict[str, Any], *, penalty: Any, temperature: Any, well: bool = False) -> dict[str, Any]:
    """The measured columns with the energy and the free energy made of them; the raw ones they are made of go."""
    if "risk" not in columns:
        return columns
    found = {name: values for name, values in columns.items() if name not in ("moment", "mean log density")}
    found["energy"] = columns["risk"] if well else columns["risk"] + penalty / 2 * columns["moment"]
    found["free energy"] = found["energy"] + temperature * columns["mean log density"]
    return found


def double_well(theta: Float[Array, "p"]) -> Float[Array, ""]:
    """`Σ (θ_i² − 1)² / 4`: a well at every corner of the cube [−1, 1]^p."""
    return jnp.sum((theta**2 - 1) ** 2) / 4
