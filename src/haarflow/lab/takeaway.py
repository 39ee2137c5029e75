"""What one takes away from a run: Python, TOML, a command, the curves as CSV, the clouds and the data as npz."""

import io
from typing import Any

import numpy as np

from haarflow.errors import one_of
from haarflow.lab import script
from haarflow.lab.lab_run import LabRun, arrays_of, columns_of
from haarflow.runs.ledger import pack

FORMS = ("python", "toml", "command", "link", "csv", "npz", "data")


def taken(run: LabRun, form: str, step: int) -> tuple[str, str, bytes]:
    """The name, the media type and the bytes of one form of a run, up to the step where it is now."""
    one_of("A form to take away", form, FORMS)
    state = run.state.model_copy(update={"steps": max(run.at, 1)})
    text = {"python": script.as_python, "toml": script.as_toml, "command": script.as_command, "link": script.as_link}
    if form in text:
        names = {"python": "lab.py", "toml": "lab.toml"}
        return names.get(form, f"{form}.txt"), "text/plain", text[form](state).encode()
    if form == "csv":
        return "curves.csv", "text/csv", as_csv(columns_of(run.rows))
    if form == "data" and run.problem.sample is not None:
        sample = run.problem.sample
        return "data.npz", "application/octet-stream", pack({"x": np.asarray(sample.xs), "y": np.asarray(sample.ys)})
    return f"clouds-{step}.npz", "application/octet-stream", pack(arrays_of(run, run.nearest(step)))


def as_csv(columns: dict[str, np.ndarray]) -> bytes:
    """The columns as text that reads back to the same numbers."""
    out = io.StringIO()
    out.write(",".join(f'"{name}"' if "," in name else name for name in columns) + "\n")
    for row in zip(*columns.values(), strict=True):
        out.write(",".join(repr(value.item()) for value in row) + "\n")
    return out.getvalue().encode()


def as_npz(run: LabRun) -> dict[str, Any]:
    """Curves and last clouds, as `haarflow lab --out` writes them."""
    return {**columns_of(run.rows), **arrays_of(run)}
