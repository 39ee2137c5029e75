"""Clouds and networks in files: an .npz of arrays with a JSON header that says what they are.

A thing is written as the name of its class and its fields, so only classes can come back that are there when the file
is read: those of the library, and a user's own once their module is imported. Nothing in a file is ever run.
"""

import dataclasses
import hashlib
import importlib
import json
import sys
import types
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from haarflow.annotations import kind_of
from haarflow.errors import Refusal
from haarflow.files import place_of, write_whole
from haarflow.identity import Function

HEADER = "haarflow"
_PLAIN = (type(None), bool, int, float, str)
MOVED = {
    "haarflow.models.units:Mean": "haarflow.models.networks",
    "haarflow.algebra.groups:Orthogonal": "haarflow.algebra.lie_groups",
    "haarflow.algebra.groups:SpecialOrthogonal": "haarflow.algebra.lie_groups",
}
"""Where classes are found that files written before name by the module they stood in then."""


def write(path: str | Path, thing: Any) -> None:
    """Put a thing into a file, whole or not at all."""
    place = place_of("What is saved goes to", path, "Make the folder first.")
    arrays: dict[str, np.ndarray] = {}
    content = _packed(thing, arrays)
    from haarflow import __version__

    about = {"kind": type(thing).__name__, "version": __version__, "content": content}
    about["digest"] = _digest(about, arrays)
    buffer = BytesIO()
    np.savez(buffer, **{HEADER: np.asarray(json.dumps(about))}, **arrays)  # pyright: ignore[reportArgumentType]
    try:
        write_whole(place, buffer.getvalue())
    except OSError as error:
        raise Refusal(
            f"What is saved goes to a file that can be written; got {place}: {error.strerror or error}. "
            "Check the folder."
        ) from None


def read(path: str | Path, kind: type) -> Any:
    """The thing in a file, which must be of a kind."""
    place, owner = Path(path), f"{kind.__name__}.load"
    try:
        found = np.load(BytesIO(place.read_bytes()), allow_pickle=False)
        arrays = dict(found) if isinstance(found, np.lib.npyio.NpzFile) else {}
    except OSError as error:
        raise Refusal(
            f"{owner} reads a file that is there; got {place}: {error.strerror or error}. Check the path."
        ) from None
    except (ValueError, EOFError, BadZipFile, NotImplementedError, zlib.error):
        arrays = {}
    about = _header(owner, place, arrays)
    if about["kind"] != kind.__name__:
        raise Refusal(
            f"{owner} reads what {kind.__name__}.save wrote; got a {about['kind']} in {place.name}. "
            f"Write {about['kind']}.load(path)."
        )
    return _unpacked(about["content"], arrays, f"{place.name}, saved by haarflow {about['version']}")


def _header(owner: str, place: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a file says of itself, where it is one of ours and as it was written."""
    try:
        about = json.loads(str(arrays.pop(HEADER)))
        found = about.pop("digest")
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Refusal(
            f"{owner} reads a file that haarflow saved; got {place.name}, which is not one. For data write load(path)."
        ) from None
    if found != _digest(about, arrays):
        raise Refusal(
            f"{owner} reads a file as it was saved; got {place.name}, which was changed or cut since. Save it again."
        )
    return about


def _digest(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    found = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _packed(thing: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A thing as JSON; its arrays go into `arrays`."""
    if isinstance(thing, _PLAIN):
        return thing
    if isinstance(thing, tuple | list):
        return {"list": [_packed(one, arrays) for one in thing], "tuple": isinstance(thing, tuple)}
    if isinstance(thing, jax.Array) and thing.weak_type:
        return {"number": float(thing)}
    if isinstance(thing, jax.Array | np.ndarray):
        name = f"array {len(arrays)}"
        arrays[name] = np.asarray(thing)
        return {"array": name, "jax": isinstance(thing, jax.Array)}
    if isinstance(thing, Function | types.FunctionType):
        return {"function": _named_function(thing)}
    if isinstance(thing, eqx.Module) and "<locals>" not in type(thing).__qualname__:
        names = [one.name for one in dataclasses.fields(thing) if one.name in vars(thing)]
        packed = {name: _packed(getattr(thing, name), arrays) for name in names}
        return {"class": f"{type(thing).__module__}:{type(thing).__qualname__}", "fields": packed}
    if type(thing).__module__.startswith("haarflow.") and hasattr(thing, "__identity__"):  # such as a frozen array
        return {"class": f"{type(thing).__module__}:{type(thing).__qualname__}", "of": _packed(_of(thing), arrays)}
    raise Refusal(
        f"What is saved is written as classes, numbers and arrays; got {kind_of(thing)}, which has no name "
        "to be found by. Write the class at the top of a module, or save the cloud alone, `cloud.save(path)`."
    )


def _of(thing: Any) -> Any:
    return thing.__identity__()


def _named_function(given: Any) -> str:
    """The name of a function that stands at the top of a module of the library."""
    function = given.function if isinstance(given, Function) else given
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module.startswith("haarflow.") and _found(module, name) is function:
        return f"{module}:{name}"
    raise Refusal(
        f"What is saved is found again by name when it is loaded; got the function {name or type(function).__name__}, "
        "which a file cannot hold. Write a Unit or Network class at the top of a module, or save the cloud alone, "
        "`cloud.save(path)`, and make the unit again."
    )


def _found(module: str, name: str) -> Any:
    """What a module holds under a name; modules of the library are imported, others must have been."""
    module = MOVED.get(f"{module}:{name}", module)
    if module.startswith("haarflow.") and module not in sys.modules:
        try:
            importlib.import_module(module)
        except ImportError:
            return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _unpacked(content: Any, arrays: dict[str, np.ndarray], origin: str) -> Any:
    """The thing that was packed."""
    if isinstance(content, _PLAIN):
        return content
    if "list" in content:
        many = [_unpacked(one, arrays, origin) for one in content["list"]]
        return tuple(many) if content["tuple"] else many
    if "number" in content:
        return jnp.asarray(content["number"])
    if "array" in content:
        array = arrays[content["array"]]
        return jnp.asarray(array) if content["jax"] else array
    if "function" in content:
        return Function(_found(*content["function"].split(":")))
    return _made(content, arrays, origin)


def _made(content: dict[str, Any], arrays: dict[str, np.ndarray], origin: str) -> Any:
    module, name = content["class"].split(":")
    cls = _found(module, name)
    if "of" in content and isinstance(cls, type) and module.startswith("haarflow."):
        return cls(_unpacked(content["of"], arrays, origin))
    if not (isinstance(cls, type) and issubclass(cls, eqx.Module)):
        raise Refusal(
            f"What is loaded is made of classes that are there; got {name} of the module {module} in {origin}, which "
            "is not. Import that module first."
        )
    names = {one.name for one in dataclasses.fields(cls)}
    given = {one.name for one in dataclasses.fields(cls) if one.init}
    if not given <= set(content["fields"]) <= names:
        raise Refusal(
            f"What is loaded has the fields of its class; got {name} with {', '.join(sorted(content['fields']))} in "
            f"{origin}, where it now has {', '.join(sorted(names))}. Load it with that version, or save it again."
        )
    made = object.__new__(cls)
    for field, value in content["fields"].items():
        object.__setattr__(made, field, _unpacked(value, arrays, origin))
    return made
