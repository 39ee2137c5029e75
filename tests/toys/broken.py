"""An experiment that goes wrong in the way it is told to."""

import os
import signal

import numpy as np

from haarflow.errors import Refusal
from haarflow.runs.experiment import Experiment, below, holds, named, panel


class Broken(Experiment):
    """Everything that can go wrong does."""

    group = "toys"

    how: str = "false"

    def run(self, key):
        """Go wrong."""
        match self.how:
            case "raise":
                raise ZeroDivisionError("the denominator\nvanished")
            case "refuse":
                raise Refusal("A Cloud is not a flock; got geese. Write `uniform(atoms)`.")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "object":
                return {"x": named(np.array([None, "x"], dtype=object), "place")}
            case "nameless":
                return {"x": np.array([1.0, np.nan])}
        return {"x": named(np.array([1.0, np.nan]), "place")}

    def claims(self, data):
        """Fail, with and without a number."""
        if self.how == "array":
            yield holds("a verdict for each", data.x > 0)
        if self.how != "nothing":
            yield below("x stays", data.x.max(), 0.5)
            yield holds("pigs fly", False)

    def numbers(self, data):
        """One finite, one not."""
        return {"first": data.x[0], "second": data.x[1]}

    @panel("Nothing")
    def nothing(self, axis, data):
        """A figure that cannot be drawn."""
        axis.draw_a_horse()
