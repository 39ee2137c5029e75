"""What all estimators share: tables in, with sentences for what is wrong in them; random seeds; files without pickle.

This module and those of the estimators import scikit-learn, since their classes are made of its own; nothing else
imports them but the topic `haarflow.estimators`, on demand.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from haarflow import values
from haarflow.annotations import a
from haarflow.errors import Refusal
from haarflow.practice.acting_on import Acting, acting_on
from haarflow.practice.estimator_files import read_estimator, write_estimator
from haarflow.values import said


class WrongType(Refusal, TypeError):
    """A refusal of things that are no numbers at all, which scikit-learn calls a TypeError."""


class Estimator(BaseEstimator):
    """An estimator of scikit-learn that is saved and loaded without pickle."""

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator into a file of arrays and JSON; `load` gives it back, equal to the bit."""
        check_is_fitted(self)
        write_estimator(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Any:
        """The estimator that `save` wrote; nothing in the file is ever run."""
        return read_estimator(path, cls)

    @property
    def _owner(self) -> str:
        """What it is called in a sentence."""
        return a(type(self).__name__)

    @property
    def _names(self) -> list[str] | None:
        """The names of the columns that it was fitted on, if they had any."""
        found = getattr(self, "feature_names_in_", None)
        return None if found is None else [str(name) for name in found]

    def _acting(self, c: int) -> Acting:
        return acting_on(self._owner, getattr(self, "group", None), self.n_features_in_, c, columns=self._names)  # pyright: ignore


def table(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool, **options: Any) -> Any:
    """X, or X and y, as arrays of finite numbers; what scikit-learn finds wrong in them, as a refusal."""
    options = {"dtype": "numeric" if options.pop("kept", False) else np.float64, **options}
    return sklearns(estimator, validate_data, estimator, X, y, reset=reset, **options)


def sklearns(estimator: BaseEstimator, function: Callable, *args: Any, **kwargs: Any) -> Any:
    """A function of scikit-learn, whose complaint becomes one sentence."""
    try:
        return function(*args, **kwargs)
    except Refusal:
        raise
    except (ValueError, TypeError) as error:
        kind = WrongType if isinstance(error, TypeError) else Refusal
        owner = a(type(estimator).__name__)
        raise kind(f"{owner} learns from a table of numbers, a row for each example: {_short(str(error))}") from error


def _short(text: str) -> str:
    """The first line of a complaint; the names of columns stand in the lines below theirs."""
    if "feature names" in text:
        return text
    first = text.strip().split("\n")[0].rstrip(":")
    return f"{first}. Reshape your data to one row for each example." if "Reshape your data" in text else first


def choice(owner: str, value: Any, choices: tuple) -> Any:
    """One of some words, or a sentence."""
    if not isinstance(value, str) or value not in choices:
        raise Refusal(f"{owner} is one of {', '.join(choices)}; got {said(value)}. Write {choices[0]!r}, for example.")
    return value


def real(owner: str, value: Any, *, above: Any = None, least: Any = None, below: Any = np.inf) -> float:
    """A finite number within bounds, or a sentence."""
    found = values.real(owner, value)
    if (above is not None and found <= above) or (least is not None and found < least) or found >= below:
        words = f"above {above:g}" if above is not None else f">= {least:g}"
        words += f" and below {below:g}" if np.isfinite(below) else ""
        raise Refusal(f"{owner} is a number {words}; got {said(value)}. Write 0.1, for example.")
    return found


def flag(owner: str, value: Any) -> bool:
    """True or False, or a sentence."""
    if not isinstance(value, bool | np.bool_):
        raise Refusal(f"{owner} is True or False; got {said(value)}.")
    return bool(value)


def seed_of(estimator: BaseEstimator) -> int:
    """A whole number drawn from the estimator's `random_state`."""
    state = getattr(estimator, "random_state", None)
    try:
        return int(check_random_state(state).randint(2**31 - 1))
    except ValueError:
        raise Refusal(
            f"random_state is a whole number >= 0, None or a RandomState of NumPy; got {said(state)}. Write 0, say."
        ) from None


def indicators(classes: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "b k"]:
    """Labels as rows with a single one."""
    return (np.asarray(y)[:, None] == classes[None]).astype(float)
