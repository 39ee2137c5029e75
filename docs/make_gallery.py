"""Write the gallery from records: `haarflow reproduce --quick --out OUT`, then `python docs/make_gallery.py OUT`."""

import sys
from pathlib import Path

from haarflow.runs import catalogue, ledger, raster

HERE = Path(__file__).parent
PICTURES = HERE / "gallery"


def main(out: Path) -> None:
    """One picture, claim and command per record, by group and name."""
    found = [ledger.read(path) for path in ledger.find_records(out)]
    first = {record.experiment: record for record in sorted(found, key=lambda record: -record.seed)}  # the least seed
    records = sorted(first.values(), key=lambda record: (record.group, record.experiment))
    PICTURES.mkdir(exist_ok=True)
    page = ["# Gallery\n\nOne picture of every claim, from `haarflow reproduce --quick`; the report has all of them.\n"]
    heading = None
    for record in records:
        if record.group != heading:
            heading = record.group
            page.append(f"## {heading.capitalize()}\n")
        page.append(entry(record))
    (HERE / "gallery.md").write_text("\n".join(page))


def entry(record: ledger.Record) -> str:
    """Draw the first panel, and write what it shows."""
    experiment = catalogue.load(record.experiment).model_validate(record.config)
    panel = experiment.panels(record.arrays())[0]
    (PICTURES / f"{record.experiment}.png").write_bytes(raster.still(panel))
    holding = f"{sum(record.verdicts.values())} of {len(record.verdicts)} verdicts hold"
    return (
        f"### {record.experiment}\n\n{record.facts['claim']} ({holding}; `haarflow run {record.experiment}`)\n\n"
        f"![{panel.title}](gallery/{record.experiment}.png)\n\n*{panel.title}.* {panel.caption}\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
