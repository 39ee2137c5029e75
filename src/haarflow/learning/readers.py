"""Data files: an .npz with arrays x and y, or a .csv whose last columns are the outputs, read as a Sample."""

import csv
import json
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from haarflow import saving
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.learning.data import Sample


@door
def load(path: str | Path, *, outputs: Count = 1, size: Count | None = None) -> Sample:
    """A Sample from an .npz file (arrays x and y) or a .csv file (its last `outputs` columns are y).

    A column of class names in the place of y becomes indicators, as in `Sample`.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise Refusal(f"A data file ends in .npz or .csv; got {path.name}. Save it as one of these.")
    try:
        xs, ys = readers[path.suffix.lower()](path, outputs)
    except OSError as error:
        raise Refusal(f"A data file must be readable; got {path}: {error.strerror or error}. Check the path.") from None
    for name, values in (("x", xs), ("y", ys)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise Refusal(
                f"A data file holds finite numbers; got a NaN or infinity in {name}, row {row}, of {path.name}. "
                "Remove or fill that row."
            )
    return Sample(xs, ys, size)


def _read_npz(path: Path, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            if saving.HEADER in arrays:
                kind = json.loads(str(arrays[saving.HEADER]))["kind"]
                raise Refusal(
                    f"An .npz data file holds arrays x and y; got a {kind} that was saved in {path.name}. "
                    f"Write {kind}.load(path)."
                )
            if not {"x", "y"} <= set(arrays):
                raise Refusal(
                    f"An .npz data file holds arrays x and y; got {sorted(arrays)} in {path.name}. "
                    "Write np.savez(path, x=inputs, y=outputs)."
                )
            x, y = _numbers(arrays["x"]), arrays["y"]
            y = y if y.dtype.kind == "U" else _numbers(y)
            return x.reshape(len(x), -1), y.reshape(len(y), -1)
    except (ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        if isinstance(error, Refusal):
            raise
        raise Refusal(
            f"An .npz data file holds numeric arrays x and y; got {path.name}, which does not read as one "
            f"({str(error).rstrip('.')}). Write np.savez(path, x=inputs, y=outputs)."
        ) from None


def _numbers(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iufb":
        raise ValueError(f"an array of {values.dtype}")
    return values.astype(float)


def _read_csv(path: Path, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    lines = [line for line in path.read_text("utf-8-sig", errors="replace").splitlines() if line.strip()]
    rows = [next(csv.reader([line])) for line in lines]
    if rows and not _numeric(rows[0][:-outputs] or rows[0]):
        rows = rows[1:]
    if not rows:
        raise Refusal(f"A .csv data file holds rows of numbers; got none in {path.name}. Write one sample a row.")
    width = len(rows[0])
    if outputs >= width:
        advice = (
            f"Write outputs between 1 and {width - 1}." if width > 1 else "Write the inputs in columns of their own."
        )
        raise Refusal(
            f"A .csv data file needs more columns than outputs; got {width} columns and outputs={outputs}. {advice}"
        )
    named = outputs == 1 and not any(_numeric(row[-1:]) for row in rows)
    for number, row in enumerate(rows, len(lines) - len(rows) + 1):
        if len(row) != width or not _numeric(row[:-1] if named else row):
            raise Refusal(
                f"A .csv data file holds {width} numbers in every row; got {','.join(row)[:60]!r} in line {number} "
                f"of {path.name}. Mend or remove that line."
            )
    if named:
        return np.array([row[:-1] for row in rows], float), np.array([row[-1].strip() for row in rows])
    table = np.array(rows, float)
    return table[:, :-outputs], table[:, -outputs:]


def _numeric(cells: list[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True
