"""Augment, average or build in? A fair comparison on one model class, on the same splits, with what each way costs."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from haarflow.annotations import kind_of
from haarflow.doors import Above, Below, Count, Least, Natural, NonNegative, door
from haarflow.dynamics.progress import watching
from haarflow.errors import Refusal
from haarflow.files import place_of
from haarflow.practice.acting_on import acting_on
from haarflow.practice.candidates import PLAIN, candidates
from haarflow.practice.decision import Decision
from haarflow.practice.penalties import penalty_of, within
from haarflow.practice.trial_fits import FACTS, Task, measured
from haarflow.values import absent, numbers, said

FRACTIONS = (0.125, 0.25, 0.5)  # of the training rows, on the learning curve
CLASSES = 20  # whole numbers of at most so many values are classes, where nothing is said
MOST = 10_000  # splits
MOST_DRAWS = 100_000  # of elements, for each row
FEWEST = 4  # rows on the learning curve


@door
def decide(
    x: Any,
    y: Any,
    group: Any,
    *,
    estimator: Any = "forest",
    budget: Literal["equal-rows", "equal-seconds"] = "equal-rows",
    penalty: str = "auto",
    labels: Literal["auto", "classes", "numbers"] = "auto",
    folds: Annotated[int, Least(2)] = 5,
    repeats: Count = 4,
    level: Annotated[float, Above(0), Below(1)] = 0.95,
    tolerance: NonNegative = 0.01,
    draws: Count | None = None,
    curve: bool = True,
    seed: Natural = 0,
    keep: str | Path | None = None,
    progress: bool | Callable | None = None,
) -> Decision:
    """Which way to use a symmetry on your data and your model: a `Decision` with a sentence, a table and a picture.

    Candidates on one model class: plain; augment; average at prediction; average in training, or augment and average;
    build in. All are scored by repeated K-fold on the same splits, with intervals that are corrected for the overlap
    of the folds. It recommends the cheapest kind of candidate that the best does not exclude (build in, average at
    prediction, augment, average in training or augment and average, in this order); it stays plain where nothing is
    better by more than the `tolerance`; and it says when the data cannot tell, and how many rows would.
    A penalty does not mean the same to all candidates, so each chooses its own: among a hundredth, a tenth, one, ten
    and a hundred times the given value, by three folds inside at most 300 of its training rows, the same for all.
    `penalty` is "auto" (the ridge of a kernel, `alpha` or `C` of a linear model, where the model has one), the name of
    another setting of the model, or "given", which leaves the model as it is.
    `group` is given as for `estimators.Symmetrised`. `estimator` is "forest", "linear", "kernel", "mean-field", the
    words "module:Class", or any regressor or classifier of scikit-learn. Losses are the share of wrong classes, or the
    mean square error as a share of the variance of y. With budget="equal-rows" all candidates learn from the same rows
    and a network takes as many steps; with "equal-seconds" one that trains r times as long as plain gets 1/r of the
    rows. `curve` adds the losses on fewer rows. With `keep`, a file, a run that is killed goes on from there.

        print(hf.decide(images, labels, hf.image_rep("flips", 8, 8), estimator="forest"))
    """
    if group is None:
        raise Refusal("decide compares ways to use a group; got None. Write a representation or words such as 'flips'.")
    if seed >= 2**32:
        raise Refusal(f"The seed of decide is below 2**32, as scikit-learn's are; got {seed}. Write a smaller one.")
    if draws is not None and draws > MOST_DRAWS:
        raise Refusal(f"decide augments by at most {MOST_DRAWS} draws a row; got {draws}. Write fewer.")
    if folds * repeats > MOST:
        raise Refusal(f"decide makes at most {MOST} splits; got {folds} folds × {repeats} repeats. Write fewer.")
    task = _task(x, y, group, labels, estimator, seed, folds)
    acting = task.acting.on_x if isinstance(group, str) else group  # fits see rows, not the names that words may use
    known = candidates(estimator, acting, task.classes is not None, seed, draws)
    chosen = penalty_of(known[PLAIN], penalty)
    store = Store(keep, _digest(task, known, budget, folds, repeats, seed, draws, curve, chosen))
    splits = _splits(task, folds, repeats, seed)
    with watching(progress, "decide") as tell:
        rows, left_out = _runs(task, known, chosen, splits, folds, budget, curve, store, tell)
    names = tuple(name for name in known if name not in left_out)
    whole = [name for name in names if all((name, 1.0, j) in rows for j in range(len(splits)))]
    if len(whole) < 2:
        raise Refusal(
            "decide compares plain with ways to use a symmetry; got a model that can be fitted in none of them: "
            f"{next(iter(left_out.values()))}"
        )
    losses = np.array([[rows[name, 1.0, j]["loss"] for j in range(len(splits))] for name in whole])
    train, test = splits[0]
    fractions = [*(f for f in FRACTIONS if curve and f * len(train) >= FEWEST), 1.0]
    return Decision(
        model=estimator if isinstance(estimator, str) else type(estimator).__name__,
        group=group if isinstance(group, str) else str(task.acting.group),
        n=len(task.x),
        budget=budget,
        loss="share of wrong classes" if task.classes is not None else "share of the variance",
        names=tuple(whole),
        losses=losses,
        costs={fact: [_middle(rows, name, fact, len(splits)) for name in whole] for fact in FACTS if fact != "loss"},
        shares=tuple(store.known.get(f"share {name}", {"share": 1.0})["share"] for name in whole),
        ratio=len(test) / len(train),
        level=level,
        tolerance=tolerance,
        sizes=tuple(round(f * len(train)) for f in fractions),
        curve=np.array(
            [
                [[rows.get((name, f, j), {"loss": np.nan})["loss"] for j in range(folds)] for name in whole]
                for f in fractions
            ]
        ),
        left_out=left_out,
        penalty=None if chosen is None else chosen.rpartition("__")[2],
    )


def _task(x, y, group, labels, estimator, seed, folds) -> Task:
    """The rows as numbers, labels as classes or numbers, and the group on both; or a sentence."""
    names = [str(name) for name in x.columns] if hasattr(x, "columns") else None
    rows = numbers("decide's x", x, numpy=True)
    if rows.ndim != 2 or 0 in rows.shape:
        raise Refusal(f"decide takes a table (n, d); got the shape {rows.shape}. Write a row for each example.")
    given = _labels(y, len(rows))
    classes = np.unique(given) if _classifies(given, labels, estimator) else None
    given = given if classes is not None else _real_labels(given)
    _refuse_few(rows, given, classes, folds)
    outputs = len(classes) if classes is not None else (1 if given.ndim == 1 else given.shape[1])
    return Task(rows, given, classes, acting_on("decide", group, rows.shape[1], outputs, columns=names), seed)


def _labels(y: Any, n: int) -> np.ndarray:
    """The labels as an array of numbers or of words, (n,) or (n, c), none of them missing."""
    found = np.asarray(y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim not in (1, 2) or len(found) != n:
        raise Refusal(
            f"decide takes a label for each row; got {n} rows and labels of shape {found.shape}. Give both the "
            "same number of rows."
        )
    if found.dtype != object:
        return found
    words = np.array([isinstance(one, str) for one in found.ravel()])
    missing = [i for i, one in enumerate(found.ravel()) if absent(one)]
    if missing:
        row = missing[0] // (found.size // n)
        raise Refusal(f"decide takes a label in every row; got none in row {row}. Remove or fill that row.")
    if words.all():
        return found.astype(str)
    if words.any():
        row = int(np.argmax(words)) // (found.size // n)
        raise Refusal(
            f"decide takes labels that are all numbers or all words; got {said(found.ravel()[np.argmax(words)])} in "
            f"row {row} among numbers. Mend or remove that row."
        )
    return found.astype(float)


def _classifies(y: np.ndarray, labels: str, estimator: Any) -> bool:
    from sklearn.base import is_classifier, is_regressor

    if labels != "auto":
        return labels == "classes"
    made = hasattr(estimator, "fit") and not isinstance(estimator, type)
    if made and (is_classifier(estimator) or is_regressor(estimator)):
        return bool(is_classifier(estimator))
    return y.ndim == 1 and (y.dtype.kind in "UOSb" or (y.dtype.kind in "iu" and len(np.unique(y)) <= CLASSES))


def _real_labels(y: np.ndarray) -> np.ndarray:
    try:
        found = np.asarray(y, float)
    except (TypeError, ValueError):
        got = said(str(y.ravel()[0])) if y.dtype.kind == "U" else said(y)
        raise Refusal(f"decide takes real labels for a regressor; got {got}. Write labels='classes'.") from None
    if not np.isfinite(found).all():
        raise Refusal(
            f"decide takes finite labels; got a NaN or infinity in row {np.argwhere(~np.isfinite(found))[0][0]}. "
            "Remove that row."
        )
    with np.errstate(over="ignore"):
        spread = np.mean((found - found.mean(axis=0)) ** 2)
    if not np.isfinite(spread):
        raise Refusal(
            f"decide takes labels whose variance is a number; got some of size {np.abs(found).max():.2g}. Write them "
            "in another unit."
        )
    return found


def _refuse_few(rows, y, classes, folds: int) -> None:
    if len(rows) < 2 * folds:
        raise Refusal(
            f"decide needs two rows or more in each fold; got {len(rows)} rows and {folds} folds. Write fewer folds, "
            "or give more rows."
        )
    if classes is not None and len(classes) < 2:
        raise Refusal(
            f"decide tells two classes or more apart; got one class, {str(classes[0])!r}. Give rows of others."
        )
    if classes is not None and len(classes) > len(rows) // 2:
        raise Refusal(
            f"decide tells a few classes apart; got {len(classes)} in {len(rows)} rows. Write labels='numbers' and a "
            "regressor where they are numbers."
        )
    if classes is None and np.ptp(y, axis=0).max() == 0:
        raise Refusal(f"decide learns labels that differ; got the constant {y.ravel()[0]:g}. Give labels that vary.")


def _splits(task: Task, folds: int, repeats: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows, shuffled, the same for every candidate; classes in their shares, where they can be."""
    from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

    enough = task.classes is not None and np.unique(task.y, return_counts=True)[1].min() >= folds
    kind = RepeatedStratifiedKFold if enough else RepeatedKFold
    draw = np.random.default_rng(seed)
    found = kind(n_splits=folds, n_repeats=repeats, random_state=seed).split(task.x, task.y)
    return [(draw.permutation(train), test) for train, test in found]


