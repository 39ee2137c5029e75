"""The columns of a table, said by name, by number from 0, or as a range such as `0 to 7`."""

import difflib
from collections.abc import Sequence

from haarflow.errors import Refusal
from haarflow.values import said


def spread(columns: Sequence[str], names: Sequence[str] | None) -> tuple[str, ...]:
    """The names, each range in full."""
    found = []
    for column in columns:
        first, to, last = column.partition(" to ")
        if not to or (names is not None and _bare(column) in names):
            found.append(_bare(column))
        elif names is None and not (first.isdigit() and last.isdigit()):
            raise Refusal(
                f"A range of columns is of numbers where the data's columns have no names; got {said(column)}. "
                "Write 0 to 7."
            )
        else:
            places = [int(end) if names is None else place_of(_bare(end), names) for end in (first, last)]
            span = range(places[0], places[1] + 1)
            found += [str(i) if names is None else names[i] for i in span]
    return tuple(found)


def _bare(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name


def place_of(name: str, names: Sequence[str]) -> int:
    """Where a column is, by its name or by its number."""
    if name in names:
        if names.count(name) > 1:
            raise Refusal(f"A column is said by a name of its own; got {name!r}, which two have. Write its number.")
        return names.index(name)
    if name.isdigit() and int(name) < len(names):
        return int(name)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.3)
    known = f"the nearest is {near[0]!r}" if near else f"they are {', '.join(names[:6])}{', …' * (len(names) > 6)}"
    raise Refusal(
        f"A column is said by its name or its number, 0 to {len(names) - 1}; got {name!r}. Of the data's columns "
        f"{known}."
    )
