"""Symmetry on the data (augment) and on the unit (average). The third way, `restrict`, moves the particles."""

from collections.abc import Callable
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.acting import Action, as_action, in_jax
from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import Rep, natural_rep, one_group, trivial_rep
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.fast import blocks
from haarflow.fast.materialise import materialised
from haarflow.learning.data import Data, Sample
from haarflow.measures.actions import action_on
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_acting
from haarflow.models.networks import network
from haarflow.models.units import Dense, Unit, Wrapped
from haarflow.values import numbers, refuse_unless_affordable, said

# Where an augmented law finds its group elements, beside the data it shares with the plain law.
_ELEMENTS = 0x5A_17_C0_DE


class Augmented(Data):
    """Every sample moved by a random element, or, where `actions` are given, the whole orbit of every sample."""

    data: Data
    on_x: Rep
    on_y: Rep
    actions: tuple[Action, Action] | None = None

    @door
    def batch(self, key: PRNGKeyArray):
        xs, ys = self.data.batch(key)
        if self.actions is not None:
            return moved(self.actions[0], xs), moved(self.actions[1], ys)
        elements = self.on_x.group.draw(jax.random.fold_in(key, _ELEMENTS), len(xs))
        return _each(self.on_x.acting(elements), xs), _each(self.on_y.acting(elements), ys)

    def labelled(self, loss, outputs):
        data = self.data.labelled(loss, outputs)
        kept = self if data is self.data else self._holding(data, data.shapes()[1][1])
        return Data.labelled(kept, loss, outputs)

    def _holding(self, data: Data, c: int) -> "Augmented":
        """The same augmentation of data with labels in R^c; where their size is another one, they must stay."""
        if c == self.on_y.dim:
            return Augmented(data, self.on_x, self.on_y, self.actions)
        if self.on_y.fixed_basis().shape[1] < self.on_y.dim:
            raise Refusal(
                f"The labels of a Sample become those of the loss, in R^{c}, before they are moved; got an action on "
                f"R^{self.on_y.dim} that moves them. Write labels (m, {c}) and on_y of size {c}."
            )
        still = trivial_rep(self.on_x.group, c)
        actions = None if self.actions is None else (self.actions[0], still.acting(self.actions[0]))
        return Augmented(data, self.on_x, still, actions)

    def one_per_orbit(self, on_x, on_y):
        if self.actions is None:
            return super().one_per_orbit(on_x, on_y)
        same_elements(self.actions, on_x, on_y)
        return self.data, None

    @classmethod
    def examples(cls):
        plain, (on_x, on_y) = Sample.examples()[1], (natural_rep(Cyclic(2)), trivial_rep(Cyclic(2)))
        return [augment(plain, on_x, on_y), augment(plain, on_x, on_y, exact=True)]


def _each(action: Action, vectors: Float[Array, "b k"]) -> Float[Array, "b k"]:
    """Vector i moved by element i."""
    return jnp.asarray(action.merged().apply_each(vectors))


def moved(action: Action, vectors: Float[Array, "b k"]) -> Float[Array, "gb k"]:
    """Every vector moved by every element, element by element of the group."""
    return jnp.asarray(action.apply(vectors)).reshape(-1, vectors.shape[1])


def folded(action: Action, values: Float[Array, "gb c"]) -> Float[Array, "b c"]:
    """The mean over the group of `g⁻¹ f(g x)`, given f at every image, element by element of the group."""
    return jnp.asarray(action.mean_back(values.reshape(len(action), -1, action.dim)))


@door
def augment(data: Data, on_x: Rep, on_y: Rep, *, exact: bool = False, elements=None) -> Augmented:
    """Data augmentation (DA): every sample moved by a random element of the group; with `exact`, by all of them.

    A group may have any number of elements: nothing is listed, and coordinates that are permuted are gathered, so that
    128 images of 28 × 28 × 3 need a few megabytes beyond the batch. `exact` makes a batch |G| times as large.

        on_x = image_rep("dihedral", 28, 28, 3)
        shown = augment(Sample(images, labels, size=128), on_x, trivial_rep(on_x.group, 10))
    """
    one_group("augment", on_x, on_y)
    _refuse_unless_acting("augment", data, on_x, on_y)
    if not exact and elements is not None:
        raise Refusal(
            "augment draws from the whole group, unless it averages exactly; got `elements` without exact=True. "
            "Write exact=True to average over these elements, or leave them out."
        )
    if not exact:
        return Augmented(data, on_x, on_y)
    return Augmented(data, on_x, on_y, actions("augment", on_x, on_y, elements))


