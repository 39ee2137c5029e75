"""Tables as people keep them: the names of the columns, the delimiter of a .csv file, and the column to predict.

A table is brought into one form before it is read, with commas and the target last, so that there is one reader.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from haarflow.errors import Refusal
from haarflow.learning.columns import place_of

DELIMITERS = ",;\t|"
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


class Frame(NamedTuple):
    """Columns of one length with their names, as a data frame has them."""

    columns: list[str]
    values: list[np.ndarray]

    def __getitem__(self, name: Any) -> Any:
        return self.values[self.columns.index(name)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.stack(self.values, axis=1).astype(dtype or np.float64)


def in_commas(text: str, target: str | int | None, outputs: int) -> tuple[str, list[str]]:
    """The text of a .csv file with commas between its cells and the target last, and the names of its columns."""
    delimiter = _delimiter(text)
    first = next((row for row in _cells(text, delimiter) if any(cell.strip() for cell in row)), [])
    words = [cell.strip() for cell in first]
    named = bool(words) and not all(_is_number(cell) for cell in (words[:-outputs] or words))
    names = words if named else [str(i) for i in range(len(words))]
    if delimiter == "," and target is None:
        return text, names
    order = target_last(names, target)
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    for row in _cells(text, delimiter):
        writer.writerow([row[i] for i in order] if len(row) == len(order) else row)
    return made.getvalue(), [names[i] for i in order]


def _cells(text: str, delimiter: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    except csv.Error:
        return


def _delimiter(text: str) -> str:
    """The delimiter of the first lines: a comma unless they agree on another one."""
    head = [line for line in text.splitlines()[:20] if line.strip()]
    try:
        return csv.Sniffer().sniff("\n".join(head), DELIMITERS).delimiter
    except csv.Error:
        counts = {mark: min((line.count(mark) for line in head), default=0) for mark in DELIMITERS}
        return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def target_last(names: Sequence[str], target: str | int | None) -> list[int]:
    """The places of the columns, that of the target at the end."""
    places = list(range(len(names)))
    if target is None:
        return places
    chosen = place_of(str(target), names)
    return [*(place for place in places if place != chosen), chosen]


def frame_of(table: Any, target: str | int | None) -> Any:
    """A data frame with the target as its last column; data of xarray as a data frame."""
    if hasattr(table, "to_dataframe") and hasattr(table, "dims"):
        table = table.to_dataframe().reset_index(drop=True)
    names = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if target is None or not names:
        return table
    order = target_last([str(name) for name in names], target)
    return Frame([str(names[i]) for i in order], [np.asarray(table[names[i]]) for i in order])


def read_npy(path: Path, target: str | int | None) -> Frame:
    """The columns of a two-dimensional array in a .npy file."""
    try:
        table = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        if table.ndim != 2 or table.dtype.kind not in "iufb":
            raise ValueError(f"an array of {table.dtype} of shape {table.shape}")
    except (ValueError, EOFError) as error:
        raise Refusal(
            f"A .npy data file holds one table of numbers, a pair in each row; got {path.name}, which does not "
            f"({str(error).rstrip('.')}). Write np.save(path, table)."
        ) from None
    order = target_last([str(i) for i in range(table.shape[1])], target)
    return Frame([str(i) for i in order], [table[:, i].astype(np.float64) for i in order])


def read_pictures(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images in folders named after their classes, all of one size: rows of numbers in [0, 1], and the classes."""
    from PIL import Image, UnidentifiedImageError

    files = [file for kind in sorted(folder.iterdir()) if kind.is_dir() for file in sorted(kind.iterdir())]
    files = [file for file in files if file.suffix.lower() in PICTURES]
    if not files:
        raise Refusal(
            f"A folder of images has a folder for each class, with .png or .jpg files; got none in {folder.name}. "
            "Write folder/class/image.png."
        )
    rows = []
    for file in files:
        try:
            with Image.open(file) as picture:
                rows.append(
                    np.asarray(picture.convert("L" if picture.mode in ("1", "L", "I;16") else "RGB"), np.float32)
                )
        except (OSError, UnidentifiedImageError, ValueError):
            raise Refusal(f"A folder of images holds images; got {file.name}, which does not read as one.") from None
        if rows[-1].shape != rows[0].shape:
            raise Refusal(
                f"Images of a folder have one size; got {rows[-1].shape[:2]} in {file.name} after {rows[0].shape[:2]}. "
                "Crop or resize them."
            )
    return np.stack(rows).reshape(len(rows), -1) / np.float32(255), np.array([file.parent.name for file in files])
