"""Parts that take a while, to be killed in."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.runs.experiment import Count, Experiment, NonNegative, above, named, over
from haarflow.runs.watchers import tell


class SlowParts(Experiment):
    """Waiting changes nothing."""

    group = "toys"

    count: Count = 6
    wait: NonNegative = 0.3

    def design(self):
        """Numbered."""
        yield self.part, over(number=range(self.count))

    def part(self, key, number):
        """A compiled program and a wait."""
        draws = jax.random.normal(jax.random.fold_in(key, number), (50, 50))
        for step in range(10):
            time.sleep(self.wait / 10)
            tell(step / 10)
        return {"x": named(np.asarray(jax.jit(lambda x: jnp.linalg.eigvalsh(x @ x.T))(draws)), "eigenvalue")}

    def claims(self, data):
        """Something to judge."""
        yield above("every eigenvalue is", data.x.min(), -1e-9)

    def numbers(self, data):
        """Something to compare."""
        return {"trace": data.x.sum()}
