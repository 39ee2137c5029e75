"""Checks at the door: what a caller gives is converted or refused once, before compiled code sees it.

`@door` on a public function or class reads the annotations of its arguments: `int` takes whole numbers of any type,
`float` finite real numbers, `Float[Array, "b d"]` lists, NumPy and pandas of that shape (the letters agree among the
arguments of one call), a key takes both kinds of JAX keys and integer seeds, and a kind of the library takes its
members. Everything else is refused in one sentence. Numbers become weakly typed JAX numbers where an array of no
axes is asked for, so that 1, 1.0 and np.float32(1) are one compiled program. Values that are being traced pass, their
shapes are checked. A rule beyond the type is written as `Annotated`, see `Count` and `Positive`.
"""

import contextlib
import functools
import inspect
import operator
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import AbstractArray, Array, Float, Key

from haarflow.errors import Refusal

T = TypeVar("T", bound=Callable)


class Advised(Refusal):
    """The refusal of somebody who knows what was meant: among several, the one to tell."""


@dataclass(frozen=True)
class Least:
    """The rule x >= bound."""

    bound: float | int

    def holds(self, value) -> bool:
        return bool(np.all(value >= self.bound))

    def __str__(self):
        return f">= {self.bound:g}"


@dataclass(frozen=True)
class Above:
    """The rule x > bound."""

    bound: float | int

    def holds(self, value) -> bool:
        return bool(np.all(value > self.bound))

    def __str__(self):
        return f"> {self.bound:g}"


@dataclass(frozen=True)
class Most:
    """The rule x <= bound."""

    bound: float | int

    def holds(self, value) -> bool:
        return bool(np.all(value <= self.bound))

    def __str__(self):
        return f"<= {self.bound:g}"


@dataclass(frozen=True)
class Infinite:
    """The permission to be infinite."""


Count = Annotated[int, Least(1)]
Natural = Annotated[int, Least(0)]
Positive = Annotated[float, Above(0)]
NonNegative = Annotated[float, Least(0)]
Share = Annotated[float, Least(0), Most(1)]
PositiveLeaf = Annotated[Float[Array, ""], Above(0)]
NonNegativeLeaf = Annotated[Float[Array, ""], Least(0)]


def leaf(value: Any) -> Any:
    """A converter for the numbers and arrays of a module: JAX's own, and None for none."""
    return None if value is None else jnp.asarray(value)


def door(subject: T) -> T:
    """The same function or class, whose arguments are converted or refused by their annotations."""
    if isinstance(subject, type):
        subject.__init__ = _guarded(subject.__init__, a(subject.__name__), subject)
        return typing.cast(T, subject)
    return typing.cast(T, _guarded(subject, subject.__name__, subject))


def _guarded(function: Callable, owner: str, annotated: Any) -> Callable:
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}  # read at the first call, when everything they name exists

    @functools.wraps(function)
    def checked(*args, **kwargs):
        if not hints:
            hints.update(typing.get_type_hints(annotated, include_extras=True))
        bound = signature.bind(*args, **kwargs)
        sizes: dict[str, tuple[int, str]] = {}
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            if name in hints and value is not parameter.default:
                place = Place(f"{owner}'s {name}", sizes)
                if parameter.kind is parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(admit(place, one, hints[name]) for one in value)
                elif parameter.kind is not parameter.VAR_KEYWORD:
                    bound.arguments[name] = admit(place, value, hints[name])
        return function(*bound.args, **bound.kwargs)

    return checked


class Place(typing.NamedTuple):
    """Which argument of whom is looked at, and the sizes that the letters of this call stand for so far."""

    owner: str
    sizes: dict[str, tuple[int, str]]


