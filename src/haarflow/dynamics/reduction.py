"""Symmetry-reduced flows: of an orbit-closed cloud and orbit-closed data, one particle and one sample per orbit.

If mu = nu^G then f_mu is Q_G f_nu, and the velocity of a particle of nu under mu is its velocity under the averaged
unit over nu. So the flow of mu is the flow of nu with averaged units: |G| times fewer particles, |G| times fewer
samples, and |G| evaluations for each pair.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from haarflow.algebra.reps import Rep
from haarflow.doors import door
from haarflow.dynamics.fields import Descend, Field
from haarflow.errors import Refusal
from haarflow.learning.folding import fold_closed
from haarflow.learning.risks import Functional, Risk
from haarflow.learning.symmetry import Averaged
from haarflow.measures.clouds import Cloud, action_matrices
from haarflow.measures.orbits import Orbits, orbits
from haarflow.models.fits import refuse_unless_cloud


@dataclass(frozen=True)
class Reduced:
    """A field and a cloud with one particle per orbit; `whole` gives back the cloud they stand for."""

    field: Field
    cloud: Cloud
    action: Rep
    places: Orbits

    def whole(self, cloud: Cloud) -> Cloud:
        """All particles of a reduced cloud, in the order of the cloud that was reduced."""
        matrices = jnp.asarray(action_matrices(self.action, cloud.p), cloud.atoms.dtype)
        images = jnp.einsum("gij,oj->goi", matrices, cloud.atoms)
        share = jnp.asarray(self.places.share, cloud.weights.dtype)
        return Cloud(images[self.places.elements, self.places.orbit], cloud.weights[self.places.orbit] * share)


@door
def reduce(field: Field, cloud: Cloud, on_x: Rep, on_y: Rep) -> Reduced:
    """The flow of an orbit-closed cloud over orbit-closed data, with one particle and one sample per orbit.

    Exact for schemes that commute with the group: Euler, Heun, Adaptive, momentum. Under `Noisy` it is the flow in
    which the particles of an orbit share their noise, each moved by its own element.
    """
    if not isinstance(field, Descend):
        raise Refusal(
            f"reduce knows the descent of a functional; got a {type(field).__name__}. Write reduce(Descend(risk), ...)."
        )
    refuse_unless_cloud("reduce", cloud)
    action = _action(field.functional, on_x, on_y)
    atoms, weights = np.asarray(cloud.atoms, float), np.asarray(cloud.weights, float)
    slack = 1e-9 if cloud.atoms.dtype == jnp.float64 else 1e-4
    found = orbits(atoms, weights, action_matrices(action, cloud.p), owner="A Cloud", tolerance=slack)
    mass = jnp.asarray(found.mass / found.mass.sum(), cloud.weights.dtype)
    functional = fold_closed(field.functional, on_x, on_y, action)
    return Reduced(
        Descend(functional, transport=field.transport, growth=field.growth),
        Cloud(cloud.atoms[found.first], mass),
        action,
        found,
    )


def _action(functional: Functional, on_x: Rep, on_y: Rep) -> Rep:
    """The action on the parameters of the risks' units, which are the particles."""
    risks = [part for part in functional.parts if isinstance(part, Risk)]
    units = [risk.unit.unit if isinstance(risk.unit, Averaged) else risk.unit for risk in risks]
    if not units:
        raise Refusal("reduce moves the particles of a Risk's unit; got a functional without one. Add a Risk.")
    actions = [unit.action(on_x, on_y) for unit in units]
    if any(not _alike(actions[0], other) for other in actions[1:]):
        raise Refusal(
            "reduce moves particles on which the units of all risks act alike; got "
            f"{' and '.join(type(unit).__name__ for unit in units)} that do not. Write risks of one unit."
        )
    return actions[0]


def _alike(one: Rep, other: Rep) -> bool:
    return one.dim == other.dim and np.allclose(*(action_matrices(rep, one.dim) for rep in (one, other)), atol=1e-9)
