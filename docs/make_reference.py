"""Write the reference: every public name with its signature, its sentences and a call that runs.

    python docs/make_reference.py            # writes docs/reference.md
    python docs/make_reference.py mine.py    # prints the same page about the members that a file of your own defines

The calls are those of the table that the tests bend (tests/faults/storm), with what is optional left out.
"""

import inspect
import sys
from importlib import import_module
from pathlib import Path

from haarflow.contents import addresses, public, topics
from haarflow.members import concrete
from haarflow.practice.laws import book
from haarflow.runs.outside import members_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "faults" / "storm"))
storm = {name: import_module(name) for name in ("small", "table")}
ENTRIES, needed, written = storm["table"].ENTRIES, storm["small"].needed, storm["small"].written

ROOMS = {
    "algebra": "Groups and representations",
    "measures": "Clouds",
    "models": "Units and networks",
    "learning": "Data, losses, risks, symmetry",
    "dynamics": "Fields, schemes, flow",
    "lab": "Watching a flow",
    "practice": "Practice",
    "runs": "Records",
    "errors": "Complaints",
}
TEMPERED = {"fokker_planck", "free_energy", "gibbs", "quantile_energy", "quantile_step"}  # or an internal energy
# None of some arguments must be given, but one of them.
ONE_OF_SEVERAL = {"QuadraticPayoff", "permutation_rep", "represent"} | TEMPERED
HEAD = """\
# Reference

Every public name, what it takes and gives, and a call that runs. Made by `make reference` from the docstrings and from
the table of right calls that the tests use. `haarflow.NAME` is written `hf.NAME`; a star says that the arguments after
it are given by name.

The calls speak of the small things that are made here:

```python
{small}
```
"""
IMPORTS = """\
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax

import haarflow as hf

"""


def main() -> None:
    """Write the page; or print that of the files that are named."""
    if not sys.argv[1:]:
        (HERE / "reference.md").write_text(page())
    for path in sys.argv[1:]:
        print(members_page(path))


def page() -> str:
    """The whole page: the names on top first, then topic by topic."""
    things = public()
    calls = {address: example(address, thing) for address, thing in things.items()}
    small = IMPORTS + "\n".join(written(name) for name in needed("; ".join(calls.values())))
    parts = [HEAD.format(small=small.strip())]
    for room, title in ROOMS.items():
        mine = sorted(name for name, module in addresses().items() if "." not in name and module.split(".")[1] == room)
        parts.append(f"## {title}\n")
        parts += [section(name, things[name], calls[name]) for name in mine]
    for topic in sorted(topics()):
        parts.append(f"## hf.{topic}\n\n{_doc(import_module(f'haarflow.{topic}'))}\n")
        parts += [section(name, things[name], calls[name]) for name in things if name.startswith(f"{topic}.")]
    return "\n".join(parts)


def members_page(path: str | Path) -> str:
    """The page of a file of your own: every member that it defines, its kind, its signature and what it says."""
    parts = [f"# {Path(path).stem}\n"]
    for member in members_of(path):
        words = inspect.Signature([_plain(p) for p in _arguments(member.cls)])
        parts.append(f"## `{member.name}{words}`\n\n{member.kind}. {_doc(member.cls)}\n")
    return "\n".join(parts)


def kinds(thing) -> str:
    """Of a kind, the members among the public names; of anything else, nothing."""
    if not inspect.isclass(thing) or thing not in book():
        return ""
    known = {cls: address for address, cls in public().items() if inspect.isclass(cls)}
    names = [f"`hf.{known[cls]}`" for cls in concrete(thing) if cls in known]
    return f"\n\nMembers: {', '.join(names)}. What is asked of them: `haarflow laws`." if names else ""


def section(address: str, thing, call: str) -> str:
    """One name: its signature, what its docstring says, and its call."""
    return f"### `{signature(address, thing)}`\n\n{_doc(thing)}{kinds(thing)}\n\n```python\n{call}\n```\n"


def signature(address: str, thing) -> str:
    """The name and its arguments with their defaults, without types."""
    if inspect.isclass(thing) and (inspect.isabstract(thing) or issubclass(thing, Exception)):
        return f"hf.{address}"
    return f"hf.{address}{inspect.Signature([_plain(p) for p in _arguments(thing)])}"


def _arguments(thing) -> list[inspect.Parameter]:
    return [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(thing).parameters.values()]


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """A default that is a function or an object is shown by its name."""
    shown = parameter.default
    if shown is inspect.Parameter.empty or isinstance(shown, str | int | float | tuple | None):
        return parameter
    return parameter.replace(default=_Word(getattr(shown, "__name__", type(shown).__name__)))


class _Word(str):
    __repr__ = str.__str__


def example(address: str, thing) -> str:
    """The right call of a name, with only those arguments that must be given; or one that makes or meets it."""
    name = address.rpartition(".")[2]
    own = [entry for entry in ENTRIES if entry.name == name]
    plain = next((entry for entry in own if entry.template.startswith(f"hf.{address}({{*}})")), None)
    if plain is not None and not inspect.isabstract(thing):
        return plain.source() if name in ONE_OF_SEVERAL else shortened(plain, thing)
    return (own or [entry for entry in ENTRIES if entry.name.startswith(f"{name}.")])[0].source()


def shortened(entry, thing) -> str:
    """The entry's call without optional arguments, those before the star by position."""
    parameters = inspect.signature(thing).parameters
    required = [name for name, p in parameters.items() if p.default is p.empty and name in entry.args]
    words = [
        entry.args[name].source
        if parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY
        else f"{name}={entry.args[name].source}"
        for name in required
    ]
    return entry.template.replace("{*}", ", ".join(words))


def _doc(thing) -> str:
    return inspect.getdoc(thing) or ""


if __name__ == "__main__":
    main()
