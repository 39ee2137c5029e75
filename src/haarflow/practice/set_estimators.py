"""Networks on sets as estimators: rows of points in whatever order, trained as the mean-field estimators are."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.annotations import kind_of
from haarflow.errors import Refusal
from haarflow.measures.clouds import uniform
from haarflow.models.set_networks import SetNeuron, draw_neurons, pack_sets
from haarflow.practice.acting_on import counted
from haarflow.practice.estimator_kit import flag
from haarflow.practice.flowing import Classifying, Flowing, Regressing


class SetNetwork(Flowing):
    """What both share: rows as sets, and the neuron on them."""

    def __init__(
        self,
        columns=1,
        *,
        masses=False,
        hidden=8,
        activation="relu",
        particles=64,
        batch=32,
        epochs=100,
        learning_rate=0.01,
        penalty=1e-5,
        validation=0.1,
        patience=10,
        warm_start=False,
        random_state=None,
    ):
        self.columns = columns
        self.masses = masses
        self.hidden = hidden
        self.activation = activation
        self.particles = particles
        self.batch = batch
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.validation = validation
        self.patience = patience
        self.warm_start = warm_start
        self.random_state = random_state

    poor = True  # of a row whose columns mean different things, a set knows little

    def _refuse_wrong_settings(self) -> None:
        super()._refuse_wrong_settings()
        counted(f"{self._owner}'s columns", self.columns)
        counted(f"{self._owner}'s hidden", self.hidden)
        flag(f"{self._owner}'s masses", self.masses)

    @property
    def _columns(self) -> int:
        """Numbers for each point; 2.0 is 2."""
        return int(self.columns)

    def _rows(self, X):
        """A table as it is; of a list of sets of different sizes, arrays (m, q), rows with masses."""
        if not (self.masses and isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2):
            return X
        points = getattr(self, "n_features_in_", 0) // (self._columns + 1) if hasattr(self, "cloud_") else None
        return np.asarray(pack_sets(X, points=points))

    def _unit(self, d: int, c: int) -> SetNeuron:
        width = self._columns + bool(self.masses)
        if d % width:
            mass = " and a mass" if self.masses else ""
            raise Refusal(
                f"The rows of {kind_of(self)} are points of {self._columns} columns{mass} behind each other; "
                f"got {d} columns, which {width} does not divide. Write columns=q with q numbers for each point."
            )
        return SetNeuron(d // width, self._columns, self.hidden, c, self.activation)

    def _scaled(self, X) -> Float[np.ndarray, "b d"]:
        """Rows as the unit takes them, (mass, x) point after point, with coordinates scaled alike."""
        points = X.reshape(len(X), -1, self._columns + bool(self.masses))
        mass = points[:, :, :1] if self.masses else np.ones((*points.shape[:2], 1))
        where = (points[:, :, 1:] if self.masses else points) - self.centre_
        return np.concatenate([mass, np.where(mass > 0, where / self.scale_, 0.0)], axis=2).reshape(len(X), -1)

    def _fix_scaling(self, X) -> None:
        points = X.reshape(-1, self._columns + bool(self.masses))
        seen = points[points[:, 0] > 0][:, 1:] if self.masses else points
        self.centre_ = seen.mean(axis=0) if len(seen) else np.zeros(self._columns)
        spread = float(np.sqrt(np.mean((seen - self.centre_) ** 2))) if len(seen) else 0.0
        self.scale_ = spread if spread > 0 else 1.0

    def _start(self, key):
        found = draw_neurons(key, self.unit_, self.particles)  # pyright: ignore[reportArgumentType]
        return uniform(jnp.asarray(found.atoms, jnp.float64))


class SetRegressor(Regressing, SetNetwork):
    """A network on sets that learns real labels: the order of a set's points makes no difference to it.

    A row is a set of points, `columns` numbers each, one behind the other; with `masses=True` each point is (mass, x),
    as `pack_sets` writes sets of different sizes, and a list of arrays (m, q) is packed for you. The network is the
    mean of `particles` neurons over the mean of `hidden` ones over the points; all layers learn. What else can be set
    is as for MeanFieldRegressor.

        SetRegressor(columns=2, masses=True).fit([np.ones((3, 2)), np.zeros((5, 2))] * 20, [1.0, 0.0] * 20)
    """


class SetClassifier(Classifying, SetNetwork):
    """A network on sets that tells classes apart: the order of a set's points makes no difference to it.

    The settings are those of SetRegressor.

        SetClassifier(columns=3).fit(clouds_of_points.reshape(len(labels), -1), labels)
    """
