"""What callers give as values: numbers, arrays and keys of any type, as the library uses them, or a refusal.

`said` puts what was got into a few words, for every refusal of the library.
"""

import contextlib
import functools
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from haarflow.annotations import kind_of
from haarflow.errors import Refusal


def leaf(value: Any) -> Any:
    """A converter for the numbers and arrays of a module: JAX's own, and None for none."""
    return None if value is None else jnp.asarray(value)


def keys(owner: str, value: Any, *, many: bool = False) -> Key[Array, "*r"]:
    """JAX keys from keys of either kind, or from whole numbers as seeds; `batched` welcomes an array of them."""
    found = _keys(value)
    if found is None or (found.ndim and not many) or found.ndim > 1:
        wanted = "a key, or a row of keys" if many else "one key"
        raise Refusal(
            f"{owner} is {wanted}; got {said(value)}. Write jax.random.key(0), or a whole number >= 0 as a seed."
        )
    return found


def _keys(value: Any) -> Array | None:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value
    if isinstance(value, jax.Array | np.ndarray) and value.dtype == np.uint32 and value.shape[-1:] in ((2,), (4,)):
        kind = "threefry2x32" if value.shape[-1] == 2 else "rbg"
        return jax.random.wrap_key_data(jnp.asarray(value), impl=kind)
    if isinstance(value, Tracer | bool):
        return None
    try:
        seeds = np.asarray(value)
    except ValueError:
        return None
    if seeds.dtype.kind not in "iu" or seeds.ndim > 1 or not seeds.size:
        return None
    if seeds.min() < 0 or int(seeds.max()) >= 2**63:
        return None
    # By their words: without 64 bits, `jax.random.key` forgets the upper half of a seed.
    words = np.stack([seeds.astype(np.uint64) >> np.uint64(32), seeds.astype(np.uint64) & np.uint64(2**32 - 1)], -1)
    return jax.random.wrap_key_data(jnp.asarray(words.astype(np.uint32)), impl="threefry2x32")


def number(owner: str, value: Any) -> Float[Array, ""]:
    """A finite real number as a weakly typed JAX number: of whatever type it was, the program is the same."""
    found = real(owner, value)
    return found if isinstance(found, jax.Array) else jnp.asarray(_within_precision(owner, found))


def real(owner: str, value: Any, *, infinite: bool = False) -> Any:
    """A finite real number as a Python float; a number that is being traced stays itself."""
    if isinstance(value, Tracer):
        if value.ndim or not _is_real(value.dtype):
            raise _no_number(owner, value)
        return value
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
        raise _no_number(owner, value)
    try:
        found = np.asarray(value)
        if found.ndim or not _is_number(found.dtype):
            raise _no_number(owner, value)
        found = float(found)
    except (TypeError, ValueError, OverflowError):
        raise _no_number(owner, value) from None
    if found != found or (not infinite and found in (float("inf"), float("-inf"))):
        raise _no_number(owner, value)
    return found


def _no_number(owner: str, value: Any) -> Refusal:
    return Refusal(f"{owner} is a finite number; got {said(value)}. Write a number such as 0.5.")


def whole(owner: str, value: Any, *, least: int | None = None) -> int:
    """A whole number, also one that was written 1e3."""
    found = _whole(value)
    if found is None or (least is not None and found < least):
        rule = "a whole number" if least is None else f"a whole number >= {least}"
        raise Refusal(f"{owner} is {rule}; got {said(value)}. Write {max(least or 0, 1)}, for example.")
    if abs(found) >= 2**63:
        raise Refusal(f"{owner} is a whole number below 2**63; got {said(value)}. Write a smaller one.")
    return found


def _whole(value: Any) -> int | None:
    if isinstance(value, bool | np.bool_ | str | bytes | Tracer):
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        return int(value) if np.ndim(value) == 0 and float(value) == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def numbers(owner: str, value: Any, *, numpy: bool = False, finite: bool = True) -> Any:
    """An array of finite real numbers, in floating point; `numpy` asks for NumPy's float64."""
    if isinstance(value, Tracer):
        if numpy:
            raise traced_refusal(owner)
        found = value
    else:
        found = value if isinstance(value, jax.Array) else _as_numpy(owner, value)
    if not _is_real(found.dtype):
        raise Refusal(f"{owner} is an array of real numbers; got {said(value)}. Write the numbers as floats.")
    if finite and not isinstance(found, Tracer) and getattr(found, "is_fully_addressable", True):
        _refuse_infinite(owner, np.asarray(found), value)
    if numpy:
        return np.asarray(found, np.float64)
    found = found if isinstance(found, jax.Array) or not finite else _within_precision(owner, found)
    return jnp.asarray(found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(float))


