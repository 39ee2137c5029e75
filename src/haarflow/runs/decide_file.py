"""`haarflow decide DATA`: the fair comparison on the rows of a file, kept on its way and shown on a page."""

from pathlib import Path
from typing import Any

import numpy as np

from haarflow.learning.readers import read_pairs
from haarflow.learning.table_files import Frame
from haarflow.practice.candidates import PLAIN
from haarflow.practice.decide import decide
from haarflow.practice.decision import THEORY, Decision
from haarflow.runs.answer_page import Drawn, begun, home_of, publish

ROUNDED = ("equivariance error", "seconds to train", "seconds to predict", "memory MB")  # on a page, to two digits


def decide_file(
    data: Path, group: str, target: str | None, out: Path, *, rows: int | None = None, **options: Any
) -> tuple[Decision, Path]:
    """The answer for a file, and its page in OUT/decide/<digest>/; a killed run goes on from what is kept there.

    With `rows`, so many of them are drawn at random, where there are more.
    """
    table, y = rows_of(data, target)
    if rows is not None and rows < len(y):
        kept = np.sort(np.random.default_rng(options.get("seed", 0)).choice(len(y), rows, replace=False))
        table, y = Frame(table.columns, [column[kept] for column in table.values]), y[kept]
    asked = {
        "group": group,
        "target": target,
        "rows": rows,
        **{name: str(value) for name, value in sorted(options.items())},
    }
    home = home_of(out, "decide", asked, data)
    with begun(home):
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
    facts = {"data": data, **asked}
    title = "Augment, average or build in?"
    return answer, publish(home, answer, title, drawn, notes(answer), facts, columns=columns(answer))


def columns(answer: Decision) -> dict[str, list]:
    """The columns that a page has room for: intervals in one cell each."""
    known = answer.table()
    gaps = [str(answer.interval(name, PLAIN)) if name != PLAIN else "" for name in answer.names]
    rounded = {name: [f"{one:.2g}" for one in known[name]] for name in ROUNDED}
    chosen = {name: known[name] for name in (answer.penalty, "share of rows") if name in known}
    return {
        "candidate": [name if name in answer.eligible else f"{name} (excluded)" for name in answer.names],
        answer.loss: [str(answer.interval(name)) for name in answer.names],
        "minus plain": gaps,
        "equivariance error": rounded["equivariance error"],
        "train s": rounded["seconds to train"],
        "predict s": rounded["seconds to predict"],
        "MB": rounded["memory MB"],
        "parameters": known["parameters"],
    } | chosen


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
    chosen = [
        f"Each candidate chose its own {answer.penalty}, by cross-validation inside its training rows; the table has "
        "the median over the splits."
    ] * (answer.penalty is not None)
    left = [f"{name} is left out: {why}" for name, why in answer.left_out.items()]
    return [*(curve if len(answer.sizes) > 1 else []), budget, *chosen, THEORY, *left]


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
    } | ({} if answer.penalty is None else {answer.penalty: known[answer.penalty]})


def rows_of(data: Path, target: str | None) -> tuple[Frame, np.ndarray]:
    """The inputs of a file under the names of their columns, and its labels: whole numbers as such, or words."""
    x, y, columns = read_pairs(data, target=target)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    whole = y.dtype.kind == "f" and bool((y % 1 == 0).all())
    return Frame(columns, list(x.T)), y.astype(int) if whole else y
