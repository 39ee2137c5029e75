"""What a file of your own adds to the library: its members of every kind, found by themselves, and how they keep the
laws.

The file is imported, so it is trusted like every program that you run.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from haarflow.errors import Refusal
from haarflow.members import defined_in
from haarflow.practice.laws import Finding, Law, book, findings, kept
from haarflow.runs import laws_of_experiments as laws_of_experiments
from haarflow.runs.catalogue import import_file
from haarflow.runs.terminal import console


class Member(NamedTuple):
    """A class that a file defines, and the kind it belongs to."""

    name: str
    kind: str
    cls: type


def members_of(path: Path | str) -> list[Member]:
    """The classes of a file that are members of a kind with laws, by name; the file is imported anew."""
    path = Path(path)
    if not path.is_file() or path.suffix != ".py":
        got = "a folder" if path.is_dir() else "no Python file" if path.exists() else "nothing"
        raise Refusal(f"Members are defined in a Python file; {path} is {got}. Write the path of a file.py.")
    module = import_file(path.resolve(), what="A file of members")
    found = [Member(cls.__name__, kind_of(cls), cls) for cls in defined_in(module.__name__, tuple(book()))]
    if not found:
        kinds = ", ".join(sorted(kind.__name__ for kind in book()))  # laws are read in any order
        raise Refusal(
            f"A file of members defines a class of one of the kinds {kinds}, with `examples()`; {path} defines none. "
            "docs/extend.md shows each of them."
        )
    return found


def kind_of(cls: type) -> str:
    """The name of the widest kind that a class belongs to: a Finite group is a Group."""
    return next(kind.__name__ for kind in reversed(cls.__mro__) if kind in book())


def checked(paths: list[Path]) -> dict[Member, list[Finding]]:
    """The findings about every member that some files define."""
    from rich.console import Console

    found = [member for path in paths for member in members_of(path)]
    with Console(stderr=True).status("measuring …") as status:

        def one(member: Member) -> list[Finding]:
            status.update(f"measuring {member.name} …")
            return list(findings(member.cls))

        return {member: one(member) for member in found}


def print_findings(found: dict[Member, list[Finding]]) -> None:
    """Print a line for each member, and below it the laws that it breaks, each with its number."""
    screen, width = console(), max(len(member.name) for member in found)
    kinds = max(len(member.kind) for member in found)
    for member, laws in found.items():
        broken = [one for one in laws if not one.holds]
        tally = kept(laws).partition(":")[0]
        colour = "bold red" if broken else "green"
        screen.print(f"[bold]{member.name:{width}}[/bold]  {member.kind:{kinds}}  [{colour}]{tally}[/{colour}]")
        for one in broken:
            screen.print(f"  ✗ {one}", style="red", markup=False, soft_wrap=True)


def as_json(found: dict[Member, list[Finding]]) -> str:
    """The same as one JSON value; a number that is not finite is null."""
    return json.dumps([_facts(member, laws) for member, laws in found.items()], ensure_ascii=False)


def _facts(member: Member, laws: list[Finding]) -> dict[str, Any]:
    told = [
        {
            "example": one.member,
            "law": one.law,
            "holds": one.holds,
            "value": one.value if one.value is not None and math.isfinite(one.value) else None,
            "bound": one.bound,
            "told": one.told,
        }
        for one in laws
    ]
    return {"member": member.name, "kind": member.kind, "holds": all(one.holds for one in laws), "laws": told}


def law_lines() -> list[str]:
    """Every law below the kind that it is asked of, with its bound."""
    lines = []
    for kind, laws in book().items():
        lines += [kind.__name__, *(f"  {_bounded(law)}" for law in laws)]
    return lines


def _bounded(law: Law) -> str:
    return f"{law.name}, up to {law.bound:g}" if law.bound else law.name
