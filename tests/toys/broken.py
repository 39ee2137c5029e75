"""An experiment that goes wrong in the way it is told to."""

import os
import signal

import numpy as np

from haarflow.errors import Refusal
from haarflow.runs.experiment import Experiment, Panel, below


class Broken(Experiment):
    """Everything that can go wrong does."""

    group = "toys"

    how: str = "false"

    def run(self, key, part):
        """Go wrong."""
        match self.how:
            case "raise":
                raise ZeroDivisionError("the denominator\nvanished")
            case "refuse":
                raise Refusal("A Cloud is not a flock; got geese. Write `uniform(atoms)`.")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "object":
                return {"x": np.array([None, "x"], dtype=object)}
        return {"x": np.array([1.0, np.nan])}

    def verdict(self, data):
        """Fail, with and without a number."""
        if self.how == "array":
            return {"a verdict for each": data["x"] > 0}
        if self.how == "nothing":
            return {}
        return {"x stays below 0.5": below(data["x"].max(), 0.5), "pigs fly": False}

    def figures(self, data):
        """One finite, one not."""
        return {"first": data["x"][0], "second": data["x"][1]}

    def panels(self, data):
        """A figure that cannot be drawn."""
        return [Panel("Nothing", "", lambda figure: figure.draw_a_horse())]
