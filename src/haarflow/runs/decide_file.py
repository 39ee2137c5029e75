"""`haarflow decide DATA`: the fair comparison on the rows of a file, kept on its way and shown on a page."""

from pathlib import Path
from typing import Any

import numpy as np

from haarflow.errors import Refusal
from haarflow.practice.decide import decide
from haarflow.practice.decision import THEORY, Decision
from haarflow.runs.answer_page import Drawn, home_of, publish


def decide_file(data: Path, group: str, target: str | None, out: Path, **options: Any) -> tuple[Decision, Path]:
    """The answer for a file, and its page in OUT/decide/<digest>/; a killed run goes on from what is kept there."""
    x, y, names = rows_of(data, target)
    asked = {"group": group, "target": target, **{name: str(value) for name, value in sorted(options.items())}}
    home = home_of(out, "decide", asked, data)
    table: Any = named_table(x, names)
    answer = decide(table, y, group, keep=home / "fits.jsonl", **options)
    drawn = [
        Drawn(
            "Test loss of every candidate",
            "Means over the splits with corrected resampled t intervals; grey candidates are excluded by the best, "
            "and the recommended one is filled.",
            answer.draw,
        )
    ]
    if len(answer.sizes) > 1:
        drawn.append(Drawn("Learning curve", "The mean test loss against the rows trained on.", answer.draw_curve))
    return answer, publish(home, answer, "Augment, average or build in?", drawn, notes(answer), {"data": data, **asked})


def notes(answer: Decision) -> list[str]:
    """What stands below the table."""
    helped = answer.augmenting_helps_up_to
    curve = (
        [f"Augmenting is better than plain for certain on up to {helped} training rows, of {answer.sizes[-1]}."]
        if helped
        else ["At no number of training rows is augmenting better than plain for certain."]
    )
    budget = {
        "equal-rows": "All candidates learn from the same rows; the seconds say what each costs.",
        "equal-seconds": "A candidate that trains r times as long as plain has 1/r of its rows.",
    }[answer.budget]
    left = [f"{name} is left out: {why}" for name, why in answer.left_out.items()]
    return [*(curve if len(answer.sizes) > 1 else []), budget, THEORY, *left]


def brief(answer: Decision) -> dict[str, list]:
    """The columns that a terminal has room for."""
    known = answer.table()
    return {
        "candidate": [f"{name} *" if name == answer.recommended else name for name in answer.names],
        "loss": [str(answer.interval(name)) for name in answer.names],
        "error of equivariance": known["equivariance error"],
        "train s": known["seconds to train"],
        "predict s": known["seconds to predict"],
        "MB": known["memory MB"],
    }


def named_table(x: np.ndarray, names: list[str] | None) -> Any:
    """The rows with the names of their columns, as far as a group in words needs them."""
    return x if names is None else NamedRows(x, names)


class NamedRows:
    """An array with names of its columns."""

    def __init__(self, rows: np.ndarray, columns: list[str]):
        self.rows, self.columns = rows, columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.rows, dtype)


def rows_of(data: Path, target: str | None) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """Inputs, labels and the names of the columns of a file; the labels are those of `target`, or of the last one."""
    plain = data.name.lower().removesuffix(".gz")
    if plain.endswith((".csv", ".parquet")):
        return _with_names(data, target, parquet=plain.endswith(".parquet"))
    if target is not None:
        raise Refusal(f"--target names a column of a .csv or .parquet file; got {data.name}. Leave it out.")
    from haarflow.learning.readers import load

    sample = load(data)
    ys = np.asarray(sample.ys)
    if sample.classes:
        return np.asarray(sample.xs, float), np.asarray(sample.classes)[ys.argmax(axis=1)], None
    ys = ys[:, 0] if ys.shape[1] == 1 else ys
    return np.asarray(sample.xs, float), ys.astype(int) if (ys % 1 == 0).all() else ys, None


def _with_names(data: Path, target: str | None, *, parquet: bool):
    try:
        import pandas
    except ImportError:
        raise Refusal(
            "Columns with names are read by pandas, which is not installed. Write: pip install 'haarflow[tables]'."
        ) from None
    try:
        table = pandas.read_parquet(data) if parquet else pandas.read_csv(data, sep=None, engine="python")
    except Exception as error:
        raise Refusal(f"A table is a .csv or .parquet file that reads; got {data}: {error}. Check the file.") from None
    columns = [str(name) for name in table.columns]
    chosen = columns[-1] if target is None else target
    if chosen not in columns:
        raise Refusal(f"--target is one of the columns {', '.join(columns)}; got {chosen!r}.")
    place = columns.index(chosen)
    names = [name for name in columns if name != chosen]
    missing = table.isna().to_numpy()
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise Refusal(f"A table has a value in every cell; row {row + 1} has none in {columns[column]}. Fill it in.")
    y = table.iloc[:, place].to_numpy()
    inputs = table.drop(columns=table.columns[place])
    words = [str(name) for name in inputs.columns if not pandas.api.types.is_numeric_dtype(inputs[name])]
    if words:
        raise Refusal(f"The inputs are numbers; got words in the column {words[0]}. Leave it out, or write numbers.")
    return inputs.to_numpy(float), y if y.dtype.kind in "iufb" else y.astype(str), names
