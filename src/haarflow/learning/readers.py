"""Data files and tables read as a Sample: .npz, .npy, .csv, .parquet, images (idx, folders), and data frames."""

import contextlib
import csv
import gzip
import json
import zlib
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from haarflow import saving
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.table_files import frame_of, in_commas, read_npy, read_pictures
from haarflow.values import said

Pair = tuple[np.ndarray, np.ndarray]

_IDX = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


@door
def load(
    source: Any,
    *,
    target: str | int | None = None,
    outputs: Count = 1,
    size: Count | None = None,
    replace: bool = True,
    labels: str | Path | None = None,
) -> Sample:
    """A Sample from a file, or from a table of pandas, Polars, Arrow or xarray.

    The labels are the column `target`, by name or number from 0, or else the last `outputs` columns.

    - .npz: arrays x (m, ...) and y; .csv and .csv.gz: one pair a row, with a line of names or without, quotes, and
      any delimiter; .npy: a table of numbers; .parquet, where pyarrow is installed.
    - a folder with a folder of images, all of one size, for each class.
    - idx files such as `train-images-idx3-ubyte.gz`: one image a row, bytes scaled to [0, 1], in float32. Labels are
      in the file with `labels-idx1` in its name, beside it, or in the file `labels`. Of a folder with such files, those
      to train on.

    A column of class names in the place of y becomes indicators, as in `Sample`. For example
    `train = load("train-images-idx3-ubyte.gz", size=128, replace=False)`.
    """
    xs, ys, _ = read_pairs(source, target=target, outputs=outputs, labels=labels)
    return Sample(xs, ys, size, replace=replace)


