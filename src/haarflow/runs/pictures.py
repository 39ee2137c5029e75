"""The pictures of a record, drawn by its experiment's own file, as the page shows them."""

import re
from dataclasses import dataclass

from haarflow.runs import catalogue, judge, ledger, style
from haarflow.runs.experiment import Panel
from haarflow.runs.film import film

AGAIN = "give the command of the record again."
PIXELS_PER_INCH = 108  # so that a panel 8.4 inches wide fills the page


@dataclass(frozen=True)
class Picture:
    """A panel as SVG in CSS variables, and what moves if it is a film; or a sentence that says why it is not there."""

    title: str = ""
    caption: str = ""
    width: float = 0.0
    svg: str = ""
    film: str = ""
    problem: str = ""

    @property
    def root(self) -> str:
        """The id of everything that is drawn, by which a thumbnail shows it again."""
        return re.findall(r'<g id="([^"]+)"', self.svg)[0]

    @property
    def box(self) -> str:
        """The viewBox of the drawing."""
        return re.findall(r'viewBox="([^"]+)"', self.svg)[0]


def pictures(record: ledger.Record) -> list[Picture]:
    """Every panel of a record; before them a sentence, if its file has changed since or is not there."""
    arrays = record.arrays()
    try:
        experiment = catalogue.load(record.experiment).model_validate(record.config)
    except ValueError:  # the experiment has gone or its settings have changed since
        return [Picture(problem="The figures are drawn by the experiment's file, which is not here or has changed.")]
    current = judge.standing(experiment, record) is judge.Standing.CURRENT
    stale = f"{record.experiment}: its record was made by other code than its file has now; {AGAIN}"
    found = [] if current else [Picture(problem=stale)]
    try:
        panels = experiment.panels(arrays)
    except Exception as error:
        return [*found, undrawn(record, "the panels", error)]
    return found + [_tried(record, panel, order) for order, panel in enumerate(panels)]


def picture(panel: Panel, salt: str) -> Picture:
    """A panel as the page shows it; `salt` keeps its ids apart."""
    known = {"title": panel.title, "caption": panel.caption, "width": panel.size[0] * PIXELS_PER_INCH}
    if panel.movie is None:
        return Picture(**known, svg=style.render(panel, salt))
    moving = film(panel, salt)
    return Picture(**known, svg=moving.svg, film=moving.data)


def undrawn(record: ledger.Record, what: str, error: Exception) -> Picture:
    """The place of a picture that could not be drawn."""
    return Picture(problem=f"{record.experiment}: {what} could not be drawn ({type(error).__name__}: {error}).")


def _tried(record: ledger.Record, panel: Panel, order: int) -> Picture:
    try:
        return picture(panel, f"{record.digest}-{order}")
    except Exception as error:
        return undrawn(record, repr(panel.title), error)
