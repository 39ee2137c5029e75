"""Mean-field networks as estimators: particles that learn by Adam, with a symmetry in one of three places or none."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Bump, Dense, Perceptron, Unit
from haarflow.practice.acting_on import Acting
from haarflow.practice.estimator_kit import choice
from haarflow.practice.flowing import Classifying, Flowing, Regressing
from haarflow.values import refuse_unless_affordable, said

UNITS: dict[str, Callable[..., Unit]] = {"perceptron": Perceptron, "bump": Bump, "dense": Dense}
SPREAD = 2.0  # the mean of |x|² after scaling, so that <w, x> of a standard normal w is of the size of one


class MeanField(Flowing):
    """What the regressor and the classifier share: the settings, the unit, and inputs scaled as the group allows."""

    def __init__(
        self,
        group=None,
        symmetry="none",
        *,
        unit="perceptron",
        activation="tanh",
        particles=128,
        batch=32,
        epochs=100,
        learning_rate=0.05,
        penalty=1e-4,
        validation=0.1,
        patience=10,
        draws=None,
        warm_start=False,
        random_state=None,
    ):
        self.group = group
        self.symmetry = symmetry
        self.unit = unit
        self.activation = activation
        self.particles = particles
        self.batch = batch
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.validation = validation
        self.patience = patience
        self.draws = draws
        self.warm_start = warm_start
        self.random_state = random_state

    def _unit(self, d: int, c: int) -> Unit:
        """The unit by name, by a function of the numbers of inputs and outputs, or itself."""
        owner = f"{self._owner}'s unit"
        if isinstance(self.unit, Unit):
            found: Any = self.unit
        elif isinstance(self.unit, str):
            kind = UNITS[choice(owner, self.unit, tuple(UNITS))]
            found = kind(d, c) if kind is Bump else kind(d, c, self.activation)
        else:
            found = self.unit(d, c) if callable(self.unit) else None
        if not isinstance(found, Unit) or (found.inputs, found.outputs) != (d, c):
            sizes = f"{found.inputs} inputs and {found.outputs} outputs" if isinstance(found, Unit) else said(self.unit)
            raise Refusal(
                f"{owner} takes {d} inputs to {c} outputs; got {sizes}. Write one of {', '.join(UNITS)}, or a function "
                "of the two numbers, such as lambda inputs, outputs: TwoLayer(inputs, 4, outputs)."
            )
        return found

    def _start(self, key) -> Cloud:
        n, p = int(self.particles), self.unit_.dim
        refuse_unless_affordable(f"A cloud of {n} particles in R^{p}", 24.0 * n * p, instead="Write fewer particles.")
        return uniform(jax.random.normal(key, (n, p), jnp.float64))

    def _fix_scaling(self, X) -> None:
        self.centre_, self.scale_ = _scaling(self.acting_, X)

    def _scaled(self, X) -> Float[np.ndarray, "b d"]:
        return (X - self.centre_) / self.scale_


def _scaling(acting: Acting, X) -> tuple[Float[np.ndarray, " d"], float]:
    """A centre that the group fixes and one scale for all columns: scaled inputs move as the inputs do."""
    centre = np.asarray(acting.on_x.project(X.mean(axis=0)[None]))[0]
    spread = float(np.sqrt(np.mean(np.sum((X - centre) ** 2, axis=1)) / SPREAD))
    return centre, spread if spread > 0 else 1.0


class MeanFieldRegressor(Regressing, MeanField):
    """A mean-field network, the mean of `particles` units, trained by Adam on the half square loss.

    `symmetry` is "none"; "augment", where each row of a batch is moved by a random element of the group; "average",
    where the unit is averaged over the group (`draws` of it, where it is large); or "restrict", where particles stay
    in the fixed space of the group. `group` is given as for Symmetrised. `unit` is "perceptron", "bump" or "dense", a
    Unit, or a function of the numbers of inputs and outputs. Training holds back the share `validation` of the rows
    and keeps the particles that predicted them best, once `patience` epochs have brought nothing better; validation=0
    runs all `epochs`. Inputs are centred and scaled as the group allows. `warm_start=True` goes on from the particles
    of the last fit, and `partial_fit` makes one pass over the rows it is given. After `fit`: `cloud_`, `unit_`,
    `epochs_` and `validation_losses_`.

        MeanFieldRegressor(natural_rep(Cyclic(3)), "average", particles=256).fit(xs, ys).predict(xs)
    """


class MeanFieldClassifier(Classifying, MeanField):
    """A mean-field network with an output for each class, trained by Adam on the cross-entropy.

    The settings are those of MeanFieldRegressor; a pair (on_x, on_y) as `group` says how the classes move.

        MeanFieldClassifier(image_rep("flips", 8, 8), "average").fit(images, labels).predict_proba(images)
    """