def read_pairs(
    source: Any,
    *,
    target: str | int | None = None,
    outputs: int = 1,
    labels: str | Path | None = None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """What `load` reads, as NumPy's arrays: inputs, labels (or class names), and the names of the columns of inputs."""
    if target is not None and outputs != 1:
        raise Refusal(f"A target is one column; got a target and outputs={outputs}. Write one of the two.")
    if isinstance(source, str | Path):
        (xs, ys), names = _from_file(source, target, outputs, labels)
        name = Path(source).name
    else:
        frame = frame_of(source, target)
        (xs, ys), name = _from_table(frame, outputs), "the table"
        names = [str(one) for one in _names(frame)]
    for part, values in (("x", xs), ("y", ys)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise Refusal(
                f"A data file holds finite numbers; got a NaN or infinity in {part}, row {row}, of {name}. "
                "Remove or fill that row."
            )
    return xs, ys, names[: xs.shape[1]] or [str(i) for i in range(xs.shape[1])]


def _from_file(
    source: str | Path, target: str | int | None, outputs: int, labels: str | Path | None
) -> tuple[Pair, list[str]]:
    """Inputs and labels of a file, and the names of its columns where it has some."""
    path = Path(source)
    plain = path.name.lower().removesuffix(".gz")
    try:
        if plain.endswith((".csv", ".tsv")):
            text, names = in_commas(_content(path).decode("utf-8-sig", errors="replace"), target, outputs)
            return _read_csv(path, text, outputs), names
        if plain.endswith(".parquet"):
            frame = frame_of(_parquet(path), target)
            return _from_table(frame, outputs), _names(frame)
        if plain.endswith(".npy"):
            frame = read_npy(path, target)
            return _from_table(frame, outputs), frame.columns
        if target is not None:
            raise Refusal(
                f"A target is a column of a table; got {path.name}, which has its labels apart. Leave it out."
            )
        if plain.endswith(".npz"):
            return _read_npz(path, outputs), []
        if path.is_dir():
            images = idx_images(path)
            return (read_pictures(path) if images is None else _read_idx(images, labels)), []
        if "idx" in plain:
            return _read_idx(path, labels), []
    except OSError as error:
        raise Refusal(f"A data file must be readable; got {path}: {error.strerror or error}. Check the path.") from None
    raise Refusal(
        f"A data file ends in .npz, .npy, .csv or .parquet, or has idx in its name; got {path.name}. Save it as one of "
        "these."
    )


def _read_npz(path: Path, outputs: int) -> Pair:
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
    except (ValueError, EOFError, TypeError, AttributeError, BadZipFile, NotImplementedError, zlib.error) as error:
        if isinstance(error, Refusal):
            raise
        raise Refusal(
            f"An .npz data file holds numeric arrays x and y; got {path.name}, which does not read as one "
            f"({str(error).rstrip('.')}). Write np.savez(path, x=inputs, y=outputs)."
        ) from None


def _numbers(values: np.ndarray) -> np.ndarray:
    """The numbers in floating point; those of 16 bits and less, as pixels are, in float32, which holds them exactly."""
    if values.dtype.kind not in "iufb":
        raise ValueError(f"an array of {values.dtype}")
    short = values.dtype.itemsize <= 2 or values.dtype == np.float32
    return values.astype(np.float32 if short else np.float64)


def _content(path: Path) -> bytes:
    """What is in a file, unpacked where its name ends in .gz."""
    content = path.read_bytes()
    try:
        return gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Refusal(
            f"A data file whose name ends in .gz is packed by gzip; got {path.name}, which does not unpack ({error}). "
            "Fetch or pack it again."
        ) from None


def _read_csv(path: Path, text: str, outputs: int) -> Pair:
    table = _numeric_table(text, outputs)
    if table is None:
        return _read_rows(path, text, outputs)
    _refuse_few_columns("A .csv data file", table.shape[1], outputs)
    return table[:, :-outputs], table[:, -outputs:]


def _numeric_table(text: str, outputs: int) -> np.ndarray | None:
    """A table of numbers, read at once; None where there are words, or rows of other lengths."""
    first = next((row for row in csv.reader(StringIO(text), skipinitialspace=True) if any(row)), [])
    try:
        skipped = 0 if _numeric(first[:-outputs] or first) else 1
        lines = [line for line in text.splitlines() if line.strip()][skipped:]
        return np.loadtxt(lines, delimiter=",", quotechar='"', comments=None, ndmin=2) if lines else None
    except (ValueError, csv.Error):
        return None


def _read_rows(path: Path, text: str, outputs: int) -> Pair:
    """Row by row: a last column of class names, or the sentence about the first row that is no row of numbers."""
    reader = csv.reader(StringIO(text), skipinitialspace=True)
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise Refusal(
            f"A .csv data file holds rows of numbers; got {path.name}, which is none ({error}). Write one sample a row."
        ) from None
    if rows and not _numeric(rows[0][1][:-outputs] or rows[0][1]):
        rows = rows[1:]
    if not rows:
        raise Refusal(f"A .csv data file holds rows of numbers; got none in {path.name}. Write one sample a row.")
    width = len(rows[0][1])
    _refuse_few_columns("A .csv data file", width, outputs)
    named = outputs == 1 and not any(_numeric(row[-1:]) for _, row in rows)
    for number, row in rows:
        if len(row) != width or not _numeric(row[:-1] if named else row) or not row[-1].strip():
            raise Refusal(
                f"A .csv data file holds {width} numbers in every row; got {','.join(row)[:60]!r} in line {number} "
                f"of {path.name}. Mend or remove that line."
            )
    cells = [row for _, row in rows]
    if named:
        return _floats([row[:-1] for row in cells]), np.array([row[-1].strip() for row in cells])
    return _floats([row[:-outputs] for row in cells]), _floats([row[-outputs:] for row in cells])


def _floats(rows: list[list[str]]) -> np.ndarray:
    """Numbers as Python reads them, 1_000 among them."""
    return np.array([[float(cell) for cell in row] for row in rows])


def _refuse_few_columns(owner: str, width: int, outputs: int):
    if outputs >= width:
        advice = (
            f"Write outputs between 1 and {width - 1}." if width > 1 else "Write the inputs in columns of their own."
        )
        raise Refusal(f"{owner} needs more columns than outputs; got {width} columns and outputs={outputs}. {advice}")


def _numeric(cells: list[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True


def _parquet(path: Path) -> Any:
    """The table in a .parquet file, as Arrow has it."""
    try:
        from pyarrow import ArrowInvalid, parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise Refusal(
            f"A .parquet data file is read by pyarrow; got {path.name} and no pyarrow. "
            "Write pip install pyarrow, or save the table as .csv."
        ) from None
    try:
        return parquet.read_table(path)
    except ArrowInvalid as error:
        raise Refusal(
            f"A .parquet data file is a table; got {path.name}, which does not read as one "
            f"({str(error).splitlines()[0].rstrip('.')}). Save it again."
        ) from None


def _from_table(table: Any, outputs: int) -> Pair:
    """The columns of a data frame of pandas, Polars or Arrow: numbers, and class names for a single output."""
    names = _names(table)
    if not names or not hasattr(table, "__getitem__"):
        raise Refusal(
            f"load reads a file, or a table with named columns such as a pandas data frame; got {said(table)}. "
            "For arrays write Sample(xs, ys)."
        )
    _refuse_few_columns("A table", len(names), outputs)
    columns = [np.asarray(table[name]) for name in names]
    found = [_column(str(name), values) for name, values in zip(names[:-outputs], columns, strict=False)]
    words = [isinstance(one, str) for one in columns[-1]]
    if outputs == 1 and any(words):
        if not all(words):
            row = words.index(False)
            raise Refusal(
                f"The labels of a table are class names in every row, or numbers; got {said(columns[-1][row])} in row "
                f"{row} of the column {names[-1]!r}. Remove or fill that row."
            )
        return np.stack(found, axis=1), columns[-1].astype(str)
    ends = [_column(str(name), values) for name, values in zip(names[-outputs:], columns[-outputs:], strict=True)]
    return np.stack(found, axis=1), np.stack(ends, axis=1)


def _names(table: Any) -> list:
    """The names of the columns of a data frame of pandas, Polars or Arrow; none where it is no table."""
    return list(getattr(table, "column_names", getattr(table, "columns", ())))


def _is_numeric(values: np.ndarray) -> bool:
    return values.dtype.kind in "iufb"


def _column(name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        with contextlib.suppress(TypeError, ValueError):
            values = values.astype(float)
    if values.ndim != 1 or not _is_numeric(values):
        kind = "words" if values.dtype.kind in "OUST" else f"{values.dtype} of shape {values.shape}"
        raise Refusal(
            f"A table holds one number in each place of a column; got {kind} in the column {name!r}. "
            "Drop that column, or write numbers for it."
        )
    return values.astype(np.float64)


def _read_idx(path: Path, labels: str | Path | None) -> Pair:
    images, beside = _idx(path), path.name.replace("images", "labels").replace("idx3", "idx1")
    place = path.with_name(beside) if labels is None else Path(labels)
    if labels is None and (beside == path.name or not place.exists()):
        raise Refusal(
            f"An idx file of images has its labels in another file; got {path.name} and no {beside} beside it. "
            "Write load(images, labels=path)."
        )
    answers = _idx(place)
    scaled = _numbers(images) / np.float32(255) if images.dtype == np.uint8 else _numbers(images)
    return scaled.reshape(len(images), -1), _numbers(answers).reshape(len(answers), -1)


def idx_images(folder: Path) -> Path | None:
    """The idx file of images in a folder, of several the one to train on; None where there is none."""
    found = sorted(folder.glob("*images*idx3*"))
    return next((one for one in found if one.name.startswith("train")), found[0] if found else None)


def _idx(path: Path) -> np.ndarray:
    """The array in an idx file: two zeros, the type, the number of axes, their lengths, and the numbers."""
    content = _content(path)
    try:
        kind, axes = (content[2], content[3]) if content[:2] == b"\0\0" and len(content) > 3 else (0, 0)
        lengths = np.frombuffer(content[4 : 4 + 4 * axes], ">u4").astype(int)
        if not axes or not lengths.all():
            raise ValueError
        return np.frombuffer(content[4 + 4 * axes :], _IDX[kind]).reshape(lengths)
    except (ValueError, KeyError):
        raise Refusal(
            f"An idx file holds a whole array of one of six types; got {path.name}, which does not read as one. "
            "Fetch or write it again."
        ) from None
