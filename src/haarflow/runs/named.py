"""Arrays whose axes have names: `data.error.sel(teacher="weak", scheme="DA").mean("run")`, and no axis is counted.

A method of an experiment returns `named(array, "run", "scheme", scheme=SCHEMES)`. The dimensions and their labels are
stored beside the numbers of a record, so that `record.arrays()` gives them back, and `to_pandas` and `to_xarray` take
them on. NumPy's functions work: `np.log(a)` and `a - b` keep the names (b is lined up with a by name), everything else
(`np.linalg.norm(a, axis=0)`, `a[..., 0]`) gives plain arrays.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from haarflow.errors import Refusal
from haarflow.values import said


def named(array: Any, *dims: str, **labels: Any) -> "Named":
    """An array with a name for each of its axes, and labels for those whose places mean something.

    `named(errors, "run", "scheme", scheme=("DA", "FA"))` has the shape (runs, 2).
    """
    return Named(array, dims, labels)


def _reduction(function: Callable[..., Any], words: str) -> Callable[..., "Named"]:
    def reduced(self: "Named", *dims: str) -> "Named":
        return self.over(function, *dims)

    reduced.__doc__ = f"The {words} over the named axes, or over all."
    return reduced


class Named(NDArrayOperatorsMixin):
    """Values with a name for each axis (`dims`), and the labels of those that have some (`coords`)."""

    def __init__(self, values: Any, dims: Iterable[str] = (), coords: Mapping[str, Any] | None = None):
        """Check that every axis has one name, and every label a place."""
        self.values, self.dims = np.asarray(values), tuple(dims)
        if len(self.dims) != self.values.ndim or len(set(self.dims)) != len(self.dims):
            raise Refusal(
                f"A named array has a name for each axis; got the names {list(self.dims)} for an array of shape "
                f'{self.values.shape}. Write named(errors, "run", "scheme"), for example.'
            )
        self.coords = {dim: _labels(dim, labels) for dim, labels in (coords or {}).items()}
        for dim, labels in self.coords.items():
            if len(labels) != self.values.shape[self.axis(dim)] or len(set(labels)) != len(labels):
                raise Refusal(
                    f"The labels of {dim!r} are different, one for each of its {self.values.shape[self.axis(dim)]} "
                    f"places; got {len(labels)}: {str(list(labels))[:80]}."
                )

    shape = property(lambda self: self.values.shape)
    ndim = property(lambda self: self.values.ndim)
    size = property(lambda self: self.values.size)
    dtype = property(lambda self: self.values.dtype)

    def axis(self, dim: str) -> int:
        """The place of a named axis."""
        if dim not in self.dims:
            raise Refusal(f"The axes of this array are {', '.join(self.dims) or 'none'}; got {dim!r}.")
        return self.dims.index(dim)

    def labels(self, dim: str) -> np.ndarray:
        """The labels of an axis, or its places from 0 on where it has none."""
        found = self.coords.get(dim, range(self.values.shape[self.axis(dim)]))
        mixed = len({isinstance(one, str) for one in found}) > 1  # of which NumPy would make words
        return np.asarray(found, object if mixed else None)

    def sel(self, **wanted: Any) -> "Named":
        """The part with these labels: one label drops its axis; several, or a rule such as `n=lambda n: n > 9`, do not.

        `data.error.sel(teacher="weak", scheme=("DA", "FA"), n=lambda n: n >= 100)`
        """
        return self.isel(**{dim: self._places(dim, want) for dim, want in wanted.items()})

    def isel(self, **places: Any) -> "Named":
        """The part at these places: a number drops its axis, a slice or a list of places does not."""
        found, dims, coords = self.values, list(self.dims), dict(self.coords)
        for dim, place in places.items():
            place = self._known(dim, place)
            axis = dims.index(dim)
            found = found[(slice(None),) * axis + (place,)]
            labels = coords.pop(dim, None)
            if np.ndim(place) == 0 and not isinstance(place, slice):
                dims.remove(dim)
            elif labels is not None:
                coords[dim] = labels[place] if isinstance(place, slice) else tuple(labels[i] for i in place)
        return Named(found, dims, coords)

    def _known(self, dim: str, place: Any) -> Any:
        """Places that an axis has, as NumPy takes them."""
        size = self.values.shape[self.axis(dim)]
        with contextlib.suppress(ValueError, TypeError):
            if isinstance(place, slice):
                place.indices(size)
                return place
            found = np.asarray(place)
            found = found if found.size else found.astype(int)
            if found.ndim < 2 and found.dtype.kind in "iu" and ((-size <= found) & (found < size)).all():
                return found if found.ndim else int(found)  # a number leaves a view of the array
        raise Refusal(
            f"The places of {dim!r} are whole numbers from 0 to {size - 1}, a list of them, or a slice; got "
            f"{said(place)}. For labels write sel({dim}=...)."
        )

    def _places(self, dim: str, wanted: Any) -> Any:
        labels = self.labels(dim).tolist()
        if callable(wanted):
            return [place for place, label in enumerate(labels) if wanted(label)]
        many = isinstance(wanted, list | tuple | range) or np.ndim(wanted) == 1
        for one in wanted if many else [wanted]:
            if isinstance(one, list | tuple) or np.ndim(one) or one not in labels:
                raise Refusal(f"The labels of {dim!r} are {', '.join(map(str, labels))}; got {said(one)}.")
        return [labels.index(one) for one in wanted] if many else labels.index(wanted)

    def each(self, dim: str, *more: str) -> Iterator[tuple[Any, "Named"]]:
        """Every label of an axis with its part of the array; of several axes, every tuple of their labels."""
        for place, label in enumerate(self.labels(dim).tolist()):
            part = self.isel(**{dim: place})
            if not more:
                yield label, part
                continue
            for rest, inner in part.each(*more):
                yield (label, *rest) if len(more) > 1 else (label, rest), inner

    def over(self, function: Callable[..., Any], *dims: str) -> "Named":
        """A function with an `axis` argument, such as np.ptp, taken over the named axes, or over all."""
        gone = dims or self.dims
        kept = tuple(dim for dim in self.dims if dim not in gone)
        axes = tuple(self.axis(dim) for dim in gone)
        found = function(self.values, axis=axes[0] if len(axes) == 1 else axes) if self.dims else self.values
        return Named(found, kept, {dim: labels for dim, labels in self.coords.items() if dim in kept})

    max, min = _reduction(np.max, "largest"), _reduction(np.min, "smallest")
    mean, median, sum = _reduction(np.mean, "mean"), _reduction(np.median, "median"), _reduction(np.sum, "sum")
    std, all, any = _reduction(np.std, "deviation"), _reduction(np.all, "truth of all"), _reduction(np.any, "truth")

    def quantile(self, share: float, *dims: str) -> "Named":
        """The value below which this share lies, over the named axes, or over all."""
        if not (isinstance(share, int | float) and 0 <= share <= 1):
            raise Refusal(f"The share of a quantile lies between 0 and 1; got {said(share)}. Write 0.9, for example.")
        return self.over(lambda values, axis: np.quantile(values, share, axis=axis), *dims)

    def sem(self, dim: str) -> "Named":
        """The standard error of the mean over an axis."""
        count = self.values.shape[self.axis(dim)]
        return self.over(lambda values, axis: np.std(values, axis=axis, ddof=1) / np.sqrt(count), dim)

    def transpose(self, *dims: str) -> "Named":
        """The same array with its axes in this order."""
        if sorted(map(str, dims)) != sorted(self.dims):
            raise Refusal(f"transpose names every axis once, {', '.join(self.dims) or 'none'}; got {list(dims)}.")
        return Named(self.values.transpose([self.axis(dim) for dim in dims]), dims, self.coords)

    def to_pandas(self) -> Any:
        """A pandas Series indexed by the labels of every axis; `.unstack()` makes a table of it."""
        pandas = _library("pandas")
        places = [self.labels(dim) for dim in self.dims]
        index = pandas.MultiIndex.from_product(places, names=self.dims) if self.dims else None
        return pandas.Series(self.values.ravel(), index=index)

    def to_xarray(self) -> Any:
        """The same as an xarray.DataArray."""
        coords = {dim: list(labels) for dim, labels in self.coords.items()}
        return _library("xarray").DataArray(self.values, dims=self.dims, coords=coords)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The values."""
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Arithmetic, with the axes of named arrays lined up by their names."""
        if method != "__call__" or options.get("out") is not None:
            return getattr(ufunc, method)(*map(_plain, inputs), **options)
        parts = [one for one in inputs if isinstance(one, Named)]
        most = sorted(parts, key=lambda part: -part.ndim)  # the order of the array with the most axes
        dims = tuple(dict.fromkeys(dim for part in most for dim in part.dims))
        coords: dict[str, Any] = {}
        for dim, labels in (item for part in parts for item in part.coords.items()):
            if coords.setdefault(dim, labels) != labels:
                raise Refusal(
                    f"Arrays are combined label by label; got two lists of labels for {dim!r}. Use sel first."
                )
        for dim in dims:
            if len(sizes := {part.shape[part.axis(dim)] for part in parts if dim in part.dims}) > 1:
                raise Refusal(
                    f"Arrays are combined place by place; got {' and '.join(map(str, sorted(sizes)))} places of "
                    f"{dim!r}. Use isel first."
                )
        try:
            found = ufunc(*(one._spread(dims) if isinstance(one, Named) else one for one in inputs), **options)
        except (ValueError, TypeError):
            shapes = [np.shape(one) for one in inputs if not isinstance(one, Named)]
            raise Refusal(
                f"A named array is combined with numbers, and arrays that NumPy spreads over its axes "
                f"{', '.join(dims) or 'none'}; got {' and '.join(map(str, shapes))}. Write named(...) for the other."
            ) from None
        return Named(found, dims, coords) if dims or not np.ndim(found) else found  # plain - data.error.min()

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Every other function of NumPy, on the values."""
        return function(*_plain(list(args)), **{name: _plain(one) for name, one in options.items()})

    def _spread(self, dims: tuple[str, ...]) -> np.ndarray:
        """The values with an axis for each of dims, of size one where the array has none."""
        ordered = self.transpose(*(dim for dim in dims if dim in self.dims)).values
        return np.asarray(ordered[tuple(slice(None) if dim in self.dims else None for dim in dims)])

    def __getitem__(self, place: Any) -> Any:
        """Plain values, as NumPy indexes them."""
        return self.values[place]

    def __len__(self) -> int:
        """The size of the first axis."""
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        """Plain values along the first axis."""
        return iter(self.values)

    def __float__(self) -> float:
        """The number, of an array of no axes."""
        return float(self._one())

    def __bool__(self) -> bool:
        """The truth, of an array of no axes."""
        return bool(self._one())

    def __format__(self, form: str) -> str:
        """A number is written as a number."""
        return format(self._one(), form) if form else str(self)

    def _one(self) -> Any:
        if self.values.size != 1:
            raise Refusal(
                f"One number is asked for; got an array with the axes {', '.join(self.dims)}. "
                "Write .max(), .mean() or .sel(...) first."
            )
        return self.values.item()

    def __repr__(self) -> str:
        """The axes with their sizes, the labels, and the values as NumPy shortens them."""
        sizes = ", ".join(f"{dim} {size}" for dim, size in zip(self.dims, self.values.shape, strict=True))
        return f"Named({sizes})\n{np.array2string(self.values, threshold=20)}"


