"""Symmetry-reduced flows: of an orbit-closed cloud and orbit-closed data, one particle and one sample per orbit.

If mu = nu^G then f_mu is Q_G f_nu, and the velocity of a particle of nu under mu is its velocity under the averaged
unit over nu. So the flow of mu is the flow of nu with averaged units: |G| times fewer particles, |G| times fewer
samples, and |G| evaluations for each pair.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from haarflow.algebra.reps import Rep
from haarflow.annotations import kind_of
from haarflow.doors import door
from haarflow.dynamics.fields import Descend, Field
from haarflow.errors import Refusal
from haarflow.learning.orbit_samples import refuse_unless_finite
from haarflow.measures.actions import action_on
from haarflow.measures.clouds import Cloud
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
        leading = action_on(self.action, cloud.p).pick(self.places.elements)
        share = jnp.asarray(self.places.share, cloud.weights.dtype)
        atoms = leading.apply_each(cloud.atoms[self.places.orbit])
        return Cloud(atoms, cloud.weights[self.places.orbit] * share)


@door
def reduce_by_orbits(field: Field, cloud: Cloud, on_x: Rep, on_y: Rep) -> Reduced:
    """The flow of an orbit-closed cloud over orbit-closed data, with one particle and one sample per orbit.

    Exact for schemes that commute with the group: Euler, Heun, Adaptive, momentum. Under `Langevin` it is the flow in
    which the particles of an orbit share their noise, each moved by its own element.
    """
    if not isinstance(field, Descend):
        raise Refusal(
            f"reduce_by_orbits knows the descent of a functional; got {kind_of(field)}. "
            "Write reduce_by_orbits(Descend(risk), ...)."
        )
    refuse_unless_cloud("reduce_by_orbits", cloud)
    refuse_unless_finite(on_x, on_y)
    action = field.functional.action(on_x, on_y)
    if action is None:
        raise Refusal(
            "reduce_by_orbits moves the particles as a part of the functional says, such as a Risk; got a functional "
            "without one. Add a Risk."
        )
    atoms, weights = np.asarray(cloud.atoms, float), np.asarray(cloud.weights, float)
    slack = 1e-9 if cloud.atoms.dtype == jnp.float64 else 1e-4
    found = orbits(atoms, weights, action_on(action, cloud.p), owner="A Cloud", tolerance=slack)
    mass = jnp.asarray(found.mass / found.mass.sum(), cloud.weights.dtype)
    functional = field.functional.by_orbits(on_x, on_y, action)
    return Reduced(
        Descend(functional, transport=field.transport, growth=field.growth),
        Cloud(cloud.atoms[found.first], mass),
        action,
        found,
    )