def actions(owner: str, on_x: Rep, on_y: Rep, elements=None) -> tuple[Action, Action]:
    """What the elements do to inputs and to outputs, through two representations of one group."""
    one_group(owner, on_x, on_y)
    return in_jax(on_x.action(elements)), in_jax(on_y.action(elements))


def same_elements(given: tuple[Action, Action], on_x: Rep, on_y: Rep) -> bool:
    """True, where an average or an augmentation is over the whole group of these representations; else a sentence."""
    for action, rep in zip(given, (on_x, on_y), strict=True):
        if not action.agrees(rep.action(), 1e-6):
            raise Refusal(
                f"Orbits are folded by the group that averages or augments; got {len(action)} elements there and "
                f"{len(rep.action())} of {type(on_x.group).__name__} here. Give the same on_x and on_y to both."
            )
    return True


def _refuse_unless_acting(owner: str, data: Data, on_x: Rep, on_y: Rep):
    """A sentence, where the representations do not act on the inputs and labels of the data."""
    (_, d), (_, c) = data.shapes()
    if (on_x.dim, on_y.dim) != (d, c):
        raise Refusal(
            f"{owner} moves inputs in R^{d} and labels in R^{c} by representations of those sizes; got on_x of size "
            f"{on_x.dim} and on_y of size {on_y.dim}. For labels that stay write on_y=trivial_rep(group, {c})."
        )


@door
def orbit_closure(sample: Sample, on_x: Rep, on_y: Rep, *, elements=None) -> Sample:
    """The Sample closed under the group: every pair (x, y) with all its images, or those under given `elements`."""
    into, out = actions("orbit_closure", on_x, on_y, elements)
    _refuse_unless_acting("orbit_closure", sample, on_x, on_y)
    refuse_unless_affordable(
        f"The orbits of {len(sample.xs)} samples under {len(into)} elements",
        float(len(into) * (sample.xs.nbytes + sample.ys.nbytes)),
        instead="Write augment(data, on_x, on_y), which draws elements, or fewer `elements`.",
    )
    return sample.holding(moved(into, sample.xs), moved(out, sample.ys))


class Averaged(Wrapped):
    """FA: `mean_g on_y(g)^-1 unit(theta, on_x(g) x)`, whose network is Q_G of the plain network."""

    unit: Unit
    on_x: Action
    on_y: Action

    def __init__(self, unit: Unit, on_x: Any, on_y: Any):
        """On inputs and on outputs the same elements, as Actions or as matrices (g, d, d) and (g, c, c)."""
        self.unit, self.on_x, self.on_y = unit, in_jax(as_action(on_x)), in_jax(as_action(on_y))

    def __call__(self, theta, x):
        outputs = jax.vmap(lambda image: self.unit(theta, image))(self.on_x.apply(x))
        return jnp.asarray(self.on_y.mean_back(outputs))

    def batched(self, thetas, xs):
        everywhere = self.unit.batched(thetas, moved(self.on_x, xs))
        split = everywhere.reshape(*everywhere.shape[:2], len(self.on_x), -1)
        return jnp.asarray(self.on_y.mean_back(split.transpose(2, 0, 3, 1))).swapaxes(1, 2)

    def weighted_sum(self, weights, thetas, xs):
        # The group acts on outputs after the sum over particles: on (b, c) numbers instead of (n, c, b).
        return folded(self.on_y, blocks.weighted_sum(self.unit, weights, thetas, self._images(xs)))

    def _images(self, xs):
        images = moved(self.on_x, xs)
        return materialised(images) if isinstance(xs.shape[0], int) else images  # a symbol in `jax.export`

    def pullback(self, weights, thetas, xs, cotangent):
        def spread(everywhere):
            return materialised(moved(self.on_y, cotangent(folded(self.on_y, everywhere))) / len(self.on_y))

        return blocks.pullback(self.unit, weights, thetas, self._images(xs), spread)

    def proves_equivariant(self, on_x, on_y):
        return same_elements((self.on_x, self.on_y), on_x, on_y)

    @classmethod
    def examples(cls):
        swap = natural_rep(Cyclic(2))
        return [(average(Dense(2, 2), swap, swap), swap, swap)]