class Data(Mapping[str, Any]):
    """The arrays of a record, as `data.error` or `data["error"]`, and the fits made of them, `data.fits[name]`."""

    def __init__(self, arrays: Mapping[str, Any], fits: Any = None):
        """Arrays by name; and the fits, or the function of the data that makes them when they are first asked for."""
        self._arrays, self._fits = dict(arrays), fits

    @cached_property
    def fits(self) -> dict[str, Any]:
        """The fits by name, each made once."""
        made: Any = self._fits(self) if callable(self._fits) else self._fits
        return {} if made is None else dict(made)

    def replaced(self, **arrays: Named) -> "Data":
        """The data with other arrays in place of some, whose fits are then made anew."""
        return Data({**self._arrays, **arrays}, self._fits)

    def axes(self) -> dict[str, dict[str, Any]]:
        """The names and labels of all axes, which a record stores beside its numbers."""
        return {name: described(array) for name, array in self._arrays.items()}

    def __getitem__(self, name: str) -> Any:
        """An array."""
        return self._arrays[name]

    def __getattr__(self, name: str) -> Any:
        """An array."""
        try:
            return self.__dict__["_arrays"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_arrays", {}))
            raise AttributeError(f"The arrays of this record are {known}; got {name!r}.") from None

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """How many."""
        return len(self._arrays)


def concatenated(arrays: Sequence[Named], dim: str) -> Named:
    """Arrays one after the other along an axis; its labels too, where all have some."""
    first = arrays[0]
    arrays = [array.transpose(*first.dims) for array in arrays]
    coords = {name: labels for name, labels in first.coords.items() if name != dim}
    if any({**array.coords, dim: ()} != {**coords, dim: ()} for array in arrays):
        raise Refusal(
            f"Arrays are put one after the other along {dim!r} where the labels of their other axes agree; got "
            "others. Use sel first."
        )
    if all(dim in array.coords for array in arrays):
        coords[dim] = tuple(label for array in arrays for label in array.coords[dim])
    return Named(np.concatenate([array.values for array in arrays], axis=first.axis(dim)), first.dims, coords)


def joined(pieces: Iterable[Mapping[str, Named]], dim: str) -> dict[str, Named]:
    """Dictionaries of named arrays one after the other along an axis, array by array."""
    rows = list(pieces)
    return {name: concatenated([row[name] for row in rows], dim) for name in rows[0]}


def described(array: Named) -> dict[str, Any]:
    """The names and labels of an array's axes as JSON has them; `restored` puts them back."""
    return {"dims": list(array.dims), "coords": {dim: list(labels) for dim, labels in array.coords.items()}}


def restored(arrays: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays with the axes that were stored beside them; those without stay plain."""
    return {
        name: Named(array, axes[name]["dims"], axes[name]["coords"]) if name in axes else array
        for name, array in arrays.items()
    }


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Refusal(f"This is made by {name}, which is not installed. Write pip install {name}.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_plain(one) for one in value)
    return value.values if isinstance(value, Named) else value


def _labels(dim: str, labels: Any) -> tuple[str | int | float, ...]:
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) != 1:
        raise Refusal(f"The labels of {dim!r} are a list, one for each place; got {said(labels)}. Write {dim}=[...].")
    return tuple(_label(one) for one in labels)


def _label(value: Any) -> str | int | float:
    found = value.item() if isinstance(value, np.generic) else value
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise Refusal(
            f"The labels of an axis are words or numbers; got {said(value)}. Write n=(100, 500), for example."
        )
    return found
