"""A flow that ends when rows held back are no longer predicted better: a probe that remembers the best cloud."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import equinox as eqx
import numpy as np

from haarflow.learning.functionals import Functional
from haarflow.measures.clouds import Cloud


class Enough(Exception):
    """Nothing better was found for as long as one was patient."""


class Watch:
    """The loss on rows held back at every look, and the cloud at the best of them; the first look is at the start."""

    def __init__(self, loss: Functional, patience: int):
        self.loss, self.patience = loss, patience
        self.losses: list[float] = []
        self.epoch = 0
        self.best: Any = None

    def look(self, cloud: Cloud) -> float:
        """Measure, remember, and end the flow if it has been long enough."""
        np.asarray(cloud.atoms)  # a probe that is compiled sees no numbers: this one is called as plain Python
        value = float(_value(self.loss, cloud))
        if self.best is None or value < self.losses[self.epoch]:
            self.best, self.epoch = cloud, len(self.losses)
        self.losses.append(value)
        if len(self.losses) - 1 - self.epoch >= self.patience or not np.isfinite(value):
            raise Enough
        return value


@eqx.filter_jit
def _value(loss, cloud):
    return loss(cloud)


@contextmanager
def stopping(watch: Watch | None) -> Iterator[dict[str, Any]]:
    """The probes of a flow that ends early without a complaint."""
    with suppress(Enough):
        yield {} if watch is None else {"held back": lambda cloud: watch.look(cloud)}
