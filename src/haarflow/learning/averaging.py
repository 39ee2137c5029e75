"""FA for any network: its average over a group, given the actions on inputs and outputs."""

from typing import Any

from haarflow.algebra.acting import Action
from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import Rep, natural_rep
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.learning.symmetry import actions, average, folded, moved, same_elements
from haarflow.models.networks import Mean, Network, network_of
from haarflow.models.residual import Residual
from haarflow.models.units import Dense
from haarflow.values import numbers


class AveragedNetwork(Network):
    """`mean_g on_y(g)^-1 network(cloud, on_x(g) x)`; `average_network` makes one."""

    network: Network
    on_x: Action
    on_y: Action

    @property
    def linear(self):
        return self.network.linear

    @property
    def dim(self):
        return self.network.dim

    @property
    def inputs(self):
        return self.on_x.dim

    @property
    def outputs(self):
        return self.on_y.dim

    def __call__(self, cloud, xs):
        xs = numbers("The input of an averaged network", xs)
        _refuse_unless_moved("on_x", self.on_x.dim, "inputs", xs.shape)
        outputs = numbers("The output of an averaged network", self.network(cloud, moved(self.on_x, xs)))
        _refuse_unless_moved("on_y", self.on_y.dim, "outputs", outputs.shape)
        if outputs.shape[0] != len(self.on_x) * xs.shape[0]:
            raise Refusal(
                "An averaged network gives a row of outputs for each row of inputs; got "
                f"{outputs.shape[0]} rows for {len(self.on_x) * xs.shape[0]}. Write a network that keeps the rows."
            )
        return folded(self.on_y, outputs)

    def action(self, on_x, on_y):
        return self.network.action(on_x, on_y)

    def proves_equivariant(self, on_x, on_y):
        return same_elements((self.on_x, self.on_y), on_x, on_y)

    @classmethod
    def examples(cls):
        on = natural_rep(Symmetric(3))
        return [(average_network(Residual((Dense(3, 3, "tanh"), Dense(3, 3, "sigmoid"))), on, on), on, on)]


def _refuse_unless_moved(name: str, size: int, what: str, shape: tuple):
    if len(shape) != 2 or shape[1] != size:
        raise Refusal(
            f"An averaged network needs representations of the sizes of its inputs and outputs; got {name} of size "
            f"{size} and {what} of {f'size {shape[1]}' if len(shape) == 2 else f'shape {shape}'}. "
            f"For {what} that stay write {name}=trivial_rep(group, {shape[-1] if shape else 1}), and one of them in a "
            "row."
        )


@door
def average_network(network: Any, on_x: Rep, on_y: Rep, *, elements=None) -> Network:
    """FA: `Q_G` of a network, over the group or over the `elements` that stand for an infinite one.

    The average of the mean of a unit is the mean of the averaged unit, and is computed so.
    """
    network = network_of("average_network's network", network)
    if isinstance(network, Mean):
        return Mean(average(network.unit, on_x, on_y, elements=elements))
    sizes = (("on_x", on_x, "inputs", network.inputs), ("on_y", on_y, "outputs", network.outputs))
    for name, rep, what, size in sizes:
        _refuse_unless_moved(name, rep.dim, what, (1, rep.dim if size is None else size))
    return AveragedNetwork(network, *actions("average_network", on_x, on_y, elements))
