"""Data of a user: a CSV or an npz, read by the library's own reader, within bounds on bytes, rows and columns."""

import hashlib
import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import haarflow as hf
from haarflow.errors import Refusal
from haarflow.runs.ledger import pack

BYTES, ROWS, COLUMNS = 5_000_000, 100_000, 24
UNPACKED = 64_000_000  # bytes of the arrays of an npz


def kept(content: bytes, ending: str, outputs: int) -> tuple[str, bytes, tuple[int, int, int]]:
    """The mark of some data, their npz and their rows, inputs and outputs; a refusal for what is not data."""
    if ending not in ("csv", "npz"):
        raise Refusal(f"A file of data ends in .csv or .npz; got .{ending[:10]}. Save it as one of these.")
    if len(content) > BYTES:
        raise Refusal(f"A file of data has {BYTES:,} bytes at most; got {len(content):,}. Write fewer rows.")
    if ending == "npz":
        _refuse_bombs(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data.{ending}"  # no letter of it is the user's
        path.write_bytes(content)
        sample = hf.load(path, outputs=outputs)
    xs, ys = np.asarray(sample.xs, float), np.asarray(sample.ys, float)
    if len(xs) > ROWS or xs.shape[1] + ys.shape[1] > COLUMNS:
        raise Refusal(
            f"Data of the lab have {ROWS:,} rows and {COLUMNS} columns at most; got {len(xs):,} and "
            f"{xs.shape[1] + ys.shape[1]}. Write fewer."
        )
    packed = pack({"x": xs, "y": ys})
    return hashlib.sha256(packed).hexdigest()[:32], packed, (len(xs), xs.shape[1], ys.shape[1])


def _refuse_bombs(content: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise Refusal(
            "An .npz is a zip of arrays; got something else. Write np.savez(path, x=inputs, y=outputs)."
        ) from None
    if size > UNPACKED:
        raise Refusal(f"An .npz unpacks to {UNPACKED:,} bytes at most; got {size:,}. Write fewer rows.")
