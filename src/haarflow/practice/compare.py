"""The four schemes side by side: plain training, and the three ways to use a symmetry, on one task.

`vanilla` leaves everything as it is; `DA` augments the data, `FA` averages the unit, `EA` restricts the particles to
what the group fixes. In one flow they share data and noise, so that what differs is due to the scheme alone.
"""

from typing import Any, NamedTuple

import numpy as np

from haarflow.algebra.reps import Rep
from haarflow.doors import NonNegative, door
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend, Field
from haarflow.dynamics.schemes import Euler, Langevin, Scheme
from haarflow.learning.data import Data
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import augment, average
from haarflow.measures.clouds import Cloud
from haarflow.models.units import Unit

SCHEMES = ("vanilla", "DA", "FA", "EA")


class FourSchemes(NamedTuple):
    """A field for each scheme, by name, and the projector on the fixed space of the unit's parameters."""

    fields: dict[str, Field]
    projector: np.ndarray

    @door
    def steppers(
        self, temperature: NonNegative = 0.0, *, inner: Scheme | None = None, projected: bool = False
    ) -> dict[str, Scheme]:
        """A noisy step for each scheme; EA's noise is the projection of the shared one, with `projected` all is."""
        step = Euler() if inner is None else inner
        free, held = Langevin(step, temperature), Langevin(step, temperature, projector=self.projector)
        return {name: held if projected or name == "EA" else free for name in SCHEMES}

    @door
    def starts(self, cloud: Cloud, *, strong: bool = False) -> dict[str, Cloud]:
        """The start of each scheme: the cloud, and for EA (with `strong` for all) its projection on the fixed space."""
        flat = cloud.project(self.projector)
        return {name: flat if strong or name == "EA" else cloud for name in SCHEMES}


@door
def four_schemes(
    unit: Unit,
    data: Data,
    on_x: Rep,
    on_y: Rep,
    *,
    penalty: NonNegative = 0.0,
    loss: Any = "half-square",
    exact: bool = True,
    elements: Any = None,
    transport: NonNegative = 1.0,
    growth: NonNegative | None = None,
) -> FourSchemes:
    """Plain, augmented, averaged and restricted training of a unit on data, for a group that moves inputs and outputs.

    `exact` augments by the whole group at every step, otherwise by one random element per sample. Infinite groups need
    `elements` (m, d, d), a finite subgroup that stands for them. `transport` and `growth` are those of `Descend`. The
    fields go to one flow:

        four = hf.practice.four_schemes(hf.Dense(2, 2), data, swap, swap, penalty=1e-3)
        paths = hf.flow(four.fields, four.steppers(1e-6), four.starts(cloud), key=key, dt=0.1, steps=100)
    """
    cost = Penalty(penalty)
    rates: dict[str, Any] = {"transport": transport, "growth": growth}
    plain = Descend(Risk(unit, data, loss) + cost, **rates)
    augmented = augment(data, on_x, on_y, exact=exact, elements=elements if exact else None)
    mean = average(unit, on_x, on_y, elements=elements)
    projector = unit.action(on_x, on_y).fixed_projector()
    fields = {
        "vanilla": plain,
        "DA": Descend(Risk(unit, augmented, loss) + cost, **rates),
        "FA": Descend(Risk(mean, data, loss) + cost, **rates),
        "EA": restrict(plain, projector),
    }
    return FourSchemes(fields, projector)