def admit(place: Place, value: Any, hint: Any) -> Any:
    """The value as the annotation asks for it, or a refusal."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _ruled(place, value, parts[0], parts[1:])
    if hint in (Any, inspect.Parameter.empty, object) or isinstance(hint, TypeVar):
        return value
    if origin in (typing.Union, types.UnionType):
        return _any_of(place, value, parts)
    if origin is typing.Literal:
        return _chosen(place, value, parts)
    if hint is None or hint is type(None):
        return _kind(place, value, type(None), "None")
    if _is_key(hint):
        return keys(place.owner, value, many=hint.dim_str != "")
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return _array(place, value, hint)
    if _is_array(hint):
        return numbers(place.owner, value, numpy=hint is np.ndarray)
    if Callable in (hint, origin):
        return _callable(place, value)
    if origin is not None:
        return _collection(place, value, origin, parts)
    return _SIMPLE.get(hint, _member)(place, value, hint)


def keys(owner: str, value: Any, *, many: bool = False) -> Key[Array, "*r"]:
    """JAX keys from keys of either kind, or from whole numbers as seeds; `many` welcomes an array of them."""
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
    return found if isinstance(found, jax.Array) else jnp.asarray(found)


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
            raise Refusal(
                f"{owner} is computed outside of compiled programs; got a traced array. "
                "Call the function outside of jit, vmap and grad."
            )
        found = value
    else:
        found = value if isinstance(value, jax.Array) else _as_numpy(owner, value)
    if not _is_real(found.dtype):
        raise Refusal(f"{owner} is an array of real numbers; got {said(value)}. Write the numbers as floats.")
    if finite and not isinstance(found, Tracer) and getattr(found, "is_fully_addressable", True):
        _refuse_infinite(owner, np.asarray(found))
    if numpy:
        return np.asarray(found, np.float64)
    return jnp.asarray(found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(float))


def _as_numpy(owner: str, value: Any) -> np.ndarray:
    try:
        found = np.asarray(value)
    except ValueError:
        raise Refusal(
            f"{owner} is an array of numbers; got rows of different lengths. Write rows of one length."
        ) from None
    if found.dtype == object and found.size:
        with contextlib.suppress(TypeError, ValueError):
            found = found.astype(float)
    if value is None or not _is_real(found.dtype):
        raise Refusal(f"{owner} is an array of real numbers; got {said(value)}. Write the numbers as floats.")
    return found


def _refuse_infinite(owner: str, found: np.ndarray) -> None:
    if found.dtype.kind not in "iub" and not np.isfinite(found).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(found))[0]]
        place = f" at {where if len(where) != 1 else where[0]}" if where else ""
        raise Refusal(
            f"{owner} holds finite numbers; got {float(found[tuple(where)])}{place}. Drop or mend what is not finite."
        )


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)


def _is_real(dtype: Any) -> bool:
    return _is_number(dtype) or jnp.issubdtype(dtype, jnp.bool_)


def _array(place: Place, value: Any, hint: Any) -> Any:
    """An array whose axes are as many as the annotation's letters, of sizes that agree with the other arguments."""
    whole_numbers = all("int" in str(name) for name in hint.dtypes) if not isinstance(hint.dtypes, type) else False
    if hint.dim_str == "" and not whole_numbers and hint.array_type is not np.ndarray:
        return number(place.owner, value)
    owner, numpy = place.owner, hint.array_type is np.ndarray
    if whole_numbers:
        found = _as_numpy(owner, value)
        if found.dtype.kind not in "iu":
            raise Refusal(f"{owner} holds whole numbers; got {said(value)}. Write an array of integers.")
    else:
        found = numbers(owner, value, numpy=numpy)
    _refuse_shape(place, found.shape, hint.dim_str.split())
    return found


