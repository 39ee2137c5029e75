"""The direction of largest margin: the limit of gradient descent on separable data, and what proves that there is none.

Given a representation, the largest margin among the classifiers that are invariant under it: that of the averaged data.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

from haarflow.algebra.reps import Rep
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.practice.answers import Answer, group_words
from haarflow.values import numbers, refuse_unless_affordable, said

_ROUNDING = 1e-12  # a convex combination shorter than this, for rows of length one at most, is zero
_NEAR = 1e-5  # rows whose slack is below this share of the margin may touch it
_LARGEST = 1e100  # beyond it squares would overflow


@dataclass(frozen=True, eq=False, repr=False)
class MaxMargin(Answer):
    """The unit vector `direction` (d,) with the largest margin `min_i y_i <direction, x_i>`, and the proof of it.

    `certificate` (b,) are shares that sum to one: the point `Σ share_i y_i x_i` of the convex hull has the length
    `bound`, and no direction has a margin above it. Where that is zero there is no direction at all: `separable` is
    False, `direction` and `margin` are zero. `support` are the rows that touch the margin, `labels` the two classes.
    """

    direction: Float[np.ndarray, " d"]
    margin: float
    bound: float
    certificate: Float[np.ndarray, " b"]
    support: Int[np.ndarray, " m"]
    labels: tuple[Any, Any]
    xs: Float[np.ndarray, "b d"]
    signs: Float[np.ndarray, " b"]
    under: Rep | None = None

    @property
    def separable(self) -> bool:
        """Whether a direction separates the classes."""
        return self.margin > 0

    def scores(self, x: Any) -> Float[np.ndarray, " b"]:
        """`<direction, x>` of inputs (b, d): positive for the second label."""
        if not self.separable:
            raise Refusal(f"A MaxMargin predicts where its data are separable; got data that are not: {self}")
        given, d = numbers("predict's table of inputs", x, numpy=True), len(self.direction)
        if given.ndim != 2 or given.shape[1] != d:
            raise Refusal(f"predict takes inputs (b, {d}); got the shape {given.shape}. Write x[None] for one input.")
        return given @ self.direction

    def predict(self, x: Any) -> np.ndarray:
        """The labels (b,) of inputs (b, d)."""
        return np.asarray(self.labels)[(self.scores(x) > 0).astype(int)]

    def sentence(self) -> str:
        b, d = self.xs.shape
        who = f" under {group_words(self.under.group)}" if self.under is not None else ""
        if self.separable:
            return (
                f"The largest margin of {b} rows in R^{d}{who} is {self.margin:.6g}, touched by {len(self.support)} "
                f"rows and proved optimal to {max(self.bound - self.margin, 0.0):.1e}."
            )
        return (
            f"No direction separates the {b} rows in R^{d}{who}: a mean of {len(self.support)} rows times their labels "
            f"has the length {self.bound:.1e}, which no margin can exceed."
        )

    def table(self) -> dict[str, list]:
        """The rows of `support`: their number, label, share in the certificate, and score."""
        rows = self.support
        return {
            "row": rows.tolist(),
            "label": [self.labels[int(sign > 0)] for sign in self.signs[rows]],
            "share": self.certificate[rows].tolist(),
            "score": (self.averaged[rows] @ self.direction).tolist(),
        }

    @property
    def averaged(self) -> Float[np.ndarray, "b d"]:
        """The rows that the margin is about: averaged over the group, where there is one."""
        return self.xs if self.under is None else np.asarray(self.under.project(self.xs))

    def draw(self, axis: Any) -> Any:
        """Draw the scores of all rows, sorted within their class, with the margin; returns the axis."""
        if not hasattr(axis, "plot"):
            raise Refusal(f"draw takes an axis of matplotlib; got {said(axis)}. Write plt.subplots()[1].")
        scores = self.averaged @ self.direction
        for sign, label in zip((-1, 1), self.labels, strict=True):
            own = np.sort(scores[self.signs == sign])
            axis.plot(own, np.linspace(0, 1, len(own)), ".", label=f"label {label}")
        for place in {-self.margin, self.margin}:
            axis.axvline(place, color="black", linewidth=0.8, linestyle=(0, (4, 2)))
        axis.set(xlabel="score <direction, x>", ylabel="share of the class")
        axis.legend()
        return axis

    def __repr__(self) -> str:
        return f"MaxMargin: {self}"


@door
def max_margin(x: Float[np.ndarray, "b d"], y: Any, under: Rep | None = None) -> MaxMargin:
    """The direction of the largest margin without intercept, `max_{|v| = 1} min_i y_i <v, x_i>`, with a proof.

    Labels are any two values, the smaller of them the negative class. With `under`, a representation on R^d, the
    largest margin among invariant classifiers, which is that of the rows averaged over the group. It is where gradient
    descent takes linear networks with the exponential or logistic loss: `max_margin(x, y)` fully connected ones,
    `max_margin(x, y, under=rep)` steerable ones, and fully connected ones on the augmented data. Data that cannot be
    separated are an answer too, with the convex combination that proves it. For example
    `max_margin(x, y, under=image_rep("rotations", 8, 8)).predict(x)`.
    """
    signs, labels = _signs(x, y)
    if under is not None and under.dim != x.shape[1]:
        raise Refusal(
            f"max_margin's under moves the inputs, rows of {x.shape[1]} numbers; got a representation on "
            f"R^{under.dim}. Write one of size {x.shape[1]}."
        )
    rows = signs[:, None] * (x if under is None else np.asarray(under.project(x)))
    size = float(np.linalg.norm(rows, axis=1).max(initial=0.0))
    shares = nearest_point(rows / size) if size > 0 else np.eye(len(rows))[0]
    point = shares @ rows
    bound = float(np.linalg.norm(point))
    if not bound > _ROUNDING * size:
        nothing = np.zeros(x.shape[1])
        return MaxMargin(nothing, 0.0, bound, shares, np.flatnonzero(shares), labels, x, signs, under)
    scores = rows @ (point / bound)
    support = np.flatnonzero(scores <= scores.min() + 1e-9 * size)
    return MaxMargin(point / bound, float(scores.min()), bound, shares, support, labels, x, signs, under)


def nearest_point(rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
    """Shares of the point of the rows' convex hull that is nearest to the origin: the dual of the largest margin.

    An interior-point method finds which rows touch; on these the active-set method of Lawson and Hanson is exact to
    rounding; rows that then lie nearer than the hull are added, until there are none.
    """
    b, d = rows.shape
    refuse_unless_affordable(f"max_margin of {b} rows in R^{d}", 8.0 * 20 * b * d, instead="Write fewer rows.")
    chosen = _candidates(rows) if b > 2 * d + 50 else np.arange(b)
    for _ in range(100):
        shares = np.zeros(b)
        shares[chosen] = _by_active_set(rows[chosen])
        point = shares @ rows
        squared = float(point @ point)
        if squared <= _ROUNDING**2:
            return shares
        short = np.flatnonzero(rows @ point < squared - 1e-13)
        missing = np.setdiff1d(short, chosen)
        if not len(missing):
            return shares
        chosen = np.concatenate([chosen, missing[np.argsort((rows @ point)[missing])][: d + 1]])
    raise Refusal(
        f"The largest margin is proved by a point of the convex hull of the rows; got {b} rows in R^{d} for which none "
        "was found. Write the columns in units of one size."
    )


def _by_active_set(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
    """Shares of the nearest point, by non-negative least squares, refined by its normal equations on the support."""
    raised = np.vstack([rows.T, np.ones(len(rows))])
    shares, _ = nnls(raised, np.eye(len(raised))[-1], maxiter=50 * sum(raised.shape))
    held = np.flatnonzero(shares > 0)
    exact = np.linalg.lstsq(raised[:, held], np.eye(len(raised))[-1], rcond=None)[0]
    if np.all(exact >= 0):
        shares[held] = exact
    return shares / shares.sum()


def _candidates(rows: Float[np.ndarray, "b d"]) -> Int[np.ndarray, " m"]:
    """Rows that may touch the margin, by the quadratic program min ½|v|² + ½10⁶ s² with rows · v >= 1 − s.

    The slack s makes it feasible for data that are not separable, too.
    """
    import clarabel as compiled
    from scipy.sparse import csc_array, diags_array

    clarabel: Any = compiled
    b, d = rows.shape
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 200
    matrix = csc_array(-np.column_stack([rows, np.ones(b)]))
    curvature = csc_array(diags_array(np.append(np.ones(d), 1e6)))
    cones = [clarabel.NonnegativeConeT(b)]
    solution = clarabel.DefaultSolver(curvature, np.zeros(d + 1), matrix, -np.ones(b), cones, settings).solve()
    forces, slack = np.array(solution.z), np.array(solution.s)
    order = np.argsort(slack / max(slack.max(), 1e-300) - forces / max(forces.max(), 1e-300))
    touching = int(np.sum(slack < _NEAR) + np.sum(forces > _NEAR * forces.max()))
    return order[: min(b, max(touching, d + 2))]


def _signs(x: Float[np.ndarray, "b d"], y: Any) -> tuple[Float[np.ndarray, " b"], tuple[Any, Any]]:
    """Labels as signs, and the two classes."""
    found = np.asarray(y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (len(x),) or found.dtype.kind not in "biufUS" or not x.size:
        raise Refusal(
            f"max_margin takes one row or more, inputs (b, d), and a label of each; got inputs {x.shape} and "
            f"labels {said(y)}. Write y as a list of {len(x)} labels."
        )
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise Refusal("max_margin's labels are two classes; got NaN or infinity among them. Leave these rows out.")
    if np.abs(x).max() > _LARGEST:
        raise Refusal(f"max_margin takes numbers up to {_LARGEST:g}; got {np.abs(x).max():.3g}. Write other units.")
    classes = np.unique(found)
    if len(classes) != 2:
        shown = ", ".join(map(str, classes[:4].tolist())) + ", ..." * (len(classes) > 4)
        raise Refusal(
            f"max_margin separates two classes; got {len(classes)}: {shown}. Write y with two values, for example "
            "y == 3."
        )
    labels = classes.tolist()
    return np.where(found == classes[1], 1.0, -1.0), (labels[0], labels[1])
