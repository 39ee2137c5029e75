"""Sameness by value: whether two things are the same is decided by what they are made of, never by how they print.

Arrays are their content, functions their code, constants, defaults and closure, modules and mappings their parts. A
checkpoint, a record and a compiled program are kept under such an identity.
"""

import dataclasses
import dis
import functools
import hashlib
import inspect
import io
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from haarflow.errors import Refusal

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_SETTLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_HOUSE = str(Path(__file__).parent)
_LARGE = 2**20  # bytes, from which on the digest of an array is remembered
_digests: dict[int, tuple[weakref.ref, str]] = {}


class Unidentified(Refusal):
    """Something that has no value of its own, such as an open file: two of them cannot be told apart."""


def digest(thing: Any) -> str:
    """64 letters that depend on everything the thing is made of, and on nothing else."""
    walk = _Walk()
    walk.visit(thing)
    return walk.found.hexdigest()


class Function:
    """A function that equals every function of the same value, so that one made again is compiled once.

    A function whose value cannot be told (it holds a traced number, an open file) equals itself alone.
    """

    def __init__(self, function: Callable):
        self.function = function
        functools.update_wrapper(self, function, updated=())

    @functools.cached_property
    def value(self) -> Any:
        """What stands for the function in comparisons."""
        try:
            return digest(self.function)
        except Unidentified:
            return id(self.function)

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __eq__(self, other):
        return isinstance(other, Function) and (self.function is other.function or self.value == other.value)

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return getattr(self.function, "__qualname__", repr(self.function))

    def __identity__(self):
        return self.function


def by_value(function: Any) -> Any:
    """A plain function as a `Function`; modules that are trees of arrays, and everything else, stay themselves."""
    plain = isinstance(function, types.FunctionType | types.MethodType | functools.partial)
    return Function(function) if plain or type(function).__name__ == "PjitFunction" else function


class _Walk:
    """One walk over everything a thing is made of, in a fixed order."""

    def __init__(self):
        self.found = hashlib.blake2b(digest_size=32)
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # what was met stays alive, so that no address is met twice

    def visit(self, thing: Any) -> None:
        if isinstance(thing, _PLAIN):
            self._say(type(thing).__name__, repr(thing))
        elif isinstance(thing, np.ndarray | np.generic) or _is_jax_array(thing):
            self._array(thing)
        elif isinstance(thing, types.ModuleType):
            self._say("module", thing.__name__)
        elif id(thing) in self.seen:
            self._say("again", self.seen[id(thing)])
        else:
            self.seen[id(thing)] = len(self.seen)
            self.kept.append(thing)
            self._parts(thing)

    def _parts(self, thing: Any) -> None:
        """The parts of a thing that is met for the first time."""
        for kinds, how in self._ways():
            if isinstance(thing, kinds):
                how(thing)
                return
        if not isinstance(thing, type) and hasattr(thing, "__identity__"):
            self._say("made of", _name(type(thing)))
            self.visit(thing.__identity__())
        elif dataclasses.is_dataclass(thing):
            self._object(thing, {field.name: getattr(thing, field.name, None) for field in dataclasses.fields(thing)})
        elif hasattr(thing, "__wrapped__"):
            self._say("wrapped", _name(type(thing)))
            self.visit(thing.__wrapped__)
        elif hasattr(thing, "__dict__") and not isinstance(thing, io.IOBase):
            self._object(thing, vars(thing))
        elif isinstance(thing, io.IOBase) or not _has_state(thing):
            raise Unidentified(
                f"What is kept between runs is told apart by value; got a {_name(type(thing))}, which has none. "
                "Write the function so that it uses numbers, arrays and other functions only."
            )
        else:
            self._say("value", _name(type(thing)), repr(thing))

    def _ways(self):
        return (
            (type, self._class),
            (types.FunctionType, self._function),
            (types.CodeType, self._code),
            (types.MethodType, lambda method: self._all("method", method.__func__, method.__self__)),
            (types.BuiltinFunctionType, self._named),
            (np.ufunc, self._named),
            (functools.partial, lambda part: self._all("partial", part.func, part.args, part.keywords)),
            (staticmethod | classmethod, lambda method: self._all("method", method.__func__)),
            (property, lambda one: self._all("property", one.fget)),
            (functools.cached_property, lambda one: self._all("property", one.func)),
            (tuple | list, lambda many: self._all(_name(type(many)), *many)),
            (set | frozenset, self._set),
            (Mapping, lambda pairs: self._all("mapping", *(part for pair in pairs.items() for part in pair))),
            (weakref.ReferenceType, lambda reference: self._all("reference", reference())),
            (np.dtype | Path | range | slice, lambda one: self._say(type(one).__name__, repr(one))),
        )

    def _say(self, *words: Any) -> None:
        for word in words:
            text = str(word).encode()
            self.found.update(f"{len(text)}:".encode() + text)

    def _all(self, tag: str, *things: Any) -> None:
        self._say(tag, len(things))
        for thing in things:
            self.visit(thing)

    def _array(self, array: Any) -> None:
        import jax
        from jax.core import Tracer

        if isinstance(array, Tracer):
            raise Unidentified("What is kept between runs is told apart by value; got a traced number.")
        if isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
            self._say("key", jax.random.key_impl(array))
            array = jax.random.key_data(array)
        content = np.asarray(array)
        if content.dtype == object:
            self._all(f"objects {content.shape}", *content.ravel().tolist())
            return
        self._say("array", content.dtype, content.shape)
        if content.nbytes < _LARGE:
            self.found.update(_bytes(content))
        else:
            self._say(_remembered(array, content))

    def _set(self, members: Any) -> None:
        self._say("set", *sorted(digest(member) for member in members))

    def _named(self, thing: Any) -> None:
        owner = getattr(thing, "__self__", None)
        self._say("named", getattr(thing, "__module__", None), getattr(thing, "__qualname__", thing.__name__))
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.visit(owner)

    def _object(self, thing: Any, parts: Mapping[str, Any]) -> None:
        self.visit(type(thing))
        self._say("object", len(parts))
        for name in sorted(parts):
            self._say(name)
            self.visit(parts[name])

    def _class(self, cls: type) -> None:
        self._say("class", _name(cls))
        if not _settled(sys.modules.get(cls.__module__)):
            own = {name: part for name, part in vars(cls).items() if _counts(name, part)}
            self._all("bases", *cls.__bases__)
            for name in sorted(own):
                self._say(name)
                self.visit(own[name])

    def _function(self, function: types.FunctionType) -> None:
        if _settled(sys.modules.get(function.__module__)) and "<locals>" not in function.__qualname__:
            self._say("function", _name(function))
            return
        self._say("function")
        self._code(function.__code__)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        self._all("with", function.__defaults__, function.__kwdefaults__, *cells)
        if _settled(sys.modules.get(function.__module__)):
            self._say(_name(function))
        else:
            names = [name for name in _globals_of(function.__code__) if name in function.__globals__]
            self._all("globals", *names, *(function.__globals__[name] for name in names))

    def _code(self, code: types.CodeType) -> None:
        # The docstring, the name, the line numbers and where it was written are left out: they change nothing.
        constants = code.co_consts[1:] if _documented(code) else code.co_consts
        self._say("code", code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars)
        self._say(code.co_flags & ~inspect.CO_NESTED)
        self._all("constants", *constants)