@door
def average(unit: Unit, on_x: Rep, on_y: Rep, *, elements=None) -> Averaged:
    """Feature averaging (FA): the unit averaged over the group, a unit again, whose networks are all equivariant.

    An infinite group is averaged over the `elements` (m, d, d) that stand for it.
    """
    refuse_unless_acting(unit, on_x, on_y)
    return Averaged(unit, *actions("average", on_x, on_y, elements))


@overload
def symmetrise(function: Callable, on_x: Rep, on_y: Rep, *, elements: Any = None) -> Callable: ...
@overload
def symmetrise(function: Cloud, on_x: Rep, on_y: None = None, *, elements: Any = None) -> Cloud: ...
@overload
def symmetrise(function: Sample, on_x: Rep, on_y: Rep, *, elements: Any = None) -> Sample: ...
@overload
def symmetrise(function: np.ndarray, on_x: Rep, on_y: None = None, *, elements: Any = None) -> np.ndarray: ...
@door
def symmetrise(
    function: Callable | Cloud | Sample | Float[np.ndarray, "n d"],
    on_x: Rep,
    on_y: Rep | None = None,
    *,
    elements=None,
) -> Any:
    """`Q_G f` for a function of a batch (b, d) -> (b, c); for samples, the samples with all their images.

    A Cloud becomes mu^G, `Cloud.orbit`; points (n, d) become (|G| n, d), the n points first; pairs (x, y), a Sample,
    become its `orbit_closure`. Functions and pairs need `on_y`, clouds and points have none.
    """
    pairs = isinstance(function, Sample) or callable(function)
    if pairs != (on_y is not None):
        raise Refusal(
            "symmetrise takes on_y beside a function or a Sample, and none beside points or a cloud; got "
            f"{said(function)} {'without' if on_y is None else 'with'} on_y. "
            + ("Write symmetrise(f, on_x, on_y)." if pairs else "Write symmetrise(points, on_x).")
        )
    if isinstance(function, Cloud):
        return function.orbit(on_x, elements=elements)
    if isinstance(function, np.ndarray):
        return action_on(on_x, function.shape[1], elements=elements).apply(function).reshape(-1, function.shape[1])
    assert on_y is not None
    if isinstance(function, Sample):
        return orbit_closure(function, on_x, on_y, elements=elements)
    into, out = actions("symmetrise", on_x, on_y, elements)

    def averaged(xs):
        xs = numbers("The input of a symmetrised function", xs)
        _refuse_unless_rows("inputs", xs.shape, (*xs.shape[:1], on_x.dim))
        values = numbers("The value of a symmetrised function", function(moved(into, xs)))
        values = values[:, None] if values.ndim == 1 and on_y.dim == 1 else values
        _refuse_unless_rows("values", values.shape, (len(into) * xs.shape[0], on_y.dim))
        return folded(out, values)

    return averaged


def _refuse_unless_rows(what: str, found: tuple, wanted: tuple):
    if found != wanted:
        raise Refusal(
            f"A symmetrised function takes inputs (b, d) to values (b, c), of the sizes d and c of its "
            f"representations; got {what} {found} where {wanted} are expected. "
            "Write on_x and on_y of the sizes of the inputs and values."
        )


@door
def asymmetry(
    unit: Unit, cloud: Cloud, xs: Array | np.ndarray, on_x: Rep, on_y: Rep, *, elements=None
) -> Float[Array, ""]:
    """How far a network is from equivariant: `|f − Q_G f|`, root mean square over the inputs (b, d), one number.

    Q_G f is f averaged over the group; f is equivariant where they are equal. In float64 rounding is about 1e-16.
    """
    plain = network(unit, cloud, xs)
    if not plain.shape[0]:
        raise Refusal("An asymmetry is a mean over inputs; got none. Write an array (b, d) of one row or more.")
    return rms(plain - network(average(unit, on_x, on_y, elements=elements), cloud, xs))


def rms(outputs: Float[Array, "b c"]) -> Float[Array, ""]:
    """The norm of a function given by its values on a batch."""
    return jnp.sqrt(jnp.mean(jnp.sum(outputs**2, axis=-1)))