def _runs(task, known, chosen, splits, folds, budget, curve, store, tell) -> tuple[dict, dict[str, str]]:
    """Every fit of every candidate, or what was kept of it; and why some candidates were left out."""
    jobs = list(_jobs(known, len(splits), folds, curve, len(splits[0][0])))
    rows, left_out = {}, {}
    for done, (name, fraction, j) in enumerate(jobs):
        tell(done / len(jobs))
        if name in left_out:
            continue
        try:
            make = partial(_one, task, known, chosen, splits, budget, store, name, fraction, j)
            rows[name, fraction, j] = store.found(f"{name} {fraction} {j}", make)
        except Refusal as refusal:
            if name == PLAIN and fraction == 1.0:
                raise
            if fraction == 1.0:
                left_out[name] = str(refusal)
    tell(1.0)
    return {job: row for job, row in rows.items() if job[0] not in left_out}, left_out


def _jobs(known, splits: int, folds: int, curve: bool, train: int) -> Iterator[tuple[str, float, int]]:
    for j in range(splits):
        yield from ((name, 1.0, j) for name in known)
    for fraction in FRACTIONS if curve else ():
        if fraction * train >= FEWEST:
            yield from ((name, fraction, j) for j in range(folds) for name in known)


def _one(task: Task, known, chosen, splits, budget, store, name: str, fraction: float, j: int) -> dict[str, float]:
    train, test = splits[j]
    share = 1.0
    if budget == "equal-seconds" and name != PLAIN:
        share = store.found(f"share {name}", lambda: _share(task, known, splits[0], name))["share"]
    train = train[: max(2, round(fraction * share * len(train)))]
    if task.classes is not None and len(np.unique(task.y[train])) < 2:
        raise Refusal("Rows of one class alone.")
    penalty = within(known[name], chosen)
    try:
        return measured(task, known[name], train, test, penalty=penalty, audit=j == 0 and fraction == 1.0)
    except Refusal:
        raise
    except (ValueError, TypeError) as error:
        raise Refusal(
            f"decide fits the model to {len(train)} of the rows; got {kind_of(error)} from it: "
            f"{str(error).strip().splitlines()[0].rstrip('.:')}. Write a model that takes such rows and labels."
        ) from error