def _refuse_shape(place: Place, shape: tuple[int, ...], letters: Sequence[str]) -> None:
    variadic = [i for i, letter in enumerate(letters) if letter.startswith("*") or letter == "..."]
    fixed = [letter for letter in letters if not letter.startswith("*") and letter != "..."]
    if len(shape) < len(fixed) or (not variadic and len(shape) != len(fixed)):
        raise Refusal(
            f"{place.owner} has the shape ({', '.join(letters)}{',' * (len(letters) == 1)}); got the shape {shape}. "
            f"Write an array of {len(fixed)} {'axis' if len(fixed) == 1 else 'axes'}{' or more' * bool(variadic)}."
        )
    cut = variadic[0] if variadic else len(letters)
    pairs = [*zip(letters[:cut], shape, strict=False)]
    pairs += zip(letters[cut + 1 :], shape[len(shape) - (len(letters) - cut - 1) :], strict=False) if variadic else []
    for letter, size in pairs:
        if not isinstance(size, int):  # a symbolic size of jax.export
            continue
        known, whose = (int(letter), "always") if letter.isdigit() else place.sizes.get(letter, (size, place.owner))
        if letter != "_" and letter.isidentifier() and size == known:
            place.sizes.setdefault(letter, (size, place.owner))
        if letter != "_" and size != known:
            reason = "always" if letter.isdigit() else f"as in {_inside_a_sentence(whose)}"
            raise Refusal(
                f"{place.owner} has the shape ({', '.join(letters)}) with {letter} = {known} {reason}; "
                f"got the shape {shape}. Give both the same size."
            )


def _ruled(place: Place, value: Any, hint: Any, rules: tuple) -> Any:
    infinite = any(isinstance(rule, Infinite) for rule in rules)
    found = real(place.owner, value, infinite=True) if infinite and hint is float else admit(place, value, hint)
    bounds = [rule for rule in rules if not isinstance(rule, Infinite)]
    known = found is not None and not isinstance(found, Tracer)
    if known and not all(rule.holds(np.asarray(found)) for rule in bounds):
        kind = "a whole number" if hint is int else "a finite number"
        words = " and ".join(map(str, bounds))
        raise Refusal(f"{place.owner} is {kind} {words}; got {said(value)}. Write {_inside(rules, hint)}.")
    return found


def _inside(rules: tuple, hint: Any) -> str:
    """A number that keeps the rules."""
    least = max((rule.bound for rule in rules if isinstance(rule, Least)), default=None)
    if least is not None:
        return f"{least:g}, for example"
    return "1, for example" if hint is int else "0.5, for example"


def _any_of(place: Place, value: Any, parts: tuple) -> Any:
    """What the first annotation that takes the value makes of it."""
    if value is None and type(None) in parts:
        return None
    parts = tuple(part for part in parts if part is not type(None))
    if any(_is_key(part) for part in parts):
        return keys(place.owner, value, many=any(_is_key(part) and part.dim_str for part in parts))
    refusals = []
    for part in parts:
        try:
            return admit(place, value, part)
        except Refusal as refusal:
            refusals.append(refusal)
    telling = [refusal for refusal in refusals if isinstance(refusal, Advised)]
    telling += [refusal for part, refusal in zip(parts, refusals, strict=True) if _near(value, part)]
    raise telling[0] if telling else _none_of(place, value, parts, refusals)


def _none_of(place: Place, value: Any, parts: tuple, refusals: list[Refusal]) -> Refusal:
    if len(refusals) == 1:
        return refusals[0]
    names = " or ".join(dict.fromkeys(_words(part) for part in parts))
    return Refusal(f"{place.owner} is {names}; got {said(value)}. {_instead(parts[0])}")


def _near(value: Any, hint: Any) -> bool:
    """Whether the value is of the annotation's kind, so that its refusal is the one to tell."""
    base = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
    if base in (int, float):
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if _is_array(base):
        return isinstance(value, list | tuple | np.ndarray | jax.Array)
    origin = typing.get_origin(base)
    return isinstance(origin or base, type) and isinstance(value, origin or base) and not isinstance(value, str)


def _chosen(place: Place, value: Any, choices: tuple) -> Any:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise Refusal(f"{place.owner} is one of {', '.join(map(str, choices))}; got {said(value)}.")
    return value


def _callable(place: Place, value: Any) -> Any:
    if not callable(value) or isinstance(value, type):
        raise Refusal(f"{place.owner} is a function; got {said(value)}. Write a function, or a lambda.")
    return value


