"""What estimators that flow share: particles that learn by Adam from a table, and the network that predicts."""

import math
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Optax
from haarflow.errors import Refusal
from haarflow.fast import blocks
from haarflow.learning.data import Sample
from haarflow.learning.functionals import Penalty
from haarflow.learning.risks import Risk
from haarflow.learning.splits import split
from haarflow.learning.symmetry import Augmented, Averaged, actions
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Unit
from haarflow.practice.acting_on import counted
from haarflow.practice.early_stopping import Watch, stopping
from haarflow.practice.estimator_kit import (
    Estimator,
    choice,
    flag,
    indicators,
    real,
    seed_of,
    sklearns,
    table,
)

SYMMETRIES = ("none", "augment", "average", "restrict")


class Flowing(Estimator):
    """What all estimators that flow share: the settings of training, the flow, and the network that predicts."""

    symmetry: Any = "none"
    group: Any = None
    draws: Any = None
    poor: bool = False
    """Whether it may do badly on data that do not have its symmetry: scikit-learn's checks then ask for no score."""

    if TYPE_CHECKING:
        particles: Any
        batch: Any
        epochs: Any
        learning_rate: Any
        penalty: Any
        validation: Any
        patience: Any
        warm_start: Any
        cloud_: Cloud
        unit_: Unit
        _loss: str

        def _fix_scaling(self, X: Any) -> None: ...
        def _scaled(self, X: Any) -> Any: ...
        def _unit(self, d: int, c: int) -> Unit: ...
        def _start(self, key: Any) -> Cloud: ...

    def _refuse_wrong_settings(self) -> None:
        owner = f"{self._owner}'s"
        for name in ("particles", "batch", "epochs", "patience"):
            counted(f"{owner} {name}", getattr(self, name))
        real(f"{owner} learning_rate", self.learning_rate, above=0)
        real(f"{owner} penalty", self.penalty, least=0)
        real(f"{owner} validation", self.validation, least=0, below=1)
        flag(f"{owner} warm_start", self.warm_start)
        choice(f"{owner} symmetry", self.symmetry, SYMMETRIES)

    def _learn(self, X, targets: Float[np.ndarray, "b c"], *, fresh: bool, epochs: int) -> None:
        """Train on scaled inputs and targets, from a new cloud or from the one that is there."""
        seed = seed_of(self)
        if fresh:
            self.acting_ = self._acting(targets.shape[1])
            self._fix_scaling(X)
            self.unit_, self.elements_ = self._unit(X.shape[1], targets.shape[1]), self._elements(seed)
        with jax.enable_x64(True):
            key = jax.random.key(seed)
            sample = Sample(self._scaled(X), targets)
            start = self._start(jax.random.fold_in(key, 1)) if fresh else self.cloud_
            found = self._flown(jax.random.fold_in(key, 2), sample, start, epochs)
            atoms = np.asarray(found.atoms, np.float64)
            if self.symmetry == "restrict":  # the fixed space to double precision, whatever the training rounded
                atoms = np.asarray(self._action().project(atoms))
            self.cloud_ = uniform(jnp.asarray(atoms))

    def _flown(self, key, sample: Sample, start: Cloud, epochs: int) -> Cloud:
        """The cloud after so many epochs of Adam in single precision, or where rows held back were predicted best."""
        import optax

        m = len(sample.xs)
        held = None
        share = float(self.validation)
        if share > 0 and epochs > 1 and min(round(share * m), m - round(share * m)) >= 1:
            sample, held = split(jax.random.fold_in(key, 1), sample, share)
        m = len(sample.xs)
        size = min(int(self.batch), m)
        whole = sample if size == m else Sample(sample.xs, sample.ys, size)
        risk = Risk(self._network(), self._data(whole), self._loss)
        field = Descend(risk + Penalty(float(self.penalty)) if self.penalty else risk)
        field = restrict(field, self._action()) if self.symmetry == "restrict" else field
        steps_each = math.ceil(m / size)
        single = Cloud(start.atoms.astype(jnp.float32), start.weights.astype(jnp.float32))
        watch = None if held is None else Watch(Risk(self._network(), held, self._loss), int(self.patience))
        options = {
            "dt": float(self.learning_rate),
            "steps": int(epochs) * steps_each,
            "every": steps_each,
            "progress": False,
        }
        with stopping(watch) as probes:
            path = flow(field, Optax(optax.adam(1.0)), single, key=key, probes=probes, **options)
            if path.stopped:
                raise Refusal(
                    f"{self._owner} learns at a rate at which numbers stay finite; got "
                    f"learning_rate={self.learning_rate:g}. Write a smaller one, or a bounded activation."
                )
            self.epochs_, found = epochs, path.cloud
        if watch is not None:
            self.epochs_, self.validation_losses_, found = watch.epoch, np.asarray(watch.losses), watch.best
        return found

    def _data(self, sample: Sample):
        if self.symmetry != "augment":
            return sample
        return Augmented(sample, self.acting_.on_x, self.acting_.on_y)

    def _network(self) -> Unit:
        if self.symmetry != "average":
            return self.unit_
        return Averaged(self.unit_, *actions("average", self.acting_.on_x, self.acting_.on_y, self.elements_))

    def _action(self):
        return self.unit_.action(self.acting_.on_x, self.acting_.on_y)

    def _elements(self, seed: int):
        owner = f"{self._owner}'s draws"
        return self.acting_.elements(seed, self.draws, owner=owner) if self.symmetry == "average" else None

    def _rows(self, X: Any) -> Any:
        """The rows as a table, of whatever was given."""
        return X

    def _outputs(self, X) -> Float[np.ndarray, "b c"]:
        """The network in double precision, in blocks of rows of one size, so that rows do not depend on each other."""
        check_is_fitted(self)
        X = self._scaled(table(self, self._rows(X), reset=False))
        with jax.enable_x64(True):
            unit, cloud = self._network(), self.cloud_
            if not len(X):
                return np.zeros((0, self.unit_.outputs))
            return np.asarray(_predicted(unit, cloud, jnp.asarray(X)))


