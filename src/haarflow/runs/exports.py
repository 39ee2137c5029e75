"""Finished records as tables and arrays, for pandas, NumPy and files of other programs."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from haarflow.doors import door
from haarflow.errors import Refusal, one_of
from haarflow.files import write_whole
from haarflow.runs.ledger import Record, find_records, pack, read
from haarflow.values import to_pandas

FORMATS = ("csv", "json", "npz")


class Records(Sequence[Record]):
    """The finished records of a folder, in order: a table with a row for each, and their arrays by name."""

    def __init__(self, found: Sequence[Record]):
        self._found = list(found)

    def __getitem__(self, place: Any) -> Any:
        """The record at a place; of a slice, the records."""
        return Records(self._found[place]) if isinstance(place, slice) else self._found[place]

    def __len__(self) -> int:
        """How many records."""
        return len(self._found)

    def __iter__(self) -> Iterator[Record]:
        """One record after the other."""
        return iter(self._found)

    def __repr__(self) -> str:
        """How many records, of which experiments."""
        names = ", ".join(dict.fromkeys(str(record.experiment) for record in self._found))
        return f"{len(self)} records of {names}"

    def table(self) -> dict[str, list]:
        """Columns of one length: experiment, seed, every setting and number, whether the claims hold, seconds."""
        rows = [_row(record) for record in self._found]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_pandas(self) -> Any:
        """`table()` as a DataFrame of pandas, where pandas is installed."""
        return to_pandas(self.table())

    def arrays(self, name: str) -> list[Any]:
        """The array of that name of every record that has one, with named axes."""
        found = [arrays[name] for arrays in (record.arrays() for record in self._found) if name in arrays]
        if not found:
            known = sorted({one for record in self._found for one in record.arrays()})
            raise Refusal(f"arrays takes the name of an array, {', '.join(known)}; got {name!r}. Write one of them.")
        return found


@door
def records(folder: str | Path) -> Records:
    """The finished records below a folder, for pandas and NumPy.

    table = haarflow.records("results").to_pandas()          # a row for each record: settings, numbers, verdicts
    errors = haarflow.records("results").arrays("errors")     # the named arrays of every record
    """
    home = Path(folder)
    places = find_records(home) if home.is_dir() else []
    if not places:
        raise Refusal(f"records reads a folder with finished records; got {home}, which has none. Make one with `run`.")
    return Records([read(place) for place in places])


def _row(record: Record) -> dict[str, Any]:
    """What is known of a record, by name; a setting or number of a name that is taken says what it is."""
    row: dict[str, Any] = {"experiment": record.experiment, "seed": record.seed}
    for kind, facts in (("setting", record.config), ("number", record.numbers)):
        for name, value in facts.items():
            row[name if name not in row else f"{kind} {name}"] = value
    seconds = sum(record.seconds.values())
    return row | {"holds": record.holds, "seconds": seconds, "record": str(record.path)}


def export(folder: str | Path, form: str, out: Path | None) -> str | Path:
    """The records as text, or the path of the file that was written; .npz files hold the arrays."""
    found, kind = records(folder), one_of("--format", form, FORMATS)
    if kind == "npz":
        if out is None:
            raise Refusal("An .npz file of arrays is written to a place; got none. Write --out arrays.npz.")
        arrays = {
            f"{record.experiment}/{record.path.name}/{name}": np.asarray(array)
            for record in found
            for name, array in record.arrays().items()
        }
        write_whole(out, pack(arrays))
        return out
    text = _json(found) if kind == "json" else _csv(found.table())
    if out is None:
        return text
    write_whole(out, text.encode())
    return out


def _json(found: Records) -> str:
    return json.dumps([record.summary() for record in found], ensure_ascii=False, indent=1)


def _csv(table: dict[str, list]) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return made.getvalue()
