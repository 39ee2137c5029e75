"""What a question about data or a model is answered by: a sentence, a table, a picture, and JSON."""

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from haarflow.values import to_pandas


class Answer(ABC):
    """The kind of every answer of this room: a frozen dataclass that says its verdict, its rows and its picture.

    `str(answer)` is the verdict in one sentence; in a notebook the table stands below it. `table()` is a dict of
    columns of one length, `to_pandas()` the same as a DataFrame, `draw(axis)` a picture, `to_json()` all that is known.
    """

    @abstractmethod
    def sentence(self) -> str:
        """The verdict in one sentence, with its numbers."""

    @abstractmethod
    def table(self) -> dict[str, list]:
        """The rows of the answer, as columns of one length by name."""

    @abstractmethod
    def draw(self, axis: Any) -> Any:
        """Draw the answer into an axis of matplotlib; returns the axis."""

    def to_pandas(self) -> Any:
        """`table()` as a DataFrame of pandas, where pandas is installed."""
        return to_pandas(self.table())

    def to_json(self) -> str:
        """The verdict, the table and every field, as JSON; what is not finite is null."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # pyright: ignore[reportArgumentType]
        facts = {"answer": type(self).__name__, "verdict": str(self), "table": self.table()} | fields
        return json.dumps(plain(facts), ensure_ascii=False)

    def __str__(self) -> str:
        return self.sentence()

    def _repr_html_(self) -> str:
        columns = self.table()
        head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
        rows = zip(*columns.values(), strict=True)
        body = "".join(f"<tr>{''.join(f'<td>{escape(short(cell))}</td>' for cell in row)}</tr>" for row in rows)
        return f"<p>{escape(str(self))}</p><table><tr>{head}</tr>{body}</table>"


def short(cell: Any) -> str:
    """A cell of a table as people read it: numbers with four digits."""
    number = isinstance(cell, float | np.floating)
    return f"{cell:.4g}" if number else str(cell)


def plain(value: Any) -> Any:
    """What JSON can hold: arrays as lists, answers and dataclasses as objects, what is not finite as null."""
    if isinstance(value, Answer):
        return json.loads(value.to_json())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    return str(value)


def group_words(group: Any) -> str:
    """What a group is called in a sentence: by its name, or by its size where its name is a list of matrices."""
    name, order = str(group), getattr(group, "order", None)
    return name if order is None or ("[" not in name and len(name) <= 40) else f"a group of {order} elements"