@eqx.filter_jit
def _predicted(unit: Unit, cloud: Cloud, xs):
    return blocks.weighted_sum(unit, cloud.weights, cloud.atoms, xs)


class Regressing(RegressorMixin, Flowing):
    """A network that learns real labels by the half square loss."""

    _loss = "half-square"

    def fit(self, X: Any, y: Any) -> Any:
        """Train on rows X (b, d) and labels y (b,) or (b, c); returns itself."""
        again = self.warm_start and hasattr(self, "cloud_")
        return self._fitted(X, y, fresh=not again, epochs=self.epochs)

    def partial_fit(self, X: Any, y: Any) -> Any:
        """One pass over these rows, from the particles that are there; Adam begins with fresh moments."""
        return self._fitted(X, y, fresh=not hasattr(self, "cloud_"), epochs=1)

    def _fitted(self, X, y, *, fresh: bool, epochs: int) -> Any:
        self._refuse_wrong_settings()
        X, y = table(self, self._rows(X), y, reset=fresh, multi_output=True, y_numeric=True)
        y = np.asarray(y, float)
        if fresh:
            self.flat_ = y.ndim == 1
        targets = y.reshape(len(y), -1)
        if fresh:
            acting = self._acting(targets.shape[1])
            self.middle_ = np.asarray(acting.on_y.project(targets.mean(axis=0)[None]))[0]
            size = float(np.sqrt(np.mean((targets - self.middle_) ** 2)))
            self.size_ = size if size > 0 else 1.0
        elif targets.shape[1] != len(self.middle_):
            raise Refusal(
                f"{self._owner} goes on with labels as those before, {len(self.middle_)} for each row; got "
                f"{targets.shape[1]}. Write a new one."
            )
        self._learn(X, (targets - self.middle_) / self.size_, fresh=fresh, epochs=epochs)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The network's values (b,), or (b, c) where the labels had columns."""
        found = self._outputs(X)
        found = self.middle_ + self.size_ * found
        return found[:, 0] if self.flat_ else found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = self.poor or self.group is not None
        return tags


class Classifying(ClassifierMixin, Flowing):
    """A network that learns classes by the cross-entropy, with an output for each."""

    _loss = "cross-entropy"

    def fit(self, X: Any, y: Any) -> Any:
        """Train on rows X (b, d) and labels y (b,), two classes or more; returns itself."""
        again = self.warm_start and hasattr(self, "cloud_")
        return self._fitted(X, y, None, fresh=not again, epochs=self.epochs)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        """One pass over these rows, from the particles that are there; the first call names all `classes`."""
        return self._fitted(X, y, classes, fresh=not hasattr(self, "cloud_"), epochs=1)

    def _fitted(self, X, y, classes, *, fresh: bool, epochs: int) -> Any:
        self._refuse_wrong_settings()
        X, y = table(self, self._rows(X), y, reset=fresh)
        y = sklearns(self, column_or_1d, y, warn=True)
        sklearns(self, check_classification_targets, y)
        if fresh:
            self.classes_ = np.unique(y if classes is None else classes)
        if len(self.classes_) < 2:
            raise Refusal(
                f"{self._owner} tells two classes or more apart; got one class, {str(self.classes_[0])!r}. Write "
                "labels with at least two classes."
            )
        strangers = np.setdiff1d(y, self.classes_)
        if len(strangers):
            raise Refusal(
                f"{self._owner} goes on with the classes that it knows; got the class {str(strangers[0])!r}. Name "
                "all classes in the first partial_fit, or write a new one."
            )
        self._learn(X, indicators(self.classes_, y), fresh=fresh, epochs=epochs)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The outputs of the network (b, classes); of two classes the difference (b,)."""
        found = self._outputs(X)
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict_proba(self, X: Any) -> Float[np.ndarray, "b k"]:
        """A probability for each class: the softmax of the outputs."""
        from scipy.special import softmax

        return softmax(self._outputs(X), axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row."""
        found = self._outputs(X)
        return self.classes_[found.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.poor or self.group is not None
        return tags
