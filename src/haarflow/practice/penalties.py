"""How strongly a candidate is penalised: each chooses for itself, by cross-validation inside its own training rows.

One setting for all would not be fair, because it does not mean the same to all: kernel ridge regression that is
augmented by the whole group at a ridge is the built-in one at that ridge over |G|. So every candidate tries the same
values on the same inner folds, and what it chooses stands in the table.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int

from haarflow.errors import Refusal
from haarflow.practice.held_tables import holding
from haarflow.values import said

FACTORS = (1.0, 0.1, 10.0, 0.01, 100.0)
"""What the given value is multiplied by. The nearest comes first: of two that do as well it is the one taken."""
INNER = 3  # folds inside the training rows
MOST = 300  # training rows that are asked: the first ones, which are shuffled; more would tell the same, more slowly
FEWEST = 4  # training rows in each inner fold; with fewer the given value stays

NAMES = {
    "InvariantKernel": "ridge",
    "Ridge": "alpha",
    "RidgeClassifier": "alpha",
    "KernelRidge": "alpha",
    "Lasso": "alpha",
    "ElasticNet": "alpha",
    "SGDRegressor": "alpha",
    "SGDClassifier": "alpha",
    "LogisticRegression": "C",
    "LinearSVC": "C",
    "LinearSVR": "C",
    "SVC": "C",
    "SVR": "C",
}
"""The penalty of a kind of estimator, and of the kinds made from it. A mean-field network is not here: it stops early,
on rows that each candidate holds back for itself, which is a choice of the same sort."""


def penalty_of(model: Any, wanted: str) -> str | None:
    """The name of the setting that is chosen: found by the kind of model ("auto"), none ("given"), or said."""
    settings = model.get_params(deep=True)
    if wanted == "given":
        return None
    if wanted != "auto":
        if not _positive(settings.get(wanted)):
            known = ", ".join(sorted(name for name, value in settings.items() if _positive(value)))
            raise Refusal(
                "The penalty of decide is 'auto', 'given', or a setting of the model that is a number above zero; got "
                f"{said(wanted)}. Write one of {known or 'auto, given'}."
            )
        return wanted
    return next((name for name in _named(model, settings) if _positive(settings.get(name))), None)


def within(candidate: Any, name: str | None) -> str | None:
    """What a setting of the model is called in a candidate, which is the model itself or holds it."""
    return name if name is None or name in candidate.get_params(deep=True) else f"estimator__{name}"


def _named(model: Any, settings: dict[str, Any]) -> Iterator[str]:
    """The settings that `NAMES` knows, of the model and of the estimators inside it."""
    for path, one in [("", model), *sorted((f"{name}__", one) for name, one in settings.items() if _made(one))]:
        for kind in type(one).__mro__:
            if kind.__name__ in NAMES:
                yield path + NAMES[kind.__name__]
                break


def _made(thing: Any) -> bool:
    return hasattr(thing, "get_params") and not isinstance(thing, type)


def _positive(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(number and np.isfinite(value) and value > 0)


def chosen_penalty(
    estimator: Any,
    name: str,
    y: np.ndarray,
    train: Int[np.ndarray, " a"],
    seed: int,
    loss_of: Callable[[Any, np.ndarray, np.ndarray], float],
) -> float:
    """The value of the setting `name` with the least mean loss over the inner folds of some training rows.

    `loss_of(estimator, train, test)` fits a copy. A value that is refused is not taken; if all are, the given one is.
    """
    given = float(estimator.get_params(deep=True)[name])
    inner = _inner_folds(y, train[:MOST], seed)
    losses = np.zeros(len(FACTORS))
    for fit, left in inner:
        with holding():  # a kernel's table is the same for all ridges
            losses += [_loss_at(estimator, {name: given * factor}, fit, left, loss_of) for factor in FACTORS]
    return given * FACTORS[int(np.argmin(losses))]


def _loss_at(estimator: Any, setting: dict[str, float], fit: np.ndarray, left: np.ndarray, loss_of: Callable) -> float:
    from sklearn.base import clone

    one: Any = clone(estimator)
    one.set_params(**setting)
    try:
        return float(loss_of(one, fit, left))
    except Refusal:
        return np.inf


def _inner_folds(y: np.ndarray, rows: Int[np.ndarray, " a"], seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit and to ask, the same for every candidate; none where rows, or those of a class, are too few."""
    from sklearn.model_selection import KFold

    if len(rows) < INNER * FEWEST:
        return []
    folds = KFold(INNER, shuffle=True, random_state=seed).split(rows)
    found = [(rows[fit], rows[held]) for fit, held in folds]
    return found if all(len(np.unique(y[fit], axis=0)) > 1 for fit, _ in found) else []
