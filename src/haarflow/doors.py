"""Checks at the door: what a caller gives is converted or refused once, before compiled code sees it.

`@door` on a public function or class reads the annotations of its arguments: `int` takes whole numbers of any type,
`float` finite real numbers, `Float[Array, "b d"]` lists, NumPy and pandas of that shape (the letters agree among the
arguments of one call), a key takes both kinds of JAX keys and integer seeds, and a kind of the library takes its
members. Everything else is refused in one sentence. Numbers become weakly typed JAX numbers where an array of no
axes is asked for, so that 1, 1.0 and np.float32(1) are one compiled program. Values that are being traced pass, their
shapes are checked; a function that then needs their values refuses them. A rule beyond the type is written as
`Annotated`, see `Count` and `Positive`.
"""

import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import AbstractArray, Array, Float

from haarflow.annotations import a, inside_a_sentence, is_array, is_key, is_number, what_to_write, words
from haarflow.errors import Refusal
from haarflow.values import _as_numpy, keys, number, numbers, real, said, traced_refusal, whole

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
class Below:
    """The rule x < bound."""

    bound: float | int

    def holds(self, value) -> bool:
        return bool(np.all(value < self.bound))

    def __str__(self):
        return f"< {self.bound:g}"


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
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _misfit(owner, signature, args, kwargs, error) from None
        sizes: dict[str, tuple[int, str]] = {}
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            if name in hints and value is not parameter.default:
                place = Place(f"{owner}'s {name}", sizes)
                if parameter.kind is parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(admit(place, one, hints[name]) for one in value)
                elif parameter.kind is not parameter.VAR_KEYWORD:
                    bound.arguments[name] = admit(place, value, hints[name])
        try:
            return function(*bound.args, **bound.kwargs)
        except jax.errors.JAXTypeError as error:
            if _traced((args, kwargs)):
                raise traced_refusal(owner) from error
            raise

    return checked


def _misfit(owner: str, signature: inspect.Signature, args: tuple, kwargs: dict, error: TypeError) -> Refusal:
    """The sentence about a call whose arguments are not those of the function."""
    names = [name for name in signature.parameters if name != "self"]
    strangers = [name for name in kwargs if name not in names]
    if strangers:
        close = difflib.get_close_matches(strangers[0], names, n=1)
        got, instead = f"an argument {strangers[0]!r}", f"Write {close[0]}" if close else "Leave it out"
    elif "missing" in str(error):
        given = {*names[: len(args) - ("self" in signature.parameters)], *kwargs}
        lacking = [name for name in names if name not in given and _required(signature.parameters[name])]
        got, instead = f"no {' and no '.join(lacking)}", f"Write {' and '.join(f'{name}=...' for name in lacking)}, too"
    else:
        twice = [name for name in kwargs if repr(name) in str(error)]
        got = f"{twice[0]} twice" if twice else f"{len(args) - ('self' in signature.parameters)} without a name"
        instead = "Write most of them by name"
    return Refusal(f"{owner} takes {', '.join(names) or 'no arguments'}; got {got}. {instead}.")


def _required(parameter: inspect.Parameter) -> bool:
    several = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in several


def _traced(given: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(given))


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
    if is_key(hint):
        return keys(place.owner, value, many=hint.dim_str != "")
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return _array(place, value, hint)
    if is_array(hint):
        return numbers(place.owner, value, numpy=hint is np.ndarray)
    if Callable in (hint, origin):
        return _callable(place, value)
    if origin is not None:
        return _collection(place, value, origin, parts)
    return _SIMPLE.get(hint, _member)(place, value, hint)


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
            reason = "always" if letter.isdigit() else f"as in {inside_a_sentence(whose)}"
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
        rule = " and ".join(map(str, bounds))
        raise Refusal(f"{place.owner} is {kind} {rule}; got {said(value)}. Write {_inside(rules, hint)}.")
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
    if any(is_key(part) for part in parts):
        return keys(place.owner, value, many=any(is_key(part) and part.dim_str for part in parts))
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
    names = " or ".join(dict.fromkeys(words(part) for part in parts))
    return Refusal(f"{place.owner} is {names}; got {said(value)}. {what_to_write(parts[0])}")


def _near(value: Any, hint: Any) -> bool:
    """Whether the value is of the annotation's kind, so that its refusal is the one to tell."""
    base = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
    if base in (int, float) or is_number(base):
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if is_array(base):
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
        _refuse_unless_words(place, value, parts[0])
        return {name: admit(Place(f"{place.owner}[{name!r}]", place.sizes), value[name], parts[1]) for name in value}
    if isinstance(value, np.ndarray | jax.Array) and value.ndim:
        value = list(value)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise Refusal(f"{place.owner} is a list; got {said(value)}. Write [{words(parts[0])}, ...].")
    each = [part for part in parts if part is not Ellipsis]
    if origin is tuple and Ellipsis not in parts:
        if len(value) != len(parts):
            raise Refusal(f"{place.owner} holds {len(parts)} things; got {len(value)}. Write {len(parts)} of them.")
        each = list(parts)
    else:
        each = each * len(value)
    found = [admit(Place(f"{place.owner}[{i}]", place.sizes), one, each[i]) for i, one in enumerate(value)]
    return tuple(found) if origin is tuple else found


def _refuse_unless_words(place: Place, value: Mapping, hint: Any) -> None:
    strangers = [name for name in value if hint is str and not isinstance(name, str)]
    if strangers:
        raise Refusal(
            f"{place.owner} is a mapping whose names are words in quotes; got the name {said(strangers[0])}. "
            f"Write {{{str(strangers[0])[:20]!r}: ...}}."
        )


def _kind(place: Place, value: Any, kind: type, words: str) -> Any:
    if not isinstance(value, kind):
        raise Refusal(f"{place.owner} is {words}; got {said(value)}. {what_to_write(kind)}")
    return value


def _member(place: Place, value: Any, hint: Any) -> Any:
    """A member of one of the library's kinds; a kind may welcome other things by its own `welcome(owner, value)`."""
    if not isinstance(hint, type):
        return value
    if not isinstance(value, hint) and hasattr(hint, "welcome"):
        value = hint.welcome(place.owner, value)
    return _kind(place, value, hint, words(hint))


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
