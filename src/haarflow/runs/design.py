"""The design of an experiment: which of its methods run for which settings, each cell a part of its own.

`yield self.train, over(teacher=TEACHERS, n=self.sizes) * blocks("run", self.repetitions, size=10)` runs
`self.train(key, teacher="weak", n=100, run=range(0, 10))` and so on for every cell, in workers, and joins the named
arrays that come back: an axis for `teacher`, one for `n`, and the blocks of `run` one after the other.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from haarflow.errors import Refusal
from haarflow.runs.named import Data, Named, concatenated, described, restored
from haarflow.values import said


@dataclass(frozen=True)
class Blocks:
    """An axis that is cut into ranges, so that a part does several of its places at once."""

    name: str
    total: int | Callable[..., int]
    size: int | Callable[..., float]

    def ranges(self, cell: Mapping[str, Any]) -> list[range]:
        """The ranges of one cell."""
        total, asked = (number(**cell) if callable(number) else number for number in (self.total, self.size))
        size = max(1, min(int(total), int(asked)))
        return [range(first, min(first + size, int(total))) for first in range(0, int(total), size)]


@dataclass(frozen=True)
class Cells:
    """Every combination of the labels of some axes, times the blocks of another."""

    axes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    cut: Blocks | None = None
    largest: tuple[str, ...] = ()

    def __mul__(self, other: "Cells") -> "Cells":
        """The product: every cell of one with every cell of the other."""
        if not isinstance(other, Cells) or set(self.names) & set(other.names) or (self.cut and other.cut):
            raise Refusal("Cells are multiplied by cells of other axes, of which one is cut into blocks at most.")
        return Cells(self.axes | other.axes, self.cut or other.cut, self.largest + other.largest)

    @property
    def names(self) -> list[str]:
        """The names of all axes."""
        return [*self.axes, *([self.cut.name] if self.cut else [])]

    def largest_first(self, *names: str) -> "Cells":
        """The same cells, the largest values of these axes run first, and each value once before the rest.

        Long parts at the end would leave workers idle; and what a part compiles is found by those that follow it.
        """
        return replace(self, largest=names)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The cells in the order in which they are run."""
        cells: list[dict[str, Any]] = [
            dict(zip(self.axes, labels, strict=True)) for labels in itertools.product(*self.axes.values())
        ]
        if self.cut:
            cells = [cell | {self.cut.name: run} for cell in cells for run in self.cut.ranges(cell)]
        if not self.largest:
            return iter(cells)
        begin = self.cut.name if self.cut else None
        cells.sort(key=lambda cell: ([-cell[name] for name in self.largest], cell[begin].start if begin else 0))
        first = {tuple(cell[name] for name in self.largest): cell for cell in reversed(cells)}
        begins = [cell for cell in cells if first[tuple(cell[name] for name in self.largest)] is cell]
        return iter([*begins, *(cell for cell in cells if not any(cell is one for one in begins))])


def over(**axes: Iterable[Any]) -> Cells:
    """A cell for every combination of these labels, which are words or numbers."""
    return Cells({name: tuple(labels) for name, labels in axes.items()})


def blocks(name: str, total: int | Callable[..., int], *, size: int | Callable[..., float]) -> Cells:
    """The places 0 to total − 1 in ranges of `size`; each of the two may be a function of the other axes' labels."""
    return Cells(cut=Blocks(name, total, size))


def once() -> Cells:
    """One cell without axes."""
    return Cells()


@dataclass(frozen=True)
class Part:
    """A piece of the work: a method with the cell it is called for, under a label of its own."""

    method: Callable[..., Any]
    cell: dict[str, Any]
    label: str


def parts(experiment: Any) -> dict[str, Part]:
    """The parts of an experiment by label, in the order in which they are run."""
    found: dict[str, Part] = {}
    for method, cells in _designed(experiment):
        for cell in cells:
            part = Part(method, cell, _words(method, cell))
            if part.label in found:
                raise Refusal(f"The cells of {experiment.name} are different; got {part.label!r} twice.")
            found[part.label] = part
    return found