def _bytes(content: np.ndarray) -> Any:
    return np.ascontiguousarray(content).data.cast("B") if content.size else b""


def _remembered(array: Any, content: np.ndarray) -> str:
    """The digest of a large array; that of a JAX array, which never changes, is computed once while it lives."""
    name = id(array)
    known = _digests.get(name)
    if known is not None and known[0]() is array:
        return known[1]
    found = hashlib.blake2b(_bytes(content), digest_size=32).hexdigest()
    if not isinstance(array, np.ndarray | np.generic):
        _digests[name] = weakref.ref(array, lambda _: _digests.pop(name, None)), found
    return found


def _documented(code: types.CodeType) -> bool:
    """Whether the first constant is a docstring: a flag says so from Python 3.13 on, and None stood there before."""
    flag = getattr(inspect, "CO_HAS_DOCSTRING", None)
    if flag is not None:
        return bool(code.co_flags & flag)
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and isinstance(next(iter(code.co_consts), None), str)


_NO_CONTENT = "a cell that is empty"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _NO_CONTENT


def _globals_of(code: types.CodeType) -> list[str]:
    """The global names that a function and the functions inside it look up, each once."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    here = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return sorted(here.union(*(_globals_of(part) for part in inner)))


def _settled(module: types.ModuleType | None) -> bool:
    """Whether a module's functions are known by their names: those of Python, of installed libraries, of haarflow.

    An experiment is not: what it computes is what its file says.
    """
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ != "__main__"
    if file.startswith(_HOUSE):
        return not module.__name__.startswith("haarflow.experiments")
    return file.startswith(_SETTLED)


def _counts(name: str, part: Any) -> bool:
    """Whether an attribute of a class is something that somebody wrote and that acts."""
    written = not (name.startswith("__") and name.endswith("__")) or isinstance(part, types.FunctionType)
    made = name.startswith(("_abc_", "__pydantic", "model_")) or isinstance(part, types.MemberDescriptorType)
    return written and not made and not isinstance(part, types.GetSetDescriptorType)


def _has_state(thing: Any) -> bool:
    """Whether its print tells its value: the default print is an address."""
    return type(thing).__repr__ is not object.__repr__ and " at 0x" not in repr(thing)


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing)}"


def _is_jax_array(thing: Any) -> bool:
    return "jax" in sys.modules and isinstance(thing, sys.modules["jax"].Array)
