"""Laws: what every member of a kind keeps, measured on its `examples()`, the library's own and those of users.

A law is a function of an example that returns how far the example is from keeping it; its bound is stated once, where
the law is. The laws of a kind stand in the files `laws_of_….py` beside this one: a law that is added there is asked of
every member of its kind, here, in the tests and by `haarflow laws FILE`.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, NamedTuple, get_type_hints

import jax

from haarflow.doors import Place, admit
from haarflow.errors import Refusal
from haarflow.members import concrete, members
from haarflow.models.fits import refuse_unless_acting
from haarflow.values import said

BOOK: dict[type, list["Law"]] = {}
"""The laws of every kind, in the order in which they are written."""


class Broken(Exception):
    """A law that is broken in a way that no number tells; the words say how."""


class Law(NamedTuple):
    """What every member of a kind keeps: `measure(*example)` is at most the bound, or None where it says nothing."""

    kind: type
    name: str
    words: str
    bound: float
    measure: Callable[..., float | None]

    def judge(self, example: Any, member: str = "") -> "Finding":
        """How an example keeps this law; an error on the way is a finding too."""
        parts = example if isinstance(example, tuple) else (example,)
        value, told = math.inf, ""
        try:
            found = self.measure(*parts)
            value = None if found is None else float(found)
            value = math.inf if value is not None and math.isnan(value) else value
        except (Broken, Refusal) as error:
            told = str(error)
        except Exception as error:  # whatever a member of somebody else's may raise
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return Finding(member or called(example), self.kind.__name__, self.name, value, self.bound, told)


class Finding(NamedTuple):
    """How far one member is from keeping one law, and the law's bound; infinitely far, with words, after an error."""

    member: str
    kind: str
    law: str
    value: float | None
    bound: float
    told: str = ""

    @property
    def holds(self) -> bool:
        """Whether the law is kept; a law that says nothing about the member is."""
        return self.value is None or self.value <= self.bound

    def __str__(self) -> str:
        got = self.told or ("it says nothing here" if self.value is None else f"measured {self.value:.3g}")
        return f"{self.member}: {self.law}, up to {self.bound:g}; {got}"


class Findings(tuple[Finding, ...]):
    """What `check_laws` found, law by law; `holds` says whether all is well, and `failing` is what is not."""

    @property
    def holds(self) -> bool:
        """Whether every law is kept."""
        return not self.failing

    @property
    def failing(self) -> list[Finding]:
        """The laws that are broken, with their numbers."""
        return [one for one in self if not one.holds]

    def table(self) -> dict[str, list]:
        """A column for each of member, kind, law, value, bound, told and holds: `pandas.DataFrame(found.table())`."""
        return {name: [getattr(one, name) for one in self] for name in (*Finding._fields, "holds")}

    def __repr__(self) -> str:
        asked = {member: [one for one in self if one.member == member] for member in dict.fromkeys(m for m, *_ in self)}
        lines = [f"  {member}: {kept(found)}" for member, found in asked.items()]
        return "\n".join([f"Findings of {len(self)} laws", *lines])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def kept(found: list[Finding]) -> str:
    """One line about a member: that it keeps its laws, or which it does not."""
    broken = [str(one).partition(": ")[2] for one in found if not one.holds]
    asked = sum(one.value is not None for one in found)
    return f"keeps {asked} laws" if not broken else f"breaks {len(broken)} of {asked} laws: {' | '.join(broken)}"


def law(kind: type, bound: float) -> Callable[[Callable[..., float | None]], Callable[..., float | None]]:
    """Add a law to those of a kind, named after its function: `@law(Loss, 1e-6)`."""

    def added(measure: Callable[..., float | None]) -> Callable[..., float | None]:
        words = " ".join(inspect.cleandoc(measure.__doc__ or "").split())
        BOOK.setdefault(kind, []).append(Law(kind, measure.__name__.replace("_", " "), words, bound, measure))
        return measure

    return added


def require(truth: Any, words: str) -> None:
    """Break the law, in these words, unless something is true."""
    if not truth:
        raise Broken(words)


