"""The norms of networks on sets as penalties that act: each has a first variation and a gradient."""

import equinox as eqx
from jaxtyping import Array, Float

from haarflow.doors import NonNegativeLeaf, door
from haarflow.learning.functionals import Functional
from haarflow.models.fits import refuse_unless_particles
from haarflow.models.set_networks import Norm, SetNeuron, SetUnit, measured
from haarflow.values import leaf


@door
class SetPenalty(Functional):
    """`tau · norm`, the norm of a network on sets in the space S1, S2 or S3: what `set_norm` measures.

    For example `Risk(unit, sample) + SetPenalty(unit, 0.01, "S1")`. What is frozen is a constant of it: with a frozen
    first layer, S2 punishes |w| |v|, and S3 with two frozen layers the mean square of w.
    """

    unit: SetUnit
    tau: NonNegativeLeaf = eqx.field(converter=leaf)
    norm: Norm = eqx.field(default="S1", static=True)

    @property
    def dim(self):
        return self.unit.dim

    def __call__(self, cloud) -> Float[Array, ""]:
        refuse_unless_particles(self.unit, cloud)
        return self.tau.astype(cloud.atoms.dtype) * measured(self.unit, cloud, self.norm)

    def folded(self, on_x, on_y):
        return self

    @classmethod
    def examples(cls):
        unit = SetNeuron(2, 1, 1)
        return [cls(unit, 0.5), cls(unit, 0.3, "S2"), cls(unit, 0.7, "S3")]