def _within_precision(owner: str, given: Any) -> Any:
    """What was given, refused where the precision of JAX would turn a finite number into infinity."""
    if not jax.config.read("jax_enable_x64") and np.max(np.abs(given), initial=0.0) > np.finfo(np.float32).max:
        raise Refusal(
            f"{owner} holds numbers of float32, the precision of JAX; got {np.max(np.abs(given)):.3g}, which is beyond "
            'it. Write smaller numbers, or jax.config.update("jax_enable_x64", True) first.'
        )
    return given


def traced_refusal(owner: str) -> Refusal:
    """What to say of numbers that a compiler does not know yet, where they must be known."""
    return Refusal(
        f"{owner} is computed from known numbers, before a program is compiled; got a traced array. Call it outside of "
        "jit, vmap and grad."
    )


def _as_numpy(owner: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray) and value.mask.any():
        raise Refusal(f"{owner} is an array of numbers; got masked entries. Write `array.filled(number)`.")
    try:
        found = np.asarray(value)
    except ValueError:
        raise Refusal(
            f"{owner} is an array of numbers; got rows of different lengths. Write rows of one length."
        ) from None
    except jax.errors.TracerArrayConversionError as error:
        raise traced_refusal(owner) from error
    if found.dtype == np.longdouble:
        found = found.astype(np.float64)
    if found.dtype == object and found.size:
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            found = found.astype(float)
    if value is None or not _is_real(found.dtype):
        got = stranger(value) or said(value)
        raise Refusal(f"{owner} is an array of real numbers; got {got}. Write the numbers as floats.")
    return found


def stranger(table: Any) -> str | None:
    """The first entry of a data frame, or of an array of objects, that is no number, and where; None if all are."""
    if isinstance(table, np.ndarray) and table.dtype == object:
        for place, one in np.ndenumerate(table):
            if not _reads_as_number(one):
                return f"{_entry(one)} at {list(place)}"
    for name in getattr(table, "columns", ()):
        for row, one in enumerate(np.asarray(table[name], object).ravel()):
            if not _reads_as_number(one):
                return f"{_entry(one)} in row {row} of the column {str(name)!r}"
    return None


def _reads_as_number(one: Any) -> bool:
    try:
        float(one)
    except (TypeError, ValueError):
        return one is None
    return True


def _entry(one: Any) -> str:
    return "no value" if absent(one) else said(one)


def absent(value: Any) -> bool:
    """Whether an entry of a table is none: None, NaN, or the one that pandas writes for a missing value."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def _refuse_infinite(owner: str, found: np.ndarray, given: Any) -> None:
    if found.dtype.kind not in "iub" and not np.isfinite(found).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(found))[0]]
        place = f" at {where if len(where) != 1 else where[0]}" if where else ""
        if len(where) == 2 and hasattr(given, "columns"):
            place = f" in row {where[0]} of the column {str(list(given.columns)[where[1]])!r}"
        raise Refusal(
            f"{owner} holds finite numbers; got {float(found[tuple(where)])}{place}. Drop or mend what is not finite."
        )


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)


def _is_real(dtype: Any) -> bool:
    return _is_number(dtype) or jnp.issubdtype(dtype, jnp.bool_)


def said(value: Any) -> str:
    """What was got, in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    if isinstance(value, Tracer):
        return f"a traced array of shape {value.shape}"
    if isinstance(value, jax.Array | np.ndarray):
        if value.ndim == 0 and not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return str(value)
        return f"an array of shape {value.shape} and type {value.dtype}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return _short(repr(value) if not isinstance(value, np.generic) else str(value))
    if isinstance(value, Sequence | Mapping | set):
        return f"{kind_of(value)} of {len(value)}"
    name = getattr(value, "__name__", None) if callable(value) and not hasattr(value, "__dataclass_fields__") else None
    return f"the function {name}" if name else kind_of(value)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_unless_affordable(owner: str, size: float | int, *, instead: str, most: float | None = None) -> None:
    """Refuse a request whose memory, in bytes, is more than half of the machine's, before the work starts."""
    limit = machine_memory() / 2 if most is None else most
    if size > limit:
        raise Refusal(
            f"{owner} would need {in_bytes(size)} of memory; at most {in_bytes(limit)} are taken here. {instead}"
        )


def refuse_unless_soon(owner: str, seconds: float | int, *, instead: str, most: float | int) -> None:
    """Refuse a request that takes at least so many seconds, where that is above `most`, before the work starts."""
    if seconds > most:
        raise Refusal(
            f"{owner} would take {seconds / 3600:.3g} hours or more; at most {most / 3600:g} are taken here. {instead}"
        )


@functools.cache
def machine_memory() -> int:
    """The bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def in_bytes(size: float | int) -> str:
    """A number of bytes in words: 3.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.1e} EB"


def to_pandas(table: Mapping[str, Any]) -> Any:
    """A dict of columns of one length as a DataFrame of pandas, where pandas is installed."""
    try:
        import pandas  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise Refusal(
            "to_pandas makes a DataFrame; got no pandas in this environment. Write .table(), a dict of columns, or "
            "install haarflow[tables]."
        ) from None
    return pandas.DataFrame(dict(table))
