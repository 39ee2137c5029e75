"""What the page says of an experiment, from all its records: its claims over the runs, and the picture of its line."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from haarflow.runs import overview
from haarflow.runs.ledger import Record
from haarflow.runs.pictures import Picture, picture, undrawn
from haarflow.runs.terminal import evidence, gist, number, reason

NAMES = {word.lower(): word for word in ("CLT", "F1", "F2", "GAN", "MMD", "ReLU", "W1")}
"""Words of the names of experiments that are written in capitals."""


@dataclass(frozen=True)
class Row:
    """A claim over the records that judge it: how many hold it, the number behind it, and why it fails, if it does."""

    claim: str
    held: int
    total: int
    number: str
    why: str


@dataclass(frozen=True)
class Family:
    """The sections of one experiment, in the order of the settings that tell them apart, each with its label."""

    name: str
    sections: list[Any]
    labels: list[str]
    rows: list[Row]
    together: Picture | None  # of several runs, their numbers over what was swept

    def __getattr__(self, name: str) -> Any:
        """What the records have in common: group, claim."""
        return getattr(self.sections[0].record, name)

    @property
    def title(self) -> str:
        """The heading."""
        first, *others = [NAMES.get(word, word) for word in self.name.split("-")]
        words = " ".join([first[0].upper() + first[1:], *others])
        return f"{words}: {len(self.sections)} runs" if self.together else words

    @property
    def gist(self) -> str:
        """The claim in a line."""
        return gist(self.claim)

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return f"{self.name}-{'all' if self.together else self.digest}"

    @property
    def held(self) -> int:
        """How many verdicts hold, over all runs."""
        return sum(row.held for row in self.rows)

    @property
    def total(self) -> int:
        """How many verdicts there are, over all runs."""
        return sum(row.total for row in self.rows)

    @property
    def seconds(self) -> float:
        """What the workers took."""
        return math.fsum(sum(section.record.seconds.values()) for section in self.sections)

    @property
    def thumbnail(self) -> Picture | None:
        """The picture of its line: the first that does not move, or else the first."""
        drawn = [one for one in (self.together, *self.sections[0].pictures) if one and one.svg]
        return next((one for one in drawn if not one.film), drawn[0] if drawn else None)


def families(sections: Iterable[Any]) -> list[Family]:
    """The sections by experiment, in the order of the page."""
    ordered = sorted(sections, key=lambda part: (part.record.group, part.record.experiment, part.record.digest))
    return [family(list(parts)) for _, parts in groupby(ordered, key=lambda part: part.record.experiment)]


def family(sections: list[Any]) -> Family:
    """The sections of one experiment."""
    names = overview.varied([section.record for section in sections])
    sections = sorted(sections, key=lambda section: overview.order(section.record, names))
    records = [section.record for section in sections]
    claims = dict.fromkeys(claim for record in records for claim in record.verdicts)
    labels = [overview.label(record, names) for record in records]
    rows = [_row(claim, dict(zip(labels, records, strict=True))) for claim in claims]
    return Family(records[0].experiment, sections, labels, rows, _together(records) if len(records) > 1 else None)


def _together(records: list[Record]) -> Picture:
    """The numbers of several records over the setting that was swept."""
    try:
        return picture(overview.panel(records), "-".join(record.digest for record in records))
    except Exception as error:
        return undrawn(records[0], "the overview", error)


def _row(claim: str, records: dict[str, Record]) -> Row:
    judged = {label: record for label, record in records.items() if claim in record.verdicts}
    failing = {label: record for label, record in judged.items() if not record.verdicts[claim]}
    held = len(judged) - len(failing)
    return Row(claim, held, len(judged), _range(list(judged.values()), claim), _why(failing, claim))


def _why(failing: dict[str, Record], claim: str) -> str:
    """The number behind a verdict that fails; of several runs, which they are and the first of them."""
    if not failing:
        return ""
    label, first = next(iter(failing.items()))
    more = f", and {len(failing) - 1} more" if len(failing) > 1 else ""
    return f"{label}{': ' * bool(label)}{reason(first, claim)}{more}"


def _range(records: list[Record], claim: str) -> str:
    """The number behind a verdict, or the smallest and the largest of several runs."""
    known = [record.evidence[claim]["value"] for record in records if claim in record.evidence]
    found = sorted(value for value in known if value is not None)
    if len(records) == 1 or len(found) < 2:
        return evidence(records[0], claim)
    return " … ".join(dict.fromkeys(number(value) for value in (found[0], found[-1])))
