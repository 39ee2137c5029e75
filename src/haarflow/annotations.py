"""What the annotation of an argument asks for: of which kind it is, and how a sentence says it."""

import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import AbstractArray, Array


def is_array(hint: Any) -> bool:
    """Whether an annotation asks for an array."""
    return hint in (Array, np.ndarray) or (isinstance(hint, type) and issubclass(hint, AbstractArray))


def is_number(hint: Any) -> bool:
    """Whether an annotation asks for an array of no axes, which is a number."""
    return isinstance(hint, type) and issubclass(hint, AbstractArray) and hint.dim_str == "" and not is_key(hint)


def is_key(hint: Any) -> bool:
    """Whether an annotation asks for a JAX key, or for several."""
    return isinstance(hint, type) and issubclass(hint, AbstractArray) and "key" in str(hint.dtypes)


def words(hint: Any) -> str:
    """What an annotation asks for, in words."""
    names = {int: "a whole number", float: "a number", str: "a word", type(None): "None", bool: "True or False"}
    if hint in names:
        return names[hint]
    if is_number(hint):
        return "a number"
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return f"an array ({', '.join(hint.dim_str.split())})"
    if is_array(hint):
        return "an array"
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return words(typing.get_args(hint)[0])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return "a list"
    name = getattr(hint, "__name__", str(hint))
    return inside_a_sentence(a(name)) if name != "Callable" else "a function"


def inside_a_sentence(owner: str) -> str:
    """An owner as it stands where no sentence begins: without the capital letter of its article."""
    return owner[0].lower() + owner[1:] if owner.startswith(("A ", "An ")) else owner


def a(name: str) -> str:
    """A name with its article, at the beginning of a sentence."""
    return f"{'An' if name[0] in 'AEIOaeio' else 'A'} {name}"


def kind_of(thing: Any) -> str:
    """The class of a thing with its article, as it stands inside a sentence: an object, a Cloud."""
    return inside_a_sentence(a(type(thing).__name__))


def what_to_write(hint: Any) -> str:
    """What to write, where a kind says it (`instead: ClassVar[str]`)."""
    return getattr(hint, "instead", "") or f"Write {words(hint)}."