def _collection(place: Place, value: Any, origin: type, parts: tuple) -> Any:
    if origin is type:
        return _kind(place, value, type, "a class")
    if issubclass(origin, Mapping):
        _kind(place, value, Mapping, "a mapping")
        return {name: admit(Place(f"{place.owner}[{name!r}]", place.sizes), value[name], parts[1]) for name in value}
    if isinstance(value, np.ndarray | jax.Array) and value.ndim:
        value = list(value)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise Refusal(f"{place.owner} is a list; got {said(value)}. Write [{_words(parts[0])}, ...].")
    each = [part for part in parts if part is not Ellipsis]
    if origin is tuple and Ellipsis not in parts:
        if len(value) != len(parts):
            raise Refusal(f"{place.owner} holds {len(parts)} things; got {len(value)}. Write {len(parts)} of them.")
        each = list(parts)
    else:
        each = each * len(value)
    found = [admit(Place(f"{place.owner}[{i}]", place.sizes), one, each[i]) for i, one in enumerate(value)]
    return tuple(found) if origin is tuple else found


def _kind(place: Place, value: Any, kind: type, words: str) -> Any:
    if not isinstance(value, kind):
        raise Refusal(f"{place.owner} is {words}; got {said(value)}. {_instead(kind)}")
    return value


def _member(place: Place, value: Any, hint: Any) -> Any:
    """A member of one of the library's kinds; a kind may welcome other things by its own `welcome(owner, value)`."""
    if not isinstance(hint, type):
        return value
    if not isinstance(value, hint) and hasattr(hint, "welcome"):
        value = hint.welcome(place.owner, value)
    return _kind(place, value, hint, _words(hint))


def _flag(place: Place, value: Any, _: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise Refusal(f"{place.owner} is True or False; got {said(value)}.")
    return bool(value)


def _text(place: Place, value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise Refusal(f"{place.owner} is a word in quotes; got {said(value)}.")
    return value


_SIMPLE: dict[Any, Callable] = {
    bool: _flag,
    str: _text,
    int: lambda place, value, _: whole(place.owner, value),
    float: lambda place, value, _: real(place.owner, value),
}


def _is_array(hint: Any) -> bool:
    return hint in (Array, np.ndarray) or (isinstance(hint, type) and issubclass(hint, AbstractArray))


def _is_key(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray) and "key" in str(hint.dtypes)


def _words(hint: Any) -> str:
    """What an annotation asks for, in words."""
    names = {int: "a whole number", float: "a number", str: "a word", type(None): "None", bool: "True or False"}
    if hint in names:
        return names[hint]
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return f"an array ({', '.join(hint.dim_str.split())})"
    if _is_array(hint):
        return "an array"
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _words(typing.get_args(hint)[0])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return "a list"
    name = getattr(hint, "__name__", str(hint))
    return _inside_a_sentence(a(name)) if name != "Callable" else "a function"


def _inside_a_sentence(owner: str) -> str:
    return owner[0].lower() + owner[1:] if owner.startswith(("A ", "An ")) else owner


def a(name: str) -> str:
    """A name with its article, at the beginning of a sentence."""
    return f"{'An' if name[0] in 'AEIOU' else 'A'} {name}"


def _instead(hint: Any) -> str:
    """What to write, where a kind says it (`instead: ClassVar[str]`)."""
    return getattr(hint, "instead", "") or f"Write {_words(hint)}."


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
        return f"a {type(value).__name__} of {len(value)}"
    name = getattr(value, "__name__", None) if callable(value) and not hasattr(value, "__dataclass_fields__") else None
    return f"the function {name}" if name else f"a {type(value).__name__}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_unless_affordable(owner: str, size: float, *, instead: str, most: float | None = None) -> None:
    """Refuse a request whose memory, in bytes, is more than half of the machine's, before the work starts."""
    limit = machine_memory() / 2 if most is None else most
    if size > limit:
        raise Refusal(
            f"{owner} would need {in_bytes(size)} of memory; at most {in_bytes(limit)} are taken here. {instead}"
        )


@functools.cache
def machine_memory() -> int:
    """The bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def in_bytes(size: float) -> str:
    """A number of bytes in words: 3.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.1e} EB"
