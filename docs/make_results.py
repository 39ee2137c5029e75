"""Write docs/results.md from records: every claim, its number at every seed, in quick and in full mode.

Make the records with `haarflow reproduce --quick --seed 0 --out OUT` (and `--seed 1`, `--full`), all into one folder,
then `python docs/make_results.py OUT`.
"""

import sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path

from haarflow.runs import catalogue, config, ledger
from haarflow.runs.terminal import duration, evidence

HERE = Path(__file__).parent
HEAD = """# Results

Every claim of every experiment with the bound that was stated before the run, and the number that was measured: in
quick mode (`haarflow reproduce --quick`) and, where it was run, with the published parameters (`haarflow reproduce
--full`). A claim that does not hold is **bold** and keeps its number and its bound; what is known of its cause is said
below the table. This page is made by `docs/make_results.py` from the records.
"""


def main(out: Path) -> None:
    """The page: a table for each experiment, a column for each mode and seed."""
    records = [(mode_of(record), record) for record in map(ledger.read, ledger.find_records(out))]
    kept = [(mode, record) for mode, record in records if mode in ("quick", "full")]
    kept.sort(key=lambda pair: (pair[1].group, pair[1].experiment, pair[0] == "full", pair[1].seed))
    remarks = read_remarks(HERE / "results_remarks.md")
    page = [HEAD, tally(kept)]
    for name, some in groupby(kept, key=lambda pair: pair[1].experiment):
        page.append(section(name, list(some), remarks.get(name, "")))
    (HERE / "results.md").write_text("\n".join(page))


def mode_of(record: ledger.Record) -> str | None:
    """The mode in which a record was made, if it was made in one."""
    kind = catalogue.load(record.experiment)
    made = {mode: config.of_mode(kind, mode) for mode in ("quick", "full", "tour")}
    return next((mode for mode, one in made.items() if one and one.model_dump(mode="json") == record.config), None)


def tally(records: list[tuple[str, ledger.Record]]) -> str:
    """How many verdicts hold, by mode and seed."""
    counts = defaultdict(lambda: [0, 0, 0])
    for mode, record in records:
        one = counts[mode, record.seed]
        one[0] += sum(record.verdicts.values())
        one[1] += len(record.verdicts)
        one[2] += 1
    rows = [
        f"| {mode} | {seed} | {some} | {held} of {total} |"
        for (mode, seed), (held, total, some) in sorted(counts.items(), key=lambda one: (one[0][0] == "full", one[0]))
    ]
    return "\n".join(["| mode | seed | experiments | claims that hold |", "|---|---|---|---|", *rows, ""])


def section(name: str, records: list[tuple[str, ledger.Record]], remark: str) -> str:
    """The claims of one experiment: the words of a claim name its bound, so that a mode may have claims of its own."""
    first = records[0][1]
    columns = [f"{mode}, seed {record.seed}" for mode, record in records]
    claims = dict.fromkeys(claim for _, record in records for claim in record.verdicts)
    rows = [
        "| " + " | ".join([escaped(claim), *(cell(record, claim) for _, record in records)]) + " |" for claim in claims
    ]
    seconds = ", ".join(
        f"{column} {duration(sum(record.seconds.values()))}"
        for column, (_, record) in zip(columns, records, strict=True)
    )
    return "\n".join(
        [
            f"## {name}\n\n{first.facts['claim']}\n",
            "| claim | " + " | ".join(columns) + " |",
            "|---|" + "---|" * len(columns),
            *rows,
            f"\nTime of the workers: {seconds}.\n",
            *([f"{remark}\n"] if remark else []),
        ]
    )


def cell(record: ledger.Record, claim: str) -> str:
    """The number behind a verdict; bold where it fails."""
    if claim not in record.verdicts:
        return ""
    words = evidence(record, claim) or ("holds" if record.verdicts[claim] else "fails")
    return words if record.verdicts[claim] else f"**{words}**"


def escaped(words: str) -> str:
    """Words for a cell of a table, where a bar would end the cell."""
    return words.replace("|", "\\|")


def read_remarks(path: Path) -> dict[str, str]:
    """What is known of claims that fail, by experiment: the sections of a page beside this script."""
    if not path.exists():
        return {}
    sections = path.read_text().split("\n## ")[1:]
    return {name.strip(): words.strip() for name, _, words in (one.partition("\n") for one in sections)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