def _share(task: Task, known, split, name: str) -> dict[str, float]:
    """What share of the rows a candidate may have to train as long as plain; the second fit of each, compiled."""

    def train(one: str) -> float:
        return [measured(task, known[one], *split, penalty=None, audit=False)["train"] for _ in range(2)][1]

    seconds = [train(PLAIN), train(name)]
    return {"share": float(np.clip(seconds[0] / max(seconds[1], 1e-9), 0.0, 1.0))}


def _middle(rows: dict, name: str, fact: str, splits: int) -> float:
    """The median over the splits, of the finite values."""
    values = np.array([rows[name, 1.0, j][fact] for j in range(splits)], float)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _digest(task: Task, known: dict, *settings: Any) -> str:
    """What a kept run is known by: the rows, the candidates and the settings."""
    found = hashlib.sha256(np.ascontiguousarray(task.x).tobytes())
    found.update(task.y.astype(str).tobytes() if task.y.dtype.hasobject else np.ascontiguousarray(task.y).tobytes())
    told = [str(task.acting.on_x), str(task.acting.on_y), repr(known), repr(settings), repr(FACTS)]
    found.update(json.dumps(told).encode())
    return found.hexdigest()[:16]


class Store:
    """Finished fits, each a line of JSON in a file: what a killed run leaves counts, but for a line cut short."""

    def __init__(self, path: str | Path | None, digest: str):
        self.known: dict[str, dict[str, float]] = {}
        self.path, self.digest = (
            None if path is None else place_of("Finished fits go to", path, "Make the folder."),
            digest,
        )
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                if row["of"] == self.digest:
                    self.known[row["fit"]] = {name: np.nan if v is None else v for name, v in row["facts"].items()}
            except (ValueError, KeyError, TypeError, AttributeError):
                continue

    def found(self, name: str, make: Callable[[], dict[str, float]]) -> dict[str, float]:
        """The facts that are kept under a name, or made and kept."""
        if name not in self.known:
            self.known[name] = facts = make()
            if self.path is not None:
                plain = {fact: float(value) if np.isfinite(value) else None for fact, value in facts.items()}
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(f"\n{json.dumps({'of': self.digest, 'fit': name, 'facts': plain})}")
        return self.known[name]
