"""Draw the picture of the README from a record: `make picture`, or `python docs/make_picture.py OUT`."""

import sys
from pathlib import Path

from haarflow.runs import catalogue, ledger, raster

EXPERIMENT = "clouds"
PATH = Path(__file__).parent / "picture.png"


def main(out: Path) -> None:
    """The first panel of the experiment that does not move, as a PNG."""
    record = next(record for record in map(ledger.read, ledger.find_records(out)) if record.experiment == EXPERIMENT)
    experiment = catalogue.load(EXPERIMENT).model_validate(record.config)
    panel = next(panel for panel in experiment.panels(record.arrays()) if panel.movie is None)
    PATH.write_bytes(raster.still(panel))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