def book() -> dict[type, list[Law]]:
    """The laws by kind, all of them read."""
    from haarflow import practice

    for module in pkgutil.iter_modules(practice.__path__, f"{practice.__name__}."):
        if module.name.rpartition(".")[2].startswith("laws_of_"):
            importlib.import_module(module.name)
    return BOOK


def laws_of(kind: type) -> list[Law]:
    """The laws that the members of a class are asked: those of every kind that it belongs to."""
    return [one for known, laws in book().items() if issubclass(kind, known) for one in laws]


def cases(kind: type, *, shipped: bool = True) -> Iterator[tuple[Law, Any]]:
    """Every example of a kind with every law of it: what the tests run through."""
    for example in members(kind, shipped=shipped):
        yield from ((one, example) for one in laws_of(type(example[0] if isinstance(example, tuple) else example)))


def check_laws(member: Any) -> Findings:
    """How a member keeps the laws of its kind, or all the `examples()` of a class do, in float64.

    `hf.practice.check_laws(hf.Heun)` measures whether its steps keep mass, stay in a domain and are of the order that
    it states; of a kind, such as `hf.extend.Scheme`, every member is asked, also those of your own that are imported.
    """
    kinds = tuple(book())
    if isinstance(member, type) and issubclass(member, kinds):
        with jax.enable_x64(True):
            wide = inspect.isabstract(member) or member in kinds
            classes = [cls for cls in concrete(member, shipped=False) if cls not in kinds] if wide else [member]
            return Findings(one for cls in classes for one in findings(cls))
    with jax.enable_x64(True):
        example = _example("check_laws", member)
        return Findings(one.judge(example) for one in laws_of(type(example[0])))


def _example(owner: str, given: Any) -> tuple:
    """A member with what its laws are measured on, such as (unit, on_x, on_y); or a refusal."""
    member, *rest = given if isinstance(given, tuple) and given else (given,)
    kinds = tuple(book())
    if not isinstance(member, kinds):
        raise Refusal(
            f"{owner} takes a member of a kind that has laws ({', '.join(kind.__name__ for kind in kinds)}), or a "
            f"class of members; got {said(given)}. Write for example check_laws(Heun)."
        )
    measure, whose = laws_of(type(member))[0].measure, type(member).__name__
    names, hints = list(inspect.signature(measure).parameters.values()), get_type_hints(measure, include_extras=True)
    least = sum(name.default is name.empty for name in names)
    if not least <= 1 + len(rest) <= len(names):
        forms = [
            f"({', '.join(name.name for name in names[:count])})" for count in range(max(2, least), len(names) + 1)
        ]
        wanted = " or ".join(["a member alone"] * (least == 1) + forms)
        raise Refusal(
            f"{owner} takes {wanted} for the class {whose}; got {said(given)}. "
            f"Write {whose} itself for its own examples."
        )
    sizes: dict[str, tuple[int, str]] = {}
    rest = [
        admit(Place(f"{owner}'s {name.name}", sizes), part, hints.get(name.name, Any))
        for name, part in zip(names[1:], rest, strict=False)
    ]
    if "on_x" in hints:
        refuse_unless_acting(member, *rest)
    return (member, *rest)


def findings(cls: type) -> Iterator[Finding]:
    """Every law of a class on every one of its examples."""
    try:
        examples = list(cls.examples())  # pyright: ignore[reportAttributeAccessIssue]
        told = "" if examples else "there are none, so that nothing can be measured."
    except Exception as error:
        examples, told = [], f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if told:
        yield Finding(cls.__name__, _kind(cls), "examples are members", math.inf, 0.0, told)
    for place, given in enumerate(examples):
        name = f"{cls.__name__} {place + 1}" if len(examples) > 1 else cls.__name__
        try:
            example = _example("examples()", given)
        except Refusal as refusal:
            yield Finding(name, _kind(cls), "examples are members", math.inf, 0.0, str(refusal))
        else:
            yield from (one.judge(example, name) for one in laws_of(cls))


def called(example: Any) -> str:
    """The name of a member, for tables: that of its class."""
    return type(example[0] if isinstance(example, tuple) else example).__name__


def _kind(cls: type) -> str:
    return next(kind.__name__ for kind in book() if issubclass(cls, kind))
