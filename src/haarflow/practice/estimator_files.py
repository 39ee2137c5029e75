"""Fitted estimators in files without pickle: classes by name, parameters and attributes as arrays, numbers and words.

What comes back is made of classes of scikit-learn, of this library, or of modules that are imported already, and their
attributes are set; nothing in a file is run.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from haarflow import saving
from haarflow.annotations import kind_of
from haarflow.errors import Refusal

OWN = ("haarflow.", "sklearn.")


class SavedEstimator(eqx.Module):
    """What a file holds: lists that begin with what they are."""

    content: Any


def write_estimator(path: str | Path, estimator: Any) -> None:
    """Put a fitted estimator into a file."""
    saving.write(path, SavedEstimator(_packed(estimator)))


def read_estimator(path: str | Path, kind: type) -> Any:
    """The estimator in a file, which must be of a class."""
    found = _unpacked(saving.read(path, SavedEstimator).content)
    if type(found) is not kind:
        raise Refusal(
            f"{kind.__name__}.load reads what {kind.__name__}.save wrote; got {kind_of(found)} in "
            f"{Path(path).name}. Write {type(found).__name__}.load(path)."
        )
    return found


def _packed(thing: Any) -> list:
    from sklearn.base import BaseEstimator
    from sklearn.tree._tree import Tree

    if isinstance(thing, dict):
        return ["dict", [[_packed(name), _packed(value)] for name, value in thing.items()]]
    if type(thing) in (list, tuple):
        return [type(thing).__name__, [_packed(one) for one in thing]]
    if isinstance(thing, type):
        return ["class", f"{thing.__module__}:{thing.__qualname__}"]
    if isinstance(thing, np.generic):
        return ["scalar", np.asarray(thing)]
    if isinstance(thing, np.ndarray) and thing.dtype.hasobject:
        return ["objects", list(thing.shape), [_packed(one) for one in thing.ravel().tolist()]]
    if isinstance(thing, Tree):
        reduced: Any = thing.__reduce__()
        _, shape, state = reduced
        nodes = state["nodes"]  # whose bytes between the fields mean nothing
        fields = {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names}
        return ["tree", _packed(tuple(shape)), _packed({**state, "nodes": fields})]
    if isinstance(thing, BaseEstimator):
        return ["estimator", f"{type(thing).__module__}:{type(thing).__qualname__}", _packed(vars(thing))]
    try:
        saving._packed(thing, {})
    except Refusal:
        raise Refusal(
            f"An estimator is saved as numbers, arrays, words and estimators; got {kind_of(thing)} in it, "
            "which a file cannot hold without pickle. Save an estimator without it, or write random_state=0, say."
        ) from None
    return ["is", thing]


def _unpacked(content: list) -> Any:
    kind, *rest = content
    if kind == "dict":
        return {_unpacked(name): _unpacked(value) for name, value in rest[0]}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_unpacked(one) for one in rest[0])
    if kind == "class":
        return _class(rest[0])
    if kind == "scalar":
        return rest[0][()]
    if kind == "objects":
        found = np.empty(len(rest[1]), object)
        found[:] = [_unpacked(one) for one in rest[1]]
        return found.reshape(rest[0])
    if kind == "tree":
        return _tree(_unpacked(rest[0]), _unpacked(rest[1]))
    if kind == "estimator":
        found: Any = object.__new__(_class(rest[0]))
        found.__dict__.update(_unpacked(rest[1]))
        return found
    return rest[0]


def _tree(shape: tuple, state: dict[str, Any]) -> Any:
    """A tree of scikit-learn with its nodes."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    nodes = np.zeros(len(next(iter(state["nodes"].values()))), NODE_DTYPE)
    for name, column in state["nodes"].items():
        nodes[name] = column
    found = Tree(*shape)
    found.__setstate__({**state, "nodes": nodes})
    return found


def _class(name: str) -> type:
    """A class of scikit-learn or of this library, or of a module that is there."""
    module, _, path = name.partition(":")
    if module.startswith(OWN) and module not in sys.modules:
        import_module(module)
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise Refusal(
            f"An estimator is loaded with classes that are there; got {path} of the module {module}, which is not. "
            "Import that module first."
        )
    return found
