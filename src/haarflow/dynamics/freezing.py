"""Layers that nothing trains: a field restricted to the other coordinates of its particles."""

from typing import Literal

from haarflow.doors import door
from haarflow.dynamics.domains import Restricted, restrict
from haarflow.dynamics.fields import Field
from haarflow.models.set_networks import SetUnit, trained_layers


@door
def freeze_layers(field: Field, unit: SetUnit, layers: Literal[1, 2]) -> Restricted:
    """The field with the first `layers` layers of a network on sets frozen where each particle starts.

    With 1 the network is trained in S2, and with 2 in S3, whatever the scheme: Euler, Langevin, Optax. For example
    `flow(freeze_layers(Descend(risk), unit, 2), Optax(optax.adam(1.0)), start, dt=1e-3, steps=500, key=key)`.
    """
    return restrict(field, trained_layers(unit, layers), through="start")
