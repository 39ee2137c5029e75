"""What the algebra remembers: tables that equal groups and representations share, bounded by their bytes."""

import dataclasses
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np

from haarflow.algebra.tables import Frozen, Places

T = TypeVar("T", bound=Callable)

BYTES = 2**30
"""The most bytes that are remembered together: two of the largest tables that `checks.fits` lets be made."""


class Shelf:
    """Values by key, the least recently used put away when all together hold too many bytes; the last one stays."""

    def __init__(self, most: int):
        self.most = most
        self.held = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value under the key, made where it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value, 64 + _bytes((key, value))
                self.held += self._values[key][1]
            while self.held > self.most and len(self._values) > 1:
                self.held -= self._values.popitem(last=False)[1][1]
            return self._values[key][0]


SHELF = Shelf(BYTES)


def remembered(function: T) -> T:
    """The same function of one hashable thing, computed once for equal things while there is room on the shelf."""

    @functools.wraps(function)
    def looked_up(thing):
        return SHELF.get((function, thing), lambda: function(thing))

    return looked_up  # type: ignore[return-value]


def _bytes(thing: Any) -> int:
    """The bytes of the arrays that a thing is made of, each counted once."""
    return sum({id(array): array.nbytes for array in _arrays(thing)}.values())


def _arrays(thing: Any) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, Frozen):
        yield thing.array
    elif isinstance(thing, Places):
        yield from (thing.given, thing.order, thing.prints, thing.direction)
    elif isinstance(thing, tuple):
        yield from (array for part in thing for array in _arrays(part))
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        yield from (array for field in dataclasses.fields(thing) for array in _arrays(getattr(thing, field.name)))
