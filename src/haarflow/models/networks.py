"""Networks: functions of a cloud and of inputs. The mean of a unit over the cloud is the first of them."""

import contextlib
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow import saving
from haarflow.algebra.groups import Cyclic, Signs
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.annotations import a, kind_of
from haarflow.doors import Place, admit, door
from haarflow.errors import Refusal
from haarflow.fast import blocks
from haarflow.fast.fused import Cotangent
from haarflow.identity import by_value
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import inputs_for, refuse_unless_particles, shapes_of
from haarflow.models.units import Dense, Perceptron, Unit


class Network(eqx.Module):
    """A function of a cloud in R^p and of inputs in R^d, with values in R^c: what a Risk scores and a flow trains.

    A member says its sizes `dim`, `inputs` and `outputs` and its value; everything else has a default. A size is None
    where it is not known.
    """

    instead: ClassVar[str] = "Write a unit such as Dense(inputs, outputs), whose mean over the cloud is a network."

    linear: ClassVar[bool] = False
    """Whether it is linear in the cloud: then averaging it over a group is averaging the cloud over its orbits."""

    if TYPE_CHECKING:  # every member has these three, as fields or as properties
        dim: ClassVar[int | None]
        inputs: ClassVar[int | None]
        outputs: ClassVar[int | None]

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        return type(self).__name__

    @abstractmethod
    def __call__(self, cloud: Cloud, xs: Any) -> Float[Array, "b c"]:
        """The outputs (b, c) on a batch of inputs (b, d), in the precision of the cloud."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[tuple["Network", Rep, Rep]]:
        """Lopsided members for the laws, each with actions on inputs and outputs that its particles can move with."""

    def pullback(
        self, cloud: Cloud, xs: Float[Array, "b d"], cotangent: Cotangent
    ) -> tuple[Float[Array, "n"], Float[Array, "n p"]]:
        """The first variation of a loss of the outputs at each atom, (n,), and its gradient there, (n, p).

        `cotangent` takes the outputs (b, c) to the derivative of the loss in them. Here by autodiff, where an atom
        without mass has no gradient, 0/0, and gets zero; a member may know a formula that serves such atoms too.
        """
        outputs, back = jax.vjp(lambda cloud: self(cloud, xs), cloud)
        (slope,) = back(cotangent(outputs))
        weights = cloud.weights[:, None]
        return slope.weights, slope.atoms / jnp.where(weights > 0, weights, 1)

    def batched(self, thetas: Float[Array, "n p"], xs: Float[Array, "b d"]) -> Float[Array, "n c b"]:
        """The network of each particle alone, on every input: what a linear network is the weighted mean of."""
        return jax.vmap(lambda theta: self(Cloud(theta[None], jnp.ones(1, theta.dtype)), xs).T)(thetas)

    def action(self, on_x: Rep, on_y: Rep) -> Rep:
        """The representation M on R^p with `network(M_g # mu, g x) = g network(mu, x)`."""
        raise Refusal(
            f"{a(self.title)} that moves with its inputs says how its particles move; got one without an "
            "`action`. Write a method action(self, on_x, on_y) that returns a representation on R^p."
        )

    def proves_equivariant(self, on_x: Rep, on_y: Rep) -> bool:
        """Whether `network(mu, g x) = g network(mu, x)` for every cloud, as it is for one averaged over the group."""
        return False

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """What else may be given for a network: a unit, for its mean, or a function of a cloud and of inputs."""
        return as_network(value)


def as_network(value: Any) -> Any:
    """The network that something stands for; what stands for none is returned as it is, to be refused."""
    if isinstance(value, Unit):
        return Mean(value)
    return value if isinstance(value, Network) or not _takes_two(value) else CustomNetwork(value)


def _takes_two(value: Any) -> bool:
    """Whether something can be called with a cloud and inputs, and with nothing else."""
    if not callable(value) or isinstance(value, type):
        return False
    try:
        inspect.signature(value).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def network_of(owner: str, value: Any) -> Network:
    """The network that a caller means, or a refusal."""
    return admit(Place(owner, {}), value, Network)


def refuse_unless_outputs(network: Callable, cloud: Cloud, xs: Float[Array, "b d"]) -> None:
    """A sentence, where something does not take a cloud and inputs (b, d) to outputs (b, c) in floating point."""
    rule = "A network takes a cloud and inputs (b, d) to outputs (b, c)"
    found = shapes_of(rule, "Write a function of such a cloud and inputs.", network, cloud, xs)
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != xs.shape[0] or not jnp.issubdtype(found.dtype, jnp.floating):
        got = f"{shape} of {found.dtype}" if shape is not None else kind_of(found)
        raise Refusal(f"{rule}; got {got} for inputs {xs.shape}. Write a row of c numbers for each input.")


@contextlib.contextmanager
def outputs_told(network: Network, cloud: Cloud, xs: Float[Array, "b d"]) -> Iterator[None]:
    """Where an error comes of what a user's network returns, the sentence about it instead."""
    try:
        yield
    except Refusal:
        raise
    except (TypeError, ValueError, IndexError, AttributeError):
        refuse_unless_outputs(network.__call__, cloud, xs)
        raise


