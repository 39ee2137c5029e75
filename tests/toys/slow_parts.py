"""Parts that take a while, to be killed in."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.runs.experiment import Count, Experiment, NonNegative
from haarflow.runs.progress import tell


class SlowParts(Experiment):
    """Waiting changes nothing."""

    group = "toys"

    count: Count = 6
    wait: NonNegative = 0.3

    def parts(self):
        """Numbered."""
        return [f"part {i}" for i in range(self.count)]

    def run(self, key, part):
        """A compiled program and a wait."""
        number = int(part.split()[1])
        draws = jax.random.normal(jax.random.fold_in(key, number), (50, 50))
        for step in range(10):
            time.sleep(self.wait / 10)
            tell(step / 10)
        return {"x": np.asarray(jax.jit(lambda x: jnp.linalg.eigvalsh(x @ x.T))(draws))}

    def verdict(self, data):
        """Something to judge."""
        return {"eigenvalues are positive": all((x > -1e-9).all() for x in data.values())}

    def figures(self, data):
        """Something to compare."""
        return {"trace": sum(x.sum() for x in data.values())}
