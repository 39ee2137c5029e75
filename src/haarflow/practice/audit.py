"""How equivariant is a model? The error over the group with an interval, where it is worst, and where it comes from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from haarflow.algebra.reps import Rep, TrivialRep, one_group, trivial_rep
from haarflow.doors import Count, Share, door
from haarflow.errors import Refusal
from haarflow.measures.samples import generator
from haarflow.practice.answers import Answer, group_words
from haarflow.practice.audited_models import Function, Method, as_function, layer_names, listened
from haarflow.practice.audited_motions import Motion
from haarflow.values import keys, said

ROUNDING = 100.0  # times the precision: an error of the outputs below it is rounding
_SHOWN = 5  # worst rows
_ANGLES = 33
_SOURCES = ("numerical", "transform", "architectural", "learned")


@dataclass(frozen=True, eq=False, repr=False)
class EquivarianceError(Answer):
    """How far a model is from `f(g x) = g f(x)`: `error` is `A² = E|f − Qf|²`, and `relative` `A² / E|f|²`, in [0, 1].

    `interval` holds `relative` (a bootstrap over rows), `share` is its root: by which share of their size outputs
    move. `elements` are the group elements that were tried, with `deviations`, the relative error of each against the
    input as it is; `rows` are the inputs with the largest error, the worst first. `angles` and `curve` go once around
    a one-parameter group; `local` is the Lie derivative along each generator, relative. `sources` splits `relative`
    into numerical, transform, architectural and learned; those that were not measured are None. `before` is the
    relative error of the model before training, `layers` that of each layer.
    """

    error: float
    relative: float
    interval: tuple[float, float]
    confidence: float
    rounding: float
    precision: str
    exact: bool
    invariant: bool
    group: str
    elements: Float[np.ndarray, "m e e"]
    deviations: Float[np.ndarray, " m"]
    rows: Int[np.ndarray, " r"]
    row_errors: Float[np.ndarray, " b"]
    angles: Float[np.ndarray, " t"]
    curve: Float[np.ndarray, " t"]
    local: Float[np.ndarray, " l"]
    sources: dict[str, float | None]
    before: float | None
    layers: dict[str, float]

    @property
    def share(self) -> float:
        """By which share of their own size the outputs move: the root of `relative`."""
        return float(np.sqrt(self.relative))

    @property
    def holds(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.share <= self.rounding

    @property
    def worst(self) -> Float[np.ndarray, "e e"]:
        """The group element that moves the outputs most."""
        return self.elements[int(np.argmax(self.deviations))]

    def sentence(self) -> str:
        word = "invariant" if self.invariant else "equivariant"
        if self.holds:
            return f"The model is {word} under {self.group} to rounding ({self.share:.0e} in {self.precision})."
        low, high = (100 * np.sqrt(max(end, 0.0)) for end in self.interval)
        known = {name: value for name, value in self.sources.items() if value is not None}
        most = max(known, key=lambda name: known[name]) if known.get("architectural") is not None else None
        told = f"{', most of it ' + most if most else ''}"
        since = "" if self.before is None else f"; before training {100 * np.sqrt(self.before):.3g}%"
        return (
            f"The model is not {word} under {self.group}: over the group its outputs move by {100 * self.share:.3g}% "
            f"of their size ({self.confidence:.0%} interval {low:.3g}% to {high:.3g}%){told}{since}."
        )

    def table(self) -> dict[str, list]:
        """What was measured, its relative error, and its root in per cent."""
        found: dict[str, float | None] = {
            "over the group": self.relative,
            "worst element": float(self.deviations.max()),
        }
        found |= {name: self.sources[name] for name in _SOURCES}
        found |= {"before training": self.before} | {f"layer {name}": one for name, one in self.layers.items()}
        kept = {name: float(value) for name, value in found.items() if value is not None}
        shares = [100 * float(np.sqrt(value)) for value in kept.values()]
        return {"measured": list(kept), "relative error": list(kept.values()), "per cent": shares}

    def draw(self, axis: Any) -> Any:
        """Draw the curve over the angle, the layers, or the error of each element; returns the axis."""
        if not hasattr(axis, "plot"):
            raise Refusal(f"draw takes an axis of matplotlib; got {said(axis)}. Write plt.subplots()[1].")
        if self.layers:
            axis.barh(list(self.layers)[::-1], [100 * np.sqrt(one) for one in self.layers.values()][::-1])
            axis.set(xlabel="error, per cent of the layer's size", ylabel="layer")
            return axis
        axis.set(ylabel="error, per cent of the outputs")
        if len(self.angles):
            axis.plot(np.degrees(self.angles), 100 * np.sqrt(self.curve))
            axis.set(xlabel="angle, degrees")
        else:
            axis.bar(np.arange(len(self.deviations)), 100 * np.sqrt(self.deviations))
            axis.set(xlabel="group element")
        axis.axhline(100 * self.share, color="black", linewidth=0.8, linestyle=(0, (4, 2)), label="over the group")
        axis.legend()
        return axis

    def __repr__(self) -> str:
        return f"EquivarianceError: {self}"


@door
def equivariance_error(
    model: Any,
    x: Float[np.ndarray, "b d"],
    on_x: Rep,
    on_y: Rep | None = None,
    *,
    key: PRNGKeyArray | int = 0,
    method: Method = "auto",
    shape: Sequence[int] | None = None,
    transform: Callable | None = None,
    factory: Callable | None = None,
    before: Any = None,
    layers: Any = False,
    draws: Count = 16,
    confidence: Share = 0.95,
) -> EquivarianceError:
    """How far a model is from equivariant, `f(g x) = g f(x)`, on inputs x (b, d): a sentence, a table, a picture.

    The model is a function of a batch in NumPy or JAX, a fitted estimator of scikit-learn (asked by `method`), or a
    module of PyTorch in eval mode; inputs are given to it as (b, *shape). Without `on_y` it should be invariant. Groups
    of up to 64 elements are gone through, others are drawn from, `draws` elements for each row, without bias.
    `transform(g, batch)` moves inputs where that is not `on_x` itself, such as an interpolated rotation; its own error
    is then told apart. `factory(seed)` makes the same architecture with fresh weights, and tells what is learned from
    what the layers cannot do; `before` is the model before training; `layers=True`, or {name: representation on the
    layer's output, or None where it should not move}, follows the error through a module. For example
    `print(equivariance_error(forest, x, image_rep("mirror", 8, 8)))`.
    """
    on_y = _refuse_unless_fitting(x, on_x, on_y, model, method, shape)
    function = as_function(model, x, method, shape)
    seed = keys("equivariance_error's key", key)
    motion = Motion(x, on_x, on_y, transform, draws, seed)
    squares, sizes = motion.row_errors(function.call)
    relative = _ratio(squares, sizes)
    deviations = motion.deviations(function.call)
    angles, curve = motion.curve(function.call, _ANGLES)
    fresh = None if factory is None else [_fresh(factory, one, motion, method, shape) for one in range(3)]
    return EquivarianceError(
        error=float(squares.mean()),
        relative=relative,
        interval=_interval(squares, sizes, confidence, seed),
        confidence=confidence,
        rounding=ROUNDING * function.eps,
        precision=function.precision,
        exact=motion.exact,
        invariant=isinstance(on_y, TrivialRep),
        group=group_words(on_x.group),
        elements=motion.elements,
        deviations=deviations,
        rows=np.argsort(-squares)[:_SHOWN],
        row_errors=squares,
        angles=angles,
        curve=curve,
        local=motion.local(function.call, function.eps),
        sources=_sources(function, motion, relative, fresh),
        before=None if before is None else _ratio(*motion.row_errors(as_function(before, x, method, shape).call)),
        layers=_layers(function, motion, layers),
    )


def _refuse_unless_fitting(x, on_x: Rep, on_y: Rep | None, model: Any, method: Method, shape) -> Rep:
    """How the outputs should move, after a look at all sizes."""
    if not x.size:
        raise Refusal(f"equivariance_error takes one input or more, (b, d); got the shape {x.shape}. Write some rows.")
    if on_x.dim != x.shape[1]:
        raise Refusal(
            f"equivariance_error's on_x moves inputs of {x.shape[1]} numbers; got a representation on R^{on_x.dim}. "
            f"Write one of size {x.shape[1]}."
        )
    width = as_function(model, x, method, shape).call(x[:1]).shape[1]
    on_y = trivial_rep(on_x.group, width) if on_y is None else on_y
    one_group("equivariance_error", on_x, on_y)
    if on_y.dim != width:
        raise Refusal(
            f"equivariance_error's on_y moves outputs of {width} numbers; got a representation on R^{on_y.dim}. "
            f"Write one of size {width}, or leave it out for outputs that stay."
        )
    return on_y


def _ratio(squares: np.ndarray, sizes: np.ndarray) -> float:
    total = float(sizes.mean())
    return float(squares.mean()) / total if total > 0 else 0.0


def _interval(squares, sizes, confidence: float, seed) -> tuple[float, float]:
    """A bootstrap over rows of the ratio of means."""
    from scipy.stats import bootstrap

    if len(squares) < 2 or not np.ptp(squares):
        return _ratio(squares, sizes), _ratio(squares, sizes)

    def statistic(a, b, axis=-1):
        return a.mean(axis=axis) / np.maximum(b.mean(axis=axis), 1e-300)

    rng = generator(jax.random.fold_in(seed, 7))
    options = {"paired": True, "vectorized": True, "confidence_level": confidence, "method": "percentile"}
    found = bootstrap((squares, sizes), statistic, n_resamples=2000, rng=rng, **options).confidence_interval
    return float(found.low), float(found.high)


def _fresh(factory: Callable, seed: int, motion: Motion, method: Method, shape) -> float:
    """The relative error of the architecture with fresh weights."""
    made = factory(seed)
    return _ratio(*motion.row_errors(as_function(made, motion.x, method, shape).call))


def _sources(function: Function, motion: Motion, relative: float, fresh) -> dict[str, float | None]:
    """The relative error split: rounding, the transform's own, what the architecture cannot do, and the rest."""
    size = float(np.mean(np.sum(function.call(motion.x) ** 2, axis=1)))
    again = [function.call] if function.precise is None else [function.call, function.precise]
    here = function.call(motion.x)
    gaps = [np.mean(np.sum((here - one(motion.x)) ** 2, axis=1)) for one in again]
    numerical = float(max([*gaps, (function.eps * np.sqrt(size)) ** 2])) / size if size else 0.0
    trip = motion.round_trip(function.call) / size if size else 0.0
    found: dict[str, float | None] = {"numerical": min(numerical, relative), "transform": min(trip, relative)}
    if fresh is None:
        return found | {"architectural": None, "learned": None}
    rest = max(relative - numerical - trip, 0.0)
    architectural = min(max(float(np.median(fresh)) - numerical - trip, 0.0), rest)
    return found | {"architectural": architectural, "learned": rest - architectural}


def _layers(function: Function, motion: Motion, asked: Any) -> dict[str, float]:
    """The relative error of what each layer returns, as pixels that move where it returns images, else as it stays."""
    if asked is False or asked is None:
        return {}
    if asked is not True and not isinstance(asked, Mapping):
        raise Refusal(f"`layers` is True, or a mapping of names to representations; got {said(asked)}. Write True.")
    names = layer_names(function, None if asked is True else list(asked))
    chosen = {} if asked is True else dict(asked)
    return motion.layer_errors(partial(listened, function, names=names), chosen)
