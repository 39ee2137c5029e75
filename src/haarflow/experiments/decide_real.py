"""Whether `decide` recommends what is right, on data whose symmetry is known: digits, a table, sets, and MNIST."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from haarflow.algebra.groups import PlanarRotations, Symmetric, Trivial
from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.algebra.user_reps import image_rep, permutation_rep, point_set
from haarflow.learning.digit_images import digit_images
from haarflow.measures.samples import generator
from haarflow.practice.candidates import AUGMENT, AVERAGE, BUILT, PLAIN
from haarflow.practice.decide import decide
from haarflow.runs.experiment import (
    Count,
    Experiment,
    NonNegative,
    at_least,
    named,
    over,
    panel,
    stream,
    tell,
    within,
)
from haarflow.runs.style import colour

ANSWERS = ("plain", "augment", "average or build in", "cannot tell")
TRUTHS = {
    "digits, turned": "average or build in",
    "digits, the turn as label": "plain",
    "digits, a label that no flip changes": "average or build in",
    "digits, the same label, 60 rows": "cannot tell",
    "digits, a label that flips change": "plain",
    "digits, the identity": "plain",
    "diabetes, a difference of columns": "plain",
    "sets of points": "average or build in",
    "MNIST, turned": "average or build in",
}
UNKNOWN = ("diabetes, its own label",)  # shown, without a claim
NEEDED = 0.8  # share of the runs with the right answer
WRONG = 0.05  # share of all runs, at most, with an answer that is not true: a symmetry used that is none, or one unused


class DecideReal(Experiment):
    """The fair comparison of augmenting, averaging and building in recommends to average or to build in where labels
    have the symmetry, to stay plain where they do not, and says that it cannot tell where rows are few.

    Source: Nadeau and Bengio, Inference for the generalization error (Machine Learning 52, 2003), for the intervals;
    Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), for the candidates.

    The model is kernel ridge regression with a Gaussian kernel, on the handwritten digits and the diabetes table of
    scikit-learn, and on sets of three points of the plane; every candidate chooses its own ridge. Turned digits are
    moved by a random quarter turn each, so that their law is invariant; the label is the digit, or, where the symmetry
    is false, the turn itself. Flipped digits are moved by a random flip each, and their label is a smooth function
    with noise: of what no flip changes, or of what flips change alone. The identity moves nothing, so that all
    candidates are one. In the diabetes table three columns are permuted: a label that is a difference of two of them
    has no such symmetry; of its own label nobody knows whether permuting them helps at so few rows, so it is shown
    without a claim. The label of a set is the mean distance of its points, with noise. With `mnist`, a folder of its
    idx files, MNIST is turned as the digits are.
    """

    group = "practice"
    seconds = 460.0
    faults = {
        "dealt labels": "labels that have the symmetry are dealt out at random among the rows",
        "kept turn": "where the turn is the label, the label is the digit",
    }

    rows: Count = 600  # rows of a data set, where it has as many
    few: Count = 60  # and where they are few
    runs: Count = 5  # data sets drawn for each case
    repeats: Count = 4  # of five folds; with one, an interval has four degrees of freedom
    noise: NonNegative = 0.5  # of the label of flipped digits, over its own deviation
    mnist: str = ""  # a folder with MNIST's idx files; without one, MNIST is left out

    @classmethod
    def full(cls):
        return cls(runs=20)

    def design(self):
        yield (
            self.answers,
            over(case=[name for name in (*TRUTHS, *UNKNOWN) if self.mnist or not name.startswith("MNIST")]),
        )

    def answers(self, key, case):
        """What is recommended on each data set of one case, and the losses of the candidates."""
        found, losses = [], []
        for run in range(self.runs):
            x, y, group, options = self.data_of(stream(key, case, run), case)
            answer = decide(x, y, group, repeats=self.repeats, curve=False, progress=False, seed=run, **options)
            found.append([kind_of(answer.recommended) == one for one in ANSWERS])
            known = dict(zip(answer.names, answer.losses.mean(axis=1), strict=True))
            losses.append([known.get(name, np.nan) for name in (PLAIN, AUGMENT, AVERAGE, BUILT)])
            tell((run + 1) / self.runs)
        ways = [PLAIN, AUGMENT, AVERAGE, BUILT]
        return {
            "answer": named(np.array(found, float), "run", "answer", answer=ANSWERS),
            "loss": named(np.array(losses), "run", "way", way=ways),
        }

    def data_of(self, key, case) -> tuple[np.ndarray, np.ndarray, Rep, dict[str, Any]]:
        """Rows, labels, the group and the model of one run."""
        make: dict[str, Callable] = {
            "digits, turned": self.turned_digits,
            "digits, the turn as label": partial(self.turned_digits, turn_is_label=True),
            "digits, a label that no flip changes": self.flipped_digits,
            "digits, the same label, 60 rows": partial(self.flipped_digits, few=True),
            "digits, a label that flips change": partial(self.flipped_digits, broken=True),
            "digits, the identity": self.still_digits,
            "diabetes, a difference of columns": partial(self.diabetes, difference=True),
            "diabetes, its own label": self.diabetes,
            "sets of points": self.sets,
            "MNIST, turned": self.turned_mnist,
        }
        x, y, group = make[case](generator(key))
        if self.fault == "dealt labels" and TRUTHS.get(case) == "average or build in":
            y = generator(stream(key, "deal")).permutation(y)
        return x, y, group, {"estimator": "kernel", "labels": "classes" if y.dtype.kind in "iu" else "numbers"}

    def turned_digits(self, draw, *, turn_is_label: bool = False):
        images, labels = _digits(draw, self.rows)
        return self._turned(draw, images, labels, 8, turn_is_label=turn_is_label)

    def turned_mnist(self, draw):
        images, labels = _digits(draw, self.rows, self.mnist)
        return self._turned(draw, images, labels, 28)

    def _turned(self, draw, images, labels, side: int, *, turn_is_label: bool = False):
        turns = draw.integers(4, size=len(images))
        moved = [np.rot90(one.reshape(side, side), k) for one, k in zip(images, turns, strict=True)]
        told = turns if turn_is_label and self.fault != "kept turn" else labels
        return np.stack(moved).reshape(len(images), -1), told, image_rep(PlanarRotations(4), side, side)

    def flipped_digits(self, draw, *, broken: bool = False, few: bool = False):
        """Two random waves of the pixels, in the fixed space of the flips or across it; a smooth function of them."""
        images, _ = _digits(draw, self.few if few else self.rows)
        flips = image_rep("flips", 8, 8)
        ways = draw.integers(2, size=(len(images), 2))
        pictures = images.reshape(-1, 8, 8)
        pictures = np.where(ways[:, :1, None] == 1, pictures[:, ::-1], pictures)
        pictures = np.where(ways[:, 1:, None] == 1, pictures[:, :, ::-1], pictures)
        fixed = flips.fixed_projector()
        waves = draw.normal(size=(2, 64)) @ (np.eye(64) - fixed if broken else fixed)
        x = pictures.reshape(len(images), -1)
        seen = x @ waves.T
        seen = (seen - seen.mean(axis=0)) / seen.std(axis=0)
        smooth = np.sin(2 * seen[:, 0]) + seen[:, 1]
        return x, smooth / smooth.std() + self.noise * draw.normal(size=len(x)), flips

    def still_digits(self, draw):
        images, labels = _digits(draw, self.rows)
        return images, labels, trivial_rep(Trivial(1), 64)

    def diabetes(self, draw, *, difference: bool = False):
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True)
        kept = draw.permutation(len(x))[: self.rows]
        x = 20 * x[kept]
        told = x[:, 2] - x[:, 3] + 0.5 * draw.normal(size=len(x)) if difference else y[kept]
        return x, told, _columns_permuted(10, (2, 3, 8))

    def sets(self, draw):
        points = draw.normal(size=(self.rows, 3, 2))
        gaps = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1).mean((1, 2))
        y = (gaps - gaps.mean()) / gaps.std() + 0.3 * draw.normal(size=self.rows)
        return points.reshape(self.rows, -1), y, point_set(Symmetric(3), 2)

    def _rates(self, data):
        """The share of the runs with the right answer, by case."""
        shares = data.answer.mean("run")
        return {case: float(one.sel(answer=TRUTHS[case])) for case, one in shares.each("case") if case in TRUTHS}

    def claims(self, data):
        for case, rate in self._rates(data).items():
            yield at_least(f"{case}: share of runs that answer {TRUTHS[case]}", rate, NEEDED)

        yield within("share of all runs that recommend what is wrong, at most {high}", self._wrong(data), 0.0, WRONG)

    def _wrong(self, data):
        """The share of the runs that use a symmetry of labels that have none, or say plain to those that have it."""
        shares = data.answer.mean("run")
        wrong = []
        for case, one in shares.each("case"):
            if case in TRUTHS:
                false = TRUTHS[case] == "plain"
                used = one.sel(answer="augment") + one.sel(answer="average or build in")
                wrong.append(float(used if false else one.sel(answer="plain")))
        return float(np.mean(wrong))

    def numbers(self, data):
        return {
            f"loss of {way}, {case}": float(one.mean()) for (case, way), one in _losses(data) if np.isfinite(one.mean())
        }

    @panel(
        "What is recommended",
        "Answers over {runs} data sets of each case, five folds each. The right one, where it is known, has a frame.",
        size=(9.6, 4.4),
    )
    def recommended(self, axis, data):
        shares = data.answer.mean("run")
        cases = list(shares.labels("case"))
        paints = {answer: colour(order) for order, answer in enumerate(ANSWERS)}
        for place, case in enumerate(cases):
            left = 0.0
            for answer in ANSWERS:
                width = float(shares.sel(case=case, answer=answer))
                right = answer == TRUTHS.get(case)
                edge = {"edgecolor": "black", "linewidth": 1.6} if right and width else {"linewidth": 0}
                axis.barh(place, width, left=left, color=paints[answer], height=0.6, zorder=3 if right else 2, **edge)
                left += width
        for answer, paint in paints.items():
            axis.barh(0, 0, color=paint, label=answer)
        axis.set_yticks(range(len(cases)), cases)
        axis.invert_yaxis()
        axis.set(xlabel="share of the runs", xlim=(0, 1))
        axis.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=4, frameon=False)


def _losses(data):
    return [((case, way), one) for case, rows in data.loss.each("case") for way, one in rows.each("way")]


def kind_of(recommended: str | None) -> str:
    """Which of the answers a recommendation is."""
    if recommended is None:
        return "cannot tell"
    return recommended if recommended in (PLAIN, AUGMENT) else "average or build in"


def _digits(draw, rows: int, folder: str = "") -> tuple[np.ndarray, np.ndarray]:
    images, labels = digit_images(folder)
    kept = draw.permutation(len(images))[:rows]
    return images[kept].reshape(len(kept), -1), labels[kept]


def _columns_permuted(d: int, columns: tuple[int, ...]) -> Rep:
    """All permutations of some of d columns; the others stay."""
    group = Symmetric(len(columns))
    table = np.tile(np.arange(d), (len(group.generators()), 1))
    for row, g in zip(table, group.generators(), strict=True):
        row[list(columns)] = np.asarray(columns)[np.asarray(g).argmax(axis=0)]
    return permutation_rep(group, generators=table)
