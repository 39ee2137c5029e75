"""The exponential risk on the scale of its logarithm, which stays finite where the risk itself is below all numbers."""

from collections.abc import Callable
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.learning.data import Data, Sample, whole_sample
from haarflow.learning.functionals import Functional
from haarflow.learning.losses import Exponential
from haarflow.models.fits import refuse_unless_particles
from haarflow.models.networks import Network
from haarflow.models.units import Perceptron, Unit


@door
class LogExponential(Functional):
    """`log mean_b exp(−y_b f_mu(x_b))` over a Sample with labels of two classes: −1 and 1, 0 and 1, or two names.

    Its gradient is that of the exponential risk divided by the risk, so that both descend along the same curves; but
    where margins are in the hundreds the risk underflows, and this one does not. It tends to minus the least margin.
    """

    network: Network
    xs: Float[Array, "b d"]
    ys: Float[Array, " b"]

    def __init__(self, network: Network | Unit | Callable, data: Data):
        self.network = cast(Network, network)  # what the door makes of it
        sample = whole_sample("A LogExponential has an exact value", data, "Write Sample(xs, ys).")
        if self.network.inputs not in (None, sample.xs.shape[1]) or self.network.outputs not in (None, 1):
            raise Refusal(
                f"A LogExponential takes a network of inputs in R^{sample.xs.shape[1]} and one output; got a "
                f"{self.network.title} from R^{self.network.inputs} to R^{self.network.outputs}. Write another one."
            )
        labelled = cast(Sample, data.labelled(Exponential(), 1))
        self.xs, self.ys = labelled.xs, labelled.ys[:, 0]

    @property
    def dim(self):
        return self.network.dim

    def __call__(self, cloud):
        refuse_unless_particles(self.network, cloud)
        return jax.nn.logsumexp(-self._margins(cloud)) - np.log(len(self.ys))

    def _margins(self, cloud):
        kind = cloud.atoms.dtype
        return self.ys.astype(kind) * self.network(cloud, self.xs.astype(kind))[:, 0]

    @classmethod
    def examples(cls):
        xs = jnp.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1]])
        return [cls(Perceptron(2, 1, "tanh"), Sample(xs, jnp.array([1.0, -1.0, 1.0])))]
