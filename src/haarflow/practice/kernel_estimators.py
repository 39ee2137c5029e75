"""Kernel ridge regression with a kernel that knows a group: `k_G(x, y) = mean over g of k(x, g y)`."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from haarflow.algebra.acting import Action
from haarflow.errors import Refusal
from haarflow.practice.acting_on import Acting
from haarflow.practice.estimator_kit import Estimator, choice, indicators, real, seed_of, sklearns, table
from haarflow.practice.held_tables import held
from haarflow.practice.kernel_regression import fit_kernel_ridge

KERNELS = ("gaussian", "relu")
FEW = 4000  # rows whose table is solved at once
SOME = 500  # rows among whose images the median distance is taken
Rows = Float[np.ndarray, "b d"]
Others = Float[np.ndarray, "e d"]


class InvariantKernel(Estimator):
    """What both share: the kernel averaged over the group, and the dual weights."""

    def __init__(
        self, group=None, *, kernel="gaussian", width=None, ridge=0.1, method="auto", draws=None, random_state=None
    ):
        self.group = group
        self.kernel = kernel
        self.width = width
        self.ridge = ridge
        self.method = method
        self.draws = draws
        self.random_state = random_state

    def _solved(self, X, targets: Float[np.ndarray, "b c"]) -> None:
        owner = f"{self._owner}'s"
        choice(f"{owner} kernel", self.kernel, KERNELS)
        ridge = real(f"{owner} ridge", self.ridge, above=0)
        choice(f"{owner} method", self.method, ("auto", "cholesky", "conjugate gradients"))
        seed = seed_of(self)
        acting = self._acting(1)
        if not acting.still:
            raise Refusal(f"{owner} outputs stay under its group; got a pair that moves them. Write on_x alone.")
        self.elements_ = acting.elements(seed, self.draws, owner=f"{owner} draws")
        self.acting_ = acting
        if self.width is None:
            self.width_ = median_distance(acting, self.elements_, X, seed)
        else:
            self.width_ = real(f"{owner} width", self.width, above=0)
        self.rows_ = X
        self.weights_ = self._dual(X, targets, ridge)

    def _dual(self, X, targets, ridge: float) -> Float[np.ndarray, "b c"]:
        """The dual weights; a table of few rows is solved at once."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        if self.method == "auto" and len(X) <= FEW:
            penalised = np.array(self._kernel(X, X), order="C")
            penalised.ravel()[:: len(X) + 1] += ridge
            try:
                return cho_solve(cho_factor(penalised, overwrite_a=True), targets)
            except LinAlgError:
                raise Refusal(
                    f"{self._owner} needs a table K + ridge I that can be inverted; got one of {len(X)} rows that "
                    f"cannot, with ridge={ridge:g}. Write a larger ridge."
                ) from None
        return fit_kernel_ridge(X, targets, ridge=ridge, kernel=self._kernel, method=self.method).weights

    def _kernel(self, xs: Rows, others: Others) -> Float[np.ndarray, "b e"]:
        """The averaged kernel's table, in NumPy; over draws from a group, the mean over pairs of them."""
        xs, others = np.asarray(xs), np.asarray(others)
        images = images_of(self.acting_, self.elements_, others)
        whole = self.acting_.order == len(images)
        ways = xs[None] if whole else images_of(self.acting_, self.elements_, xs)

        def made() -> np.ndarray:
            found = sum(plain_kernel(self.kernel, self.width_, way, image) for way in ways for image in images)
            return np.asarray(found) / (len(ways) * len(images))

        return held(made, self.kernel, self.width_, ways, images)

    def _values(self, X) -> Float[np.ndarray, "b c"]:
        check_is_fitted(self)
        X = table(self, X, reset=False)
        height = max(1, 2**22 // max(1, len(self.rows_)))
        parts = [self._kernel(X[i : i + height], self.rows_) @ self.weights_ for i in range(0, len(X), height)]
        return np.concatenate(parts) if parts else np.zeros((0, self.weights_.shape[1]))


def plain_kernel(name: str, width: float, xs: Rows, others: Others) -> Float[np.ndarray, "b e"]:
    """`exp(−|x − y|²/2 width²)`, or that of random ReLU neurons on (x/width, 1)."""
    from sklearn.metrics.pairwise import euclidean_distances

    if name == "gaussian":
        with np.errstate(over="ignore"):
            return np.exp(-((euclidean_distances(xs, others) / width) ** 2) / 2)
    ones, more = np.c_[xs / width, np.ones(len(xs))], np.c_[others / width, np.ones(len(others))]
    sizes = np.linalg.norm(ones, axis=1)[:, None] * np.linalg.norm(more, axis=1)[None]
    angle = np.arccos(np.clip(ones @ more.T / sizes, -1, 1))
    return sizes * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)