def compute(experiment: Any, key: Any, label: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of one part, and the names and labels of their axes."""
    part = parts(experiment)[label]
    found = part.method(key, **part.cell)
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise Refusal(f"A part gives a dictionary of arrays by name; for {label!r} it gave {said(found)}.")
    arrays = {name: _named(name, array, part) for name, array in found.items()}
    return {name: array.values for name, array in arrays.items()}, {name: described(a) for name, a in arrays.items()}


def gather(experiment: Any, pieces: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Data:
    """The arrays of all parts, given as `compute` gives them, joined along the axes of the design."""
    joined: dict[str, Named] = {}
    for method, cells in _designed(experiment):
        found = [(cell, restored(*pieces[_words(method, cell)])) for cell in cells]
        for name in dict.fromkeys(name for _, piece in found for name in piece):
            if name in joined:
                raise Refusal(f"The arrays of {experiment.name} have names of their own; two methods give {name!r}.")
            joined[name] = _joined(name, cells, [(cell, piece.get(name)) for cell, piece in found])
    return Data(joined, lambda data: named_fits(experiment, data))


def named_fits(experiment: Any, data: Data) -> dict[str, Any]:
    """The fits of an experiment, each called by its name."""
    return {name: fit.called(name) for name, fit in experiment.fits(data).items()}


def _designed(experiment: Any) -> list[tuple[Callable[..., Any], Cells]]:
    found = list(experiment.design())
    for pair in found:
        if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[0]) and isinstance(pair[1], Cells)):
            raise Refusal(
                f"design() of {experiment.name} yields a method and its cells; got {said(pair)}. "
                "Write yield self.train, over(n=self.sizes)."
            )
    if not found:
        raise Refusal(f"design() of {experiment.name} yields a method and its cells, at least once; it gave none.")
    return found


def _words(method: Callable[..., Any], cell: Mapping[str, Any]) -> str:
    """A label that a reader of the progress understands: train teacher=weak, n=100, run=0-9."""
    said = [f"{name}={f'{x.start}-{x.stop - 1}' if isinstance(x, range) else x}" for name, x in cell.items()]
    return " ".join([method.__name__.strip("_"), ", ".join(said)]).strip()


def _named(name: str, array: Any, part: Part) -> Named:
    """What a part gives under a name, the places of its block as labels."""
    if not isinstance(array, Named):
        if np.ndim(array):
            raise Refusal(
                f"The axes of an array have names; {name!r} of {part.label!r} has the shape {np.shape(array)}, and "
                f'no names. Write named({name.replace(" ", "_")}, "run", "scheme"), for example.'
            )
        array = Named(array)
    for axis, places in part.cell.items():
        if isinstance(places, range) and axis in array.dims and axis not in array.coords:
            if array.shape[array.axis(axis)] != len(places):
                raise Refusal(
                    f"{name!r} of {part.label!r} has a place on the axis {axis!r} for each of {places}; got "
                    f"{array.shape[array.axis(axis)]}. Give the labels of those it has: named(..., {axis}=[...])."
                )
            array = Named(array.values, array.dims, {**array.coords, axis: places})
    return array


def _joined(name: str, cells: Cells, found: list[tuple[dict[str, Any], Named | None]]) -> Named:
    """The arrays of one name in all cells: blocks one after the other, then an axis for each axis of the design."""
    cut = cells.cut.name if cells.cut else None
    table: dict[tuple[Any, ...], list[Named]] = {tuple(cell[axis] for axis in cells.axes): [] for cell, _ in found}
    for cell, array in sorted(found, key=lambda pair: pair[0][cut].start if cut else 0):
        table[tuple(cell[axis] for axis in cells.axes)] += [] if array is None else [array]
    whole = {place: _in_a_row(cut, rows) for place, rows in table.items()}
    known = [array for array in whole.values() if array is not None]
    dims, labels = known[0].dims, _labels(name, known)
    shape = tuple(len(labels[dim]) for dim in dims)
    rows = [_placed(whole[place], labels, shape) for place in itertools.product(*cells.axes.values())]
    values = np.stack(rows).reshape((*(len(one) for one in cells.axes.values()), *shape))
    coords = {dim: labels[dim] for dim in known[0].coords}
    return Named(values, (*cells.axes, *dims), {**cells.axes, **coords})


def _in_a_row(cut: str | None, arrays: list[Named]) -> Named | None:
    """The blocks of one cell in a row; an array without the blocks' axis is that of the first block."""
    if not arrays or cut is None or cut not in arrays[0].dims:
        return arrays[0] if arrays else None
    return concatenated(arrays, cut)


def _labels(name: str, arrays: list[Named]) -> dict[str, list[Any]]:
    """The labels of every axis over all cells, numbers by size."""
    first = arrays[0]
    if any(array.dims != first.dims or set(array.coords) != set(first.coords) for array in arrays):
        raise Refusal(f"{name!r} has the same axes in all cells, with labels or without; got several kinds.")
    for dim in set(first.dims) - set(first.coords):
        if len(sizes := {array.shape[array.axis(dim)] for array in arrays}) > 1:
            raise Refusal(
                f"{name!r} has as many places on {dim!r} in all cells, or labels for them; got "
                f"{' and '.join(map(str, sorted(sizes)))}. Write named(..., {dim}=labels)."
            )
    every = {dim: [one for array in arrays for one in array.labels(dim).tolist()] for dim in first.dims}
    return {dim: _in_order(list(dict.fromkeys(labels)), first.labels(dim).tolist()) for dim, labels in every.items()}


def _in_order(labels: list[Any], first: list[Any]) -> list[Any]:
    """The labels as they come; numbers that differ between cells by size."""
    return sorted(labels) if labels != first and not any(isinstance(one, str) for one in labels) else labels


def _placed(array: Named | None, labels: dict[str, list[Any]], shape: tuple[int, ...]) -> np.ndarray:
    """The values at the labels of all cells, nan where this cell has none."""
    if array is not None and all(array.labels(dim).tolist() == labels[dim] for dim in array.dims):
        return array.values
    values = np.full(shape, np.nan)
    if array is not None:
        places = [[labels[dim].index(one) for one in array.labels(dim).tolist()] for dim in array.dims]
        values[np.ix_(*places)] = array.values
    return values