@door
class Mean(Network):
    """`f_mu(x) = ∫ phi(x, theta) mu(d theta)`: the unit averaged over the cloud, which a Risk makes of a unit."""

    unit: Unit

    linear: ClassVar[bool] = True

    @property
    def title(self):
        return self.unit.title

    @property
    def dim(self):
        return self.unit.dim

    @property
    def inputs(self):
        return self.unit.inputs

    @property
    def outputs(self):
        return self.unit.outputs

    def __call__(self, cloud, xs):
        refuse_unless_particles(self.unit, cloud)
        return blocks.weighted_sum(self.unit, cloud.weights, cloud.atoms, inputs_for(self.unit, cloud, xs))

    def pullback(self, cloud, xs, cotangent):
        return blocks.pullback(self.unit, cloud.weights, cloud.atoms, xs, cotangent)

    def batched(self, thetas, xs):
        return self.unit.batched(thetas, xs)

    def action(self, on_x, on_y):
        return self.unit.action(on_x, on_y)

    def proves_equivariant(self, on_x, on_y):
        return self.unit.proves_equivariant(on_x, on_y)

    @classmethod
    def examples(cls):
        shift, flips = natural_rep(Cyclic(3)), natural_rep(Signs(2))
        return [
            (cls(Dense(3, 3, "sigmoid")), shift, shift),
            (cls(Perceptron(3, 2, "tanh")), shift, trivial_rep(shift.group, 2)),
            (cls(Perceptron(2, 2, "softplus")), flips, flips),
        ]


@door
class CustomNetwork(Network):
    """A user's own `function(cloud, xs) -> (b, c)`; a Risk makes one of a plain function. Its sizes may be unknown."""

    function: Callable = eqx.field(converter=by_value)
    dim: int | None = None
    inputs: int | None = None
    outputs: int | None = None

    def __call__(self, cloud, xs):
        refuse_unless_particles(self, cloud)
        xs = inputs_for(self, cloud, xs)
        refuse_unless_outputs(self.function, cloud, xs)
        return self.function(cloud, xs)

    @classmethod
    def examples(cls):
        return []  # what a user's own function obeys is not known here


@door
def network(model: Any, cloud: Cloud, xs: Array | np.ndarray) -> Float[Array, "b c"]:
    """The outputs (b, c) of a network on inputs (b, d), in the precision of the cloud.

    A unit stands for its mean over the cloud, `f_mu(x) = ∫ phi(x, theta) mu(d theta)`: for example,
    `network(Perceptron(2), uniform([[1.0, 0.5, 0.5, 0.0]]), [[2.0, 1.0]])` is 1 · relu(0.5 · 2 + 0.5 · 1) = 1.5.
    """
    return network_of("network's model", model)(cloud, xs)


@door
class Fitted(eqx.Module):
    """A network with the cloud that was trained for it: a function of inputs, which can be saved.

    For example `fitted = Fitted(unit, path.cloud)`, then `fitted(xs)`, `fitted.save("digits.npz")`, and in another
    program `Fitted.load("digits.npz")(xs)`, which gives the same numbers.
    """

    network: Network
    cloud: Cloud

    def __init__(self, network: Network | Unit | Callable, cloud: Cloud):
        self.network, self.cloud = cast(Network, network), cloud  # what the door makes of them
        refuse_unless_particles(self.network, cloud)

    def __call__(self, xs: Any) -> Float[Array, "b c"]:
        """The outputs (b, c) on inputs (b, d)."""
        return self.network(self.cloud, xs)

    @door
    def save(self, path: str | Path) -> None:
        """Write network and cloud into one file, an .npz with a header.

        Networks and units are written by the names of their classes, the library's or those of a module of yours. A
        function has no name that a file could hold: of a Custom unit save the cloud alone, `cloud.save(path)`.
        """
        saving.write(path, self)

    @classmethod
    @door
    def load(cls, path: str | Path) -> "Fitted":
        """What `save` wrote. Classes of your own must have been imported."""
        return saving.read(path, cls)