def images_of(acting: Acting, elements: Action, rows: Rows) -> Float[np.ndarray, "g b d"]:
    """The rows moved by every element; by the only one of a trivial group, as they are."""
    return rows[None] if acting.order == 1 else np.asarray(acting.on_inputs(elements).everywhere(rows))


def median_distance(acting: Acting, elements: Action, X: Rows, seed: int) -> float:
    """The median distance between rows and images of rows: the same for every image of the data."""
    from sklearn.metrics.pairwise import euclidean_distances

    some = X if len(X) <= SOME else X[np.random.default_rng(seed).choice(len(X), SOME, replace=False)]
    images = images_of(acting, elements, some)[: max(1, 2**21 // max(1, len(some) ** 2))]

    def made() -> np.ndarray:
        gaps = np.concatenate([euclidean_distances(some, image)[np.triu_indices(len(some), 1)] for image in images])
        return np.asarray(np.median(gaps[gaps > 0]) if (gaps > 0).any() else 1.0)

    return float(held(made, "median distance", some, images))


class InvariantKernelRidge(RegressorMixin, InvariantKernel):
    """Kernel ridge regression with the kernel averaged over a group: exactly invariant, found in closed form.

    `group` is given as for Symmetrised; None is plain kernel ridge regression. `kernel` is "gaussian", of the `width`
    that is the median distance between rows and images of rows if nothing is said, or "relu", that of infinitely many
    random neurons. `ridge` is the strength of the penalty, `method` as in `fit_kernel_ridge`. Of a large or infinite
    group the kernel is the mean over pairs of `draws` of its elements, and the invariance that of the draws.

        InvariantKernelRidge(natural_rep(Symmetric(3)), ridge=0.01).fit(xs, ys).predict(xs)
    """

    def fit(self, X: Any, y: Any) -> "InvariantKernelRidge":
        """Solve for the weights of rows X (b, d) with labels y (b,) or (b, c); returns itself."""
        X, y = table(self, X, y, reset=True, multi_output=True, y_numeric=True)
        y = np.asarray(y, float)
        self.flat_, targets = y.ndim == 1, y.reshape(len(y), -1)
        self.middle_ = targets.mean(axis=0)
        self._solved(X, targets - self.middle_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The values (b,), or (b, c) where the labels had columns."""
        found = self._values(X)
        found = found + self.middle_
        return found[:, 0] if self.flat_ else found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = self.group is not None
        return tags


class InvariantKernelClassifier(ClassifierMixin, InvariantKernel):
    """Kernel ridge regression on the indicators of the classes; the largest one wins.

    The settings are those of InvariantKernelRidge.

        InvariantKernelClassifier(image_rep("flips", 8, 8)).fit(images, labels).predict(images)
    """

    def fit(self, X: Any, y: Any) -> "InvariantKernelClassifier":
        """Solve for the weights of rows X (b, d) with labels y (b,), two classes or more; returns itself."""
        X, y = table(self, X, y, reset=True)
        y = sklearns(self, column_or_1d, y, warn=True)
        sklearns(self, check_classification_targets, y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise Refusal(
                f"An InvariantKernelClassifier tells two classes or more apart; got one class, "
                f"{str(self.classes_[0])!r}. Write labels with at least two classes."
            )
        shares = indicators(self.classes_, y)
        self.middle_ = shares.mean(axis=0)
        self._solved(X, shares - self.middle_)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The fitted indicators (b, classes); of two classes the difference (b,)."""
        found = self._values(X)
        found = found + self.middle_
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> np.ndarray:
        """The class whose indicator is largest."""
        found = self._values(X)
        return self.classes_[(found + self.middle_).argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.group is not None
        return tags
